"""A message as its sections (part 3, section 3.2): what clients, the management node and tests build and
read.

The broker's hot path doesn't come here: it keeps messages as bytes
(:mod:`postroom.amqp.message.message_head`).
"""

from dataclasses import dataclass, field
from typing import final
from uuid import UUID

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Composite
from postroom.amqp.encoding.field_reader import Fields, read_descriptor, read_symbol_map
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.scalar_writer import write_binary, write_string
from postroom.amqp.encoding.types import MAX_UBYTE, Array, PairMap, ULong
from postroom.amqp.encoding.writer import write_container, write_symbol_map, write_value
from postroom.amqp.errors import EncodeError
from postroom.model.message import DEFAULT_PRIORITY


@final
@dataclass(kw_only=True)
class Header(Composite):
    """How the message is to be handled on this hop (section 3.2.1). ``ttl`` in milliseconds."""

    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.boolean(self.durable, False)
        f.ubyte(self.priority, DEFAULT_PRIORITY)
        f.uint(self.ttl)
        f.boolean(self.first_acquirer, False)
        f.uint(self.delivery_count, 0)
        f.finish(w, d.HEADER)


@final
@dataclass(kw_only=True)
class Properties(Composite):
    """What the sender says about the message, never changed (section 3.2.4). Times in milliseconds since
    1970.

    An id is a str, bytes, UUID, or an int, which is a ulong.
    """

    message_id: str | bytes | UUID | int | None = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: str | bytes | UUID | int | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.value(_id_value(self.message_id))
        f.binary(self.user_id)
        f.string(self.to)
        f.string(self.subject)
        f.string(self.reply_to)
        f.value(_id_value(self.correlation_id))
        f.symbol(self.content_type)
        f.symbol(self.content_encoding)
        f.timestamp(self.absolute_expiry_time)
        f.timestamp(self.creation_time)
        f.string(self.group_id)
        f.uint(self.group_sequence)
        f.string(self.reply_to_group_id)
        f.finish(w, d.PROPERTIES)


def _id_value(value: str | bytes | UUID | int | None) -> object:
    return ULong(value) if isinstance(value, int) else value


@final
@dataclass
class Data:
    """A body of bytes, in one or more sections (section 3.2.6)."""

    parts: list[bytes]

    def joined(self) -> bytes:
        """The bytes of all the sections."""
        return b"".join(self.parts)


@final
@dataclass
class Sequence:
    """A body of lists, in one or more sections (section 3.2.7)."""

    lists: list[list[object]]


@final
class Value:
    """A body of one AMQP value (section 3.2.8)."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Value({self.value!r})"


@final
@dataclass(kw_only=True)
class Message:
    """A whole message. Absent maps are empty; a section whose map is empty is not sent."""

    header: Header | None = None
    delivery_annotations: dict[object, object] = field(default_factory=dict)
    message_annotations: dict[object, object] = field(default_factory=dict)
    properties: Properties | None = None
    application_properties: dict[str, object] = field(default_factory=dict)
    body: Data | Sequence | Value | None = None
    footer: dict[object, object] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The bytes of all sections in their order; EncodeError for what has no encoding."""
        w = BytesWriter()
        if self.header is not None:
            self.header.write(w)
        _write_annotations(w, d.DELIVERY_ANNOTATIONS, self.delivery_annotations)
        _write_annotations(w, d.MESSAGE_ANNOTATIONS, self.message_annotations)
        if self.properties is not None:
            self.properties.write(w)
        _write_application_properties(w, self.application_properties)
        _write_body(w, self.body)
        _write_annotations(w, d.FOOTER, self.footer)
        return w.getvalue()


def decode_message(data: bytes) -> Message:
    """The message that ``data`` is; DecodeError if it is none."""
    r = Reader(data, 0, len(data))
    r.context = "message"
    message = Message()
    previous: i64 = 0
    while r.pos < r.end:
        code = read_descriptor(r)
        if code < d.HEADER or code > d.FOOTER or code < previous:
            raise r.fail(f"section 0x{int(code):x} is unknown or out of order")
        if code == previous and code != d.DATA and code != d.AMQP_SEQUENCE:
            raise r.fail(f"section 0x{int(code):x} is there twice")
        previous = code
        _read_section(r, message, code)
    return message


# --- writing


def _write_section(w: BytesWriter, code: int) -> None:
    w.append(c.DESCRIBED)
    w.append(c.ULONG_8)
    w.append(code)


def _write_annotations(w: BytesWriter, code: int, annotations: dict[object, object]) -> None:
    if annotations:
        _write_section(w, code)
        write_symbol_map(w, annotations)


