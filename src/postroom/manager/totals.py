"""Counters of the queue manager as a whole: sums over its queues and subscriptions, those that were removed
included.

Nothing is counted twice as messages come and go: sums are made when somebody asks. Marks of the highest depth
of all together are not kept, for they would cost every message.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.statistics import Statistics
from postroom.model.codes import Outcome

if TYPE_CHECKING:
    from postroom.manager.core import Core

_OUTCOMES: Final = tuple(outcome for outcome in Outcome if outcome > Outcome.CONSUMED)


@final
class Removed:
    """What the queues that are no more have counted since the start or the last reset."""

    def __init__(self) -> None:
        self.begin_again()

    def begin_again(self) -> None:
        self.received: i64 = 0
        self.received_bytes: i64 = 0
        self.consumed: i64 = 0
        self.ended: list[int] = [0] * len(Outcome)
        self.consumers_total: i64 = 0
        self.blocked_total: i64 = 0
        self.blocked_us: i64 = 0

    def add(self, statistics: Statistics) -> None:
        """A queue goes."""
        self.received += statistics.received
        self.received_bytes += statistics.received_bytes
        self.consumed += statistics.consumed
        self.consumers_total += statistics.consumers_total
        self.blocked_total += statistics.blocked_total
        self.blocked_us += statistics.blocked_us
        for outcome in _OUTCOMES:
            self.ended[outcome] += statistics.ended[outcome]


def totals(core: "Core") -> dict[str, int]:
    """All counters by the names that a queue's have."""
    removed = core.removed
    received, received_bytes, consumed = removed.received, removed.received_bytes, removed.consumed
    consumers_total, blocked_total, blocked_us = (
        removed.consumers_total,
        removed.blocked_total,
        removed.blocked_us,
    )
    ended = list(removed.ended)
    current: i64 = 0
    current_bytes: i64 = 0
    depth: i64 = 0
    depth_bytes: i64 = 0
    consumers: i64 = 0
    for queue in core.queues.values():
        each = queue.statistics
        current += each.current
        current_bytes += each.current_bytes
        depth += each.depth
        depth_bytes += each.depth_bytes
        consumers += each.consumers
        received += each.received
        received_bytes += each.received_bytes
        consumed += each.consumed
        consumers_total += each.consumers_total
        blocked_total += each.blocked_total
        blocked_us += each.blocked_us
        for outcome in _OUTCOMES:
            ended[outcome] += each.ended[outcome]
    told: dict[str, int] = {
        "messages_current": current,
        "bytes_current": current_bytes,
        "messages_pending": depth - current,
        "bytes_pending": depth_bytes - current_bytes,
        "messages_received": received,
        "bytes_received": received_bytes,
        "messages_consumed": consumed,
        "consumers": consumers,
        "consumers_total": consumers_total,
        "blocked_sends_total": blocked_total,
        "blocked_send_us": blocked_us,
    }
    for outcome in _OUTCOMES:
        told[f"messages_{outcome.name.lower()}"] = ended[outcome]
    return told


def reset(core: "Core") -> None:
    """Begin again what runs since the start, of every queue, subscription and topic."""
    core.removed.begin_again()
    for queue in [*core.queues.values(), *core.topics.values()]:
        queue.statistics.reset()
