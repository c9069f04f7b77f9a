"""Many encoded messages at once → Arrow columns, one array operation for all rows."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.errors import DecodeError
from postroom.client.messages.message import MESSAGE_TYPE
from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.names import Names
from postroom.spark.messages.heap import Heap, Mask, Values
from postroom.spark.messages.schema import PROPERTY_COLUMNS, TIMESTAMP, TYPED, TYPED_MAP
from postroom.spark.messages.texts import integers_of, kinds_of, strings_of, texts_of, value_at
from postroom.spark.messages.values import FIRST_MS, LAST_MS, plain_json
from postroom.spark.messages.walk import LISTS, Entries, Sections, codes, entries, fields
from postroom.spark.messages.whole import JMS_TYPES, type_of_content

_US_A_MS: Final = 1000
_STRINGS: Final = codes(c.STRING_8, c.STRING_32)
_SYMBOLS: Final = codes(c.SYMBOL_8, c.SYMBOL_32)
_BINARIES: Final = codes(c.BINARY_8, c.BINARY_32)
_IDS: Final = _STRINGS | _BINARIES | codes(c.UUID, c.ULONG, c.ULONG_8, c.ULONG_0)
_UINTS: Final = codes(c.UINT, c.UINT_8, c.UINT_0)
_TIMES: Final = codes(c.TIMESTAMP)
_SHORT_NUMBERS: Final = codes(c.BYTE, c.UBYTE, c.INT_8, c.UINT_8, c.LONG_8, c.ULONG_8, c.UINT_0, c.ULONG_0)

_FIELDS: Final = tuple(name for name in PROPERTY_COLUMNS if not name.endswith("_id_type"))
_TYPED_KEYS: Final = ("symbol:", "ulong:", "string:")
"""Symbols that begin like these are told in another way (`values.key_text`)."""

_BODY_TYPES: Final = Names(dict(enumerate(["none", "data", "string", "binary", "value", "sequence"])))
_JMS_NAMES: Final = Names(dict(enumerate(JMS_TYPES)))
_NONE, _DATA, _STRING, _BINARY, _VALUE, _SEQUENCE = range(6)


class Columnar:
    """The columns of some messages. What a column tells of rows in `hard` means nothing, and more rows may
    turn out to be hard with each column: ask for it last."""

    def __init__(self, heap: Heap) -> None:
        """`heap`: the encoded messages."""
        self._heap: Final = heap
        self._sections: Final = Sections(self._heap)
        self._ids: Final[dict[str, tuple[pa.Array, pa.Array]]] = {}

    @property
    def hard(self) -> Mask:
        """Rows that must be read one by one."""
        return self._sections.hard

    def column(self, name: str) -> pa.Array:
        """One of the columns that sections tell."""
        return _COLUMNS[name](self, name)

    def whole(self, row: int) -> bytes:
        """A message as it is stored."""
        return self._heap.stretch(int(self._heap.start[row]), int(self._heap.end[row]))

    # --- properties

    @cached_property
    def _properties(self) -> list[Values]:
        return fields(self._sections, d.PROPERTIES)

    def _field(self, name: str, allowed: Mask) -> tuple[Values, Mask]:
        """A field of the properties, and which rows have it; it is null without a length elsewhere."""
        index = _FIELDS.index(name)
        count = len(self.hard)
        if index >= len(self._properties):
            return Values.nulls(count), np.zeros(count, np.bool_)
        values = self._properties[index]
        there: Mask = allowed[values.code]
        if there.all():
            return values, there
        self.hard[~there & (values.code != c.NULL)] = True
        nothing = np.where(there, values.length, 0)
        return Values(np.where(there, values.code, c.NULL).astype(np.uint8), values.at, nothing), there

    def _string(self, name: str) -> pa.Array:
        """Type and encoding of the content are symbols."""
        is_symbol = name.startswith("content_")
        return self._strings(*self._field(name, _SYMBOLS if is_symbol else _STRINGS), is_symbol)

    def _strings(self, values: Values, there: Mask, is_symbol: bool = False) -> pa.Array:
        if not there.any():
            return pa.nulls(len(there), pa.string())
        return strings_of(self._heap, values, None if there.all() else there, self.hard, is_symbol)

    def _bytes(self, name: str) -> pa.Array:
        values, there = self._field(name, _BINARIES)
        return self._heap.strings(values.at, values.length, there)

    def _time(self, name: str) -> pa.Array:
        values, there = self._field(name, _TIMES)
        if not there.any():
            return pa.nulls(len(there), TIMESTAMP)
        times_ms = self._heap.number(np.where(there, values.at, 0), 8, True)
        times_us = np.clip(times_ms, FIRST_MS, LAST_MS) * _US_A_MS
        return pa.array(times_us, mask=~there).view(TIMESTAMP)

    def _uint(self, name: str) -> pa.Array:
        values, there = self._field(name, _UINTS)
        return pa.array(integers_of(self._heap, values), mask=~there)

    def _typed_id(self, name: str) -> tuple[pa.Array, pa.Array]:
        """The texts and types of an id."""
        found = self._ids.get(name)
        if found is None:
            values, there = self._field(name, _IDS)
            text, bad = texts_of(self._heap, values)
            self.hard[bad] = True
            kinds = pc.if_else(pa.array(there), kinds_of(values.code), pa.scalar(None, pa.string()))
            found = self._ids[name] = text, kinds
        return found

    # --- maps

    @cached_property
    def _annotations(self) -> Entries:
        return entries(self._sections, d.MESSAGE_ANNOTATIONS)

    @cached_property
    def _annotation_keys(self) -> pa.Array:
        return self._keys(self._annotations, _SYMBOLS)

    def _keys(self, found: Entries, allowed: Mask) -> pa.Array:
        """The keys of maps; rows with other keys than those allowed, or one twice, become hard."""
        bad = ~allowed[found.keys.code]
        keys = strings_of(self._heap, found.keys, None, bad, allowed is _SYMBOLS)
        if allowed is _SYMBOLS:
            unique = keys.dictionary_encode()
            is_typed = [key.startswith(_TYPED_KEYS) for key in unique.dictionary.to_pylist()]
            bad |= np.array(is_typed, np.bool_)[unique.indices.to_numpy(zero_copy_only=False)]
        if bad.any():
            self.hard[found.rows[bad]] = True
        if len(keys) > 1:
            numbers = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            sorted_keys = np.sort(found.rows << 32 | numbers)
            again = sorted_keys[1:] == sorted_keys[:-1]
            if again.any():
                self.hard[sorted_keys[1:][again] >> 32] = True
        return keys

    @cached_property
    def _annotation_texts(self) -> pa.Array:
        return self._texts(self._annotations)

    def _texts(self, found: Entries) -> pa.Array:
        """The texts of the values of maps; rows with one that can't be read become hard."""
        texts, bad = texts_of(self._heap, found.values)
        if bad.any():
            self.hard[found.rows[bad]] = True
        return texts

    def _application_properties(self, name: str) -> pa.Array:
        found = entries(self._sections, d.APPLICATION_PROPERTIES)
        keys = self._keys(found, _STRINGS)
        return self._map(found, keys, self._texts(found), d.APPLICATION_PROPERTIES)

    def _map(self, found: Entries, keys: pa.Array, texts: pa.Array, section: int) -> pa.Array:
        items = pa.StructArray.from_arrays([kinds_of(found.values.code), texts], fields=list(TYPED))
        there = self._sections.has(section)
        mask = None if there.all() else np.append(~there, False)
        ends = pa.array(found.ends.astype(np.int32), mask=mask)
        return pa.MapArray.from_arrays(ends, keys, items).cast(TYPED_MAP)

    # --- body

    @cached_property
    def _body(self) -> tuple[Array, Values, Array]:
        """By row: the number of its type, the value of its section, where the section begins."""
        sections, count = self._sections, len(self.hard)
        kind = np.full(count, _NONE, np.uint8)
        value, start = Values.nulls(count), np.zeros(count, np.int64)
        for section, kinds in _BODY_SECTIONS:
            there = sections.has(section)
            if not there.any():
                continue
            own = sections.value(section)
            kind = np.where(there, kinds[own.code], kind)
            if there.all():
                value, start = own, sections.start[section - d.HEADER]
            else:
                value.set(there, own.where(there))
                start[there] = sections.start[section - d.HEADER][there]
        self.hard[kind == _WRONG] = True
        kind[kind == _WRONG] = _NONE
        return kind, value, start

    def _body_type(self, name: str) -> pa.Array:
        kind, _, _ = self._body
        self._body_values  # noqa: B018 - a body that can't be read makes its row hard
        return _BODY_TYPES.of(kind).plain()

    def _body_bytes(self, name: str) -> pa.Array:
        kind, value, start = self._body
        self._body_values  # noqa: B018
        whole = (kind == _VALUE) | (kind == _SEQUENCE)
        there = whole | (kind == _DATA) | (kind == _BINARY)
        at = np.where(whole, start, value.at)
        length = np.where(there, value.end - at, 0)
        return self._heap.strings(at, length, None if there.all() else there)

    def _text(self, name: str) -> pa.Array:
        kind, value, _ = self._body
        there = kind == _STRING
        own = Values(value.code, value.at, np.where(there, value.length, 0))
        text = self._strings(own, there)
        if not self._body_values:
            return text
        is_value = np.zeros(len(kind), np.bool_)
        is_value[list(self._body_values)] = True
        return pc.replace_with_mask(
            text, pa.array(is_value), pa.array([text for _, text in self._body_values.values()], pa.string())
        )

    @cached_property
    def _body_values(self) -> dict[int, tuple[bool, str]]:
        """By row of the bodies that are values or sequences, whether it is null, and its JSON."""
        kind, value, _ = self._body
        found: dict[int, tuple[bool, str]] = {}
        for row in np.flatnonzero(((kind == _VALUE) | (kind == _SEQUENCE)) & ~self.hard).tolist():
            try:
                read = value_at(self._heap, value, row)
                found[row] = read is None, plain_json(read)
            except DecodeError:
                self.hard[row] = True
        return found

    def _footer(self, name: str) -> pa.Array:
        value, there = self._sections.value(d.FOOTER), self._sections.has(d.FOOTER)
        start = np.where(there, self._sections.start[d.FOOTER - d.HEADER], 0)
        return self._heap.strings(start, np.where(there, value.end - start, 0), there)

    # --- JMS

    def _jms_type(self, name: str) -> pa.Array:
        kind, _, _ = self._body
        numbers = np.full(len(kind), len(JMS_TYPES), np.int64)
        for row, (is_null, _) in self._body_values.items():
            if kind[row] == _VALUE and is_null:
                numbers[row] = _TEXT
        numbers = np.where(numbers == len(JMS_TYPES), _JMS_OF_BODY[kind], numbers)
        content_types = self._string("content_type")
        by_content = np.flatnonzero((kind == _NONE) | (kind == _DATA))
        if len(by_content):
            if len(by_content) < len(kind):
                content_types = content_types.take(pa.array(by_content))
            numbers[by_content] = _by_content(content_types, kind[by_content] == _NONE)
        self._annotation_texts  # noqa: B018 - annotations that can't be read make their row hard
        annotated = self._annotated()
        numbers = np.where(annotated >= 0, annotated, numbers)
        return _JMS_NAMES.of(numbers).plain()

    def _annotated(self) -> Array:
        """The number of the JMS class that a message's annotation says, −1 where it says none."""
        found = self._annotations
        annotated = np.full(len(self.hard), -1, np.int64)
        own = np.flatnonzero(
            pc.equal(self._annotation_keys, str(MESSAGE_TYPE)).to_numpy(zero_copy_only=False)
        )
        values, rows = found.values.where(own), found.rows[own]
        numbers = integers_of(self._heap, values)
        known = _SHORT_NUMBERS[values.code] & (numbers >= 0) & (numbers < len(JMS_TYPES))
        annotated[rows[known]] = numbers[known]
        self.hard[rows[~known]] = True
        return annotated


