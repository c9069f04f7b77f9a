"""What stops a pipeline, each with the exit code of `postroom pipeline` that says whether trying again
helps."""

from typing import Final

from postroom.ledger.errors import LedgerError
from postroom.spark.ledger_source.positions import LedgerDiverged

EXIT_FAILED: Final = 1
"""A file, a network, Spark: the same command may well succeed later."""
EXIT_STOPPED: Final = 3
"""Intake stopped before a position that can't be passed: somebody must act first."""
EXIT_IN_USE: Final = 4
"""Another pipeline holds these tables."""


def exit_code_of(error: Exception) -> int:
    """The exit code for what a pipeline raised."""
    if isinstance(error, LedgerDiverged):
        return EXIT_STOPPED
    return error.exit_code if isinstance(error, PipelineError) else EXIT_FAILED


class PipelineError(LedgerError):
    """A pipeline can't run, or can't run on."""

    exit_code = EXIT_FAILED


class PipelineInUse(PipelineError):
    """Another pipeline writes these tables."""

    exit_code = EXIT_IN_USE

    def __init__(self, root: str, holder: str) -> None:
        super().__init__(
            f"{root}: these tables are written by the pipeline of {holder}; stop that one first, or name"
            " other tables"
        )


class LeaseLost(PipelineError):
    """The lease on the tables could not be renewed for so long that another pipeline may have begun."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(
            f"{root}: the lease on these tables could not be renewed, so another pipeline may write them:"
            f" {why}. What is committed stays; start this one again"
        )


class PipelineStopped(PipelineError):
    """Everything before `position` is in the tables; what stands there can't be read by this version."""

    exit_code = EXIT_STOPPED

    def __init__(self, ledger_id: str, position: int, why: str) -> None:
        super().__init__(
            f"ledger {ledger_id}: intake stopped before position {position}, all before it is in the"
            f" tables: {why}"
        )
        self.ledger_id: Final = ledger_id
        self.position: Final = position


class PipelineGap(PipelineError):
    """A range doesn't follow on what a table has: taking it would leave records out for ever."""

    def __init__(self, table: str, ledger_id: str, position: int, first: int) -> None:
        super().__init__(
            f"table {table} reaches position {position} of ledger {ledger_id}, and the next range begins"
            f" at {first}; nothing of it was taken. Start the pipeline again: it goes on from the tables' own"
            " positions"
        )


class HistoryGone(PipelineError):
    """Records that a table lacks have been dropped from the ledger by retention."""

    exit_code = EXIT_STOPPED

    def __init__(self, table: str, ledger_id: str, position: int, first: int) -> None:
        super().__init__(
            f"table {table} reaches position {position} of ledger {ledger_id}, whose history now begins at"
            f" {first}: what lies between is lost to the tables. Read a copy that still has it (`postroom"
            " ledger upload` keeps one), or begin new tables; a lease (`postroom ledger lease`) keeps"
            " retention off"
        )


class LedgerMissing(PipelineError):
    """The tables have a ledger that the run was not told of."""

    exit_code = EXIT_STOPPED

    def __init__(self, ledger_ids: list[str]) -> None:
        super().__init__(
            f"the tables have rows of ledger {', '.join(ledger_ids)}, which none of --data leads to; name"
            " it, too, or say --on-missing-ledger drop: its rows stay, and nothing more is read of it"
        )


class SettingsConflict(PipelineError):
    """The tables were made with other settings."""