def _write_application_properties(w: BytesWriter, properties: dict[str, object]) -> None:
    if not properties:
        return
    _write_section(w, d.APPLICATION_PROPERTIES)
    content = BytesWriter()
    for key, value in properties.items():
        if isinstance(value, list | tuple | dict | PairMap | Array):
            raise EncodeError(
                f"application property {key[:80]!r}: only simple values are allowed (section 3.2.5)"
            )
        write_string(content, key)
        write_value(content, value)
    write_container(w, c.MAP_8, 2 * len(properties), content.getvalue())


def _write_body(w: BytesWriter, body: Data | Sequence | Value | None) -> None:
    if isinstance(body, Data):
        for part in body.parts:
            _write_section(w, d.DATA)
            write_binary(w, part)
    elif isinstance(body, Sequence):
        for items in body.lists:
            _write_section(w, d.AMQP_SEQUENCE)
            write_value(w, items)
    elif isinstance(body, Value):
        _write_section(w, d.AMQP_VALUE)
        write_value(w, body.value)


# --- reading


def _read_section(r: Reader, message: Message, code: i64) -> None:
    if code == d.HEADER:
        message.header = _read_header(r)
    elif code == d.DELIVERY_ANNOTATIONS:
        message.delivery_annotations = read_symbol_map(r, "delivery-annotations")
    elif code == d.MESSAGE_ANNOTATIONS:
        message.message_annotations = read_symbol_map(r, "message-annotations")
    elif code == d.PROPERTIES:
        message.properties = _read_properties(r)
    elif code == d.APPLICATION_PROPERTIES:
        message.application_properties = _read_application_properties(r)
    elif code == d.FOOTER:
        message.footer = read_symbol_map(r, "footer")
    else:
        _read_body_section(r, message, code)


def _read_header(r: Reader) -> Header:
    f = Fields(r, "header")
    header = Header(
        durable=f.boolean_or("durable", False),
        priority=f.ubyte_or("priority", MAX_UBYTE, DEFAULT_PRIORITY),
        ttl=f.optional_uint("ttl"),
        first_acquirer=f.boolean_or("first-acquirer", False),
        delivery_count=f.uint_or("delivery-count", 0),
    )
    f.close()
    return header


def _read_properties(r: Reader) -> Properties:
    f = Fields(r, "properties")
    properties = Properties(
        message_id=_read_id(f, "message-id"),
        user_id=f.optional_binary("user-id"),
        to=f.optional_string("to"),
        subject=f.optional_string("subject"),
        reply_to=f.optional_string("reply-to"),
        correlation_id=_read_id(f, "correlation-id"),
        content_type=f.optional_symbol("content-type"),
        content_encoding=f.optional_symbol("content-encoding"),
        absolute_expiry_time=f.optional_timestamp("absolute-expiry-time"),
        creation_time=f.optional_timestamp("creation-time"),
        group_id=f.optional_string("group-id"),
        group_sequence=f.optional_uint("group-sequence"),
        reply_to_group_id=f.optional_string("reply-to-group-id"),
    )
    f.close()
    return properties


def _read_id(f: Fields, field_name: str) -> str | bytes | UUID | int | None:
    value = f.value(field_name)
    if type(value) is str:
        return value
    if type(value) is bytes:
        return value
    if value is None or isinstance(value, UUID):
        return value
    if isinstance(value, ULong):
        return int(value)
    raise f.reader.fail(f"{field_name}: string, binary, uuid or ulong expected")


def _read_application_properties(r: Reader) -> dict[str, object]:
    value = r.value()
    properties: dict[str, object] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise r.fail("application-properties: a key that is not a string")
            properties[key] = item
        return properties
    raise r.fail("application-properties: a map with strings as keys expected")


def _read_body_section(r: Reader, message: Message, code: i64) -> None:
    value = r.value()
    body = message.body
    if code == d.AMQP_VALUE and body is None:
        message.body = Value(value)
    elif code == d.DATA and type(value) is bytes and body is None:
        message.body = Data([value])
    elif code == d.DATA and type(value) is bytes and isinstance(body, Data):
        body.parts.append(value)
    elif code == d.AMQP_SEQUENCE and isinstance(value, list) and body is None:
        message.body = Sequence([value])
    elif code == d.AMQP_SEQUENCE and isinstance(value, list) and isinstance(body, Sequence):
        body.lists.append(value)
    else:
        raise r.fail("a body section with a value of the wrong type, or of another kind than the one before")
