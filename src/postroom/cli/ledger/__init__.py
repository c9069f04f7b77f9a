"""Commands that read a ledger's files, or a broker's history: verify, dump, upload, leases, the life of a
message.
"""
