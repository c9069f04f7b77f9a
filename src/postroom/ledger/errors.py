"""What can go wrong with a ledger. Each error says what, where, and what to do."""


class LedgerError(Exception):
    """Any failure of the ledger."""


class LedgerLocked(LedgerError):
    """Another process owns the folder; `pid` is its process id, 0 if unknown."""

    def __init__(self, folder: str, pid: int) -> None:
        super().__init__(
            f"{folder}: the ledger is in use by process {pid or 'unknown'}; stop it, choose another folder,"
            " or start as standby"
        )
        self.pid = pid


class LedgerCorrupt(LedgerError):
    """Stored bytes contradict themselves; nothing was changed. `file` and `offset` say where."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(
            f"{file} at byte {offset}: {reason}; run `postroom ledger verify`, restore the file from a"
            " backup, or move the ledger folder away"
        )
        self.file = file
        self.offset = offset
        self.reason = reason


class LedgerFailed(LedgerError):
    """A write or sync failed. Never retried: the process must end, and recovery decides what was written."""
