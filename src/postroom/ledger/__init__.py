"""The ledger: every event of every message, appended, synced, folded, kept small.

Of `format`, what the queue manager writes through (`records`, `block`) is pure and compiled. `Ledger` is the
rest for the server: the folder, the commit thread, recovery, bodies, background work. `reading` and
`verification` read a ledger offline or beside a running broker. Files are touched only through
`storage.disk`. The bytes are documented in ``FORMAT.md``, the recovery decisions in `storage.recovery_cases`.
Imports nothing above `model`.
"""
