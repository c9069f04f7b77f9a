"""A message's body for people: as text, JSON or hexadecimal, as much of it as a page shows."""

import json
from dataclasses import dataclass
from typing import Any, Final

from postroom.amqp.errors import AmqpError
from postroom.amqp.message.sections import Data, Message, Value, decode_message
from postroom.server.http.api.messages import as_json

MAX_SHOWN_BYTES: Final = 64 << 10
"""Of a body on a page; the whole is there to be downloaded."""
HEX_ROW: Final = 16
MAX_HEX_BYTES: Final = 4 << 10


@dataclass(frozen=True, slots=True)
class Body:
    """What is shown of one."""

    kind: str
    """``text``, ``JSON``, ``bytes``, ``AMQP value``, ``AMQP sequence`` or ``none``."""
    text: str
    """As text or JSON; "" where it is neither."""
    hexadecimal: str
    size_bytes: int
    is_cut: bool


def decoded(raw: bytes) -> Message | None:
    """None: it was taken as it is, and is no message that can be taken apart."""
    try:
        return decode_message(raw)
    except AmqpError:
        return None


def content_of(message: Message) -> bytes:
    """The body as bytes: of data as it is, of anything else as JSON in UTF-8."""
    body = message.body
    if isinstance(body, Data):
        return bytes(body.joined())
    if isinstance(body, Value):
        if isinstance(body.value, bytes):
            return bytes(body.value)
        return body.value.encode() if isinstance(body.value, str) else _json(as_json(body.value))
    return b"" if body is None else _json(as_json(body.lists))


def shown_body(message: Message) -> Body:
    """As much of the body as a page shows."""
    content, body = content_of(message), message.body
    part = content[:MAX_SHOWN_BYTES]
    kind, text = "bytes", _text(part)
    if isinstance(body, Data) or (isinstance(body, Value) and isinstance(body.value, str | bytes)):
        pretty = _pretty(content) if text else ""
        kind = "JSON" if pretty else "text" if text else "bytes"
        text = pretty or text
    elif body is None:
        kind = "none"
    else:
        kind, text = ("AMQP value" if isinstance(body, Value) else "AMQP sequence"), _pretty(content) or text
    is_cut = len(content) > MAX_SHOWN_BYTES
    return Body(kind, text, _hexadecimal(content[:MAX_HEX_BYTES]), len(content), is_cut)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _pretty(content: bytes) -> str:
    """Indented; "" where it is no JSON of a structure, or too long to be shown whole."""
    if len(content) > MAX_SHOWN_BYTES:
        return ""
    try:
        value = json.loads(content)
        found = json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(value, dict | list) and len(found) <= 4 * MAX_SHOWN_BYTES else ""


def _text(content: bytes) -> str:
    """ "" where it is none; a character that was cut at the end doesn't count."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if error.start < len(content) - 3 or len(content) < MAX_SHOWN_BYTES:
            return ""
        text = content[: error.start].decode()
    return "" if any(character < " " and character not in "\t\r\n\f" for character in text) else text


def _hexadecimal(content: bytes) -> str:
    rows = []
    for at in range(0, len(content), HEX_ROW):
        row = content[at : at + HEX_ROW]
        printed = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{at:08x}  {row.hex(' '):<{HEX_ROW * 3}} {printed}")
    return "\n".join(rows)
