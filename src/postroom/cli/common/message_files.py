"""Messages as the command line shows them, and files of exported ones.

JSON Lines are for people and scripts, AMQP bytes for exactness and size.

JSON Lines: an object for each message with its fields, and the whole message in base64 as ``amqp``, which an
import prefers; without it a message is made of the fields. AMQP: `MAGIC`, then for each message a `HEAD`
(length, expiry, birth) and its bytes.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from postroom.cli.common.message_selection import id_text, id_value
from postroom.client import Message
from postroom.client.destinations import address_of
from postroom.client.messages.message import decode_message, encode_message

FORMATS: Final = ("jsonl", "amqp")
MAGIC: Final = b"postroom messages 1\n"
HEAD: Final = struct.Struct(">IQQ")
"""Bytes of the message, absolute expiry in µs (0 never), birth in µs (0 at once)."""

_FROM_FIELDS: Final = (
    *("subject", "reply_to", "durable", "priority", "ttl_ms"),
    *("content_type", "group_id", "properties", "annotations"),
)
"""Fields of a line that become those of a message."""


def writer_of(form: str, out: IO[bytes]) -> Callable[[dict[str, Any]], None]:
    """What writes one row to ``out``."""
    if form == "amqp":
        out.write(MAGIC)
        return lambda row: _write_amqp(out, row)
    return lambda row: _write_line(out, row)


def _write_line(out: IO[bytes], row: dict[str, Any]) -> None:
    message: bytes = row["message"]
    fields = message_fields(decode_message(message))
    fields |= {name: value for name, value in row.items() if name != "message"}
    for name in ("message_id", "correlation_id"):
        if name in fields:
            fields[name] = id_text(fields[name])
    fields |= {name: row.get(name, 0) for name in ("expires_us", "due_us")}
    fields["amqp"] = base64.b64encode(message).decode()
    out.write(json.dumps(fields, default=str, ensure_ascii=False).encode() + b"\n")


def _write_amqp(out: IO[bytes], row: dict[str, Any]) -> None:
    message: bytes = row["message"]
    out.write(HEAD.pack(len(message), row.get("expires_us", 0), row.get("due_us", 0)) + message)


def messages_of(source: IO[bytes], queue: str) -> Iterator[dict[str, object]]:
    """The messages of a file of either format, as an import takes them. ValueError: where it is wrong."""
    start = source.read(len(MAGIC))
    if start == MAGIC:
        yield from _from_amqp(source)
        return
    first = start + source.readline()
    for number, line in enumerate([first, *source] if first.strip() else source, 1):
        if line.strip():
            yield _from_line(line, number, queue)


def _from_amqp(source: IO[bytes]) -> Iterator[dict[str, object]]:
    number = 0
    while head := source.read(HEAD.size):
        number += 1
        if len(head) < HEAD.size:
            raise ValueError(f"message {number}: the file breaks off")
        size, expires_us, due_us = HEAD.unpack(head)
        message = source.read(size)
        if len(message) < size:
            raise ValueError(f"message {number}: the file breaks off")
        yield {"message": message, "expires_us": expires_us, "due_us": due_us}


def _from_line(line: bytes, number: int, queue: str) -> dict[str, object]:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        if "amqp" in fields:
            message = base64.b64decode(fields["amqp"], validate=True)
        else:
            message = encode_message(_made(fields), queue)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"line {number}: {error}") from error
    arguments: dict[str, object] = {"message": message}
    times = ("expires_us", "due_us")
    arguments |= {name: fields[name] for name in times if isinstance(fields.get(name), int)}
    return arguments


def _made(fields: dict[str, Any]) -> Message:
    """A message of the fields of a line that has no AMQP bytes."""
    body = base64.b64decode(fields["body_base64"]) if "body_base64" in fields else fields.get("body")
    arguments = {name: fields[name] for name in _FROM_FIELDS if fields.get(name) is not None}
    for name in ("message_id", "correlation_id"):
        if fields.get(name):
            arguments[name] = id_value(str(fields[name]))
    return Message(body, **arguments)


def message_fields(message: Message) -> dict[str, Any]:
    """A message as JSON-able fields; a body that is no text is in base64."""
    fields: dict[str, Any] = {
        "message_id": message.message_id,
        "correlation_id": message.correlation_id,
        "subject": message.subject,
        "reply_to": None if message.reply_to is None else address_of(message.reply_to),
        "durable": message.durable,
        "priority": message.priority,
        "ttl_ms": message.ttl_ms,
        "delivery_count": message.delivery_count,
        "timestamp_ms": message.timestamp_ms,
        "content_type": message.content_type,
        "group_id": message.group_id,
        "properties": message.properties or None,
        "annotations": message.annotations or None,
    }
    shown = {key: value for key, value in fields.items() if value is not None}
    key, body = _body(message.body)
    shown[key] = body
    return shown


def as_json_line(message: Message) -> str:
    """A message as one line of JSON."""
    return json.dumps(message_fields(message), default=str, ensure_ascii=False)


def as_text(message: Message, longest: int) -> str:
    """The body for a person's eye, cut to ``longest`` characters."""
    body = _body(message.body)[1]
    text = body if isinstance(body, str) else json.dumps(body, default=str, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def body_bytes(message: Message) -> bytes:
    """The body as a file would hold it: bytes as they are, text in UTF-8, other values as JSON."""
    if isinstance(message.body, bytes):
        return message.body
    if isinstance(message.body, str):
        return message.body.encode()
    return json.dumps(message.body, default=str, ensure_ascii=False).encode()


def _body(body: object) -> tuple[str, object]:
    if not isinstance(body, bytes):
        return "body", body
    try:
        return "body", body.decode()
    except UnicodeDecodeError:
        return "body_base64", base64.b64encode(body).decode()
