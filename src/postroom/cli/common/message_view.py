"""Messages as the command line shows them."""

import base64
import json
from typing import Any

from postroom.client import Message
from postroom.client.destinations import address_of


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
