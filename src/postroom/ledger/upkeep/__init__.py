"""What keeps a ledger small beside its broker: sealing, checkpoints, compaction, dropped history."""
