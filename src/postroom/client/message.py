"""Messages as applications see them, and their way to and from the sections of AMQP (part 3, section 3.2)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Final

from postroom.amqp.codec import decode, encode
from postroom.amqp.errors import AmqpError
from postroom.amqp.types import Described, Symbol, Timestamp, UByte, UInt, ULong
from postroom.client.exceptions import MessageFormatException

DEFAULT_PRIORITY: Final = 4
NO_DELIVERY: Final = -1
ID_PREFIX: Final = "ID:"
"""Message ids made here begin like those of JMS."""
MS_A_SECOND: Final = 1_000

MessageId = str | int | uuid.UUID | bytes
"""string, ulong, uuid, binary (part 3, section 3.2.11)."""


# Descriptors of the sections (part 3, section 3.2).
HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78
SYMBOLS: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}


class BodyKind(Enum):
    """Which section a body is in."""

    DATA = "data"
    """Bytes: what JMS calls a BytesMessage."""
    VALUE = "value"
    """One AMQP value: text, a number, a list, a map, or nothing."""
    SEQUENCE = "sequence"
    """A list of values in a section of its own kind."""


@dataclass
class Message:
    """A message; every argument but the body goes by name.

    Values of the body, the properties and the annotations are those of :mod:`postroom.amqp.types`: plain
    Python where it says all, classes such as ``Int`` or ``Symbol`` where the AMQP type matters.
    """

    body: object = None
    _: KW_ONLY
    properties: dict[str, object] = field(default_factory=dict)
    """Application properties: simple values by name."""

    durable: bool = True
    """Persistent in the words of JMS: survives a restart of the broker."""
    priority: int = DEFAULT_PRIORITY
    """0 to 9, 9 first."""
    ttl_ms: int | None = None
    """Time to live; None: for ever."""
    delivery_count: int = 0
    """Failed attempts before this one; set by the broker."""
    first_acquirer: bool = False

    message_id: MessageId | None = None
    """Made by the producer where it is None."""
    correlation_id: MessageId | None = None
    destination: str | None = None
    """The queue it is sent to (property ``to``)."""
    reply_to: str | None = None
    subject: str | None = None
    """JMSType."""
    user_id: bytes | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    expiration_ms: int | None = None
    """Absolute, since 1970; made by the producer from ``ttl_ms``."""
    timestamp_ms: int | None = None
    """When it was sent, since 1970; made by the producer where it is None."""
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None

    annotations: dict[str, object] = field(default_factory=dict)
    """Message annotations, by symbol."""
    delivery_annotations: dict[str, object] = field(default_factory=dict)
    footer: dict[str, object] = field(default_factory=dict)

    body_kind: BodyKind | None = None
    """None: DATA for bytes, else VALUE."""
    delivery_id: int = NO_DELIVERY
    """Which delivery it came in; NO_DELIVERY for a message made here."""

    @property
    def redelivered(self) -> bool:
        """Whether there were failed attempts before this one (JMSRedelivered)."""
        return self.delivery_count > 0


def as_message(given: Message | str | bytes) -> Message:
    """A str or bytes as the body of a message with default headers."""
    return given if isinstance(given, Message) else Message(given)


# --- encode


def encode_message(message: Message, destination: str | None) -> bytes:
    """The bytes of ``message`` for the wire; message id, time and expiration are made where they are missing.

    Raises MessageFormatException for a value that AMQP has no type for.
    """
    now_ms = int(time.time() * MS_A_SECOND)
    sections = [(HEADER, _header(message)), *_maps(message)]
    sections.append((PROPERTIES, _properties(message, destination, now_ms)))
    if message.properties:
        sections.append((APPLICATION_PROPERTIES, message.properties))
    sections.append(_body(message))
    if message.footer:
        sections.append((FOOTER, _symbolic(message.footer)))
    try:
        return b"".join(encode(Described(ULong(code), value)) for code, value in sections)
    except AmqpError as error:
        raise MessageFormatException(
            f"the message can't be encoded: {error.description}", error.condition
        ) from None


def _maps(message: Message) -> list[tuple[int, object]]:
    """The annotations that are not empty, in the order of the specification."""
    named = ((DELIVERY_ANNOTATIONS, message.delivery_annotations), (MESSAGE_ANNOTATIONS, message.annotations))
    return [(code, _symbolic(annotations)) for code, annotations in named if annotations]


def _symbolic(annotations: Mapping[str, object]) -> dict[object, object]:
    return {Symbol(name): value for name, value in annotations.items()}


def _header(message: Message) -> list[object]:
    ttl = None if message.ttl_ms is None else UInt(message.ttl_ms)
    return _trimmed([message.durable, UByte(message.priority), ttl])


def _properties(message: Message, destination: str | None, now_ms: int) -> list[object]:
    expiration_ms = message.expiration_ms
    if expiration_ms is None and message.ttl_ms is not None:
        expiration_ms = now_ms + message.ttl_ms
    fields: list[object] = [
        _id_value(message.message_id if message.message_id is not None else f"{ID_PREFIX}{uuid.uuid4()}"),
        message.user_id,
        message.destination or destination,
        message.subject,
        message.reply_to,
        _id_value(message.correlation_id),
        None if message.content_type is None else Symbol(message.content_type),
        None if message.content_encoding is None else Symbol(message.content_encoding),
        None if expiration_ms is None else Timestamp(expiration_ms),
        Timestamp(now_ms if message.timestamp_ms is None else message.timestamp_ms),
        message.group_id,
        None if message.group_sequence is None else UInt(message.group_sequence),
        message.reply_to_group_id,
    ]
    return _trimmed(fields)


def _id_value(given: MessageId | None) -> object:
    return ULong(given) if isinstance(given, int) else given


def _trimmed(fields: list[object]) -> list[object]:
    """Absent fields at the end of a composite are left out."""
    while fields and fields[-1] is None:
        fields.pop()
    return fields


def _body(message: Message) -> tuple[int, object]:
    kind = message.body_kind
    if kind is BodyKind.DATA or (kind is None and isinstance(message.body, bytes | bytearray | memoryview)):
        if not isinstance(message.body, bytes | bytearray | memoryview):
            raise MessageFormatException(f"a data body is bytes, not {type(message.body).__name__}")
        return DATA, bytes(message.body)
    if kind is BodyKind.SEQUENCE and not isinstance(message.body, list):
        raise MessageFormatException(f"a sequence body is a list, not {type(message.body).__name__}")
    return (SEQUENCE if kind is BodyKind.SEQUENCE else VALUE), message.body


# --- decode


def decode_message(payload: bytes, delivery_id: int = NO_DELIVERY) -> Message:
    """The message that ``payload`` is; MessageFormatException when it is none."""
    message = Message(durable=False, delivery_id=delivery_id)
    parts: list[object] = []
    position = 0
    try:
        while position < len(payload):
            section, position = decode(payload, position)
            if not isinstance(section, Described):
                raise MessageFormatException("a section of the message has no descriptor")
            _take_section(message, _section_code(section.descriptor), section.value, parts)
    except AmqpError as error:
        raise MessageFormatException(
            f"the message can't be decoded: {error.description}", error.condition
        ) from None
    _join_body(message, parts)
    return message


def _section_code(descriptor: object) -> int:
    code = SYMBOLS.get(descriptor) if isinstance(descriptor, str) else descriptor
    if not isinstance(code, int) or not HEADER <= code <= FOOTER:
        raise MessageFormatException(f"no section of a message has the descriptor {descriptor!r}")
    return int(code)


def _take_section(message: Message, code: int, value: object, parts: list[object]) -> None:
    if code == HEADER:
        _take_header(message, _fields(value))
    elif code == PROPERTIES:
        _take_properties(message, _fields(value))
    elif code in _MAP_ATTRIBUTES:
        setattr(message, _MAP_ATTRIBUTES[code], _named(value))
    else:
        message.body_kind = _BODY_KINDS[code]
        parts.append(value)


_MAP_ATTRIBUTES: Final = {
    DELIVERY_ANNOTATIONS: "delivery_annotations",
    MESSAGE_ANNOTATIONS: "annotations",
    APPLICATION_PROPERTIES: "properties",
    FOOTER: "footer",
}
_BODY_KINDS: Final = {DATA: BodyKind.DATA, SEQUENCE: BodyKind.SEQUENCE, VALUE: BodyKind.VALUE}
_PROPERTY_ATTRIBUTES: Final = (
    "message_id",
    "user_id",
    "destination",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "expiration_ms",
    "timestamp_ms",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
_HEADER_ATTRIBUTES: Final = ("durable", "priority", "ttl_ms", "first_acquirer", "delivery_count")


def _fields(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MessageFormatException("header and properties of a message are lists")
    return value


def _named(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MessageFormatException("annotations and properties of a message are maps")
    return {str(name): item for name, item in value.items()}


def _take_header(message: Message, fields: list[object]) -> None:
    for name, value in zip(_HEADER_ATTRIBUTES, fields, strict=False):
        if value is not None:
            setattr(message, name, _plain(value))


def _take_properties(message: Message, fields: list[object]) -> None:
    for name, value in zip(_PROPERTY_ATTRIBUTES, fields, strict=False):
        setattr(message, name, _plain(value))


def _plain(value: object) -> object:
    """Fields have types of their own, so plain numbers and strings say all."""
    if isinstance(value, bool | uuid.UUID) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    return str(value) if isinstance(value, str) else value


def _join_body(message: Message, parts: list[object]) -> None:
    """Data sections are one run of bytes, sequence sections one list (part 3, sections 3.2.6 and 3.2.7)."""
    if message.body_kind is BodyKind.DATA:
        message.body = b"".join(part for part in parts if isinstance(part, bytes))
    elif message.body_kind is BodyKind.SEQUENCE:
        message.body = [item for part in parts if isinstance(part, list) for item in part]
    elif parts:
        message.body = parts[-1]
