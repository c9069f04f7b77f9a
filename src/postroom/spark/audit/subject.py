"""What an audit is about: ledgers at a cut, and what there is to hold their events against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from postroom.ledger.verification.integrity import Covered
from postroom.spark.audit.ledgers import AuditedLedger, DuplicateWindow
from postroom.spark.audit.result import Cut, Unproven
from postroom.spark.audit.rules import BEGINNING
from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals


@dataclass(frozen=True, slots=True)
class Subject:
    """What an audit is about: ledgers at a cut, and what there is to hold their events against."""

    cuts: tuple[Cut, ...]
    checkpoints: Mapping[str, CheckpointTotals]
    """Checkpoints' totals by ledger id."""
    windows: Mapping[str, Sequence[DuplicateWindow]]
    elsewhere: Sequence[str] = ()
    """Transmission queues whose messages go to a queue manager that isn't audited."""
    unproven: Sequence[Unproven] = ()
    """What is known beforehand."""
    covered: tuple[Covered, ...] = ()
    """What of ledgers was found whole."""

    @property
    def gaps(self) -> list[Unproven]:
        """All that is known beforehand, with the beginnings that no checkpoint tells of."""
        not_carried = [
            Unproven(cut.ledger_id, "everything", BEGINNING.format(first=cut.first_position), 0)
            for cut in self.cuts
            if cut.opened_from is None
        ]
        return [*self.unproven, *not_carried]

    @property
    def records(self) -> int:
        """How many positions the cuts span."""
        return sum(cut.position - cut.first_position + 1 for cut in self.cuts)

    @property
    def whole(self) -> set[str]:
        """Ids of the ledgers whose history begins at their beginning."""
        return {cut.ledger_id for cut in self.cuts if cut.opened_from == 0}


def subject_of(ledgers: Sequence[AuditedLedger], elsewhere: Sequence[str] = ()) -> Subject:
    """The subject of an audit of ledgers."""
    cuts = tuple(one.cut for one in ledgers)
    checkpoints = {
        cut.ledger_id: one.checkpoint
        for cut, one in zip(cuts, ledgers, strict=True)
        if one.checkpoint is not None
    }
    windows = {cut.ledger_id: one.windows for cut, one in zip(cuts, ledgers, strict=True)}
    return Subject(cuts, checkpoints, windows, elsewhere, covered=tuple(one.covered for one in ledgers))


def by_ledger(values: Mapping[str, int | None]) -> Column:
    """A number of the row's ledger; null for none."""
    known = [F.lit(part) for ledger, value in values.items() if value is not None for part in (ledger, value)]
    if not known:
        return F.lit(None).cast("long")
    return F.create_map(*known)[F.col("ledger_id")].cast("long")
