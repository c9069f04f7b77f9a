"""Offsets of a query that consumes, and the offsets of a batch as Spark's checkpoint has them.

An offset is ``{"<ledger id>": {"epoch": …, "epoch_id": …, "position": …}, "checkpoint": …,
"subscription": …}``. ``checkpoint`` is made with a query's first offset and says which checkpoint this is.
The first batch, which has no rows and only writes down where it begins, has ``"begins": true``, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from postroom.spark.consume.errors import OffsetsUnreadable
from postroom.spark.data_source.offset_log import Checkpoint, CheckpointUnreadable
from postroom.spark.ledger_source.positions import BEGINNING, Position, PositionsInvalid, from_dict, to_dict

CHECKPOINT: Final = "checkpoint"
SUBSCRIPTION: Final = "subscription"
BEGINS: Final = "begins"
_OWN: Final = frozenset([CHECKPOINT, SUBSCRIPTION, BEGINS])

_NO_OFFSET: Final = "-"


@dataclass(frozen=True, slots=True)
class Offset:
    """Up to where a query has read."""

    checkpoint: str
    subscription: str
    ledger_id: str = ""
    """Empty: nothing is decided yet, not even where to begin."""
    position: Position = BEGINNING
    begins: bool = False

    @property
    def is_initial(self) -> bool:
        """Whether it is what Spark begins with, before the first batch."""
        return not self.ledger_id

    def to_dict(self) -> dict[str, Any]:
        """As Spark keeps it."""
        positions: dict[str, Any] = {} if self.is_initial else to_dict({self.ledger_id: self.position})
        more = {BEGINS: True} if self.begins else {}
        return positions | {CHECKPOINT: self.checkpoint, SUBSCRIPTION: self.subscription} | more


def offset_of(fields: Mapping[str, Any]) -> Offset:
    """The inverse of `Offset.to_dict`. Raises ``OffsetsUnreadable``."""
    positions = positions_in(fields)
    checkpoint, subscription = fields.get(CHECKPOINT), fields.get(SUBSCRIPTION)
    if not isinstance(checkpoint, str) or not isinstance(subscription, str) or len(positions) > 1:
        raise OffsetsUnreadable(
            f"{dict(fields)} is no offset of mode=consume: the checkpoint is another query's; give this one"
            " its own"
        )
    for ledger_id, position in positions.items():
        return Offset(checkpoint, subscription, ledger_id, position, fields.get(BEGINS) is True)
    return Offset(checkpoint, subscription)


def positions_in(fields: Mapping[str, Any]) -> dict[str, Position]:
    """The positions of an offset by ledger. Raises ``OffsetsUnreadable``."""
    try:
        return from_dict({name: value for name, value in fields.items() if name not in _OWN})
    except PositionsInvalid as error:
        raise OffsetsUnreadable(str(error)) from error


# --- Spark's checkpoint ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """What a batch has of one ledger: the positions behind `after`, up to `end`."""

    after: Position | None
    """None: the batch only says where to begin, and has no rows."""
    end: Position


@dataclass(frozen=True, slots=True)
class Appended:
    """What a call of `append_once` did."""

    version: int
    """The table's version that has the rows."""
    rows: int
    """How many were added; 0 where the table had them all."""
    positions: Mapping[str, int]
    """By ledger: up to here everything is in the table."""


def ranges_of(checkpoint: str, batch_id: int) -> dict[str, Range]:
    """The ranges of a batch by ledger, of all sources of the query that read ledgers.

    Raises ``OffsetsUnreadable``; also where two sources read one ledger: their positions would be mixed up.
    """
    starts = offsets_of(checkpoint, batch_id - 1) if batch_id > 0 else {}
    found: dict[str, Range] = {}
    for source, fields in offsets_of(checkpoint, batch_id).items():
        after = positions_in(starts.get(source, {}))
        for ledger_id, end in positions_in(fields).items():
            if ledger_id in found:
                raise OffsetsUnreadable(
                    f"two sources of this query read ledger {ledger_id}: write each into the table by a query"
                    " of its own, with its own app; or read both with one source (queues=A,B)"
                )
            found[ledger_id] = Range(after.get(ledger_id), end)
    return found


def offsets_of(checkpoint: str, batch_id: int) -> dict[str, Mapping[str, Any]]:
    """Where a batch ends, for each source that reads ledgers.

    Raises ``OffsetsUnreadable``.
    """
    try:
        ends = Checkpoint(checkpoint).offsets(batch_id)
    except CheckpointUnreadable as error:
        raise OffsetsUnreadable(str(error)) from error
    if ends is None:
        raise OffsetsUnreadable(
            f"checkpoint {checkpoint} has no offsets of batch {batch_id}: is it this query's, and was this"
            " called in foreachBatch?"
        )
    to_dict = {end.source: _ledger_offset(end.offset) for end in ends}
    return {source: fields for source, fields in to_dict.items() if fields is not None}


def _ledger_offset(line: str) -> Mapping[str, Any] | None:
    if line == _NO_OFFSET:
        return None
    try:
        fields = msgspec.json.decode(line)
        positions_in(fields)
    except (msgspec.DecodeError, OffsetsUnreadable, AttributeError):
        return None
    return fields  # type: ignore[no-any-return]
