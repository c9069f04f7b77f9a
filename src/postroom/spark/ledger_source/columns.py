"""The events table's columns: name, type, meaning, and how a block of rows becomes an Arrow array of it.

The arrays are made from the record arrays with numpy and Arrow kernels only. Spark wants exactly the types
declared here (plain strings, microseconds in UTC); who asks for a dictionary type of a text gets that.
Columns that only an arrival can tell are null on the rows of later events; the entries table is where they
are spread over the whole entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.ledger.fold.fold import survives
from postroom.ledger.format.expand import ARRIVAL_RECORD, Rows
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag, RecordType, TransitionFlag
from postroom.model.codes import DelayCause, Event, HolderKind, IdType, Outcome, State
from postroom.spark.ledger_source.ancestry import ROOT_QUEUE, ROOT_SERIAL
from postroom.spark.ledger_source.ids import heap_strings, id_text, utf8
from postroom.spark.ledger_source.names import Coded, Known, Names, repeated, same

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

LONG_BYTES: Final = 8

REFUSAL: Final = "refusal"
"""The `record` of rows that tell of no entry: a message was refused, and its sender wanted no answer."""

ACT: Final = "act"
"""`record` and `event` of rows that tell of no entry: an act of an administrator, or a refusal."""

Build = Callable[[Rows, Known], pa.Array | Coded]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the events table; ``build`` makes its array."""

    name: str
    type: pa.DataType
    comment: str
    build: Build


