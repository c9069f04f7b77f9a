"""Messages → typed columns."""

from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.amqp.errors import DecodeError
from postroom.ledger.body_reader import BODY_STATE_NAMES, BodyState
from postroom.ledger.records import ArrivalFlag
from postroom.spark.messages.rows import Events
from postroom.spark.messages.schema import EVENT_COLUMNS, HEADER_COLUMNS, SECTIONS
from postroom.spark.messages.whole import read_whole

Array = npt.NDArray[Any]

STATE: Final = "body_state"
CORRUPT: Final = "_corrupt"
_TOLD: Final = frozenset([*EVENT_COLUMNS, *HEADER_COLUMNS, STATE, CORRUPT, SECTIONS])
_US_A_MS: Final = 1000


class Messages(Protocol):
    """What a place tells of some messages (`postroom.spark.places.Messages`)."""

    @property
    def found(self) -> Array: ...
    @property
    def arrivals(self) -> Array: ...
    @property
    def sections(self) -> pa.Array: ...
    @property
    def states(self) -> Array: ...
    @property
    def errors(self) -> dict[int, str]: ...


def decode(messages: Messages, events: Events, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of events, in the columns of the schema; `messages` are those of their serials.

    A message that can't be decoded has null in the columns that its sections tell, its sections in `body`
    and in `_corrupt` what is wrong and where. Nothing is raised for what is in a message.
    """
    asked = [name for name in schema.names if name not in _TOLD]
    read = _Sections(messages, asked)
    arrays = []
    for field in schema:
        if field.name in EVENT_COLUMNS:
            arrays.append(events.column(field.name))
        elif field.name in HEADER_COLUMNS:
            arrays.append(_header(messages, events, field.name))
        elif field.name == STATE:
            arrays.append(pa.array(BODY_STATE_NAMES).take(pa.array(messages.states)))
        else:
            arrays.append(read.column(field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _header(messages: Messages, events: Events, name: str) -> pa.Array:
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


class _Sections:
    def __init__(self, messages: Messages, asked: list[str]) -> None:
        self._sections = messages.sections
        self._rows: list[dict[str, Any]] = []
        self._corrupt: list[str | None] = []
        present = messages.states == BodyState.PRESENT
        for row, (data, is_present) in enumerate(zip(messages.sections, present, strict=True)):
            error, values = messages.errors.get(row), {}
            if is_present and error is None:
                try:
                    values = read_whole(data.as_py(), asked)
                except DecodeError as broken:
                    error = broken.description
                    values = {"body": data.as_py()}
            self._rows.append(values)
            self._corrupt.append(error)

    def column(self, field: pa.Field) -> pa.Array:
        if field.name == CORRUPT:
            return pa.array(self._corrupt, field.type)
        if field.name == SECTIONS:
            return self._sections.cast(field.type)
        return pa.array([values.get(field.name) for values in self._rows], field.type)
