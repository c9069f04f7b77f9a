"""Bodies of messages as the types that handlers are annotated with, and back.

JSON, in bytes or in text, is read by msgspec into its types (Structs, dataclasses, TypedDicts, builtins), and
by pydantic into its models. So are the values that AMQP has types for: maps, lists, numbers. pydantic is not
imported where none of its models is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

import msgspec

from postroom.amqp.encoding.types import Timestamp
from postroom.client import Message, MessageFormatException, TextMessage
from postroom.client.messages.message import as_message

__all__ = ["Decoder", "UndecodableError", "as_sent", "decoder_for"]

JSON_CONTENT_TYPE: Final = "application/json"
MAX_TEXT_CHARS: Final = 500
"""How much is said of what is wrong with a body."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Decoder = Callable[[Message], object]


class UndecodableError(Exception):
    """A body that isn't what its handler takes; the text says why, in one line."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split())[:MAX_TEXT_CHARS])


def decoder_for(kind: Any) -> Decoder:
    """What makes a ``kind`` of a message's body; TypeError where nothing can."""
    if kind in (object, Any):
        return lambda message: message.body
    if isinstance(kind, type) and issubclass(kind, Message):
        return _message_decoder(kind)
    if kind in (str, bytes):
        return _text if kind is str else _bytes
    if any(_is_of_pydantic(part) for part in _parts(kind)):
        return _pydantic_decoder(kind)
    return _msgspec_decoder(kind)


# --- as they are


def _message_decoder(kind: type[Message]) -> Decoder:
    def decode(message: Message) -> object:
        if not isinstance(message, kind):
            raise UndecodableError(f"a {kind.__name__} is expected, not a {type(message).__name__}")
        return message

    return decode


def _text(message: Message) -> object:
    body = message.body
    if isinstance(body, str):
        return str(body)
    try:
        return _bytes_of(body, "text").decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(f"text is expected: {error}") from None


def _bytes(message: Message) -> object:
    body = message.body
    return body.encode() if isinstance(body, str) else _bytes_of(body, "bytes")


def _bytes_of(body: object, wanted: str) -> bytes:
    if isinstance(body, bytes):
        return bytes(body)
    raise UndecodableError(f"{wanted} is expected, not a body of type {type(body).__name__}")


# --- JSON, and values of AMQP


def _msgspec_decoder(kind: Any) -> Decoder:
    for part in _parts(kind):
        _check_known(part)
    decode_json = msgspec.json.Decoder(kind).decode

    def decode(message: Message) -> object:
        body = message.body
        try:
            if isinstance(body, str | bytes):
                return decode_json(body)
            return msgspec.convert(plain(body), kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UndecodableError(str(error)) from None

    return decode


def _check_known(part: Any) -> None:
    if isinstance(msgspec.inspect.type_info(part), msgspec.inspect.CustomType):
        raise TypeError(
            f"nothing knows how to make a {getattr(part, '__name__', part)} of a body: take a msgspec.Struct,"
            " a dataclass, a pydantic model, a builtin type, str, bytes or Message"
        )


def _pydantic_decoder(kind: Any) -> Decoder:
    from pydantic import TypeAdapter, ValidationError

    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def decode(message: Message) -> object:
        body = message.body
        try:
            if isinstance(body, str | bytes):
                return adapter.validate_json(body)
            return adapter.validate_python(plain(body))
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise UndecodableError("; ".join(wrong).removeprefix(": ")) from None

    return decode


def _is_of_pydantic(kind: object) -> bool:
    """Whether pydantic has made it: a model, or a dataclass of pydantic's."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _parts(kind: Any) -> Iterator[Any]:
    """``kind`` and what stands in its brackets, but for the values of a Literal."""
    yield kind
    for part in get_args(kind):
        if isinstance(part, type) or get_args(part):
            yield from _parts(part)


def plain(value: object) -> object:
    """A value of AMQP as builtin types of Python; its times as datetime."""
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Timestamp):
        return EPOCH + timedelta(milliseconds=value)
    if isinstance(value, bool):
        return value
    return _builtin(value)


def _builtin(value: object) -> object:
    """As what AMQP's types are subclasses of."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    return bytes(value) if isinstance(value, bytes) else value


# --- to be sent


def as_sent(body: object) -> Message:
    """``body`` as a message: str, bytes and messages as they are, anything else as JSON.

    Raises MessageFormatException for what JSON has no form for.
    """
    if isinstance(body, Message | str | bytes):
        return as_message(body)
    try:
        text = msgspec.json.encode(body, enc_hook=_encode_model).decode()
    except (TypeError, ValueError, NotImplementedError, OverflowError) as error:
        raise MessageFormatException(
            f"an object of type {type(body).__name__} can't be sent as JSON: {error}"
        ) from error
    return TextMessage(text, content_type=JSON_CONTENT_TYPE)


def _encode_model(value: object) -> object:
    """What msgspec doesn't know: a model of pydantic's."""
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is None:
        raise NotImplementedError(f"nothing knows how to write a {type(value).__name__}")
    return serializer.to_python(value, mode="json")
