"""Message and correlation ids as the text that JMS has for them.

AMQP's ids are text, unsigned longs, UUIDs or bytes; JMS's are text that begins with ``ID:``. The forms are
those that Qpid JMS uses: ``ID:AMQP_UUID:…``, ``ID:AMQP_ULONG:…``, ``ID:AMQP_BINARY:…`` (hexadecimal),
``ID:AMQP_NO_PREFIX:…`` for text that doesn't begin with ``ID:``, ``ID:AMQP_STRING:…`` for text that looks
like one of these.
"""

from __future__ import annotations

import uuid
from typing import Final

from postroom.amqp.encoding.types import MAX_ULONG
from postroom.client.exceptions import JMSException

MessageId = str | int | uuid.UUID | bytes
"""string, ulong, uuid, binary (part 3, section 3.2.11)."""

ID_PREFIX: Final = "ID:"
UUID_PREFIX: Final = "ID:AMQP_UUID:"
ULONG_PREFIX: Final = "ID:AMQP_ULONG:"
BINARY_PREFIX: Final = "ID:AMQP_BINARY:"
STRING_PREFIX: Final = "ID:AMQP_STRING:"
NO_PREFIX: Final = "ID:AMQP_NO_PREFIX:"
_PREFIXES: Final = (UUID_PREFIX, ULONG_PREFIX, BINARY_PREFIX, STRING_PREFIX, NO_PREFIX)


def jms_message_id(value: MessageId | None) -> str | None:
    """JMSMessageID of an id."""
    if isinstance(value, str) and not value.startswith(ID_PREFIX):
        return NO_PREFIX + value
    return _text(value)


def jms_correlation_id(value: MessageId | None) -> str | None:
    """JMSCorrelationID of an id: text without ``ID:`` is the application's own, and stays as it is."""
    if isinstance(value, str) and not value.startswith(ID_PREFIX):
        return value
    return _text(value)


def _text(value: MessageId | None) -> str | None:
    if isinstance(value, uuid.UUID):
        return f"{UUID_PREFIX}{value}"
    if isinstance(value, int):
        return f"{ULONG_PREFIX}{value}"
    if isinstance(value, bytes):
        return BINARY_PREFIX + value.hex().upper()
    return STRING_PREFIX + value if value is not None and value.startswith(_PREFIXES) else value


def id_of_jms(text: str | None) -> MessageId | None:
    """The AMQP id that ``text``, a JMSMessageID or JMSCorrelationID, stands for; JMSException where it says
    that it is a UUID, a number or bytes and isn't.
    """
    if text is None or not text.startswith(_PREFIXES):
        return text
    prefix = next(prefix for prefix in _PREFIXES if text.startswith(prefix))
    rest = text[len(prefix) :]
    try:
        return _parsed(prefix, rest)
    except ValueError as error:
        raise JMSException(f"{text!r} is no id: {error}") from None


def _parsed(prefix: str, rest: str) -> MessageId:
    if prefix == UUID_PREFIX:
        return uuid.UUID(rest)
    if prefix == ULONG_PREFIX:
        number = int(rest)
        if not 0 <= number <= MAX_ULONG:
            raise ValueError(f"{number} is no unsigned long")
        return number
    return bytes.fromhex(rest) if prefix == BINARY_PREFIX else rest
