"""Slices of a ledger become record batches of the events table, wherever the ledger lies. Needs no Spark."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from postroom.ledger.definitions import Definitions
from postroom.ledger.errors import UnknownRecord
from postroom.ledger.expand import Rows, expand
from postroom.ledger.layout import TRANSITION_DTYPE, Array
from postroom.ledger.records import RecordType
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.spark.columns import EVENTS_SCHEMA, batch
from postroom.spark.names import Known, Names
from postroom.spark.places import Look, Place, Slice


def read_events(
    slice: Slice, schema: pa.Schema = EVENTS_SCHEMA, queues: frozenset[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, one for each (position, ordinal, entry), in the columns of the schema.

    `queues`: only the entries of queues and subscriptions of these names.
    Positions ascend from batch to batch but for the kinds of record within one chunk of the file. Raises
    ``LedgerError``, ``OSError``; ``KeyError`` for an unknown column.
    """
    segment = slice.segment
    known: Known | None = None
    last: Definitions | None = None
    for chunk, definitions in slice.place.read(slice):
        require_known(chunk.transitions)
        if known is None or definitions is not last:
            known, last = Known(segment.ledger_id, segment.epoch, definitions), definitions
        for rows in expand(chunk, definitions.routing_sets):
            if len(rows):
                _require_known_codes(rows)
                rows = rows if queues is None else _of_queues(rows, definitions, queues)
            if len(rows):
                yield batch(rows, known, schema)


def _of_queues(rows: Rows, definitions: Definitions, queues: frozenset[str]) -> Rows:
    ids = [number for number, name in definitions.queue_names.items() if name in queues]
    return rows.where(np.isin(rows["queue"], ids))


_CODES: Final[Mapping[str, type[IntEnum]]] = {
    "event": Event,
    "from_state": State,
    "to_state": State,
    "outcome": Outcome,
    "holder_kind": HolderKind,
}
_HIGHEST: Final = {field: max(codes) for field, codes in _CODES.items()}
_HIGHEST_TYPE: Final = max(RecordType)


def require_known(transitions: Array) -> None:
    """Raises ``UnknownRecord`` for a type of record that this version doesn't know."""
    types = transitions["type"]
    if len(types) and types.max() > _HIGHEST_TYPE:
        at = int(np.argmax(types > _HIGHEST_TYPE))
        raise UnknownRecord(int(transitions["position"][at]), f"record type {types[at]}")


def _require_known_codes(rows: Rows) -> None:
    for field, highest in _HIGHEST.items():
        codes = rows[field]
        if codes.max() > highest:
            at = int(np.argmax(codes > highest))
            raise UnknownRecord(int(rows["position"][at]), f"{field} {codes[at]}")


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
    look: Look,
    schema: pa.Schema = EVENTS_SCHEMA,
    queues: frozenset[str] | None = None,
    through: int | None = None,
) -> Opening | None:
    """The opening of a look; None where its history is whole, or no checkpoint tells what was before.

    `through`: only a checkpoint at or before that position, by default at or before the look's end.
    """
    if look.first_position <= 1:
        return None
    told = place.carried(look, look.durable_through if through is None else through)
    if told is None:
        return None
    known = _KnownOfCarried(look, told.queue_names)
    wanted = [n for n, name in told.queue_names.items() if queues is None or name in queues]
    blocks = (rows.where(np.isin(rows["queue"], wanted)) for rows in told.blocks)
    batches = [batch(rows, known, schema) for rows in blocks if len(rows)]
    return Opening(look.first_position, told.position, pa.Table.from_batches(batches, schema))


class _KnownOfCarried(Known):
    """Queues by name; who held or sent the entries isn't carried."""

    def __init__(self, look: Look, queue_names: dict[int, str]) -> None:
        nobody = Definitions(np.zeros(0, TRANSITION_DTYPE), np.zeros(0, np.uint8))
        super().__init__(UUID(look.ledger_id).bytes, look.segments[0].epoch, nobody)
        self.__dict__["queues"] = Names(queue_names)
