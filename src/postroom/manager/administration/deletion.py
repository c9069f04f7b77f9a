"""Purging and deleting queues, by an administrator or because nobody uses them."""

import json
from typing import Final, final

import numpy as np

from postroom.manager.administration.forced_deletion import roll_back_holders
from postroom.manager.consuming.registry import detach_all
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations.topic_subscriptions import forsake, subscriptions_of
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import QueueDeleted, QueueInUse
from postroom.manager.kernel.group_transitions import end_available, end_with_many
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.message_store import pending_requests
from postroom.manager.queues import annotations
from postroom.manager.queues.backlog import Backlog, Chunk
from postroom.manager.queues.band import Band
from postroom.manager.queues.placement import ended, take_out
from postroom.manager.queues.queue import Queue, Subscription
from postroom.manager.spark import subscription_verbs as spark_subscriptions
from postroom.model import numbers as n
from postroom.model.packed import PACKED_FIELDS

CLEARED_AT_A_TIME: Final = 1024
"""Delayed entries of which objects are made to end them."""

_PACKED: Final = np.dtype(PACKED_FIELDS)


def purge(core: Core, queue: Queue) -> int:
    """End everything that is available or delayed; returns how many entries that were."""
    return clear(core, queue, n.EVENT_PURGE)


def delete(
    core: Core, queue: Queue, if_unused: bool, if_empty: bool, forced: bool = False, user: str = ""
) -> int:
    """Delete ``queue`` with what is on it. ``forced``, by ``user``: also past Spark subscriptions, and
    transactions that have something of it. Raises QueueInUse."""
    if if_unused and (queue.attached.consumers or queue.attached.browsers):
        consumers = len(queue.attached.consumers) + len(queue.attached.browsers)
        raise QueueInUse(f"queue {queue.name!r} has {consumers} consumers")
    if if_empty and not queue.is_empty():
        raise QueueInUse(f"queue {queue.name!r} has {queue.statistics.depth} messages")
    decided_elsewhere = len(queue.held) - store.held_by_store(queue)
    rolled_back: dict[str, int] = {}
    if decided_elsewhere > 0 and not forced:
        raise QueueInUse(
            f"queue {queue.name!r} has {decided_elsewhere} messages held by transactions or channels: decide "
            "those first, or force it"
        )
    if decided_elsewhere > 0:
        rolled_back = roll_back_holders(core, queue, user)
    if queue.packed_holders:
        _end_spark(core, queue, forced)
    detach_all(core, queue, QueueDeleted.condition, queue.deleted_text())
    count = store.delete_held(core, queue) + clear(core, queue, n.EVENT_DELETE)
    queues.remove(core, queue, _forced_detail(user, rolled_back) if forced else b"")
    pending_requests.serve(core, queue)
    return count


def _forced_detail(user: str, rolled_back: dict[str, int]) -> bytes:
    """What the ledger is told of a deletion that was forced: by whom, and whose work was lost by it."""
    return json.dumps({"forced_by": user, "rolled_back": rolled_back}, ensure_ascii=False).encode()


def _end_spark(core: Core, queue: Queue, forced: bool) -> None:
    if not forced:
        names = ", ".join(repr(each.name) for each in queue.packed_holders)
        raise QueueInUse(f"queue {queue.name!r} has Spark subscriptions ({names}): delete them, or force it")
    spark_subscriptions.delete_of_queue(core, queue)


def remove_if_idle(core: Core, queue: Destination) -> None:
    """Delete an auto-created queue that has been empty and without links for long enough, or a topic
    without senders and subscriptions; and a subscription that was only waiting for whoever held something of
    it.
    """
    if isinstance(queue, Subscription) and not queue.routed and not queue.deleted:
        forsake(core, queue)
        return
    if not queue.definition.auto_created or queue.deleted:
        return
    due_us = queue.schedule.active_us + core.options.auto_created_idle_ms * 1000
    if not _is_used(core, queue) and due_us <= core.now_us:
        queues.remove(core, queue)
    else:
        core.agenda.set_alarm(queue, max(due_us, core.now_us + core.options.auto_created_idle_ms * 1000 // 2))


def _is_used(core: Core, queue: Destination) -> bool:
    """Whether it has links, messages, sends that wait, or, a topic, subscriptions."""
    if queue.producers or queue.statistics.blocked > 0:
        return True
    if not isinstance(queue, Queue):
        return bool(subscriptions_of(core).patterns.exactly(queue.name))
    if queue.attached.consumers or queue.attached.browsers or not queue.is_empty():
        return True
    return queue.schedule.watched or bool(queue.packed_holders)


def clear(core: Core, queue: Queue, event: int) -> int:
    """End by ``event`` what is available or delayed; returns how many entries that were."""
    count = 0
    while len(queue.delayed) > 0:
        for entry in queue.delayed.some(CLEARED_AT_A_TIME):
            queue.delayed.discard(entry)
            step(core, entry, event, 0, 0, None, 0)
            ended(core, entry)
            count += 1
        core.ledger.boundary()
    for band in queue.bands:
        count += _clear_objects(core, queue, band, event)
        count += _clear_backlog(core, queue, band.backlog, event)
    return count


def _clear_objects(core: Core, queue: Queue, band: Band, event: int) -> int:
    count = 0
    for entry in band.waiting():
        take_out(queue, entry)
        step(core, entry, event, 0, 0, None, 0)
        ended(core, entry)
        count += 1
        core.ledger.boundary()
    return count


def _clear_backlog(core: Core, queue: Queue, backlog: Backlog, event: int) -> int:
    """End packed entries a chunk at a time, each with one record."""
    count = 0
    for chunk in backlog.sealed():
        count += _end_chunk(core, queue, chunk, event)
        core.ledger.boundary()
    backlog.chunks = []
    backlog.count = 0
    return count


def _end_chunk(core: Core, queue: Queue, chunk: Chunk, event: int) -> int:
    """End what waits in one chunk; looked at as columns, for there may be millions."""
    rows = np.frombuffer(chunk.data, _PACKED)[chunk.head : chunk.count]
    if chunk.dead is not None:
        dead = np.unpackbits(np.frombuffer(chunk.dead, np.uint8), bitorder="little")
        rows = rows[dead[chunk.head : chunk.count] == 0]
    for entry in chunk.objects.values():
        end_with_many(entry)
        ended(core, entry)
    if queue.units is not None:
        for serial in rows["serial"].tolist():
            queue.units.ended(serial)
        core.agenda.woken.append(queue)
    if queue.annotated is not None:
        for serial in rows["serial"].tolist():
            annotations.drop(core, queue, serial)
    if len(rows):
        end_available(core, queue, event, rows["serial"], int(rows["body_len"].sum(dtype=np.int64)))
    return len(rows)


@final
class IdleDestinationPart(TurnPart):
    """Auto-created queues and topics that nobody uses go."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        remove_if_idle(core, destination)
