"""What of each queue manager's ledger is audited: two looks, the opening, the duplicate windows. No Spark.

Queue managers run on while they are audited, and no clock is common to two of them. So every ledger is looked
at twice, and none a second time before all were looked at once: what had left at the first look must have
come by the second (see `crossings`). The cut is the second look.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from postroom.ledger.format.records import RecordType
from postroom.ledger.verification.integrity import Covered
from postroom.spark.audit.result import Cut
from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals, totals_of
from postroom.spark.places.place import Place, Slice, Snapshot
from postroom.spark.places.uris import Places


@dataclass(frozen=True, slots=True)
class DuplicateWindow:
    """A destination that remembers message ids, by its definition at position `since`."""

    destination: int
    size: int
    since: int


@dataclass(frozen=True, slots=True)
class AuditedLedger:
    """One ledger of an audit."""

    place: Place
    first: Snapshot
    second: Snapshot
    checkpoint: CheckpointTotals | None
    """The newest checkpoint's totals; None without a checkpoint that reaches the history."""
    windows: tuple[DuplicateWindow, ...]
    covered: Covered
    """What was found whole before it was looked at."""

    @property
    def is_whole(self) -> bool:
        """Whether the history begins at the ledger's beginning."""
        return self.second.first_position <= 1

    @property
    def cut(self) -> Cut:
        """What of it is audited."""
        snapshot, newest = self.second, self.second.epochs[-1]
        opened_from = 0 if self.is_whole else self.checkpoint.position if self.checkpoint else None
        return Cut(
            ledger_id=snapshot.ledger_id,
            name=name_of(self.place.uri),
            uri=self.place.uri,
            first_position=snapshot.first_position,
            first_look=self.first.durable_through,
            position=snapshot.durable_through,
            epoch=newest.number,
            epoch_id=newest.epoch_id.hex(),
            last_time_us=snapshot.last_time_us,
            opened_from=opened_from,
        )


def name_of(uri: str) -> str:
    """What people call a ledger that is read there: the last part of the URI."""
    path = PurePosixPath(uri.split("#", 1)[0].rstrip("/"))
    return path.name or uri


def inspect_ledgers(uris: Sequence[str], token: str = "") -> list[AuditedLedger]:
    """Look at every ledger that is whole, twice where there are several. Raises ``LedgerError``,
    ``OSError``."""
    places = Places(uris, token).now()
    covered = [place.check() for place in places]
    first = [place.snapshot() for place in places]
    second = [place.snapshot() for place in places] if len(places) > 1 else first
    return [
        AuditedLedger(
            place, one, two, totals_of(place.carried(two, two.durable_through)), windows_of(place, two), whole
        )
        for place, one, two, whole in zip(places, first, second, covered, strict=True)
    ]


NO_WINDOWS: Final[tuple[DuplicateWindow, ...]] = ()


def windows_of(place: Place, snapshot: Snapshot) -> tuple[DuplicateWindow, ...]:
    """The duplicate windows in force at the cut: what the newest file's dictionary and its records say."""
    with_records = [segment for segment in snapshot.segments if segment.record_count > 0]
    if not with_records:
        return NO_WINDOWS
    newest = with_records[-1]
    last = newest.last_position
    slice = Slice(place, newest, last, last, place.hint(newest, last, last))
    found: dict[int, DuplicateWindow] = {}
    for _, known in place.read(slice):
        for destination, detail, position in known.details(RecordType.QUEUE_DEFINED):
            size = int(json.loads(detail).get("duplicate_window", 0))
            found[destination] = DuplicateWindow(destination, size, position)
    return tuple(window for window in found.values() if window.size > 0)
