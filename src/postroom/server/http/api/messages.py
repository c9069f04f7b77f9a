"""Messages in JSON and in AMQP.

A message in JSON has its fields, and its body as text (`body`), as any other JSON (an AMQP value) or as bytes
in base64 (`body_base64`); what JSON can't say of a message that exists is in `amqp`, the whole in base64.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from postroom.amqp.encoding.types import ULong
from postroom.amqp.errors import AmqpError
from postroom.amqp.message.message_head import DELIVERY_DELAY
from postroom.amqp.message.sections import Data, Header, Message, Properties, Value, decode_message
from postroom.server.http.api.arguments import Arguments, IdType, Number
from postroom.server.http.errors import Refusal

MAX_TTL_MS: Final = (1 << 32) - 1

DEFAULT_PRIORITY: Final = 4


class TypedId(Struct, omit_defaults=True):
    """An id that is no string: one of these."""

    binary: str | None = None
    """Base64."""
    uuid: str | None = None
    ulong: int | None = None


Id = str | TypedId


class NewMessage(Arguments, kw_only=True):
    """A message to be put: of its fields, or as AMQP bytes."""

    amqp: str | UnsetType = UNSET
    """The whole message in base64; no other field counts beside it."""
    body: Any = None
    body_base64: str | UnsetType = UNSET
    message_id: Id | UnsetType = UNSET
    correlation_id: Id | UnsetType = UNSET
    subject: str | UnsetType = UNSET
    reply_to: str | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    group_id: str | UnsetType = UNSET
    durable: bool = True
    priority: Annotated[int, Meta(ge=0, le=9)] = DEFAULT_PRIORITY
    ttl_ms: Annotated[int, Meta(ge=0, le=MAX_TTL_MS)] = 0
    """0: for ever."""
    delivery_delay_ms: Number = 0
    properties: dict[str, str | bool | int | float | None] = field(default_factory=dict)


class StoredMessage(Struct, omit_defaults=True, kw_only=True):
    """A message on a queue; what says nothing is left out."""

    serial: int | None = None
    gone: bool = False
    """It has ended since the query."""
    states: list[str] = field(default_factory=list)
    origin: str = ""
    """With `time` the unique id of the message store."""
    time: int | None = None
    message_id: Id | None = None
    correlation_id: Id | None = None
    priority: int | None = None
    durable: bool | None = None
    delivery_count: int | None = None
    failure_count: int | None = None
    body_bytes: int | None = None
    expires_us: int | None = None
    due_us: int | None = None
    created_us: int | None = None
    group_id: str | None = None
    origin_queue: str | None = None
    held_by: str | None = None
    holder: int | None = None
    deleted_on_return: bool | None = None
    subject: str | None = None
    reply_to: str | None = None
    to: str | None = None
    content_type: str | None = None
    properties: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    body: Any = None
    body_base64: str | None = None
    amqp: str | None = None
    """With `bodies`: the whole message in base64."""


# To AMQP.


def encoded(given: NewMessage, where: str = "") -> bytes:
    """The message as AMQP has it. Raises `Refusal`; ``where`` says of which message."""
    if isinstance(given.amqp, str):
        return from_base64(given.amqp, f"{where}amqp")
    annotations: dict[object, object] = {}
    if given.delivery_delay_ms:
        annotations[DELIVERY_DELAY] = given.delivery_delay_ms
    message = Message(
        header=Header(durable=given.durable, priority=given.priority, ttl=given.ttl_ms or None),
        message_annotations=annotations,
        properties=Properties(
            message_id=id_value(given.message_id, f"{where}message_id"),
            correlation_id=id_value(given.correlation_id, f"{where}correlation_id"),
            subject=_or_none(given.subject),
            reply_to=_or_none(given.reply_to),
            content_type=_or_none(given.content_type),
            group_id=_or_none(given.group_id),
        ),
        application_properties=dict(given.properties),
        body=_body_of(given, where),
    )
    try:
        return message.encode()
    except (AmqpError, ValueError, OverflowError) as error:
        raise Refusal(400, "bad-message", f"{where or 'the message'}: {error}") from None


def _body_of(given: NewMessage, where: str) -> Data | Value:
    if isinstance(given.body_base64, str):
        if given.body is not None:
            raise Refusal(400, "bad-message", f"{where}body and {where}body_base64: give one")
        return Data([from_base64(given.body_base64, f"{where}body_base64")])
    return Value(given.body)


def _or_none(value: str | UnsetType) -> str | None:
    return value if isinstance(value, str) else None


def from_base64(text: str, what: str) -> bytes:
    """The bytes of a text. Raises `Refusal`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, "bad-base64", f"{what} is no base64: {error}") from None


