"""Rows → AMQP messages: what a sink sends. The columns are those of `MESSAGES_SCHEMA`, as many of them as
there are; others are passed over.

Written by columns: each field of all rows at once, by Arrow's own functions, and what is the same in all rows
once. Only maps, and ids that are no text, are written value by value.

Without the column ``durable`` messages are durable; every other column that is missing, or null in a row, is
absent from the message. A body without a ``body_type`` is data where ``body`` is bytes, and a string where it
is text or only ``text`` is there. ``jms_type`` and ``sections`` are told by the rest of a row, and not read.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.codec import encode as encode_value
from postroom.amqp.encoding.types import MAX_UBYTE, MAX_UINT
from postroom.amqp.errors import EncodeError
from postroom.spark.messages import parts
from postroom.spark.messages.parts import Part
from postroom.spark.messages.schema import EVENT_COLUMNS, FULL_SCHEMA, SECTIONS, TIMESTAMP, TYPED_MAP
from postroom.spark.messages.values import ValueInvalid, key_of, untyped

TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
"""What a map may be, too: its values are strings."""
PRESENT: Final = "present"
NOTHING: Final = "null"
"""The type of no value."""
ID_TYPES: Final = ("string", "ulong", "uuid", "binary")
BODY_TYPES: Final = ("data", "string", "binary", "value", "sequence", "none")
US_A_MS: Final = 1_000
NS_A_US: Final = 1_000


class ColumnInvalid(ValueError):
    """A column of another type than messages have under its name, or no column of messages at all."""


class RowInvalid(ValueError):
    """A row that is no message: says which row and column, and what to do."""


def check_columns(schema: pa.Schema) -> None:
    """Whether rows of `schema` can be messages. Raises ``ColumnInvalid``."""
    known = [field for field in schema if field.name in _WRITTEN]
    if not known:
        raise ColumnInvalid(
            f"none of the columns {', '.join(schema.names)} is one of a message: name the body `body` or"
            f" `text`; the columns are {', '.join(_WRITTEN)}"
        )
    for field in known:
        allowed = _allowed(field.name)
        if not any(kind.equals(field.type) for kind in allowed):
            wanted = " or ".join(str(kind) for kind in allowed[:2])
            raise ColumnInvalid(f"column {field.name} is {wanted} in messages, not {field.type}: cast it")


def encode(batch: pa.RecordBatch) -> Sequence[bytes]:
    """The messages of a batch's rows, in their order, as the bytes of their sections.

    Raises ``RowInvalid``.
    """
    if not len(batch):
        return []
    rows = _Rows(_with_ttl_of_headers(batch))
    rows.check_bodies_are_here()
    header = _header(rows)
    body = _body(rows)
    whole = [
        header,
        _map(rows, "message_annotations", d.MESSAGE_ANNOTATIONS, lambda text: encode_value(key_of(text))),
        _properties(rows),
        _map(rows, "application_properties", d.APPLICATION_PROPERTIES, encode_value),
        body,
        rows.values("footer").or_nothing(),
    ]
    messages = parts.as_list(parts.join(whole), len(batch))
    for row in rows.corrupt():  # sent as it came: only its header was understood
        messages[row] = parts.at(header, row) + (rows.values("body").value(row) or b"")
    return messages


class _Rows:
    """The columns of a batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch: Final = batch
        self.count: Final = len(batch)
        self._names: Final = frozenset(batch.schema.names)

    def column(self, name: str) -> pa.Array | None:
        """A column; None if it isn't there, or holds nothing."""
        if name not in self._names:
            return None
        found = self.batch.column(name)
        return None if found.null_count == self.count else found

    def values(self, name: str) -> parts.Values:
        """A column of text or bytes."""
        return parts.Values(self.column(name), self.count)

    def check_bodies_are_here(self) -> None:
        state = self.column("body_state")
        if state is None:
            return
        for row, body_state in enumerate(state.to_pylist()):
            if body_state not in (None, PRESENT):
                raise RowInvalid(
                    f"row {row} has no message to send, its body_state is {body_state!r}: filter the rows by"
                    f" body_state = '{PRESENT}', or leave the column out if the body is your own"
                )

    def corrupt(self) -> list[int]:
        """Rows that came undecoded."""
        reasons = self.column("_corrupt")
        return (
            [] if reasons is None else [row for row, why in enumerate(reasons.to_pylist()) if why is not None]
        )

    # --- fields

    def text(self, name: str) -> Part:
        return self.values(name).sized(parts.STRING)

    def binary(self, name: str) -> Part:
        return self.values(name).sized(parts.BINARY)

    def symbol(self, name: str) -> Part:
        column = self.column(name)
        row = None if column is None else parts.first(pc.invert(pc.string_is_ascii(column)))
        if row is not None:
            raise RowInvalid(f"row {row}: {name} is a symbol of AMQP, so it is ASCII only")
        return self.values(name).sized(parts.SYMBOL)

    def number(self, name: str, highest: int) -> Part:
        column = self.column(name)
        if column is None:
            return parts.NULL
        row = parts.first(parts.outside(column, highest))
        if row is not None:
            raise RowInvalid(f"row {row}: {name} is {column[row].as_py()}; it is 0 to {highest}")
        return parts.numbers(column, highest)

    def flag(self, name: str, otherwise: bool) -> Part:
        return parts.booleans(self.column(name), otherwise)

    def time(self, name: str) -> Part:
        column = self.column(name)
        return parts.NULL if column is None else parts.timestamps(column, US_A_MS)

    def id(self, name: str) -> Part:
        """A message id or correlation id: text where its type says nothing else."""
        kinds = self.column(f"{name}_type")
        given_kinds = None if kinds is None else kinds.to_pylist()
        if given_kinds is None or all(kind in (None, "string") for kind in given_kinds):
            return self.text(name)
        column = self.column(name)
        if column is None:
            return parts.NULL
        values = zip(given_kinds, column.to_pylist(), strict=True)
        return parts.of([self._id(name, row, kind, text) for row, (kind, text) in enumerate(values)])

    def _id(self, name: str, row: int, kind: str | None, text: str | None) -> bytes:
        if text is None:
            return parts.NULL
        if kind not in (None, *ID_TYPES):
            raise RowInvalid(f"row {row}: {name}_type is {kind!r}; it is {', '.join(ID_TYPES)}")
        try:
            return encode_value(untyped(kind or "string", text))
        except (ValueInvalid, EncodeError) as error:
            raise RowInvalid(f"row {row}: {name}: {error}") from error


