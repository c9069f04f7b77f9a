"""One encoded message → the values of its row: every case, one message at a time.

`decode` takes the messages of usual encodings many at once and leaves the others to this; both give the same.
What isn't asked for isn't looked at, except for where it ends.
"""

import codecs
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.field_reader import Fields, read_descriptor, read_symbol_map
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import Byte, Int, PairMap, Short, UByte, UInt, ULong, UShort
from postroom.client.messages.jms_messages import JAVA_OBJECT
from postroom.client.messages.message import MESSAGE_TYPE, OCTET_STREAM, charset_of_text
from postroom.spark.messages.schema import PROPERTY_COLUMNS
from postroom.spark.messages.values import FIRST_MS, LAST_MS, key_text, plain_json, typed

Values = dict[str, Any]

_NUMBERS: Final = frozenset([UByte, Byte, UShort, Short, UInt, Int, ULong, int])

JMS_TYPES: Final = ("message", "object", "map", "bytes", "stream", "text")
"""By the number in the annotation x-opt-jms-msg-type."""

DATA: Final = "data"
STRING: Final = "string"
BINARY: Final = "binary"
VALUE: Final = "value"
SEQUENCE: Final = "sequence"
NONE: Final = "none"

BODY_COLUMNS: Final = frozenset(["body_type", "body", "text", "jms_type"])
_TEXT_COLUMNS: Final = frozenset(["body_type", "body", "text"])


def _entries(
    found: Mapping[Any, object], key: Callable[[Any], str]
) -> list[tuple[str, dict[str, str | None]]]:
    """A map as a column has it."""
    return [
        (key(name), dict(zip(("type", "value"), typed(value), strict=True))) for name, value in found.items()
    ]


def read_whole(data: bytes, columns: Collection[str]) -> Values:
    """The values of those of `columns` that the sections tell. Raises ``DecodeError``."""
    return _Message(data, columns).read()


class _Message:
    def __init__(self, data: bytes, columns: Collection[str]) -> None:
        self.values: Values = dict.fromkeys(columns)
        self._reader = Reader(data, 0, len(data))
        self._reader.context = "message"
        self._data = data
        self._columns = frozenset(columns)
        self._annotated: object = None
        self._content_type: str | None = None
        self._body = _Body()

    def read(self) -> Values:
        r, previous = self._reader, 0
        while r.pos < r.end:
            start = r.pos
            code = int(read_descriptor(r))
            if code < d.HEADER or code > d.FOOTER or code < previous:
                raise r.fail(f"section 0x{code:x} is unknown or out of order")
            if code == previous and code not in (d.DATA, d.AMQP_SEQUENCE):
                raise r.fail(f"section 0x{code:x} is there twice")
            previous = code
            self._section(code, start)
        self._set_body()
        return self.values

    def _section(self, code: int, start: int) -> None:
        if code == d.MESSAGE_ANNOTATIONS:
            self._annotations()
        elif code == d.PROPERTIES:
            self._properties()
        elif code == d.APPLICATION_PROPERTIES:
            self._application()
        elif d.DATA <= code <= d.AMQP_VALUE:
            self._body_section(code, start)
        else:
            self._reader.skip()
            if code == d.FOOTER and "footer" in self._columns:
                self.values["footer"] = self._data[start : self._reader.pos]

    # --- maps

    def _annotations(self) -> None:
        if not self._columns & {"message_annotations", "jms_type"}:
            self._reader.skip()
            return
        annotations = read_symbol_map(self._reader, "message-annotations")
        self._annotated = annotations.get(MESSAGE_TYPE)
        if "message_annotations" in self._columns:
            self.values["message_annotations"] = _entries(annotations, key_text)

    def _application(self) -> None:
        r = self._reader
        if "application_properties" not in self._columns:
            r.skip()
            return
        properties = r.value()
        if isinstance(properties, PairMap) or not isinstance(properties, dict):
            raise r.fail("application-properties: a map with strings as keys expected")
        if any(type(key) is not str for key in properties):
            raise r.fail("application-properties: a key that is not a string")
        self.values["application_properties"] = _entries(properties, str)

    # --- properties

    def _properties(self) -> None:
        if not self._columns & _NEED_PROPERTIES:
            self._reader.skip()
            return
        f = Fields(self._reader, "properties")
        for name, read in _FIELDS:
            if self._columns & _WANTED_BY[name]:
                self.values.update(read(f, name))
            else:
                f.skip(1)
        f.close()
        self._content_type = self.values.get("content_type")
        for name in set(self.values) - self._columns:
            del self.values[name]

    # --- body

    def _body_section(self, code: int, start: int) -> None:
        if not self._columns & BODY_COLUMNS:
            self._reader.skip()
            return
        r = self._reader
        is_string = code == d.AMQP_VALUE and r.pos < r.end and r.data[r.pos] in (c.STRING_8, c.STRING_32)
        if is_string and "text" not in self._columns:
            r.skip()
            self._body.add(r, code, "", start)
            return
        self._body.add(r, code, r.value(), start)

    def _set_body(self) -> None:
        body, columns = self._body, self._columns
        if columns & _TEXT_COLUMNS:
            texts = body.columns(self._data)
            self.values.update({name: texts[name] for name in columns & _TEXT_COLUMNS})
        if "jms_type" in columns:
            kind, value = body.kind, body.value
            self.values["jms_type"] = jms_type(self._annotated, kind, value is None, self._content_type)