def id_value(given: Id | UnsetType, what: str) -> Any:
    """An id as AMQP has it; None where there is none. Raises `Refusal`."""
    if given is UNSET or isinstance(given, str):
        return given if isinstance(given, str) else None
    assert isinstance(given, TypedId)
    try:
        if given.uuid is not None:
            return UUID(given.uuid)
    except ValueError:
        raise Refusal(400, "bad-id", f"{what}: {given.uuid!r:.100} is no UUID") from None
    if given.ulong is not None:
        if not 0 <= given.ulong < 1 << 64:
            raise Refusal(400, "bad-id", f"{what}: {given.ulong} is no number of 64 bits")
        return ULong(given.ulong)
    if given.binary is not None:
        return from_base64(given.binary, what)
    raise Refusal(400, "bad-id", f"{what} has none of binary, uuid and ulong")


def typed_id(text: str, kind: IdType, what: str) -> Any:
    """An id that a query says in two parts. Raises `Refusal`."""
    if kind == "ulong":
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(1 << 64))):
            raise Refusal(400, "bad-id", f"{what}: {text!r:.100} is no number of 64 bits")
        return id_value(TypedId(ulong=int(text)), what)
    if kind == "uuid":
        return id_value(TypedId(uuid=text), what)
    return id_value(TypedId(binary=text), what) if kind == "binary" else text


# From AMQP.


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A message of an answer of the management node, in JSON."""
    found = {name: value for name, value in row.items() if name != "message"}
    for name in ("message_id", "correlation_id"):
        if found.get(name) is not None:
            found[name] = _shown_id(found[name])
    raw = row.get("message")
    if isinstance(raw, bytes):
        found |= _sections(raw)
    return {name: value for name, value in found.items() if value is not None}


def _sections(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"amqp": base64.b64encode(raw).decode()}
    try:
        message = decode_message(raw)
    except AmqpError:  # it was taken as it is: a reader of `amqp` sees what is wrong
        return found
    properties = message.properties
    if properties is not None:
        names = ("subject", "reply_to", "to", "content_type")
        found |= {name: getattr(properties, name) for name in names}
    if message.application_properties:
        found["properties"] = as_json(message.application_properties)
    if message.message_annotations:
        found["annotations"] = as_json(message.message_annotations)
    name, body = _shown_body(message)
    found[name] = body
    return found


def _shown_body(message: Message) -> tuple[str, Any]:
    body = message.body
    if isinstance(body, Data):
        data = body.joined()
        try:
            return "body", data.decode()
        except UnicodeDecodeError:
            return "body_base64", base64.b64encode(data).decode()
    if isinstance(body, Value) and isinstance(body.value, bytes):
        return "body_base64", base64.b64encode(body.value).decode()
    if isinstance(body, Value):
        return "body", as_json(body.value)
    return "body", None if body is None else as_json(body.lists)


def _shown_id(value: object) -> object:
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    if isinstance(value, bytes):
        return {"binary": base64.b64encode(value).decode()}
    if isinstance(value, int):
        return {"ulong": int(value)}
    return str(value)


def to_json(answer: Any) -> bytes:
    """An answer as bytes."""
    return _ENCODER.encode(answer)


def as_json(value: Any) -> Any:
    """An AMQP value as near as JSON comes."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return str(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=as_json)
