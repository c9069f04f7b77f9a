"""Why a queue doesn't take a message that no client waits with: one of a channel, or a report."""

from typing import Final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.producing.put import lacking, no_room_text, unfit
from postroom.manager.queues.queue import Queue
from postroom.model.message import MessageHead
from postroom.model.mq import Reason

_PUT_INHIBITED: Final = int(Reason.PUT_INHIBITED)
_Q_FULL: Final = int(Reason.Q_FULL)
_TOO_BIG_FOR_Q: Final = int(Reason.MSG_TOO_BIG_FOR_Q)
_TOO_BIG_FOR_Q_MGR: Final = int(Reason.MSG_TOO_BIG_FOR_Q_MGR)
_PERSISTENT_NOT_ALLOWED: Final = int(Reason.PERSISTENT_NOT_ALLOWED)
_STORAGE_NOT_AVAILABLE: Final = int(Reason.STORAGE_NOT_AVAILABLE)


def refusal_of(core: Core, queue: Queue, head: MessageHead, size: i64) -> tuple[int, str] | None:
    """Why ``queue`` doesn't take it now, as (MQRC_, sentence)."""
    if queue.switches.closed_to_puts:
        return _PUT_INHIBITED, f"queue {queue.name!r} takes no messages: production or insertion is paused"
    if size > core.options.max_message_bytes:
        limit = core.options.max_message_bytes
        return _TOO_BIG_FOR_Q_MGR, f"message of {size} bytes: the queue manager takes {limit} at most"
    refused = unfit(core, queue, size, head.durable)
    if refused is not None:
        return _reason_of(core, queue, head, size), refused[1]
    pool = lacking(core, queue, size)
    return None if pool is None else (_Q_FULL, no_room_text(pool, size))


def _reason_of(core: Core, queue: Queue, head: MessageHead, size: i64) -> int:
    """Which of the causes that `put.unfit` has found it is."""
    if size > queue.limits.max_message_bytes:
        return _TOO_BIG_FOR_Q
    if head.durable and not queue.limits.persistent:
        return _PERSISTENT_NOT_ALLOWED
    if queue.units is not None and queue.units.full():
        return _Q_FULL
    pool = queue.quota.pool
    if pool is not None and not pool.could_fit(size):
        return _TOO_BIG_FOR_Q if 0 <= pool.max_bytes < size else _Q_FULL
    return _STORAGE_NOT_AVAILABLE
