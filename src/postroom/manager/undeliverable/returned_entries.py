"""Entries that come back, and entries whose delay ends."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import admit
from postroom.manager.kernel.transitions import step
from postroom.manager.queues.placement import add_again, add_committed, delay, ended, why_held_back
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.undeliverable.dead_letters import (
    MAX_REASON_CHARS,
    dead_letter,
    dead_letter_over_limit,
    detail_of,
    keeps_rejected,
    over_limit,
)
from postroom.manager.undeliverable.expiry import expire, expired
from postroom.model import numbers as n

NO_GROWTH: Final = 100
"""Per cent: each delay is as long as the one before."""
MAX_DELAY_GROWTH: Final = 10
"""A delay that grows stops at so many times the first, where its queue doesn't say."""


NO_DELAY_REQUESTED: Final = -1
"""The consumer's outcome asks for no delay."""


def redelivery_delay_us(
    entry: Entry, consumer: Consumer | None, requested_us: i64 = NO_DELAY_REQUESTED
) -> i64:
    """How long ``entry``, at which ``consumer`` fails, is to wait: what its outcome asks for beats the
    queue's delay, and that the consumer's.

    It grows with each failure, if the queue says so; what is asked for stays as it is.
    """
    queue = entry.queue
    if requested_us >= 0:
        return requested_us
    delay_us: i64 = queue.limits.redelivery_delay_us
    if delay_us < 0:
        delay_us = consumer.redelivery_delay_us if consumer is not None else 0
    if queue.limits.redelivery_growth == NO_GROWTH or delay_us == 0:
        return delay_us
    longest_us: i64 = queue.limits.max_redelivery_delay_us
    if longest_us < 0:
        longest_us = delay_us * MAX_DELAY_GROWTH
    for _ in range(entry.failure_count):
        delay_us = delay_us * queue.limits.redelivery_growth // NO_GROWTH
        if delay_us >= longest_us:
            return longest_us
    return delay_us


def come_back(core: Core, entry: Entry, event: int, delay_us: i64, detail: bytes = b"") -> None:
    """The holder gives ``entry`` back by ``event``, not to be delivered again for ``delay_us``.

    That is fixed now: what changes later concerns those that come back later. Without a delay the redelivery
    limit is judged at once, else when the delay ends; while insertion is paused, when it is resumed. What
    somebody has deleted meanwhile ends. ``detail`` (JSON) goes to the ledger with the event.
    """
    if delay_us > 0:
        causes: i64 = n.REDELIVERY_DELAY
        entry.due_us = core.now_us + delay_us
    else:
        causes = why_held_back(entry)
    step(core, entry, event, 0, 0, None, causes, detail)
    if entry.noted == n.EVENT_DELETE:
        entry.noted = 0
        step(core, entry, n.EVENT_DELETE, 0, 0, None, 0)
        ended(core, entry)
        return
    if settle_down(core, entry):
        core.agenda.woken.append(entry.queue)


def turn_down(core: Core, entry: Entry, consumer: Consumer | None, condition: str, description: str) -> None:
    """A consumer rejects ``entry``: to the dead-letter queue, or out. Where there is nothing behind the queue
    (`keeps_rejected`) it comes back as failed."""
    if keeps_rejected(core, as_queue(entry.queue)):
        detail = detail_of(condition[:MAX_REASON_CHARS], description[:MAX_REASON_CHARS])
        come_back(core, entry, n.EVENT_FAIL, redelivery_delay_us(entry, consumer), detail)
    else:
        dead_letter(core, entry, condition, description)


def settle_down(core: Core, entry: Entry) -> bool:
    """Put an entry that nobody holds any more where it belongs: to its place, among the delayed, or out.
    Whether it is at its place."""
    if entry.state == n.DELAYED:
        delay(core, entry)
    elif over_limit(entry):
        dead_letter_over_limit(core, entry)
    elif expired(core, entry):
        expire(core, entry)
    else:
        add_again(core, as_queue(entry.queue), entry)
        return True
    return False


def end_delay(core: Core, queue: Queue, entry: Entry) -> None:
    """What an entry waited for is over; it has left the delayed ones."""
    if entry.due_us > core.now_us:
        expire(core, entry)  # before its delay was over: nobody has seen it, and nobody will
        return
    if over_limit(entry):
        dead_letter_over_limit(core, entry)
        return
    if expired(core, entry):
        expire(core, entry)
        return
    if not entry.counted:
        admit(core, entry)
    position = step(core, entry, n.EVENT_DUE, 0, 0, None, why_held_back(entry))
    if entry.state == n.DELAYED:
        delay(core, entry)
        return
    if entry.place == 0:
        entry.place = position
        add_committed(core, queue, entry)
    else:
        add_again(core, queue, entry)
    core.agenda.woken.append(queue)


@final
class DelayPart(TurnPart):
    """Delays end."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        """Make available, or judge, what is due."""
        if not isinstance(destination, Queue):
            return
        left = core.options.max_expired_per_turn
        while left > 0:
            entry = destination.delayed.pop(core.now_us)
            if entry is None:
                break
            end_delay(core, destination, entry)
            left -= 1
        core.agenda.set_alarm(destination, destination.delayed.next_us())
