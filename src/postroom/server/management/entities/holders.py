"""Who holds messages of a queue: consumers, transactions, confirm ids, browse locks, channels, Spark."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.store_holders import BrowseLock, ConfirmIdHolder
from postroom.manager.transactions.xa_branch import Branch, branches_of
from postroom.model.codes import HolderKind
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.management.request import Attributes

MAX_SHOWN_HOLDERS: Final = 1000
MAX_SCANNED_ENTRIES: Final = 100_000
"""Held messages that one request looks at."""


def holders_of(broker: BrokerState, queue: Queue) -> Attributes:
    """Who holds how many messages of a queue or subscription."""
    consumers = [_of_consumer(each) for each in islice(queue.attached.consumers, MAX_SHOWN_HOLDERS)]
    spark = [
        {"held_by": _name(HolderKind.SPARK_SUBSCRIPTION), "name": each.name, "messages": int(each.held.count)}
        for each in queue.packed_holders
    ]
    scanned = list(islice(queue.held, MAX_SCANNED_ENTRIES))
    counts: dict[tuple[int, int], int] = {}
    owners: dict[tuple[int, int], object] = {}
    for entry in scanned:
        key = int(entry.holder_kind), int(entry.holder)
        counts[key] = counts.get(key, 0) + 1
        owners[key] = entry.owner
    known = _transactions(broker)
    others = [
        {
            "held_by": _name(kind),
            "holder": id,
            **known.get(id, {}),
            **_of_store(owners[kind, id]),
            "messages": count,
        }
        for (kind, id), count in counts.items()
    ]
    found = [*consumers, *spark, *others]
    more = len(found) > MAX_SHOWN_HOLDERS or len(queue.attached.consumers) > MAX_SHOWN_HOLDERS
    return {
        "holders": found[:MAX_SHOWN_HOLDERS],
        "more": more or len(queue.held) > len(scanned),
    }


def _name(kind: int) -> str:
    return HolderKind(kind).name.lower()


def _of_consumer(consumer: Consumer) -> Attributes:
    kind = HolderKind.SUSPENDED_LINK if consumer.suspended else HolderKind.CONSUMER
    options = consumer.options
    return {
        "held_by": _name(kind),
        "holder": int(consumer.id),
        "name": options.name,
        "container_id": options.container,
        "user": options.user,
        "messages": len(consumer.held),
    }


def _of_store(owner: object) -> Attributes:
    """What a confirm id or lock is known by."""
    if isinstance(owner, ConfirmIdHolder):
        return {"confirm_id": int(owner.confirm_id)}
    return {"lock_id": int(owner.id)} if isinstance(owner, BrowseLock) else {}


def _transactions(broker: BrokerState) -> dict[int, Attributes]:
    """What transactions and branches are known by, by their ids as holders."""
    found: dict[int, Attributes] = {}
    for binding in broker.connections:
        for each in binding.transactions.values():
            found[int(each.id)] = {
                "since_us": int(each.begun_us),
                "container_id": binding.container_id,
                "user": binding.user,
            }
    for branch in _branches(broker):
        found[int(branch.transaction.id)] = {
            "name": str(branch.xid),
            "since_us": int(branch.since_us),
            "container_id": branch.container,
            "user": branch.user,
        }
    return found


def _branches(broker: BrokerState) -> Iterable[Branch]:
    return branches_of(broker.manager.core).by_xid.values()
