"""What keeps a job from being done, and how it ends: exit codes for whoever starts jobs."""

from enum import IntEnum

from postroom.ledger.errors import LedgerError


class Exit(IntEnum):
    """Exit codes of ``postroom job``."""

    DONE = 0
    """Everything is done, or there was nothing to do."""
    FAILED = 1
    """Something failed on the way; started again, it goes on with what is left."""
    USAGE = 2
    """Options or rules that can't be used: nothing was looked at."""
    NOT_ALL = 3
    """It is through, but some messages had changed since they were looked at, or were refused: they are
    where they were, and listed."""
    CANNOT = 4
    """It can't be done so, and won't be the next time: another ledger, another job's plan, no such queue."""


class JobError(LedgerError):
    """A job can't go on; `exit_code` says whether it may the next time."""

    exit_code = Exit.FAILED


class RulesInvalid(JobError):
    """The rules can't be used."""

    exit_code = Exit.USAGE


class OptionInvalid(JobError):
    """An option has no meaning."""

    exit_code = Exit.USAGE


class CannotBeDone(JobError):
    """It won't be possible the next time either."""

    exit_code = Exit.CANNOT
