"""What a producer sets on a message as it sends it: JMS's rules, and what the application says itself.

In this order: what the call of ``send`` says, what the message says, what the producer says, JMS's default. A
message says its delivery mode or priority when it isn't the default (persistent, 4). What a producer has set
counts as said by nobody: the next producer makes it anew. So does the message id, timestamp and expiration of
a message that was received.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Final, TypeVar

from postroom.amqp.encoding.types import MAX_UINT
from postroom.client.durations import MS_A_SECOND
from postroom.client.exceptions import MessageFormatException
from postroom.client.messages.base_message import DEFAULT_PRIORITY, DELIVERY_TIME, DeliveryMode, Message
from postroom.client.messages.message_ids import ID_PREFIX

LOWEST_PRIORITY: Final = 0
HIGHEST_PRIORITY: Final = 9

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SendOptions:
    """How to send: what the call of ``send``, or the producer, says; None: nothing."""

    delivery_mode: DeliveryMode | None = None
    priority: int | None = None
    """0 to 9."""
    ttl_ms: int | None = None
    """0: for ever."""
    delivery_delay_ms: int | None = None
    disable_message_id: bool = False
    """Messages get no id of the producer's."""
    disable_message_timestamp: bool = False
    """Messages don't say when they were sent."""

    def check(self) -> None:
        """Raises MessageFormatException for a value that no message can have."""
        if self.priority is not None and not LOWEST_PRIORITY <= self.priority <= HIGHEST_PRIORITY:
            raise MessageFormatException(
                f"priority {self.priority} is outside {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"
            )
        check_time("ttl_ms", self.ttl_ms)
        check_time("delivery_delay_ms", self.delivery_delay_ms)


NO_OPTIONS: Final = SendOptions()


def check_time(name: str, value: int | None) -> None:
    """Raises MessageFormatException for a negative time."""
    if value is not None and value < 0:
        raise MessageFormatException(f"{name} of a message is {value}; it is 0 or more, or None")


def stamp(message: Message, options: SendOptions, defaults: SendOptions) -> int | None:
    """Set what a producer sets, and return the time to live for the header (None: for ever, or more than a
    header holds: 49 days; the expiration says it).

    ``options`` are those of the call, ``defaults`` the producer's.
    """
    if options is not NO_OPTIONS:
        options.check()
    check_time("ttl_ms", message.ttl_ms)
    check_time("delivery_delay_ms", message.delivery_delay_ms)
    now_ms = int(time.time() * MS_A_SECOND)
    ttl_ms = _first(options.ttl_ms, message.ttl_ms, defaults.ttl_ms) or None
    delay_ms = _first(options.delivery_delay_ms, message.delivery_delay_ms, defaults.delivery_delay_ms)
    made = message.stamp
    _set_mode_and_priority(message, options, defaults)
    if message.message_id is None or message.message_id == made.get("message_id"):
        message.message_id = made["message_id"] = None if defaults.disable_message_id else new_id()
    if message.timestamp_ms is None or message.timestamp_ms == made.get("timestamp_ms"):
        message.timestamp_ms = made["timestamp_ms"] = None if defaults.disable_message_timestamp else now_ms
    if message.expiration_ms is None or message.expiration_ms == made.get("expiration_ms"):
        message.expiration_ms = made["expiration_ms"] = None if ttl_ms is None else now_ms + ttl_ms
    if delay_ms is not None or DELIVERY_TIME in message.annotations:
        _set_delivery_time(message, now_ms, delay_ms)
    return None if ttl_ms is None or ttl_ms > MAX_UINT else ttl_ms


def new_id() -> str:
    """A message id that no other message has."""
    return f"{ID_PREFIX}{uuid.uuid4()}"


def _set_mode_and_priority(message: Message, options: SendOptions, defaults: SendOptions) -> None:
    made = message.stamp
    if options.delivery_mode is not None or message.durable or "durable" in made:
        mode = _first(options.delivery_mode, defaults.delivery_mode)
        message.durable = mode is not DeliveryMode.NON_PERSISTENT
        if not message.durable:
            made["durable"] = True
    priority = _first(options.priority, defaults.priority)
    if options.priority is not None or message.priority in (DEFAULT_PRIORITY, made.get("priority")):
        message.priority = made["priority"] = DEFAULT_PRIORITY if priority is None else priority


def stamp_received(message: Message) -> None:
    """Remember what the producer of a received message made, so that the next makes it anew."""
    message.stamp = {
        "message_id": message.message_id,
        "timestamp_ms": message.timestamp_ms,
        "expiration_ms": message.expiration_ms,
        "delivery_time_ms": message.delivery_time_ms,
    }


def _first(given: T | None, *others: T | None) -> T | None:
    if given is not None:
        return given
    return next((value for value in others if value is not None), None)


def _set_delivery_time(message: Message, now_ms: int, delay_ms: int | None) -> None:
    """The application may have set the annotation itself."""
    if delay_ms:
        message.annotations[DELIVERY_TIME] = now_ms + delay_ms
    elif delay_ms == 0 or message.delivery_time_ms == message.stamp.get("delivery_time_ms"):
        message.annotations.pop(DELIVERY_TIME, None)
    message.stamp["delivery_time_ms"] = message.delivery_time_ms if delay_ms else None
