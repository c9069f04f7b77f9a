"""Which events of a ledger make rows, in what order, and the blocks in which they are joined to messages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.ledger.format.expand import Chunk, Rows, expand
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import TransitionFlag
from postroom.ledger.reading.definitions import Definitions
from postroom.model.codes import Event, State
from postroom.spark.ledger_source.names import Names
from postroom.spark.ledger_source.record_batches import unknown_type
from postroom.spark.places.place import Slice

Wanted = Callable[[Rows, Definitions], npt.NDArray[np.bool_]]
"""Which of some rows are events that make rows of messages."""

_FIELDS: Final = ("position", "serial", "queue", "time_us")
_ARRAYS: Final = (*_FIELDS, "ordinal")


@dataclass(frozen=True, slots=True)
class Events:
    """Events that make a row each, by (position, ordinal); arrays of one length."""

    ledger_id: str
    position: Array
    ordinal: Array
    serial: Array
    queue: Array
    """Queue ids."""
    time_us: Array
    names: Names
    """Of the queues."""

    def __len__(self) -> int:
        return len(self.position)

    def part(self, start: int, end: int) -> "Events":
        """Those from one index up to, not including, another."""
        return replace(self, **{name: getattr(self, name)[start:end] for name in _ARRAYS})

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The rows of the events, in columns that events tell."""
        return pa.RecordBatch.from_arrays([self.column(name) for name in schema.names], schema=schema)

    def column(self, name: str) -> pa.Array:
        """One of ``schema.EVENT_COLUMNS``."""
        return _COLUMNS[name](self)


_COLUMNS: Final[dict[str, Callable[[Events], pa.Array]]] = {
    "position": lambda events: pa.array(events.position.astype(np.int64)),
    "ordinal": lambda events: pa.array(events.ordinal.astype(np.int32)),
    "ledger_id": lambda events: pa.repeat(pa.scalar(events.ledger_id), len(events)),
    "queue": lambda events: events.names.of(events.queue).plain(),
    "serial": lambda events: pa.array(events.serial.astype(np.int64)),
    "available_time": lambda events: pa.array(events.time_us.astype(np.int64)).view(
        pa.timestamp("us", tz="UTC")
    ),
}


def becomes_available(rows: Rows, definitions: Definitions) -> npt.NDArray[np.bool_]:
    """The events by which an entry is available for the first time: its arrival, the confirmation of its put,
    or the end of a first delay (which says so itself: nothing else tells it from a later one)."""
    available = rows["to_state"] == State.AVAILABLE
    if rows.arrivals is not None:
        first: npt.NDArray[np.bool_] = available
        return first
    confirmed = (rows["event"] == Event.CONFIRM) & (rows["from_state"] == State.PUT_UNCONFIRMED)
    is_first = (rows["flags"] & TransitionFlag.FIRST) != 0
    found: npt.NDArray[np.bool_] = available & (confirmed | is_first)
    return found


def events_of(
    slice: Slice, wanted: Wanted = becomes_available, queues: frozenset[str] | None = None
) -> Iterator[Events]:
    """The events of a slice that make rows, in blocks; positions ascend from block to block.

    Raises ``LedgerError``, ``OSError``.
    """
    for chunk, definitions in slice.place.read(slice):
        unknown = unknown_type(chunk)
        if unknown is not None:
            raise unknown
        found = _events(chunk, definitions, wanted, queues, slice.ledger_id)
        if found is not None:
            yield found


def _events(
    chunk: Chunk, definitions: Definitions, wanted: Wanted, queues: frozenset[str] | None, ledger_id: str
) -> Events | None:
    kept: list[Rows] = []
    for rows in expand(chunk, definitions.routing_sets):
        mask = wanted(rows, definitions)
        if queues is not None and mask.any():
            ids = [number for number, name in definitions.queue_names.items() if name in queues]
            mask &= np.isin(rows["queue"], ids)
        if mask.any():
            kept.append(rows.where(mask))
    if not kept:
        return None
    position, serial, queue, time_us = (np.concatenate([rows[name] for rows in kept]) for name in _FIELDS)
    ordinal = np.concatenate([rows.ordinal for rows in kept])
    order = np.lexsort((ordinal, position))
    names = Names(definitions.queue_names)
    return Events(
        ledger_id, position[order], ordinal[order], serial[order], queue[order], time_us[order], names
    )
