"""Who uses a queue: who holds messages of it (consumers, transactions, confirm ids, browse locks, channels,
Spark), and who puts there, whose sends wait."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.producing.blocked_sends import BlockedSend
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.store_holders import BrowseLock, ConfirmIdHolder
from postroom.manager.transactions.xa_branch import Branch, branches_of
from postroom.model.codes import HolderKind
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.links.incoming_link import IncomingLink
from postroom.server.management.request import Attributes

MAX_SHOWN_HOLDERS: Final = 1000
MAX_SCANNED_ENTRIES: Final = 100_000
"""Held messages that one request looks at."""
MAX_SCANNED_LINKS: Final = 20_000
"""Links among which one request finds those that put to a queue."""


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
        "producers": list(islice(_producers(broker, queue), MAX_SHOWN_HOLDERS)),
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


def _producers(broker: BrokerState, queue: Queue) -> Iterator[Attributes]:
    """Links that are attached to put to the queue, and others whose sends wait there."""
    links = ((binding, bound) for binding in broker.connections for bound in binding.links.values())
    for binding, bound in islice(links, MAX_SCANNED_LINKS):
        producer = bound.producer if isinstance(bound, IncomingLink) else None
        if producer is None:
            continue
        waiting = [each for each in producer.waiting or () if isinstance(each, BlockedSend)]
        blocked = [each for each in waiting if each.queue is queue]
        if producer.queue is queue or blocked:
            yield {
                "name": producer.name,
                "container_id": producer.container,
                "user": producer.user,
                "connection": binding.remote,
                "blocked_sends": len(blocked),
                "blocked_bytes": sum(int(each.size) for each in blocked),
                "blocked_since_us": min((int(each.since_us) for each in blocked), default=0),
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
