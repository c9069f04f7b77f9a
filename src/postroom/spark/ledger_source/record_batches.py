"""Slices of a ledger become record batches of the events table, wherever the ledger lies. Needs no Spark."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from postroom.ledger.errors import UnknownRecord
from postroom.ledger.format.expand import Chunk, Rows, entry_rows, expand
from postroom.ledger.format.layout import TRANSITION_DTYPE
from postroom.ledger.format.records import RecordType
from postroom.ledger.reading.definitions import Definitions
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.spark.ledger_source.ancestry import ANCESTRY_COLUMNS, Ancestry
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA, batch
from postroom.spark.ledger_source.names import Known, Names
from postroom.spark.places.place import Place, Slice, Snapshot


def read_events(
    slice: Slice,
    schema: pa.Schema = EVENTS_SCHEMA,
    queues: frozenset[str] | None = None,
    in_kinds: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, one for each (position, ordinal, entry), in the columns of the schema.

    `queues`: only the entries of queues and subscriptions of these names. `in_kinds`: changes of one kind in
    batches of their own, which are quicker to make (see `expand`).
    Positions ascend from batch to batch but for the kinds of record within one chunk of the file. Raises
    ``UnknownRecord`` after all rows before that record, and perhaps some behind it; ``LedgerError``,
    ``OSError``; ``KeyError`` for an unknown column.
    """
    segment = slice.segment
    known: Known | None = None
    ancestry = _ancestry(slice.place, slice.last, schema)
    last: Definitions | None = None
    for chunk, definitions in slice.place.read(slice):
        unknown = unknown_type(chunk)
        if known is None or definitions is not last:
            known, last = Known(segment.ledger_id, segment.epoch, definitions), definitions
        for rows in chain(expand(chunk, definitions.routing_sets, in_kinds), without_entry(chunk)):
            unknown = _earlier(unknown, _unknown_code(rows))
            if unknown is not None:
                rows = rows.where(rows["position"] < unknown.position)
            if queues is not None:
                ids = [number for number, name in definitions.queue_names.items() if name in queues]
                rows = rows.where(np.isin(rows["queue"], ids))
            if len(rows):
                yield batch(ancestry.with_ancestry(rows) if ancestry else rows, known, schema)
        if unknown is not None:
            raise unknown


def without_entry(chunk: Chunk) -> Iterator[Rows]:
    """Rows of no entry and no queue (its id is 0): messages that were refused without an answer, and acts."""
    for kind in (RecordType.MESSAGE_REFUSED, RecordType.ADMINISTRATIVE_ACT):
        found = chunk.types == kind
        if found.any():
            yield replace(entry_rows(chunk.transitions.compress(found), chunk.names), record=int(kind))


def _ancestry(place: Place, through: int, schema: pa.Schema) -> Ancestry | None:
    """Who tells of parents; None where no column asks for that."""
    return Ancestry(place, through) if ANCESTRY_COLUMNS & set(schema.names) else None


_CODES: Final[Mapping[str, type[IntEnum]]] = {
    "event": Event,
    "from_state": State,
    "to_state": State,
    "outcome": Outcome,
    "holder_kind": HolderKind,
}
_HIGHEST: Final = {field: int(max(codes)) for field, codes in _CODES.items()}
_HIGHEST_TYPE: Final = int(max(RecordType))


def unknown_type(chunk: Chunk) -> UnknownRecord | None:
    """An error that tells of the first record of a type that this version doesn't know, if there is one."""
    types = chunk.types
    if not len(types) or types.max() <= _HIGHEST_TYPE:
        return None
    at = int(np.argmax(types > _HIGHEST_TYPE))
    return UnknownRecord(int(chunk.transitions["position"][at]), f"record type {types[at]}")


def _unknown_code(rows: Rows) -> UnknownRecord | None:
    """The same of the first row with a code that this version doesn't know."""
    found: UnknownRecord | None = None
    for field, highest in _HIGHEST.items() if len(rows) else ():
        codes = rows[field]
        most = codes[0] if codes.strides == (0,) else codes.max()
        if most > highest:
            at = int(np.argmax(codes > highest))
            found = _earlier(found, UnknownRecord(int(rows["position"][at]), f"{field} {codes[at]}"))
    return found


def _earlier(one: UnknownRecord | None, other: UnknownRecord | None) -> UnknownRecord | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda unknown: unknown.position)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a history that begins later than position 1 opens with: the live entries that are older.

    `rows` tell of them as they were at `carried_through`, with event "none". Later rows of an entry with a
    serial below `first_position` are changes of it only from positions above `carried_through`; those at or
    below it are already told and must not be folded.
    """

    first_position: int
    carried_through: int
    rows: pa.Table


def read_opening(
    place: Place,
    snapshot: Snapshot,
    schema: pa.Schema = EVENTS_SCHEMA,
    queues: frozenset[str] | None = None,
    through: int | None = None,
) -> Opening | None:
    """The opening of a look; None where its history is whole, or no checkpoint tells what was before.

    `through`: only a checkpoint at or before that position, by default at or before the look's end.
    """
    if snapshot.first_position <= 1:
        return None
    carried = place.carried(snapshot, snapshot.durable_through if through is None else through)
    if carried is None:
        return None
    known = _KnownOfCarried(snapshot, carried.queue_names)
    wanted = [n for n, name in carried.queue_names.items() if queues is None or name in queues]
    ancestry = _ancestry(place, snapshot.durable_through, schema)
    blocks = (rows.where(np.isin(rows["queue"], wanted)) for rows in carried.blocks)
    batches = [
        batch(ancestry.with_ancestry(rows) if ancestry else rows, known, schema)
        for rows in blocks
        if len(rows)
    ]
    return Opening(snapshot.first_position, carried.position, pa.Table.from_batches(batches, schema))


class _KnownOfCarried(Known):
    """Queues by name; who held or sent the entries isn't carried."""

    def __init__(self, snapshot: Snapshot, queue_names: dict[int, str]) -> None:
        nobody = Definitions(np.zeros(0, TRANSITION_DTYPE), np.zeros(0, np.uint8))
        super().__init__(UUID(snapshot.ledger_id).bytes, snapshot.segments[0].epoch, nobody)
        self.__dict__["queues"] = Names(queue_names)