def _with_ttl_of_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A time to live that no header can say (more than 49 days, or one that is over) is said by the time of
    expiry, counted from now, unless there is one.
    """
    rows = _Rows(batch)
    ttl_ms = rows.column("ttl_ms")
    if ttl_ms is None or parts.first(parts.outside(ttl_ms, MAX_UINT)) is None:
        return batch
    ttl_ms = ttl_ms.cast(pa.int64())
    outside = parts.outside(ttl_ms, MAX_UINT)
    left_us = pc.multiply(pc.if_else(outside, ttl_ms, None), US_A_MS)
    expiry = pc.add(left_us, time.time_ns() // NS_A_US).cast(TIMESTAMP)
    own = rows.column("absolute_expiry_time")
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["ttl_ms"] = pc.if_else(outside, None, ttl_ms)
    columns["absolute_expiry_time"] = expiry if own is None else pc.coalesce(own, expiry)
    return pa.RecordBatch.from_pydict(columns)


def _header(rows: _Rows) -> Part:
    fields = [
        rows.flag("durable", True),
        rows.number("priority", MAX_UBYTE),
        rows.number("ttl_ms", MAX_UINT),
        rows.flag("first_acquirer", False),
        rows.number("delivery_count", MAX_UINT),
    ]
    return parts.list_section(d.HEADER, fields)


def _properties(rows: _Rows) -> Part:
    fields = [
        rows.id("message_id"),
        rows.binary("user_id"),
        *(rows.text(name) for name in ("to", "subject", "reply_to")),
        rows.id("correlation_id"),
        *(rows.symbol(name) for name in ("content_type", "content_encoding")),
        *(rows.time(name) for name in ("absolute_expiry_time", "creation_time")),
        rows.text("group_id"),
        rows.number("group_sequence", MAX_UINT),
        rows.text("reply_to_group_id"),
    ]
    return parts.list_section(d.PROPERTIES, fields)


# --- maps


def _map(rows: _Rows, name: str, descriptor: int, encode_key: Callable[[str], bytes]) -> Part:
    """The section of a map; nothing where there is none, or an empty one."""
    column = rows.column(name)
    if column is None:
        return b""
    ends = column.offsets.to_numpy()
    first, last = ends[0], ends[-1]
    if first == last:
        return b""
    items = column.items[first:last]
    keys = _each(column.keys[first:last], lambda key: _checked(lambda: encode_key(key), name))
    pairs = parts.join([keys, _values(items, name)])
    return parts.map_sections(descriptor, ends - first, parts.filled(pairs))


def _values(items: pa.Array, name: str) -> Part:
    """Values of a map, encoded, each by its type; text is what a map of text holds."""
    if not pa.types.is_struct(items.type):
        return parts.Values(items, len(items)).sized(parts.STRING)
    kinds, texts = items.flatten()
    kinds = kinds.fill_null(NOTHING)
    made: dict[str, Part] = {}
    for kind in sorted(kinds.unique().to_pylist()):
        made[kind] = _values_of(kind, pc.equal(kinds, kind), texts, name)
    which = pc.index_in(kinds, pa.array(list(made)))
    return parts.choose(which, list(made.values()))


def _values_of(kind: str, here: pa.Array, texts: pa.Array, name: str) -> Part:
    """The values of one type, where `here`."""
    if kind == NOTHING:
        return parts.NULL
    if pc.any(pc.and_(here, texts.is_null())).as_py():
        _checked(lambda: encode_value(untyped(kind, None)), name)
    own = pc.if_else(here, texts, None)
    if kind == "string":
        return parts.Values(own, len(own)).sized(parts.STRING)
    return _each(own, lambda text: _checked(lambda: encode_value(untyped(kind, text)), name))


def _each(texts: pa.Array, make: Callable[[str], bytes]) -> Part:
    """What is made of each text, each only once; nothing of null."""
    found = texts.dictionary_encode()
    made = pa.array([make(text) for text in found.dictionary.to_pylist()], parts.BYTES)
    return made.take(found.indices)


def _checked(make: Callable[[], bytes], name: str) -> bytes:
    try:
        return make()
    except (ValueInvalid, EncodeError) as error:
        raise RowInvalid(f"column {name}: {error}") from error


# --- the body


def _body(rows: _Rows) -> Part:
    """The body sections, by what each row says its body is."""
    kinds = _body_types(rows)
    present = sorted(set(kinds))
    made = [_BODIES[kind](rows) for kind in present]
    body = made[0]
    if len(present) > 1:
        body = parts.choose(pa.array([present.index(kind) for kind in kinds]), made)
    missing = parts.first_missing(body)
    if missing is not None and missing not in rows.corrupt():
        kind = kinds[missing]
        column = "text" if kind == "string" else "body"
        raise RowInvalid(f"row {missing}: its body_type is {kind}, and its column {column} is null")
    return parts.filled(body)


def _body_types(rows: _Rows) -> list[str]:
    """What each row's body is; where it doesn't say, what it has."""
    given = rows.column("body_type")
    kinds: list[str | None] = [None] * rows.count if given is None else given.to_pylist()
    for row, kind in enumerate(kinds):
        if kind not in (None, *BODY_TYPES):
            raise RowInvalid(f"row {row}: body_type is {kind!r}; it is {', '.join(BODY_TYPES)}")
    bodies, texts = rows.column("body"), rows.column("text")
    of_body = "string" if _is_text(bodies) else "data"
    has = zip(kinds, _here(bodies, rows.count), _here(texts, rows.count), strict=True)
    found = []
    for row, (kind, has_body, has_text) in enumerate(has):
        if kind is None and has_body and has_text:
            raise RowInvalid(f"row {row} has a body and a text: say in body_type which it is, data or string")
        found.append(kind or (of_body if has_body else "string" if has_text else "none"))
    return found


def _here(column: pa.Array | None, count: int) -> list[bool]:
    return [False] * count if column is None else column.is_valid().to_pylist()


def _is_text(column: pa.Array | None) -> bool:
    return column is not None and not pa.types.is_binary(column.type)


def _texts(rows: _Rows) -> parts.Values:
    """From `text`; from `body` where that column is text."""
    texts = rows.values("text")
    return texts.or_else(rows.values("body")) if _is_text(rows.column("body")) else texts


_BODIES: Final[dict[str, Callable[[_Rows], Part]]] = {
    "data": lambda rows: rows.values("body").section(d.DATA, parts.BINARY),
    "string": lambda rows: _texts(rows).section(d.AMQP_VALUE, parts.STRING),
    "binary": lambda rows: rows.values("body").section(d.AMQP_VALUE, parts.BINARY),
    **dict.fromkeys(("value", "sequence"), lambda rows: rows.values("body").plain()),
    "none": lambda rows: b"",
}


# --- types of columns

_UNREAD: Final = (*EVENT_COLUMNS, "jms_type", SECTIONS)
_WRITTEN: Final = tuple(name for name in FULL_SCHEMA.names if name not in _UNREAD)
_INTEGERS: Final = (pa.int64(), pa.int32(), pa.int16(), pa.int8())


def _allowed(name: str) -> Sequence[pa.DataType]:
    own = FULL_SCHEMA.field(name).type
    if pa.types.is_integer(own):
        return _INTEGERS
    if own.equals(TYPED_MAP):
        return (TYPED_MAP, TEXT_MAP)
    return (own, pa.string()) if name == "body" else (own,)
