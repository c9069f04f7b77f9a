"""What can't be delivered: rejected entries, and those over the redelivery limit."""

from typing import Final

from postroom.manager import queues
from postroom.manager.children import make_child
from postroom.manager.core import Core
from postroom.manager.entry import Entry
from postroom.manager.placing import ended
from postroom.manager.transitions import step
from postroom.model import numbers as n

REASON_KEY: Final = "x-opt-dead-letter-reason"
DESCRIPTION_KEY: Final = "x-opt-dead-letter-description"
ORIGIN_KEY: Final = "x-opt-dead-letter-queue"

OVER_LIMIT: Final = "postroom:redelivery-limit-exceeded"


def over_limit(entry: Entry) -> bool:
    """Whether it has failed more often than its queue allows."""
    limit = entry.queue.redelivery_limit
    return limit >= 0 and entry.failure_count > limit


def dead_letter(core: Core, entry: Entry, reason: str, description: str) -> None:
    """Send an entry that is in no order to its queue's dead-letter queue, or discard it if there is none.

    The reason goes along as annotations while the new entry is in memory.
    """
    target = queues.target(core, entry.queue, entry.queue.definition.dead_letter_queue)
    if target is None:
        step(core, entry, n.EVENT_DISCARD, 0, 0, None, 0)
    else:
        told: dict[str, object] = {REASON_KEY: reason, ORIGIN_KEY: entry.queue.name}
        if description:
            told[DESCRIPTION_KEY] = description
        make_child(core, entry, target, n.EVENT_DEAD_LETTER, told)
        step(core, entry, n.EVENT_DEAD_LETTER, 0, 0, None, 0)
    ended(core, entry)


def dead_letter_over_limit(core: Core, entry: Entry) -> None:
    """The redelivery limit is judged, and the entry is over it."""
    failures = f"{entry.failure_count} failures, limit {entry.queue.redelivery_limit}"
    dead_letter(core, entry, OVER_LIMIT, failures)
