"""Counters of the queue manager as a whole: sums over its queues and subscriptions, those that were removed
included.

Little is counted twice as messages come and go: sums are made when somebody asks; only what all hold together
is kept up (`statistics.HeldByAll`), since its peak can't be found afterwards.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.statistics import CURRENT, SLOT_NAMES, Beginning
from postroom.model.codes import Outcome

if TYPE_CHECKING:
    from postroom.manager.kernel.core import Core

_OUTCOMES: Final = tuple(outcome for outcome in Outcome if outcome > Outcome.CONSUMED)


def totals(core: "Core") -> dict[str, int]:
    """All counters by the names that a queue's have."""
    removed = core.counters.removed
    received, received_bytes, consumed = removed.received, removed.received_bytes, removed.consumed
    consumers_total, blocked_total, blocked_us = (
        removed.consumers_total,
        removed.blocked_total,
        removed.blocked_us,
    )
    ended, ended_bytes = list(removed.ended), removed.ended_bytes
    beginning = Beginning()
    beginning.since_us = core.counters.since_us
    beginning.add_other(removed.beginning)
    slots: dict[str, list[int]] = {name: [0, 0] for name in SLOT_NAMES[CURRENT:]}
    consumers: i64 = 0
    for queue in destinations_of(core).queues.values():
        each = queue.statistics
        for name, (count, size) in each.slots().items():
            slots[name][0] += count
            slots[name][1] += size
        consumers += each.consumers
        received += each.received
        received_bytes += each.received_bytes
        consumed += each.consumed
        consumers_total += each.consumers_total
        blocked_total += each.blocked_total
        blocked_us += each.blocked_us
        ended_bytes += each.ended_bytes
        beginning.add_other(each.beginning)
        for outcome in _OUTCOMES:
            ended[outcome] += each.ended[outcome]
    held = core.counters.held_by_all
    current, current_bytes = slots["current"]
    record: dict[str, int] = {
        "messages_pending": int(held.depth) - current,
        "bytes_pending": int(held.depth_bytes) - current_bytes,
        "messages_high": held.high,
        "bytes_high": held.high_bytes,
        "messages_received": received,
        "bytes_received": received_bytes,
        "messages_consumed": consumed,
        "messages_ended": consumed + sum(ended),
        "bytes_ended": ended_bytes,
        "consumers": consumers,
        "consumers_total": consumers_total,
        "blocked_sends_total": blocked_total,
        "blocked_send_us": blocked_us,
    }
    for name, (count, size) in slots.items():
        record[f"messages_{name}"] = count
        record[f"bytes_{name}"] = size
    for outcome in _OUTCOMES:
        record[f"messages_{outcome.name.lower()}"] = ended[outcome]
    return record | beginning.shown()


def reset(core: "Core") -> None:
    """Begin again what runs since the start, of every queue, subscription and topic."""
    core.counters.since_us = core.now_us
    core.counters.removed.begin_again()
    core.counters.held_by_all.reset()
    for queue in core.destinations.values():
        queue.statistics.reset(core.now_us)
