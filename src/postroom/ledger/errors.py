"""What can go wrong with a ledger. Each error says what, where, and what to do."""

from postroom import __version__


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


class LedgerLockless(LedgerError):
    """The folder's file system has no locks."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(
            f"{folder}: the file system can't lock it ({reason}), and without a lock two brokers could write"
            " to one ledger; choose a folder on a local file system, or on NFS 4"
        )


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


class VolumeTooSmall(LedgerError):
    """The volume of the data folder is below what any ledger needs."""

    def __init__(self, folder: str, volume_bytes: int, smallest_bytes: int) -> None:
        super().__init__(
            f"{folder}: the volume has {volume_bytes:,} bytes, a ledger needs {smallest_bytes:,} at least;"
            " choose a folder on a larger volume"
        )


class BodyUnreadable(LedgerCorrupt):
    """The disk didn't give a body. What is stored may be whole: it can be asked for again."""


class UnknownFormat(LedgerError):
    """A file of a newer format than this version reads. Nothing of it was read."""

    def __init__(self, file: str, version: int, known: int, writer: str = "") -> None:
        wrote = f", written by Postroom {writer}" if writer else ""
        wanted = f"'postroom>={writer}'" if writer else "postroom"
        super().__init__(
            f"{file}: format version {version}{wrote}; this Postroom, {__version__}, reads {known}:"
            f" upgrade it (pip install --upgrade {wanted}) wherever the ledger is used"
        )
        self.version = version


class UnknownSetting(LedgerError):
    """A definition has a setting that this version doesn't know."""

    def __init__(self, kind: str, name: str, setting: str) -> None:
        super().__init__(
            f"{kind} {name!r} has the setting {setting!r}, which is unknown here: a newer Postroom defined"
            f" it, this one, {__version__}, would not keep to it: upgrade it (pip install --upgrade postroom)"
        )


class UnknownRecord(LedgerError):
    """A record says something that this version doesn't know; `position` is its own, what is before can be
    read."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(
            f"record {position}: {what} is unknown here: a newer Postroom wrote it; upgrade this one"
            f" (pip install --upgrade postroom) and go on from position {position}"
        )
        self.position = position


class LedgerFailed(LedgerError):
    """A write or sync failed. Never retried: the process must end, and recovery decides what was written."""


class LeaseError(LedgerError):
    """A lease can't be had, or not so."""


class LeaseUnknown(LeaseError):
    """There is no lease of that name."""


class LeaseExists(LeaseError):
    """A lease of that name is in force."""


class LeaseBroken(LeaseError):
    """The lease is broken: what it kept may be gone."""


class LeaseTooOld(LeaseError):
    """Some of what a lease should keep has gone."""


class LeaseLimit(LeaseError):
    """There are as many leases as the options allow."""


class LeaseInvalid(LeaseError):
    """A name, position, duration or size that is out of bounds."""