def _by_content(types: pa.Array, is_absent: Mask) -> Array:
    """The numbers of the JMS classes of messages without a body, or with data, by their content types."""
    unique = types.dictionary_encode("encode")
    names = unique.dictionary.to_pylist()
    table = [[JMS_TYPES.index(type_of_content(name, absent)) for name in names] for absent in (False, True)]
    found: Array = np.array(table)[is_absent.astype(np.intp), unique.indices.to_numpy(zero_copy_only=False)]
    return found


_WRONG: Final = 255
"""Of a body section whose value has a type that it can't have."""


def _kinds(usual: int, *special: tuple[Mask, int]) -> Array:
    table = np.full(256, usual, np.uint8)
    for mask, kind in special:
        table[mask] = kind
    return table


_BODY_SECTIONS: Final = (
    (d.DATA, _kinds(_WRONG, (_BINARIES, _DATA))),
    (d.AMQP_SEQUENCE, _kinds(_WRONG, (LISTS, _SEQUENCE))),
    (d.AMQP_VALUE, _kinds(_VALUE, (_STRINGS, _STRING), (_BINARIES, _BINARY))),
)
_TEXT: Final = JMS_TYPES.index("text")
_JMS_OF_BODY: Final = np.array(
    [JMS_TYPES.index(name) for name in ("message", "bytes", "text", "bytes", "object", "object")]
)
"""By the number of the body's type; of those without a body or with data the content type tells."""

_COLUMNS: Final[dict[str, Callable[[Columnar, str], pa.Array]]] = {
    **dict.fromkeys(_FIELDS, Columnar._string),
    **dict.fromkeys(("message_id", "correlation_id"), lambda rows, name: rows._typed_id(name)[0]),
    "message_id_type": lambda rows, _: rows._typed_id("message_id")[1],
    "correlation_id_type": lambda rows, _: rows._typed_id("correlation_id")[1],
    "user_id": Columnar._bytes,
    "absolute_expiry_time": Columnar._time,
    "creation_time": Columnar._time,
    "group_sequence": Columnar._uint,
    "jms_type": Columnar._jms_type,
    "message_annotations": lambda rows, _: rows._map(
        rows._annotations, rows._annotation_keys, rows._annotation_texts, d.MESSAGE_ANNOTATIONS
    ),
    "application_properties": Columnar._application_properties,
    "body_type": Columnar._body_type,
    "body": Columnar._body_bytes,
    "text": Columnar._text,
    "footer": Columnar._footer,
}
