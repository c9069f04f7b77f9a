"""Which entry may go to which consumer: the one place that says so.

An entry that a consumer has called undeliverable doesn't come to it again; the messages of a group go to the
consumer that has the group; a consumer with a selector gets what that wants (`selection`).
"""

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.queues.message_groups import GROUP_WINDOW
from postroom.manager.queues.placement import refill
from postroom.manager.queues.queue import PRIORITIES, Queue


def may_go(queue: Queue, consumer: Consumer, entry: Entry, body: bytes | None) -> bool:
    """Whether ``entry`` may go to ``consumer``, as far as can be said without its body where that is None."""
    if entry.excluded is not None and consumer.id in entry.excluded:
        return False
    groups = queue.groups
    if groups is None or body is None:
        return True
    return groups.may_go(consumer, groups.bucket_of(entry, body))


def first_for(core: Core, queue: Queue, consumer: Consumer) -> Entry | None:
    """The first available entry that may go to ``consumer``, or that must be read to say so."""
    limit: i64 = consumer.excluded + 1
    if queue.groups is not None:
        limit += GROUP_WINDOW
    priority: i64 = PRIORITIES - 1
    while priority >= 0:
        band = queue.bands[priority]
        if band.backlog.count > 0:
            refill(core, queue, band)
        front = band.first()
        if front is not None and may_go(queue, consumer, front, front.body):
            return front
        for entry in band.after(-1, 0, limit) if front is not None else []:
            if may_go(queue, consumer, entry, entry.body):
                return entry
        priority -= 1
    return None
