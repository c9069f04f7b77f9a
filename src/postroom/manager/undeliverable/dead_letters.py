"""What can't be delivered: rejected entries, those over the redelivery limit, and those whose body is
damaged."""

import json
from typing import Final

from postroom.amqp.message.message_fields import MessageFields
from postroom.ledger.errors import LedgerCorrupt
from postroom.manager.destinations import registry as queues
from postroom.manager.headers.dead_letter_header import DEAD_LETTER, header_for
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transitions import step
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.undeliverable.child_entries import make_child, may_leave
from postroom.model import numbers as n
from postroom.model.mq import Reason

REASON_KEY: Final = "x-opt-dead-letter-reason"
DESCRIPTION_KEY: Final = "x-opt-dead-letter-description"
ORIGIN_KEY: Final = "x-opt-dead-letter-queue"

FAILURE_KEY: Final = "x-opt-failure-reason"
"""With it a consumer says why it failed (an annotation of its outcome ``modified``)."""

MAX_REASON_CHARS: Final = 1024
"""Of a reason and of its description, each; what a client says beyond that is cut off."""

OVER_LIMIT: Final = "postroom:redelivery-limit-exceeded"
BODY_DAMAGED: Final = "postroom:body-damaged"
REASON_PREFIX: Final = "mqrc:"
"""Of the condition with which a client rejects a message, if it is to be a reason of IBM MQ."""

_OVER_THRESHOLD: Final = int(Reason.BACKOUT_THRESHOLD_REACHED)
_UNEXPECTED: Final = int(Reason.UNEXPECTED_ERROR)


def over_limit(entry: Entry) -> bool:
    """Whether it has failed more often than its queue allows."""
    limit = entry.queue.limits.redelivery_limit
    return limit >= 0 and entry.failure_count > limit


def dead_letter(core: Core, entry: Entry, reason: str, description: str) -> None:
    """Send an entry that is in no order to its queue's dead-letter queue, or discard it if there is none.

    The reason is written to the ledger with the event that ends the entry; the new entry has it as
    annotations, MQ's dead-letter header among them.
    """
    reason, description = reason[:MAX_REASON_CHARS], description[:MAX_REASON_CHARS]
    detail = detail_of(reason, description)
    core.counters.count_undeliverable(reason)
    target = None
    if may_leave(entry):
        target = queues.target(core, as_queue(entry.queue), entry.queue.definition.dead_letter_queue)
    if target is None:
        core.effects.discard(entry.queue.name, reason, description)
        step(core, entry, n.EVENT_DISCARD, 0, 0, None, 0, detail)
    else:
        make_child(core, entry, target, n.EVENT_DEAD_LETTER, _annotations(core, entry, reason, description))
        step(core, entry, n.EVENT_DEAD_LETTER, 0, 0, None, 0, detail)
    ended(core, entry)


def keeps_rejected(core: Core, queue: Queue) -> bool:
    """Whether what is rejected stays on ``queue``: the queue manager's dead-letter queue, unless that has
    one in turn. There is no place behind it, and a consumer can't make a dead letter vanish, as in MQ."""
    return queue.name == core.options.dead_letter_queue and queue.definition.dead_letter_queue in (
        "",
        queue.name,
    )


def discard_damaged(core: Core, entry: Entry, damage: LedgerCorrupt) -> None:
    """End an entry that is in no order and whose body is damaged in the ledger: nobody could be given it.

    It goes to no dead-letter queue, for what stood there would share the damaged body. The ledger keeps the
    reason.
    """
    description = f"{damage.file} at byte {damage.offset}: {damage.reason}"[:MAX_REASON_CHARS]
    step(core, entry, n.EVENT_DISCARD, 0, 0, None, 0, detail_of(BODY_DAMAGED, description))
    ended(core, entry)


def detail_of(reason: str, description: str) -> bytes:
    """What the ledger is told with the event, as JSON."""
    record = {"condition": reason, "description": description}
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")


def _annotations(core: Core, entry: Entry, reason: str, description: str) -> dict[str, object]:
    record: dict[str, object] = {REASON_KEY: reason, ORIGIN_KEY: entry.queue.name}
    if description:
        record[DESCRIPTION_KEY] = description
    fields: MessageFields | None = None
    if entry.body is not None:
        fields = MessageFields(entry.priority, False, 0, entry.body, None)
    own = core.options.queue_manager
    header = header_for(number_of(reason), entry.queue.name, own, fields, own, core.now_us)
    header.expiry_ms = int(entry.expiry_us // 1000)
    record[DEAD_LETTER] = header.annotation()
    return record


def number_of(reason: str) -> int:
    """The MQRC_ of a reason: over the limit, one that a client has given as ``mqrc:NUMBER``, or an error."""
    if reason == OVER_LIMIT:
        return _OVER_THRESHOLD
    number = reason.removeprefix(REASON_PREFIX)
    if number != reason and number.isascii() and number.isdecimal() and len(number) < 10:
        return int(number)
    return _UNEXPECTED


def dead_letter_over_limit(core: Core, entry: Entry) -> None:
    """The redelivery limit is judged, and the entry is over it."""
    failures = f"{entry.failure_count} failures, limit {entry.queue.limits.redelivery_limit}"
    last = (entry.annotations or {}).get(FAILURE_KEY)
    if isinstance(last, str):
        failures += f"; the last: {last}"
    dead_letter(core, entry, OVER_LIMIT, failures)
