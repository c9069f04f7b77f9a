"""Offsets of a query that consumes, and the offsets of a batch as Spark's checkpoint has them.

An offset is ``{"<ledger id>": {"epoch": …, "epoch_id": …, "position": …}, "checkpoint": …,
"subscription": …}``. ``checkpoint`` is made with a query's first offset and says which checkpoint this is.
The first batch, which has no rows and only writes down where it begins, has ``"begins": true``, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow.fs as pafs

from postroom.spark.consume.errors import OffsetsUnreadable
from postroom.spark.positions import BEGINNING, Position, PositionsInvalid, from_said, told
from postroom.spark.store.files import open_root
from postroom.spark.store.protocol import TableError

CHECKPOINT: Final = "checkpoint"
SUBSCRIPTION: Final = "subscription"
BEGINS: Final = "begins"
_OWN: Final = frozenset([CHECKPOINT, SUBSCRIPTION, BEGINS])

OFFSETS: Final = "offsets"
_HEAD_LINES: Final = 2
"""Of a file of Spark's offset log: the version of its format, and what the batch was run with."""
_NO_OFFSET: Final = "-"
_WITH_NAMES: Final = "v2"
"""Of a query whose sources have names: each offset has its source's before it."""
_NAME_MARK: Final = ":"


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

    def said(self) -> dict[str, Any]:
        """As Spark keeps it."""
        positions: dict[str, Any] = {} if self.is_initial else told({self.ledger_id: self.position})
        more = {BEGINS: True} if self.begins else {}
        return positions | {CHECKPOINT: self.checkpoint, SUBSCRIPTION: self.subscription} | more


def offset_of(said: Mapping[str, Any]) -> Offset:
    """The inverse of `Offset.said`. Raises ``OffsetsUnreadable``."""
    positions = positions_in(said)
    checkpoint, subscription = said.get(CHECKPOINT), said.get(SUBSCRIPTION)
    if not isinstance(checkpoint, str) or not isinstance(subscription, str) or len(positions) > 1:
        raise OffsetsUnreadable(
            f"{dict(said)} is no offset of mode=consume: the checkpoint is another query's; give this one"
            " its own"
        )
    for ledger_id, position in positions.items():
        return Offset(checkpoint, subscription, ledger_id, position, said.get(BEGINS) is True)
    return Offset(checkpoint, subscription)


def positions_in(said: Mapping[str, Any]) -> dict[str, Position]:
    """The positions of an offset by ledger. Raises ``OffsetsUnreadable``."""
    try:
        return from_said({name: value for name, value in said.items() if name not in _OWN})
    except PositionsInvalid as error:
        raise OffsetsUnreadable(str(error)) from error


# --- Spark's checkpoint ----------------------------------------------------------------------------


def offset_lines(checkpoint: str, batch_id: int) -> list[str] | None:
    """What the checkpoint at a folder or URI says where a batch ends: a line for each source, in their order
    in the query. None if it has no such batch. Raises ``OffsetsUnreadable``."""
    try:
        filesystem, root = open_root(checkpoint)
    except TableError as error:
        raise OffsetsUnreadable(f"checkpoint {checkpoint}: {error}") from error
    path = f"{root.rstrip('/')}/{OFFSETS}/{batch_id}"
    if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
        return None
    with filesystem.open_input_stream(path) as stream:
        lines = stream.read().decode().splitlines()
    if len(lines) <= _HEAD_LINES:
        raise OffsetsUnreadable(f"{path} is cut off: restore the checkpoint, or begin with a new one")
    found = lines[_HEAD_LINES:]
    return [line.partition(_NAME_MARK)[2] for line in found] if lines[0] == _WITH_NAMES else list(found)


@dataclass(frozen=True, slots=True)
class Range:
    """What a batch has of one ledger: the positions behind `after`, up to `end`."""

    after: Position | None
    """None: the batch only says where to begin, and has no rows."""
    end: Position


def ranges_of(checkpoint: str, batch_id: int) -> dict[str, Range]:
    """The ranges of a batch by ledger, of all sources of the query that read ledgers.

    Raises ``OffsetsUnreadable``; also where two sources read one ledger: their positions would be mixed up.
    """
    starts: Sequence[Mapping[str, Any] | None] = []
    if batch_id > 0:
        starts = offsets_of(checkpoint, batch_id - 1)
    found: dict[str, Range] = {}
    for index, said in enumerate(offsets_of(checkpoint, batch_id)):
        before = starts[index] if index < len(starts) else None
        after = positions_in(before or {})
        for ledger_id, end in positions_in(said or {}).items():
            if ledger_id in found:
                raise OffsetsUnreadable(
                    f"two sources of this query read ledger {ledger_id}: write each into the table by a query"
                    " of its own, with its own app; or read both with one source (queues=A,B)"
                )
            found[ledger_id] = Range(after.get(ledger_id), end)
    return found


def offsets_of(checkpoint: str, batch_id: int) -> list[Mapping[str, Any] | None]:
    """Where a batch ends, for each source; None for those that read no ledger.

    Raises ``OffsetsUnreadable``.
    """
    lines = offset_lines(checkpoint, batch_id)
    if lines is None:
        raise OffsetsUnreadable(
            f"checkpoint {checkpoint} has no offsets of batch {batch_id}: is it this query's, and was this"
            " called in foreachBatch?"
        )
    return [_ledger_offset(line) for line in lines]


def _ledger_offset(line: str) -> Mapping[str, Any] | None:
    if line == _NO_OFFSET:
        return None
    try:
        said = msgspec.json.decode(line)
        positions_in(said)
    except (msgspec.DecodeError, OffsetsUnreadable, AttributeError):
        return None
    return said  # type: ignore[no-any-return]
