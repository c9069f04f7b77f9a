"""Messages, and their way to and from the sections of AMQP (part 3, section 3.2).

JMS's kinds of messages and destinations are told as Qpid JMS tells them: ``x-opt-jms-msg-type``,
``x-opt-jms-dest`` and ``x-opt-jms-reply-to`` in the message annotations. Where a sender knows nothing of JMS,
content type and body section decide, as in Qpid JMS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.amqp.encoding.types import Byte, Symbol
from postroom.amqp.errors import AmqpError
from postroom.amqp.extensions import DESTINATION_TYPE
from postroom.amqp.message import sections
from postroom.client.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic, address_of
from postroom.client.exceptions import MessageFormatException
from postroom.client.messages.base_message import (
    DEFAULT_PRIORITY,
    NO_DELIVERY,
    BodyKind,
    DeliveryMode,
    Message,
)
from postroom.client.messages.jms_messages import JAVA_OBJECT, MapMessage, ObjectMessage, TextMessage
from postroom.client.messages.message_ids import ID_PREFIX, MessageId
from postroom.client.messages.send_headers import NO_OPTIONS, SendOptions, stamp, stamp_received
from postroom.client.messages.stream_messages import BytesMessage, StreamMessage

__all__ = [
    "DEFAULT_PRIORITY",
    "ID_PREFIX",
    "NO_DELIVERY",
    "Body",
    "BodyKind",
    "BytesMessage",
    "DeliveryMode",
    "MapMessage",
    "Message",
    "MessageId",
    "ObjectMessage",
    "StreamMessage",
    "TextMessage",
    "as_message",
    "decode_message",
    "encode_message",
]

MESSAGE_TYPE: Final = Symbol("x-opt-jms-msg-type")
REPLY_TO_TYPE: Final = Symbol("x-opt-jms-reply-to")
OCTET_STREAM: Final = "application/octet-stream"
TEXT_TYPES: Final = frozenset(
    ["application/json", "application/xml", "application/javascript", "application/ecmascript"]
)
"""Content types of text beside text/*, */*+xml and */*+json."""
DEFAULT_CHARSET: Final = "utf-8"

_TYPES: Final[dict[int, type[Message]]] = {
    0: Message,
    1: ObjectMessage,
    2: MapMessage,
    3: BytesMessage,
    4: StreamMessage,
    5: TextMessage,
}
_NUMBERS: Final = {kind: number for number, kind in _TYPES.items()}
_DESTINATIONS: Final[dict[int, type[Queue] | type[Topic]]] = {
    0: Queue,
    1: Topic,
    2: TemporaryQueue,
    3: TemporaryTopic,
}
_DESTINATION_NUMBERS: Final = {kind: number for number, kind in _DESTINATIONS.items()}


Body = Message | str | bytes | bytearray | memoryview | Mapping[str, object]
"""What a producer sends: a message, or the body of one."""


def as_message(given: Body) -> Message:
    """A str as a TextMessage, bytes as a BytesMessage, a dict of what a MapMessage may hold as that, with
    default headers. Raises MessageFormatException, which says what to do, for anything else.
    """
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return TextMessage(given)
    if isinstance(given, bytes | bytearray | memoryview):
        return BytesMessage(bytes(given))
    if isinstance(given, Mapping):
        return _map_message(given)
    raise MessageFormatException(_not_a_body(given))


def _map_message(given: Mapping[str, object]) -> MapMessage:
    message = MapMessage()
    try:
        for name, value in given.items():
            message.set_object(name, value)
        return message
    except (MessageFormatException, ValueError) as failure:
        raise MessageFormatException(
            f"the dict is no body of a MapMessage: {failure}; as JSON it is"
            ' TextMessage(json.dumps(…), content_type="application/json")'
        ) from None


def _not_a_body(given: object) -> str:
    if given is None:
        return "None is no message; an empty one is Message()"
    if isinstance(given, Queue | Topic):
        return f"{given} is no message; the destination goes by name: send(message, destination=…)"
    return (
        f"an object of type {type(given).__name__} is no message: serialise it yourself"
        ' (TextMessage(json.dumps(…), content_type="application/json"), or bytes),'
        " or send Message(…), whose body is any value that AMQP has a type for"
    )


# --- to the wire


def encode_message(
    message: Message,
    destination: Destination | None = None,
    options: SendOptions = NO_OPTIONS,
    defaults: SendOptions = NO_OPTIONS,
) -> bytes:
    """The bytes of ``message`` for the wire.

    Sets on the message what JMS lets a producer set: :mod:`postroom.client.messages.send_headers` says what,
    and how ``options`` of the call and ``defaults`` of the producer count. Raises MessageFormatException for
    a value that AMQP has no type for.
    """
    ttl_ms = stamp(message, options, defaults)
    for name in message.properties:
        if not isinstance(name, str):
            raise MessageFormatException(f"the name of a property is a str, not {type(name).__name__}")
    message.before_send()
    if destination is not None:
        message.destination = destination
    whole = sections.Message(
        header=sections.Header(durable=message.durable, priority=message.priority, ttl=ttl_ms),
        delivery_annotations=_symbolic(message.delivery_annotations),
        message_annotations=_annotations(message),
        properties=_properties(message),
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


def _annotations(message: Message) -> dict[object, object]:
    found = _symbolic(message.annotations)
    of_jms = type(message) is not Message
    if of_jms or (message.body is None and message.body_kind is None):
        found[MESSAGE_TYPE] = Byte(_NUMBERS.get(type(message), 0))
    _set_kind(found, DESTINATION_TYPE, message.destination, of_jms)
    _set_kind(found, REPLY_TO_TYPE, message.reply_to, of_jms or isinstance(message.destination, Topic))
    return found


def _set_kind(found: dict[object, object], name: Symbol, where: Destination | None, queues: bool) -> None:
    """What ``where`` is, which its name alone doesn't say; of queues (``queues``) JMS messages say it,
    too.
    """
    found.pop(name, None)
    if where is None:
        return
    number = _number_of(where)
    if number or queues:
        found[name] = Byte(number)


def _number_of(where: object) -> int:
    if isinstance(where, str):
        return 0
    for kind in (TemporaryTopic, Topic, TemporaryQueue, Queue):
        if isinstance(where, kind):
            return _DESTINATION_NUMBERS[kind]
    raise MessageFormatException(f"a destination is a str, a Queue or a Topic, not {type(where).__name__}")


def _symbolic(annotations: Mapping[str, object]) -> dict[object, object]:
    if not annotations:
        return {}
    return {Symbol(name): value for name, value in annotations.items()}


def _properties(message: Message) -> sections.Properties:
    content_type = message.content_type
    if isinstance(message, BytesMessage) and content_type is None:
        content_type = OCTET_STREAM
    return sections.Properties(
        message_id=message.message_id,
        user_id=message.user_id,
        to=_address(message.destination),
        subject=message.subject,
        reply_to=_address(message.reply_to),
        correlation_id=message.correlation_id,
        content_type=content_type,
        content_encoding=message.content_encoding,
        absolute_expiry_time=message.expiration_ms,
        creation_time=message.timestamp_ms,
        group_id=message.group_id,
        group_sequence=message.group_sequence,
        reply_to_group_id=message.reply_to_group_id,
    )


def _address(where: Destination | None) -> str | None:
    return None if where is None else address_of(where)


def _body(message: Message) -> sections.Data | sections.Sequence | sections.Value:
    kind, body = message.body_kind, message.body
    if isinstance(message, StreamMessage):
        return sections.Sequence([message.items()])
    if isinstance(message, TextMessage | MapMessage):
        return sections.Value(body)
    if isinstance(body, bytes | bytearray | memoryview) and kind in (None, BodyKind.DATA):
        return sections.Data([bytes(body)])
    if kind is BodyKind.DATA:
        raise MessageFormatException(f"a data body is bytes, not {type(body).__name__}")
    if kind is not BodyKind.SEQUENCE:
        return sections.Value(body)
    if not isinstance(body, list):
        raise MessageFormatException(f"a sequence body is a list, not {type(body).__name__}")
    return sections.Sequence([body])


# --- from the wire


def decode_message(
    payload: bytes, delivery_id: int = NO_DELIVERY, source: Destination | None = None
) -> Message:
    """The message that ``payload`` is, of the class that fits it, read-only; MessageFormatException when it
    is none.

    ``source``: where it was consumed from; it tells of what kind a destination is whose sender says nothing.
    """
    try:
        whole = sections.decode_message(payload)
    except AmqpError as error:
        raise MessageFormatException(
            f"the message can't be decoded: {error.description}", error.condition
        ) from None
    header = whole.header or sections.Header()
    properties = whole.properties or sections.Properties()
    annotations = _named(whole.message_annotations)
    content_type = str(properties.content_type) if properties.content_type is not None else None
    body_kind, content = _kind_and_value(whole.body)
    cls, body = _class_and_body(whole.body is None, body_kind, content, content_type, annotations)
    message = cls(
        body,
        durable=header.durable,
        priority=header.priority,
        ttl_ms=header.ttl,
        delivery_count=header.delivery_count,
        first_acquirer=header.first_acquirer,
        message_id=properties.message_id,
        correlation_id=properties.correlation_id,
        destination=_destination(properties.to, annotations.get(DESTINATION_TYPE), source),
        reply_to=_destination(properties.reply_to, annotations.get(REPLY_TO_TYPE), source),
        subject=properties.subject,
        user_id=properties.user_id,
        content_type=content_type,
        content_encoding=properties.content_encoding,
        expiration_ms=properties.absolute_expiry_time,
        timestamp_ms=properties.creation_time,
        group_id=properties.group_id,
        group_sequence=properties.group_sequence,
        reply_to_group_id=properties.reply_to_group_id,
        annotations=annotations,
        delivery_annotations=_named(whole.delivery_annotations),
        footer=_named(whole.footer),
        body_kind=body_kind,
        delivery_id=delivery_id,
    )
    stamp_received(message)
    message.make_read_only(whole.application_properties)
    return message


def _named(annotations: Mapping[object, object]) -> dict[str, object]:
    if not annotations:
        return {}
    return {str(name): value for name, value in annotations.items()}


def _destination(address: str | None, kind: object, source: Destination | None) -> Destination | None:
    """A queue is told by its name alone, as applications name it."""
    if address is None:
        return None
    default: type[Queue] | type[Topic] = Topic if isinstance(source, Topic) else Queue
    found = _DESTINATIONS.get(kind, default) if isinstance(kind, int) else default
    return address if found is Queue else found(address)


def _kind_and_value(
    body: sections.Data | sections.Sequence | sections.Value | None,
) -> tuple[BodyKind, object]:
    """Data sections are one run of bytes, sequence sections one list (part 3, sections 3.2.6 and 3.2.7)."""
    if isinstance(body, sections.Data):
        return BodyKind.DATA, body.joined()
    if isinstance(body, sections.Sequence):
        return BodyKind.SEQUENCE, [item for items in body.lists for item in items]
    return BodyKind.VALUE, body.value if body is not None else None


def _class_and_body(
    is_absent: bool, kind: BodyKind, body: object, content_type: str | None, annotations: dict[str, object]
) -> tuple[type[Message], object]:
    """The class that the sender says, where the body fits it; else the one that fits the body."""
    message_type = annotations.get(MESSAGE_TYPE)
    cls = _TYPES.get(message_type) if isinstance(message_type, int) else None
    if cls is None or not _fits(cls, body):
        return _class_of_plain(is_absent, kind, body, content_type)
    if cls is TextMessage and isinstance(body, bytes):
        return _text_or_bytes(body, DEFAULT_CHARSET)
    return cls, body


_BODIES: Final[dict[type[Message], tuple[type, ...]]] = {
    TextMessage: (str, bytes),
    BytesMessage: (bytes,),
    MapMessage: (dict,),
    StreamMessage: (list,),
}


def _fits(cls: type[Message], body: object) -> bool:
    if body is None or cls not in _BODIES:
        return True
    if isinstance(body, dict) and not all(isinstance(key, str) and key for key in body):
        return False
    return isinstance(body, _BODIES[cls])


def _class_of_plain(
    is_absent: bool, kind: BodyKind, body: object, content_type: str | None
) -> tuple[type[Message], object]:
    """What a message is whose sender says nothing of JMS: Qpid JMS's rules."""
    if is_absent or kind is BodyKind.DATA:
        return _class_by_content_type(body, content_type)
    if kind is BodyKind.SEQUENCE:
        return ObjectMessage, body
    if body is None or isinstance(body, str):
        return TextMessage, body
    return (BytesMessage if type(body) is bytes else ObjectMessage), body


def _class_by_content_type(body: object, content_type: str | None) -> tuple[type[Message], object]:
    if content_type == JAVA_OBJECT:
        return ObjectMessage, body
    if content_type in (None, OCTET_STREAM):
        return BytesMessage, body
    charset = charset_of_text(content_type or "")
    if charset is None:
        return (Message if body is None else BytesMessage), body
    return _text_or_bytes(body, charset)


def _text_or_bytes(body: object, charset: str) -> tuple[type[Message], object]:
    """Bytes that are no text after all stay bytes."""
    if not isinstance(body, bytes):
        return TextMessage, body
    try:
        return TextMessage, body.decode(charset)
    except (ValueError, LookupError):
        return BytesMessage, body


def charset_of_text(content_type: str) -> str | None:
    """The charset of a content type that is text; None for another one."""
    media, *parameters = (part.strip() for part in content_type.split(";"))
    media = media.lower()
    if not (media.startswith("text/") or media in TEXT_TYPES or media.endswith(("+xml", "+json"))):
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return DEFAULT_CHARSET
