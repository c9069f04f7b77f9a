"""Consumers coming, going, and going for a while."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.consuming.browser import Browser
from postroom.manager.consuming.dispatch import dispatch, refresh
from postroom.manager.consuming.selection import leave_cursor, selector_of, use_cursor
from postroom.manager.destinations.topic_subscriptions import forsake
from postroom.manager.kernel.consumer import Consumer, QueueReader
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Detach, Sink
from postroom.manager.kernel.entry import Entry, by_place
from postroom.manager.kernel.errors import AccessRefused, LimitExceeded, NotAllowed, QueueNotFound
from postroom.manager.kernel.options import ConsumerOptions
from postroom.manager.kernel.transitions import step
from postroom.manager.queues.queue import Queue, Subscription, as_queue
from postroom.manager.queues.selector_cursor import cursor_of
from postroom.manager.undeliverable.returned_entries import come_back
from postroom.model import numbers as n

_CONSUMER: Final = n.CONSUMER


def open_consumer(core: Core, queue: Queue, sink: Sink, options: ConsumerOptions) -> Consumer:
    """Bind a consumer; raises AccessRefused, LimitExceeded, QueueNotFound, SelectorRefused."""
    _check_room(core, queue)
    _check_access(queue, options)
    return bind(core, queue, sink, options)


def open_browser(core: Core, queue: Queue, sink: Sink, options: ConsumerOptions) -> Browser:
    """Bind a browser; raises LimitExceeded, QueueNotFound, SelectorRefused."""
    _check_room(core, queue)
    browser = Browser(core.holders.ids.take(), queue, sink, options, selector_of(options.selector))
    core.counters.consumers += 1
    queue.schedule.active_us = core.now_us
    queue.attached.browsers.append(browser)
    return browser


def _check_room(core: Core, queue: Queue) -> None:
    if queue.deleted:
        raise QueueNotFound(f"queue {queue.name!r} has been deleted")
    if core.counters.consumers >= core.options.max_consumers:
        raise LimitExceeded(
            f"{core.counters.consumers} consumers are the limit (max_consumers of the queue manager)"
        )


def bind(core: Core, queue: Queue, sink: Sink, options: ConsumerOptions) -> Consumer:
    """The same for somebody who may. Raises SelectorRefused."""
    selector = selector_of(options.selector)
    consumer = Consumer(core.holders.ids.take(), queue, sink, options)
    core.counters.consumers += 1
    queue.schedule.active_us = core.now_us
    if selector is not None:
        cursor = use_cursor(core, queue, selector)
        consumer.selector_cursor, consumer.selector_cursor_id = cursor, cursor.id
    consumer.active = not queue.limits.exclusive or active_consumer(queue) is None
    if options.exclusive:
        queue.attached.exclusive_consumer = consumer
    queue.attached.consumers.append(consumer)
    queue.statistics.consumer_opened()
    return consumer


def _check_access(queue: Queue, options: ConsumerOptions) -> None:
    if queue.attached.exclusive_consumer is not None:
        raise AccessRefused(f"queue {queue.name!r} is consumed exclusively by another consumer")
    if options.exclusive and queue.attached.consumers:
        raise AccessRefused(
            f"queue {queue.name!r} has {len(queue.attached.consumers)} consumers, "
            "so none can have it exclusively"
        )
    if queue.limits.exclusive and not queue.definition.standby and queue.attached.consumers:
        raise AccessRefused(f"queue {queue.name!r} is exclusive and has its consumer")
    _check_xa(queue, options.xa)
    if len(queue.attached.consumers) >= queue.definition.max_consumers:
        raise AccessRefused(
            f"queue {queue.name!r} has {len(queue.attached.consumers)} consumers, its limit (max_consumers)"
        )


def _check_xa(queue: Queue, xa: bool) -> None:
    """Consumers of XA branches and others don't share a queue: a rollback would deliver to the others out of
    order. One of a branch may stand by behind another one of an exclusive queue."""
    mixed = [consumer for consumer in queue.attached.consumers if consumer.options.xa != xa]
    if mixed and (not xa or not queue.limits.exclusive):
        have, comes = (
            ("in XA sessions", "one outside") if not xa else ("outside XA sessions", "one in an XA session")
        )
        raise AccessRefused(
            f"queue {queue.name!r} has {len(mixed)} consumers {have}: {comes} can't join them"
        )


def active_consumer(queue: Queue) -> Consumer | None:
    """Of an exclusive queue: who may take."""
    for consumer in queue.attached.consumers:
        if consumer.active and not consumer.suspended:
            return consumer
    return None


def fail_over(core: Core, queue: Queue) -> None:
    """The active consumer of an exclusive queue is gone: the next in bind order takes over."""
    if not queue.limits.exclusive or active_consumer(queue) is not None:
        return
    for consumer in queue.attached.consumers:
        if not consumer.suspended:
            consumer.active = True
            refresh(core, consumer)
            core.agenda.woken.append(queue)
            return


def set_credit(core: Core, reader: QueueReader, credit: i64, drain: bool) -> None:
    """The reader can take ``credit`` deliveries now; ``drain``: those that can't be used now are given
    up."""
    if reader.closed or reader.suspended:
        return
    reader.credit = credit
    if isinstance(reader, Consumer):
        _set_draining(reader, drain)
        refresh(core, reader)
    reader.drain = drain
    if credit > 0 or drain:
        dispatch(core, as_queue(reader.queue))


def _set_draining(consumer: Consumer, drain: bool) -> None:
    if drain != consumer.drain:
        if drain:
            as_queue(consumer.queue).attached.draining.append(consumer)
        else:
            as_queue(consumer.queue).attached.draining.remove(consumer)
    consumer.drain = drain


def held_in_order(consumer: Consumer, last_first: bool) -> list[Entry]:
    """What a consumer holds, by place (and priority)."""
    held = list(consumer.held)
    held.sort(key=by_place, reverse=last_first)
    return held


def close_reader(core: Core, reader: QueueReader, lost: bool) -> None:
    """The reader is gone; what a consumer holds goes back to its places."""
    if reader.closed:
        return
    reader.closed = True
    reader.credit = 0
    core.counters.consumers -= 1
    if isinstance(reader, Consumer):
        _close_consumer(core, reader, lost)
    elif isinstance(reader, Browser):
        as_queue(reader.queue).attached.browsers.remove(reader)


def _close_consumer(core: Core, consumer: Consumer, lost: bool) -> None:
    queue = as_queue(consumer.queue)
    _set_draining(consumer, False)
    if consumer.suspended:
        core.counters.suspended -= 1
    refresh(core, consumer)
    queue.attached.consumers.remove(consumer)
    if queue.groups is not None:
        queue.groups.leave(consumer)
    cursor = cursor_of(consumer)
    if cursor is not None:
        leave_cursor(cursor)
    queue.statistics.consumer_closed()
    if queue.attached.exclusive_consumer is consumer:
        queue.attached.exclusive_consumer = None
    event = n.EVENT_LINK_LOST if lost or consumer.suspended else n.EVENT_RELEASE
    for entry in held_in_order(consumer, True):
        come_back(core, entry, event, 0)
    consumer.held.clear()
    core.holders.close(consumer.id, _CONSUMER, consumer.recorded)
    if consumer.excluded > 0:
        _lift_exclusions(queue, consumer)
    queue.schedule.active_us = core.now_us
    consumer.active = False
    if isinstance(queue, Subscription) and not queue.durable and not queue.attached.consumers:
        forsake(core, queue)
    fail_over(core, queue)
    core.agenda.woken.append(queue)


def _lift_exclusions(queue: Queue, consumer: Consumer) -> None:
    """Nothing need remember a link that is no more."""
    for band in queue.bands:
        for entry in band.waiting():
            if entry.excluded is not None and consumer.id in entry.excluded:
                entry.excluded.remove(consumer.id)
                if not entry.excluded:
                    entry.excluded = None
                    queue.selectors.exclusions -= 1
    consumer.excluded = 0


def suspend_consumer(core: Core, consumer: Consumer, timeout_us: i64) -> bool:
    """The link is gone but may come back in time; False when there is no room to remember it."""
    if consumer.closed or consumer.suspended or consumer.presettled:
        return False
    if timeout_us <= 0 or core.counters.suspended >= core.options.max_suspended_links:
        return False
    longest: i64 = core.options.max_suspend_ms * 1000
    consumer.suspended = True
    consumer.suspended_until_us = core.now_us + min(timeout_us, longest)
    consumer.credit = 0
    _set_draining(consumer, False)
    core.counters.suspended += 1
    refresh(core, consumer)
    for entry in held_in_order(consumer, False):
        step(core, entry, n.EVENT_SUSPEND, n.SUSPENDED_LINK, consumer.id, consumer, 0)
    core.agenda.set_alarm(consumer.queue, consumer.suspended_until_us)
    if consumer.queue.limits.exclusive:
        consumer.active = False
        fail_over(core, as_queue(consumer.queue))
    return True


def resume_consumer(core: Core, consumer: Consumer, sink: Sink) -> list[Entry]:
    """The link is back, as ``sink``; returns what it still holds, in order."""
    if not consumer.suspended or consumer.closed:
        raise NotAllowed(f"the consumer of queue {consumer.queue.name!r} is not suspended (any more)")
    consumer.suspended = False
    consumer.sink = sink
    core.counters.suspended -= 1
    queue = as_queue(consumer.queue)
    if queue.limits.exclusive:
        consumer.active = active_consumer(queue) is None
    held = held_in_order(consumer, False)
    for entry in held:
        if entry.holder_kind == n.SUSPENDED_LINK:
            step(core, entry, n.EVENT_RESUME, n.CONSUMER, consumer.id, consumer, 0)
    return held


def recheck_credit(core: Core, queue: Queue) -> None:
    """What a consumer of ``queue`` may have unsettled can be another number now."""
    for consumer in queue.attached.consumers:
        refresh(core, consumer)
    core.agenda.woken.append(queue)


def detach_all(core: Core, queue: Queue, condition: str, description: str) -> None:
    """End every consumer and browser of ``queue``; what they hold goes back."""
    readers: list[QueueReader] = [*queue.attached.consumers, *queue.attached.browsers]
    for reader in readers:
        close_reader(core, reader, True)
        core.effects.detached.append(Detach(reader.sink, condition, description))


@final
class ConsumerPart(TurnPart):
    """Consumers that waited go on."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        """End back-offs and suspensions whose time is over."""
        if not isinstance(destination, Queue):
            return
        queue = destination
        for consumer in list(queue.attached.consumers):
            if consumer.backoff_us != 0:
                if consumer.backoff_us <= core.now_us:
                    consumer.backoff_us = 0
                    refresh(core, consumer)
                    core.agenda.woken.append(queue)
                else:
                    core.agenda.set_alarm(queue, consumer.backoff_us)
            if consumer.suspended:
                if consumer.suspended_until_us <= core.now_us:
                    close_reader(core, consumer, True)
                else:
                    core.agenda.set_alarm(queue, consumer.suspended_until_us)