class _Body:
    def __init__(self) -> None:
        self.kind = NONE
        self.value: Any = None
        self.start = self.end = 0

    def add(self, r: Reader, code: int, value: object, start: int) -> None:
        """One more body section."""
        if code == d.AMQP_VALUE and self.kind == NONE:
            self.kind = STRING if type(value) is str else BINARY if type(value) is bytes else VALUE
            self.value = value
        elif code == d.DATA and type(value) is bytes and self.kind in (NONE, DATA):
            self.kind, self.value = DATA, (self.value or b"") + value
        elif code == d.AMQP_SEQUENCE and isinstance(value, list) and self.kind in (NONE, SEQUENCE):
            self.kind, self.value = SEQUENCE, (self.value or []) + value
        else:
            raise r.fail(
                "a body section whose value has the wrong type, or of another kind than the one before"
            )
        self.start = self.start if self.end else start
        self.end = r.pos

    def columns(self, data: bytes) -> Values:
        """Its columns."""
        if self.kind == NONE:
            return {"body_type": NONE, "body": None, "text": None}
        if self.kind == STRING:
            return {"body_type": STRING, "body": None, "text": self.value}
        if self.kind in (DATA, BINARY):
            return {"body_type": self.kind, "body": self.value, "text": None}
        raw, text = data[self.start : self.end], plain_json(self.value)
        return {"body_type": self.kind, "body": raw, "text": text}


# --- fields of the properties -----------------------------------------------------------------------


def _id(f: Fields, name: str) -> Values:
    value = f.value(name.replace("_", "-"))
    if value is not None and type(value) not in (str, bytes, UUID, ULong):
        raise f.reader.fail(f"{name.replace('_', '-')}: string, binary, uuid or ulong expected")
    kind, text = (None, None) if value is None else typed(value)
    return {name: text, f"{name}_type": kind}


def _timestamp(f: Fields, name: str) -> Values:
    time_ms = f.optional_timestamp(name.replace("_", "-"))
    return {name: None if time_ms is None else clamped(int(time_ms)) * 1000}


def clamped(time_ms: int) -> int:
    """The nearest time that Spark's timestamps show: many say "never" by a time beyond."""
    return max(FIRST_MS, min(LAST_MS, time_ms))


def _field(kind: str) -> Callable[[Fields, str], Values]:
    return lambda f, name: {name: getattr(f, f"optional_{kind}")(name.replace("_", "-"))}


_READ: Final[dict[str, Callable[[Fields, str], Values]]] = {
    "message_id": _id,
    "user_id": _field("binary"),
    "correlation_id": _id,
    "content_type": _field("symbol"),
    "content_encoding": _field("symbol"),
    "absolute_expiry_time": _timestamp,
    "creation_time": _timestamp,
    "group_sequence": _field("uint"),
}
_FIELDS: Final = tuple(
    (name, _READ.get(name, _field("string"))) for name in PROPERTY_COLUMNS if not name.endswith("_id_type")
)
"""The fields of the properties section in their order."""
_WANTED_BY: Final = {
    name: frozenset([name, f"{name}_type", "jms_type"] if name == "content_type" else [name, f"{name}_type"])
    for name, _ in _FIELDS
}
"""Which columns need a field."""
_NEED_PROPERTIES: Final = frozenset([*PROPERTY_COLUMNS, "jms_type"])


# --- JMS --------------------------------------------------------------------------------------------


def jms_type(annotated: Any, kind: str, is_null: bool, content_type: str | None) -> str:
    """Which JMS class a message is: what its annotation says, else as Qpid JMS tells it by the body."""
    if type(annotated) in _NUMBERS and 0 <= annotated < len(JMS_TYPES):
        return JMS_TYPES[annotated]
    if kind in (NONE, DATA):
        return type_of_content(content_type, kind == NONE)
    if kind == STRING or (kind == VALUE and is_null):
        return "text"
    return "bytes" if kind == BINARY else "object"


@lru_cache(maxsize=1024)
def type_of_content(content_type: str | None, is_absent: bool) -> str:
    """Which JMS class a message is that has data, or no body, and says nothing of JMS."""
    if content_type == JAVA_OBJECT:
        return "object"
    if content_type in (None, OCTET_STREAM):
        return "bytes"
    if _is_text(str(content_type)):
        return "text"
    return "message" if is_absent else "bytes"


def _is_text(content_type: str) -> bool:
    charset = charset_of_text(content_type)
    try:
        return charset is not None and codecs.lookup(charset) is not None
    except (LookupError, ValueError):
        return False
