"""Messages → typed columns."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.amqp.errors import DecodeError
from postroom.amqp.message.rewrite import with_expiry
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.body_reader import BODY_STATE_NAMES
from postroom.spark.ledger_source.names import Names
from postroom.spark.messages.columnar import Columnar
from postroom.spark.messages.heap import Heap
from postroom.spark.messages.rows import Events
from postroom.spark.messages.schema import EVENT_COLUMNS, HEADER_COLUMNS, SECTIONS
from postroom.spark.messages.whole import read_whole
from postroom.spark.places.place import Messages

STATE: Final = "body_state"
CORRUPT: Final = "_corrupt"
_ELSEWHERE: Final = frozenset([*EVENT_COLUMNS, *HEADER_COLUMNS, STATE, CORRUPT, SECTIONS])
_STATES: Final = Names(dict(enumerate(BODY_STATE_NAMES)))
_US_A_MS: Final = 1000


def decode(messages: Messages, events: Events, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of events, in the columns of the schema; `messages` are those of their serials.

    A message that can't be decoded has null in the columns that its sections tell, its sections in `body`
    and in `_corrupt` what is wrong and where. Nothing is raised for what is in a message.
    """
    sections = _SectionColumns(messages, [name for name in schema.names if name not in _ELSEWHERE])
    arrays = [_column(name, messages, events, sections) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, messages: Messages, events: Events, sections: "_SectionColumns") -> pa.Array:
    if name in EVENT_COLUMNS:
        return events.column(name)
    if name in HEADER_COLUMNS:
        return _header(messages, name)
    if name == STATE:
        return _STATES.of(messages.states).plain()
    return messages.sections.cast(pa.binary()) if name == SECTIONS else sections.column(name)


def _header(messages: Messages, name: str) -> pa.Array:
    unknown = ~messages.found
    arrivals = messages.arrivals
    if name == "durable":
        return pa.array((arrivals["flags"] & ArrivalFlag.DURABLE) != 0, mask=unknown)
    if name == "priority":
        return pa.array(arrivals["priority"].astype(np.int32), mask=unknown)
    if name == "ttl_ms":
        left_us = arrivals["expiry_us"] - arrivals["time_us"]
        return pa.array(left_us // _US_A_MS, mask=unknown | (arrivals["expiry_us"] == 0))
    if name == "first_acquirer":
        return pa.array(np.zeros(len(unknown), bool), mask=unknown)
    return pa.array(np.zeros(len(unknown), np.int64), mask=unknown)


class _SectionColumns:
    """What sections tell, of all rows."""

    def __init__(self, messages: Messages, columns: list[str]) -> None:
        self._columnar: Final = Columnar(Heap(messages.heap, messages.starts, messages.ends))
        self._decoded: Final = {name: self._columnar.column(name) for name in columns}
        missing = messages.missing
        self._arrivals: Final = messages.arrivals
        self._replaced: Final = (messages.arrivals["flags"] & ArrivalFlag.EXPIRY_REPLACED) != 0
        self._rows: Final = np.flatnonzero(missing | self._columnar.hard | self._replaced).tolist()
        self._values: Final[list[dict[str, Any]]] = []
        for row in self._rows:
            if missing[row]:
                self._values.append({CORRUPT: messages.errors.get(row)})
            else:
                self._values.append(self._read(row, columns))
        count = len(messages.states)
        self._decoded[CORRUPT] = pa.nulls(count, pa.string())

    def _read(self, row: int, columns: list[str]) -> dict[str, Any]:
        data = self._columnar.whole(row)
        try:
            if self._replaced[row]:
                data = with_expiry(data, int(self._arrivals["expiry_us"][row]))
            return read_whole(data, columns)
        except DecodeError as error:
            return {CORRUPT: error.description, "body": data}

    def column(self, name: str) -> pa.Array:
        """One of the columns, or `_corrupt`."""
        decoded, rows = self._decoded[name], self._rows
        if not rows:
            return decoded
        own = pa.array([values.get(name) for values in self._values], decoded.type)
        order = np.arange(len(decoded))
        order[rows] = np.arange(len(decoded), len(decoded) + len(rows))
        return pa.concat_arrays([decoded, own]).take(pa.array(order))
