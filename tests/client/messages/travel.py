"""Messages as they are on the other side of the wire."""

from __future__ import annotations

from postroom.client import Message
from postroom.client.messages.message import decode_message, encode_message


def travelled(message: Message) -> Message:
    return decode_message(encode_message(message, "q"))
