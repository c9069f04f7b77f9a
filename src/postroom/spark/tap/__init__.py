"""Queues read beside their consumers, from the ledger (``mode=tap``), and the lease that keeps what a stream
has yet to read.

May import `messages`, `broker` and what is below them.
"""
