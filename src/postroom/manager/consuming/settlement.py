"""What consumers say to their deliveries."""

from typing import final

from mypy_extensions import i64

from postroom.manager.consuming.dispatch import refresh
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded, NotHeld
from postroom.manager.kernel.transitions import confirm, step
from postroom.manager.queues.placement import ended
from postroom.manager.undeliverable.returned_entries import (
    NO_DELAY_REQUESTED,
    come_back,
    redelivery_delay_us,
    turn_down,
)
from postroom.model import numbers as n


def take_up(core: Core, consumer: Consumer, entry: Entry) -> None:
    """``consumer`` has an outcome for ``entry``. A delivery of a detached link is taken up again by that.
    Raises NotHeld unless the consumer holds it."""
    if entry.owner is consumer and entry.holder_kind == n.SUSPENDED_LINK:
        step(core, entry, n.EVENT_RESUME, n.CONSUMER, consumer.id, consumer, 0)
    if entry.owner is not consumer or entry.holder_kind != n.CONSUMER:
        raise NotHeld(
            f"message {entry.serial} of queue {entry.queue.name!r} is not held by this consumer (any more): "
            "it was settled before, or has gone back"
        )


def let_go(core: Core, consumer: Consumer, entry: Entry) -> None:
    """The consumer holds it no longer, and may have room for another."""
    consumer.held.discard(entry)
    if not consumer.ready and consumer.credit > 0:
        refresh(core, consumer)
        core.agenda.woken.append(consumer.queue)


def accept(core: Core, consumer: Consumer, entry: Entry) -> None:
    take_up(core, consumer, entry)
    let_go(core, consumer, entry)
    confirm(core, entry)
    ended(core, entry)


def release(core: Core, consumer: Consumer, entry: Entry) -> None:
    take_up(core, consumer, entry)
    let_go(core, consumer, entry)
    entry.releases += 1
    _back_off(core, consumer, entry.releases - core.options.release_backoff_after)
    come_back(core, entry, n.EVENT_RELEASE, 0)


@final
class Modification:
    """The outcome "modified" of AMQP: ``failed`` raises both counts, ``undeliverable_here`` keeps the message
    from this consumer.

    ``annotations`` are merged into the message's for later deliveries. ``delay_us``: how long a failed one is
    to wait, instead of the queue's delay.
    """

    def __init__(
        self,
        failed: bool,
        undeliverable_here: bool = False,
        annotations: dict[str, object] | None = None,
        delay_us: i64 = NO_DELAY_REQUESTED,
    ) -> None:
        self.failed = failed
        self.undeliverable_here = undeliverable_here
        self.annotations = annotations
        self.delay_us: i64 = delay_us


def modify(core: Core, consumer: Consumer, entry: Entry, change: Modification) -> None:
    take_up(core, consumer, entry)
    if change.undeliverable_here:
        exclude(core, consumer, entry)
    let_go(core, consumer, entry)
    if change.annotations:
        entry.annotations = {**(entry.annotations or {}), **change.annotations}
    if change.failed:
        entry.releases = 0
        come_back(core, entry, n.EVENT_FAIL, redelivery_delay_us(entry, consumer, change.delay_us))
    else:
        come_back(core, entry, n.EVENT_RELEASE, 0)


def reject(core: Core, consumer: Consumer, entry: Entry, condition: str, description: str) -> None:
    take_up(core, consumer, entry)
    let_go(core, consumer, entry)
    turn_down(core, entry, consumer, condition, description)


def _back_off(core: Core, consumer: Consumer, times: i64) -> None:
    """A link that releases the same entry again and again gets nothing for a time that doubles."""
    if times <= 0 or core.options.release_backoff_ms == 0:
        return
    longest: i64 = core.options.max_release_backoff_ms
    pause: i64 = core.options.release_backoff_ms
    while times > 1 and pause < longest:
        pause *= 2
        times -= 1
    consumer.backoff_us = core.now_us + min(pause, longest) * 1000
    refresh(core, consumer)
    core.agenda.set_alarm(consumer.queue, consumer.backoff_us)


def exclude(core: Core, consumer: Consumer, entry: Entry) -> None:
    """``entry`` may not come to ``consumer`` again."""
    if consumer.excluded >= core.options.max_excluded_per_consumer:
        raise LimitExceeded(
            f"{consumer.excluded} messages of queue {consumer.queue.name!r} are undeliverable at this "
            "consumer; that is the limit (max_excluded_per_consumer): reject them, or detach"
        )
    if entry.excluded is None:
        entry.excluded = []
    if consumer.id not in entry.excluded:
        entry.excluded.append(consumer.id)
        consumer.excluded += 1
