"""Carry out the effects of a turn whose block is durable.

A defect of ours on one link ends that link's connection; everybody else gets what is theirs.
"""

import logging

from postroom.manager.kernel.effects import Crossed, Delivery, Effects, Rejected, Sink, TokenRange
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.logs import log


def release(effects: Effects, now_us: int) -> None:
    """Answers first, then deliveries, then what is said after them."""
    for run in effects.accepted:
        _accepted(run)
    for refusal in effects.rejected:
        _rejected(refusal)
    for run in effects.settled:
        _settled(run)
    for sink in effects.unblocked:
        _unblocked(sink, now_us)
    if effects.deliveries:
        _deliver(effects.deliveries, now_us)
    for consumer in effects.drained:
        _drained(consumer.sink)
    for detach in effects.detached:
        _ended(detach.sink, detach.condition, detach.description)
    for reply in effects.replies:
        reply.target.answered(reply.payload, now_us)
    for crossed in effects.crossed:
        _log_crossed(crossed)
    for warned in effects.warned:
        log(logging.WARNING, "report-options", queue=warned.queue, what=warned.text)
    for alarm in effects.alarms:
        log(logging.ERROR, alarm.event, name=alarm.name, what=alarm.text)


def release_provisional(effects: Effects) -> None:
    """Tell senders what transactions have taken: that waits for no disk."""
    for run in effects.provisional:
        _accepted(run)
    effects.provisional.clear()


def bound_link(sink: Sink) -> BoundLink:
    """Every sink that the server gives to the queue manager is a `BoundLink`."""
    assert isinstance(sink, BoundLink)
    return sink


def _accepted(run: TokenRange) -> None:
    bound = bound_link(run.sink)
    try:
        bound.accepted(run.first, run.last)
    except Exception:
        bound.binding.fail()


def _rejected(refusal: Rejected) -> None:
    bound = bound_link(refusal.sink)
    try:
        bound.rejected(refusal.token, refusal.condition, refusal.description)
    except Exception:
        bound.binding.fail()


def _settled(run: TokenRange) -> None:
    bound = bound_link(run.sink)
    try:
        bound.settled(run.first, run.last)
    except Exception:
        bound.binding.fail()


def _unblocked(sink: Sink, now_us: int) -> None:
    bound = bound_link(sink)
    try:
        bound.unblocked(now_us)
    except Exception:
        bound.binding.fail()


def _log_crossed(crossed: Crossed) -> None:
    log(
        logging.WARNING if crossed.armed else logging.INFO,
        "threshold-armed" if crossed.armed else "threshold-disarmed",
        queue=crossed.queue,
        what=crossed.what,
        value=crossed.value,
        threshold=crossed.threshold,
    )


def _deliver(deliveries: list[Delivery], now_us: int) -> None:
    for delivery in deliveries:
        consumer = delivery.consumer
        if consumer.closed or consumer.suspended:
            continue
        bound = bound_link(consumer.sink)
        try:
            bound.deliver(delivery, now_us)
        except Exception:
            bound.binding.fail()


def _drained(sink: Sink) -> None:
    bound = bound_link(sink)
    try:
        bound.drained()
    except Exception:
        bound.binding.fail()


def _ended(sink: Sink, condition: str, description: str) -> None:
    bound = bound_link(sink)
    try:
        bound.ended(condition, description)
    except Exception:
        bound.binding.fail()
