"""Messages of a message store as applications see them, for both faces of the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from postroom.client.exceptions import MessageFormatException
from postroom.client.messages.message import Message, MessageId, decode_message


class UniqueId(NamedTuple):
    """What no two messages share: the queue manager where one was first put (MSG_ORIGIN_QMGR), and a number
    that this queue manager gave to no other (MSG_TIME).
    """

    origin: str
    time: int


@dataclass(frozen=True, kw_only=True)
class MessageFilter:
    """Which messages are meant: fields that must be equal, all of them; none given: every message.

    All but ``properties`` are answered from the queue's index, without reading a message.
    """

    unique_id: UniqueId | None = None
    message_id: MessageId | None = None
    correlation_id: MessageId | None = None
    priority: int | None = None
    lock_id: int | None = None
    """Of a browse with lock: only messages that it has locked."""
    properties: Mapping[str, object] = field(default_factory=dict)
    """Application properties; not together with a lock id, and not for a listener."""

    def arguments(self) -> dict[str, object]:
        """As a request to the broker has them."""
        arguments: dict[str, object] = {}
        if self.unique_id is not None:
            arguments["origin"], arguments["time"] = self.unique_id.origin, self.unique_id.time
        for name in ("message_id", "correlation_id", "priority", "lock_id"):
            value = getattr(self, name)
            if value is not None:
                arguments[name] = value
        if self.properties:
            arguments["properties"] = dict(self.properties)
        return arguments


EVERY_MESSAGE = MessageFilter()


@dataclass(frozen=True, kw_only=True)
class StoredMessage:
    """A message, or what the index knows of it."""

    unique_id: UniqueId
    message_id: MessageId | None
    correlation_id: MessageId | None
    priority: int
    message: Message | None = None
    """None where only ids were asked for."""


class BrowseLock(NamedTuple):
    """What a browse has locked: give ``lock_id`` to get, delete or unlock these messages; 0 where there are
    none."""

    lock_id: int
    messages: list[StoredMessage]


class MessageEvent(NamedTuple):
    """A message has become available."""

    queue: str
    unique_id: UniqueId
    message_id: MessageId | None
    correlation_id: MessageId | None
    priority: int


def rows_of(body: Mapping[str, object]) -> list[StoredMessage]:
    """The messages in an answer. Raises MessageFormatException."""
    rows = body.get("messages", [])
    if not isinstance(rows, list):
        raise MessageFormatException("the answer of the message store has no list of messages")
    return [_row(row) for row in rows]


def unique_id_of(body: Mapping[str, object]) -> UniqueId:
    """The unique id in an answer or a row."""
    origin, time = body.get("origin"), body.get("time")
    if not isinstance(origin, str) or not isinstance(time, int):
        raise MessageFormatException("the answer of the message store has no unique id")
    return UniqueId(origin, int(time))


def number_of(body: Mapping[str, object], name: str) -> int:
    """A number in an answer; 0 where there is none."""
    value = body.get(name, 0)
    return int(value) if isinstance(value, int) else 0


def _id_in(row: Mapping[object, object], name: str) -> MessageId | None:
    value = row.get(name)
    return value if isinstance(value, str | int | UUID | bytes) else None


def _row(row: object) -> StoredMessage:
    if not isinstance(row, dict):
        raise MessageFormatException("a message in the answer of the message store is no map")
    payload = row.get("message")
    return StoredMessage(
        unique_id=unique_id_of(row),
        message_id=_id_in(row, "message_id"),
        correlation_id=_id_in(row, "correlation_id"),
        priority=number_of(row, "priority"),
        message=decode_message(payload) if isinstance(payload, bytes) else None,
    )
