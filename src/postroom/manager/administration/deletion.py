"""Purging and deleting queues, by an administrator or because nobody uses them.

A deletion that is forced loses all of the work of whoever holds something of the queue and hasn't decided.
Nothing is half done: a transaction is rolled back as a whole, wherever its messages are, and its client is
told at the commit; a prepared branch gets the heuristic outcome "rolled back", which its transaction manager
is told until it forgets the branch. A channel's batch is backed out, one that its partner may have as by
RESOLVE: if it has, the audit tells of each message that arrived though its sender says that it stayed.
"""

import json
from collections import Counter
from typing import Final, final

import numpy as np

from postroom.manager.channels import receiving_end, sending_end
from postroom.manager.channels import registry as channels
from postroom.manager.channels.channel import Batch, Channel, channels_of
from postroom.manager.consuming.registry import detach_all
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations.topic_subscriptions import forsake, subscriptions_of
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Detach
from postroom.manager.kernel.errors import QueueDeleted, QueueInUse
from postroom.manager.kernel.group_transitions import end_available, end_with_many
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.message_store import pending_requests
from postroom.manager.queues import annotations
from postroom.manager.queues.backlog import Backlog, Chunk
from postroom.manager.queues.band import Band
from postroom.manager.queues.entry_lookup import waiting_rows
from postroom.manager.queues.placement import ended, take_out
from postroom.manager.queues.queue import Queue, Subscription
from postroom.manager.spark import sink_verbs as sinks
from postroom.manager.spark import subscription_verbs as spark_subscriptions
from postroom.manager.transactions import commit as transactions
from postroom.manager.transactions import xa_verbs as branches
from postroom.model import numbers as n

CLEARED_AT_A_TIME: Final = 1024
"""Delayed entries of which objects are made to end them."""


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
        if not forced:
            names = ", ".join(repr(each.name) for each in queue.packed_holders)
            raise QueueInUse(
                f"queue {queue.name!r} has Spark subscriptions ({names}): delete them, or force it"
            )
        spark_subscriptions.delete_of_queue(core, queue)
    detach_all(core, queue, QueueDeleted.condition, queue.deleted_text())
    count = store.delete_held(core, queue) + clear(core, queue, n.EVENT_DELETE)
    detail = b""
    if forced:
        detail = json.dumps({"forced_by": user, "rolled_back": rolled_back}, ensure_ascii=False).encode()
    queues.remove(core, queue, detail)
    pending_requests.serve(core, queue)
    return count


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
    rows = waiting_rows(chunk)
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
        """Delete an auto-created queue that has been empty and without links for long enough, or a topic
        without senders and subscriptions; and a subscription that waited only for whoever held something of
        it."""
        if isinstance(destination, Subscription) and not destination.routed and not destination.deleted:
            forsake(core, destination)
            return
        if not destination.definition.auto_created or destination.deleted:
            return
        due_us = destination.schedule.active_us + core.options.auto_created_idle_ms * 1000
        if not _is_used(core, destination) and due_us <= core.now_us:
            queues.remove(core, destination)
        else:
            core.agenda.set_alarm(
                destination, max(due_us, core.now_us + core.options.auto_created_idle_ms * 1000 // 2)
            )


_KINDS: Final[dict[int, str]] = {
    n.LOCAL_TRANSACTION: "transactions",
    n.XA_BRANCH: "branches",
    n.XA_PREPARED: "prepared_branches",
    n.SPARK_BRANCH: "sink_branches",
}
"""How the ledger counts them in the queue's last record."""
_BATCHES: Final = "batches"
_IN_DOUBT: Final = "batches_in_doubt"


def roll_back_holders(core: Core, queue: Queue, user: str) -> dict[str, int]:
    """Roll back the work of every holder that has something of ``queue``; how many of each kind."""
    counts: Counter[str] = Counter()
    for channel in _channels_of(core, queue):
        counts += _back_out(core, queue, channel)
    for transaction in _transactions_of(queue):
        counts[_KINDS[int(transaction.kind)]] += 1
        _roll_back(core, transaction, queue, user)
    return dict(counts)


def _transactions_of(queue: Queue) -> list[Transaction]:
    """In the order in which they were made."""
    found: dict[int, Transaction] = {}
    for entry in queue.held:
        if isinstance(entry.owner, Transaction):
            found[int(entry.owner.id)] = entry.owner
    return [found[id] for id in sorted(found)]


def _channels_of(core: Core, queue: Queue) -> list[Channel]:
    """Sending channels with a batch that holds something of ``queue``."""
    held = {int(entry.owner.id) for entry in queue.held if isinstance(entry.owner, Batch)}
    return [
        channel
        for channel in channels_of(core).by_name.values()
        if any(int(batch.id) in held for batch in channel.batches)
    ]


def _back_out(core: Core, queue: Queue, channel: Channel) -> Counter[str]:
    """It holds no batch any more, and sends no more; how many batches there were, and in doubt."""
    end, count = channel.sending, len(channel.batches)
    doubtful = count if end is None else len(end.in_doubt)
    if end is not None:
        sink = end.consumer.sink
        sending_end.close(core, end, True)
        core.effects.detached.append(Detach(sink, QueueDeleted.condition, queue.deleted_text()))
    else:
        channels.resolve(core, channel.name, False)
    return Counter({_BATCHES: count - doubtful, _IN_DOUBT: doubtful})


def _roll_back(core: Core, transaction: Transaction, queue: Queue, user: str) -> None:
    by = f" by {user}" if user else ""
    why = f"queue {queue.name!r}, of which it held messages, has been deleted by force{by}"
    if transaction.kind in (n.XA_BRANCH, n.XA_PREPARED):
        branches.lose(core, transaction, why, user)
    elif transaction.kind == n.SPARK_BRANCH:
        sinks.lose(core, transaction, why)
    elif int(transaction.id) in core.transactions.local:
        transactions.rollback(core, transaction)
        transaction.failed = f"rolled back: {why}"
    else:
        receiving_end.lose(core, transaction, why)
