"""Exit codes of `postroom serve`, and the errors of starting that lead to them."""

from enum import IntEnum


class Exit(IntEnum):
    """What the process tells its parent."""

    STOPPED = 0
    """A graceful stop."""
    FAILED = 1
    """An error that is none of the others."""
    CONFIGURATION = 2
    """The configuration or the command line can't be used."""
    ADDRESS = 3
    """An address can't be listened on: taken, not of this machine, not allowed."""
    LOCKED = 4
    """Another process owns the data folder."""
    LEDGER_REFUSED = 5
    """The ledger is damaged, of another format, or not readable: at the start, or where bodies were to be
    read and a whole file of them can't be. (A single damaged body ends its message alone.)
    """
    LEDGER_FAILED = 6
    """A write or sync failed while running; nothing that waited for it was released. Start again to
    recover.
    """
    NOT_ACTIVE = 7
    """Another member of the queue manager has taken over, or the engine of `[replication]` doesn't answer:
    nothing that waited for it was released. Start again to follow.
    """


class StartError(Exception):
    """The broker can't start; one line of text for people, and an exit code."""

    def __init__(self, code: Exit, what: str) -> None:
        self.code = code
        super().__init__(what)
