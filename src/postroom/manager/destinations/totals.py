"""Counters of the queue manager as a whole: sums over its queues and subscriptions, those that were removed
included.

Little is counted twice as messages come and go: sums are made when somebody asks; only what all hold together
is kept up (`statistics.HeldByAll`), since its peak can't be found afterwards.
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.statistics import CURRENT, SLOT_NAMES, Counted

if TYPE_CHECKING:
    from postroom.manager.kernel.core import Core


def totals(core: "Core") -> dict[str, int]:
    """All counters by the names that a queue's have. Also in another thread: about as of one moment then."""
    counted = Counted()
    counted.add_all(core.counters.removed)
    counted.beginning.since_us = core.counters.since_us
    slots: dict[str, list[int]] = {name: [0, 0] for name in SLOT_NAMES[CURRENT:]}
    consumers: i64 = 0
    for queue in list(destinations_of(core).queues.values()):
        each = queue.statistics
        for name, (count, size) in each.slots().items():
            slots[name][0] += count
            slots[name][1] += size
        consumers += each.consumers
        counted.add_all(each)
    held = core.counters.held_by_all
    current, current_bytes = slots["current"]
    record: dict[str, int] = {
        "messages_pending": int(held.depth) - current,
        "bytes_pending": int(held.depth_bytes) - current_bytes,
        "messages_high": held.high,
        "bytes_high": held.high_bytes,
        "consumers": consumers,
    }
    for name, (count, size) in slots.items():
        record[f"messages_{name}"] = count
        record[f"bytes_{name}"] = size
    return record | counted.counted()


def reset(core: "Core") -> None:
    """Begin again what runs since the start, of every queue, subscription and topic."""
    core.counters.since_us = core.now_us
    core.counters.removed.begin_again()
    core.counters.held_by_all.reset()
    for queue in core.destinations.values():
        queue.statistics.reset(core.now_us)