def batch(rows: Rows, known: Known, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one record batch of the columns that the schema names; texts as dictionaries where it says so.

    Raises ``KeyError`` for an unknown column.
    """
    arrays = [_array(COLUMN_BY_NAME[field.name], rows, known, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(column: Column, rows: Rows, known: Known, kind: pa.DataType) -> pa.Array:
    if column.name in ARRIVAL_ONLY and rows.arrivals is None:
        return repeated(None, kind, len(rows))
    made = column.build(rows, known)
    is_coded = pa.types.is_dictionary(kind)
    if isinstance(made, Coded):
        return made.coded(kind) if is_coded else made.plain()
    return made.dictionary_encode().cast(kind) if is_coded else made


# --- builders -------------------------------------------------------------------------------------


def _long(values: Array) -> pa.Array:
    wide = np.ascontiguousarray(values) if values.itemsize == LONG_BYTES else values.astype(np.int64)
    return _as_they_lie(pa.int64(), wide)


def _long_or_null(values: Array) -> pa.Array:
    """Numbers of which 0 means none."""
    plain = values.astype(np.int64)
    if not plain.any():
        return pa.nulls(len(plain), pa.int64())
    return pa.array(plain, mask=plain == 0) if not plain.all() else pa.array(plain)


def _time(values: Array) -> pa.Array:
    return _as_they_lie(TIMESTAMP, np.ascontiguousarray(values))


def _as_they_lie(kind: pa.DataType, values: Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _time_or_null(values: Array) -> pa.Array:
    return _long_or_null(values).view(TIMESTAMP)


def _row(field: str, convert: Callable[[Array], pa.Array | Coded]) -> Build:
    return lambda rows, known: convert(rows[field])


def _int(values: Array) -> pa.Array:
    if len(values) and values.strides == (0,):
        return repeated(int(values[0]), pa.int32(), len(values))
    return pa.array(values.astype(np.int32))


def _if(received: bool, field: str) -> Build:
    """A field of arrivals that came through a channel, or of the others; null elsewhere."""

    def build(rows: Rows, known: Known) -> pa.Array:
        came = (rows["flags"] & ArrivalFlag.RECEIVED) != 0
        return _long_or_null(np.where(came == received, rows[field], 0))

    return build


def _flag(mask: int) -> Callable[[Array], pa.Array]:
    return lambda values: pa.array((values & mask) != 0)


def _code_names(codes: type[IntEnum], none: str | None) -> Callable[[Array], Coded]:
    return Names({code.value: none if code.value == 0 else code.name.lower() for code in codes}).of


_CAUSES: Final = Names(
    {
        value: "+".join(str(cause.name).lower() for cause in DelayCause if cause and value & cause) or None
        for value in range(256)
    }
)


def _sent(rows: Rows, known: Known) -> pa.Array:
    if rows.arrivals is not None:
        return pa.repeat(pa.scalar(False), len(rows))
    return pa.array((rows["flags"] & TransitionFlag.SENT) != 0)


def _reason(rows: Rows, known: Known) -> pa.Array:
    """The JSON that a rejection or dead-letter event carries; null elsewhere."""
    return pa.nulls(len(rows), pa.string()) if _are(rows, RecordType.ADMINISTRATIVE_ACT) else _details(rows)


def _act(rows: Rows, known: Known) -> pa.Array | Coded:
    return _details(rows) if _are(rows, RecordType.ADMINISTRATIVE_ACT) else same(None, len(rows))


def _details(rows: Rows) -> pa.Array:
    transitions = rows.transitions
    has_detail = None if transitions is None else transitions["detail_len"] > 0
    if transitions is None or has_detail is None or not has_detail.any():
        return pa.nulls(len(rows), pa.string())
    records = transitions[has_detail]
    texts = utf8(heap_strings(rows.names, records["detail_offset"], records["detail_len"], pa.binary()))
    return pc.replace_with_mask(pa.nulls(len(rows), pa.string()), pa.array(has_detail), texts)


def _names_of(attribute: str, field: str) -> Build:
    def build(rows: Rows, known: Known) -> Coded:
        names: Names = getattr(known, attribute)
        return names.of(rows[field])

    return build


_RECORDS: Final = Names(
    {
        ARRIVAL_RECORD: "arrival",
        RecordType.ENTRY_EVENT: "entry",
        RecordType.GROUP_EVENT: "group",
        RecordType.DECISION: "decision",
        RecordType.MESSAGE_REFUSED: REFUSAL,
        RecordType.ADMINISTRATIVE_ACT: ACT,
    }
)


def _record(rows: Rows, known: Known) -> Coded:
    kinds = rows.record
    return _RECORDS.of(np.full(len(rows), kinds, np.uint8) if isinstance(kinds, int) else kinds)


def _are(rows: Rows, kind: RecordType) -> bool:
    """Whether all rows were made of such records: those without an entry come in blocks of their own."""
    return isinstance(rows.record, int) and rows.record == kind


_EVENT: Final = _code_names(Event, "none")


def _event(rows: Rows, known: Known) -> Coded:
    if _are(rows, RecordType.ADMINISTRATIVE_ACT):
        return same(ACT, len(rows))
    return _EVENT(rows["event"])


def _of_holder(rows: Rows, known: Known, field: str) -> Coded:
    if not rows["holder"].any():
        return same(None, len(rows))
    return known.details("holder", field).of(rows["holder"])


def _of_either(field: str) -> Build:
    """What is said of the producer of an arrival, of the holder elsewhere."""

    def build(rows: Rows, known: Known) -> Coded:
        if _are(rows, RecordType.MESSAGE_REFUSED):
            return known.details("producer", field).of(rows["holder"])
        if rows.arrivals is None:
            return _of_holder(rows, known, field)
        return known.details("producer", field).of(rows["producer"])

    return build


def _channel(rows: Rows, known: Known) -> pa.Array | Coded:
    """The receiving channel of an arrival; the sending channel of what a batch holds, or the channel's
    consumer outside of one."""
    if rows.arrivals is not None:
        return known.receiving.of(rows["producer"])
    return _of_holder(rows, known, "channel")


# --- ids ------------------------------------------------------------------------------------------


def _group_id(rows: Rows, known: Known) -> pa.Array:
    length = rows["group_id_len"]
    kind = np.where(length > 0, IdType.STRING, IdType.NONE).astype(np.uint8)
    return id_text(rows.names, rows["group_id_offset"], length, kind)


def _id_text(field: str) -> Build:
    def build(rows: Rows, known: Known) -> pa.Array:
        return id_text(rows.names, rows[f"{field}_offset"], rows[f"{field}_len"], rows[f"{field}_type"])

    return build


# --- the table ------------------------------------------------------------------------------------


_OF_EVENTS: Final = (
    Column(
        "ledger_id",
        pa.string(),
        "The ledger's own id (UUID)",
        lambda rows, known: same(known.ledger_id, len(rows)),
    ),
    Column(
        "epoch",
        pa.int32(),
        "The broker run that wrote the record, counted from 1",
        lambda rows, known: pa.array(np.full(len(rows), known.epoch, np.int32)),
    ),
    Column(
        "position", pa.int64(), "The record's position: dense, from 1, never reused", _row("position", _long)
    ),
    Column(
        "ordinal",
        pa.int32(),
        "Which of the record's entries this row is, from 0",
        lambda r, p: _int(r.ordinal),
    ),
    Column(
        "record",
        pa.string(),
        "Which record the row is from: arrival, entry, group, decision, refusal (a message whose sender "
        "wanted no answer was refused: no entry, queue_id 0), act (likewise no entry: see `act`); null if "
        "older than the history",
        _record,
    ),
    Column("serial", pa.int64(), "The message: position of its arrival record", _row("serial", _long)),
    Column("queue_id", pa.int64(), "With serial, the key of an entry; never reused", _row("queue", _long)),
    Column("queue", pa.string(), "The queue's name", _names_of("queues", "queue")),
    Column("time", TIMESTAMP, "When it was recorded; never goes backwards", _row("time_us", _time)),
    Column(
        "event",
        pa.string(),
        "What happened, e.g. put, acquire, confirm; act: somebody changed something, or was refused",
        _event,
    ),
    Column(
        "from_state",
        pa.string(),
        "State before; start for an arrival",
        _row("from_state", _code_names(State, "start")),
    ),
    Column("to_state", pa.string(), "State after", _row("to_state", _code_names(State, "start"))),
    Column(
        "outcome",
        pa.string(),
        "How the entry ended; null unless it did",
        _row("outcome", _code_names(Outcome, None)),
    ),
    Column("causes", pa.string(), "Why it is delayed after the event, as a+b", _row("causes", _CAUSES.of)),
    Column(
        "holder_kind", pa.string(), "Who must confirm", _row("holder_kind", _code_names(HolderKind, None))
    ),
    Column("holder_id", pa.int64(), "Which holder of that kind", _row("holder", _long_or_null)),
    Column(
        "holder",
        pa.string(),
        "The holder's name; of an XA branch its Xid, of a refusal the producer",
        lambda rows, known: (
            known.producers.of(rows["holder"])
            if _are(rows, RecordType.MESSAGE_REFUSED)
            else _of_holder(rows, known, "name")
        ),
    ),
    Column(
        "container",
        pa.string(),
        "Container id of the producer on arrivals, of the holder elsewhere",
        _of_either("container"),
    ),
    Column(
        "user",
        pa.string(),
        "Who the producer logged in as on arrivals, the holder elsewhere",
        _of_either("user"),
    ),
    Column(
        "channel",
        pa.string(),
        "The channel that an arrival came through; elsewhere the one that holds or took the entry",
        _channel,
    ),
    Column(
        "luwid",
        pa.string(),
        "The batch of a sending channel that holds or took the entry",
        lambda rows, known: (
            _of_holder(rows, known, "luwid") if rows.arrivals is None else same(None, len(rows))
        ),
    ),
    Column("due", TIMESTAMP, "End of a delay that begins here", _row("due_us", _time_or_null)),
    Column("delivery_delta", pa.int32(), "Added to the delivery count", _row("delivery_delta", _int)),
    Column("failure_delta", pa.int32(), "Added to the failure count", _row("failure_delta", _int)),
    Column("sent", pa.bool_(), "The delivery had been on the wire", _sent),
    Column("reason", pa.string(), "Why, as JSON (condition, description), where one was given", _reason),
)
_OF_ARRIVALS: Final = (
    Column(
        "producer_id",
        pa.int64(),
        "Who sent it; null for the broker itself",
        _row("producer", _long_or_null),
    ),
    Column("producer", pa.string(), "The producer's name", _names_of("producers", "producer")),
    Column("message_id", pa.string(), "AMQP message-id as text", _id_text("message_id")),
    Column("correlation_id", pa.string(), "AMQP correlation-id as text", _id_text("correlation_id")),
    Column("group_id", pa.string(), "AMQP group-id", _group_id),
    Column(
        "group_sequence",
        pa.int64(),
        "AMQP group-sequence; null outside a group",
        lambda rows, known: pa.array(rows["group_sequence"].astype(np.int64), mask=rows["group_id_len"] == 0),
    ),
    Column("priority", pa.int32(), "0 to 9", _row("priority", _int)),
    Column("durable", pa.bool_(), "Persistence was asked for", _row("flags", _flag(ArrivalFlag.DURABLE))),
    Column(
        "stored",
        pa.bool_(),
        "It survives a restart: its body is in the ledger, and not for readers alone",
        _row("flags", lambda flags: pa.array(survives(flags))),
    ),
    Column("adverse", pa.bool_(), "Put by the broker itself", _row("flags", _flag(ArrivalFlag.ADVERSE))),
    Column("body_bytes", pa.int64(), "Size of the stored sections", _row("body_len", _long)),
    Column("expiry", TIMESTAMP, "When it expires; null never", _row("expiry_us", _time_or_null)),
    Column("creation", TIMESTAMP, "The producer's creation-time", _row("creation_us", _time_or_null)),
    Column(
        "body_serial",
        pa.int64(),
        "Whose body it shares; its own serial else",
        _row("body_serial", _long),
    ),
    Column("parent_serial", pa.int64(), "The entry it was made from", _if(False, "parent_serial")),
    Column(
        "parent_queue_id",
        pa.int64(),
        "That entry's queue; without a parent the topic that it was published to",
        _if(False, "parent_queue"),
    ),
    Column(
        "root_serial",
        pa.int64(),
        "The entry at the beginning of its chain of parents, as far as the history tells: its own serial"
        " where it was made of none",
        lambda rows, known: _long(rows.columns.get(ROOT_SERIAL, rows["serial"])),
    ),
    Column(
        "root_queue_id",
        pa.int64(),
        "That entry's queue",
        lambda rows, known: _long(rows.columns.get(ROOT_QUEUE, rows["queue"])),
    ),
    Column(
        "origin_ledger_id",
        pa.string(),
        "The sender's ledger, of what came through a channel",
        _names_of("origins", "producer"),
    ),
    Column("origin_serial", pa.int64(), "Its serial in that ledger", _if(True, "parent_serial")),
    Column("sequence", pa.int64(), "Its number in the channel's sequence", _if(True, "parent_queue")),
)

_OF_ACTS: Final = Column(ACT, pa.string(), "On rows of acts: what the table `acts` is made of, as JSON", _act)

COLUMNS: Final[tuple[Column, ...]] = (*_OF_EVENTS, *_OF_ARRIVALS, _OF_ACTS)

NEVER_NULL: Final = frozenset(
    {
        *("ledger_id", "epoch", "position", "ordinal", "serial", "queue_id", "time", "event"),
        *("from_state", "to_state", "delivery_delta", "failure_delta", "sent"),
    }
)
"""Every row has a value of these."""
ARRIVAL_ONLY: Final = frozenset(column.name for column in _OF_ARRIVALS)
"""Null on rows of other events."""
COLUMN_BY_NAME: Final = {column.name: column for column in COLUMNS}
EVENTS_SCHEMA: Final = pa.schema([pa.field(column.name, column.type) for column in COLUMNS])
