"""What a destination says of messages against their sender: when they are born, how long they live, which
priority and delivery mode they have.

Overrides are applied when a message arrives; what is stored already keeps what it has (WebLogic's rule).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_head import merge_annotations
from postroom.manager.kernel.destination_checks import MODE_NON_PERSISTENT, MODE_PERSISTENT
from postroom.model.message import MessageHead
from postroom.model.schedule import Schedule, parse_schedule

if TYPE_CHECKING:
    from postroom.manager.kernel.options import QueueDefinition

DELIVERY_TIME: Final = "x-opt-delivery-time"


@final
class Overrides:
    """The overrides of one destination; −1: the sender's own."""

    def __init__(self, definition: "QueueDefinition") -> None:
        self.time_to_deliver_ms: i64 = definition.time_to_deliver_ms
        self.schedule: Schedule | None = None
        if definition.delivery_schedule:
            self.schedule = parse_schedule(definition.delivery_schedule)
        self.bears = self.time_to_deliver_ms >= 0 or self.schedule is not None
        """Whether it says when messages are born."""
        self.ttl_ms: i64 = definition.ttl_override_ms
        self.priority: i64 = definition.priority_override
        mode = definition.delivery_mode_override
        downgrade = not definition.persistent and definition.allow_persistent_downgrade
        self.makes_durable = mode == MODE_PERSISTENT and not downgrade
        self.makes_volatile = mode == MODE_NON_PERSISTENT or downgrade


def overrides_of(definition: "QueueDefinition") -> Overrides | None:
    """Those of a definition; None where it has none, so that its messages pay one test."""
    numbers = (definition.time_to_deliver_ms, definition.ttl_override_ms, definition.priority_override)
    texts = (definition.delivery_schedule, definition.delivery_mode_override)
    downgrade = not definition.persistent and definition.allow_persistent_downgrade
    if max(numbers) < 0 and not any(texts) and not downgrade:
        return None
    return Overrides(definition)


def apply(now_us: i64, overrides: Overrides, head: MessageHead) -> None:
    """Make ``head`` what the destination says."""
    if overrides.priority >= 0:
        head.priority = overrides.priority
    if overrides.ttl_ms >= 0:
        head.ttl_ms = overrides.ttl_ms
        head.expiry_us = 0
    if overrides.makes_volatile:
        head.durable = False
    elif overrides.makes_durable:
        head.durable = True
    if overrides.bears:
        due_us = birth_us(now_us, overrides)
        head.delivery_delay_ms = 0
        head.delivery_time_ms = (due_us + 999) // 1000


def with_delivery_time(now_us: i64, head: MessageHead, body: bytes) -> bytes:
    """The sections ``body`` with the time of their birth as the destination has set it (JMSDeliveryTime)."""
    time_ms = head.delivery_time_ms if head.delivery_time_ms != 0 else now_us // 1000
    return merge_annotations(body, {DELIVERY_TIME: int(time_ms)})


def birth_us(now_us: i64, overrides: Overrides) -> i64:
    """When a message that arrives now is born; 0 at once."""
    schedule = overrides.schedule
    if schedule is not None:
        return schedule.next_us(now_us)
    if overrides.time_to_deliver_ms > 0:
        return now_us + overrides.time_to_deliver_ms * 1000
    return 0


def expiry_us(now_us: i64, overrides: Overrides) -> i64:
    """When a message that arrives now expires by the override; 0 never, or no override."""
    return now_us + overrides.ttl_ms * 1000 if overrides.ttl_ms > 0 else 0


def fix_times(now_us: i64, head: MessageHead) -> None:
    """The times in ``head`` that count from now become absolute: the message will be stored later."""
    if head.ttl_ms > 0:
        by_ttl = now_us + head.ttl_ms * 1000
        if head.expiry_us == 0 or by_ttl < head.expiry_us:
            head.expiry_us = by_ttl
        head.ttl_ms = -1
    if head.delivery_delay_ms > 0:
        by_delay = (now_us + head.delivery_delay_ms * 1000 + 999) // 1000
        if by_delay > head.delivery_time_ms:
            head.delivery_time_ms = by_delay
        head.delivery_delay_ms = 0
