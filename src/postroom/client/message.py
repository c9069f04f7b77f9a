"""Messages as applications see them, and their way to and from the sections of AMQP (part 3, section 3.2)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Final

from postroom.amqp import sections
from postroom.amqp.errors import AmqpError
from postroom.amqp.types import Byte, Symbol
from postroom.client.exceptions import MessageFormatException

DEFAULT_PRIORITY: Final = 4
NO_DELIVERY: Final = -1
DESTINATION_TYPE: Final = "x-opt-jms-dest"
DESTINATION_IS_TOPIC: Final = 1
ID_PREFIX: Final = "ID:"
"""Message ids made here begin like those of JMS."""
DELIVERY_TIME: Final = "x-opt-delivery-time"
"""Message annotation (ms since 1970) of what is to be delivered later."""
MS_A_SECOND: Final = 1_000

MessageId = str | int | uuid.UUID | bytes
"""string, ulong, uuid, binary (part 3, section 3.2.11)."""


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
    time_to_deliver_ms: int | None = None
    """So long after it is sent it can be received, and not before; see `delivery_time_ms`."""
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
    def delivery_time_ms(self) -> int | None:
        """Since when it can be received, since 1970 (JMSDeliveryTime); None: since it was sent."""
        value = self.annotations.get(DELIVERY_TIME)
        return value if isinstance(value, int) else None

    @property
    def redelivered(self) -> bool:
        """Whether there were failed attempts before this one (JMSRedelivered)."""
        return self.delivery_count > 0


def as_message(given: Message | str | bytes) -> Message:
    """A str or bytes as the body of a message with default headers."""
    return given if isinstance(given, Message) else Message(given)


def encode_message(message: Message, destination: str | None, to_topic: bool = False) -> bytes:
    """The bytes of ``message`` for the wire; message id, time and expiration are made where they are missing.

    ``to_topic`` is told as JMS clients do: the name alone doesn't say what ``destination`` is.
    Raises MessageFormatException for a value that AMQP has no type for.
    """
    for name in ("ttl_ms", "time_to_deliver_ms"):
        value = getattr(message, name)
        if value is not None and value < 0:
            raise MessageFormatException(f"{name} of a message is {value}; it is 0 or more, or None")
    now_ms = int(time.time() * MS_A_SECOND)
    annotations = _symbolic(message.annotations)
    if message.time_to_deliver_ms:
        annotations[Symbol(DELIVERY_TIME)] = now_ms + message.time_to_deliver_ms
    if to_topic:
        annotations[Symbol(DESTINATION_TYPE)] = Byte(DESTINATION_IS_TOPIC)
    whole = sections.Message(
        header=sections.Header(durable=message.durable, priority=message.priority, ttl=message.ttl_ms),
        delivery_annotations=_symbolic(message.delivery_annotations),
        message_annotations=annotations,
        properties=_properties(message, destination, now_ms),
        application_properties=message.properties,
        body=_body(message),
        footer=_symbolic(message.footer),
    )
    try:
        return whole.encode()
    except AmqpError as error:
        raise MessageFormatException(
            f"the message can't be encoded: {error.description}", error.condition
        ) from None


def _symbolic(annotations: Mapping[str, object]) -> dict[object, object]:
    return {Symbol(name): value for name, value in annotations.items()}


def _properties(message: Message, destination: str | None, now_ms: int) -> sections.Properties:
    expiration_ms = message.expiration_ms
    if expiration_ms is None and message.ttl_ms is not None:
        expiration_ms = now_ms + message.ttl_ms
    return sections.Properties(
        message_id=message.message_id if message.message_id is not None else f"{ID_PREFIX}{uuid.uuid4()}",
        user_id=message.user_id,
        to=message.destination or destination,
        subject=message.subject,
        reply_to=message.reply_to,
        correlation_id=message.correlation_id,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        absolute_expiry_time=expiration_ms,
        creation_time=now_ms if message.timestamp_ms is None else message.timestamp_ms,
        group_id=message.group_id,
        group_sequence=message.group_sequence,
        reply_to_group_id=message.reply_to_group_id,
    )


def _body(message: Message) -> sections.Data | sections.Sequence | sections.Value:
    kind, body = message.body_kind, message.body
    if isinstance(body, bytes | bytearray | memoryview) and kind in (None, BodyKind.DATA):
        return sections.Data([bytes(body)])
    if kind is BodyKind.DATA:
        raise MessageFormatException(f"a data body is bytes, not {type(body).__name__}")
    if kind is not BodyKind.SEQUENCE:
        return sections.Value(body)
    if not isinstance(body, list):
        raise MessageFormatException(f"a sequence body is a list, not {type(body).__name__}")
    return sections.Sequence([body])


def decode_message(payload: bytes, delivery_id: int = NO_DELIVERY) -> Message:
    """The message that ``payload`` is; MessageFormatException when it is none."""
    try:
        whole = sections.decode_message(payload)
    except AmqpError as error:
        raise MessageFormatException(
            f"the message can't be decoded: {error.description}", error.condition
        ) from None
    header = whole.header or sections.Header()
    said = whole.properties or sections.Properties()
    kind, body = _kind_and_value(whole.body)
    return Message(
        body,
        properties=whole.application_properties,
        durable=header.durable,
        priority=header.priority,
        ttl_ms=header.ttl,
        delivery_count=header.delivery_count,
        first_acquirer=header.first_acquirer,
        message_id=said.message_id,
        correlation_id=said.correlation_id,
        destination=said.to,
        reply_to=said.reply_to,
        subject=said.subject,
        user_id=said.user_id,
        content_type=said.content_type,
        content_encoding=said.content_encoding,
        expiration_ms=said.absolute_expiry_time,
        timestamp_ms=said.creation_time,
        group_id=said.group_id,
        group_sequence=said.group_sequence,
        reply_to_group_id=said.reply_to_group_id,
        annotations=_named(whole.message_annotations),
        delivery_annotations=_named(whole.delivery_annotations),
        footer=_named(whole.footer),
        body_kind=kind,
        delivery_id=delivery_id,
    )


def _named(annotations: Mapping[object, object]) -> dict[str, object]:
    return {str(name): value for name, value in annotations.items()}


def _kind_and_value(
    body: sections.Data | sections.Sequence | sections.Value | None,
) -> tuple[BodyKind, object]:
    """Data sections are one run of bytes, sequence sections one list (part 3, sections 3.2.6 and 3.2.7)."""
    if isinstance(body, sections.Data):
        return BodyKind.DATA, body.joined()
    if isinstance(body, sections.Sequence):
        return BodyKind.SEQUENCE, [item for items in body.lists for item in items]
    return BodyKind.VALUE, body.value if body is not None else None
