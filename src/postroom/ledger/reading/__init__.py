"""A ledger seen by others than its broker, offline or beside it: records, bodies, lives, counts."""
