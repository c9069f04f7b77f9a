"""Starting from what the ledger recovered: queues, their backlog without making objects, and who lost
what.

The holder table decides about held entries (`model.holders`); each change is an event of its own in the
ledger.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from postroom.ledger.errors import UnknownSetting
from postroom.ledger.format.records import RecordType
from postroom.manager.administration import deletion as administration
from postroom.manager.administration import pausing
from postroom.manager.channels import registry as channels
from postroom.manager.channels.batches import hold
from postroom.manager.channels.channel import Batch
from postroom.manager.consuming import unit_turns
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations import switches
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.destinations.topic_subscriptions import forsake, subscriptions_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry, annotations_of
from postroom.manager.kernel.entry_creation import recovered_as
from postroom.manager.kernel.group_transitions import lose_many
from postroom.manager.kernel.memory import admit
from postroom.manager.kernel.options import KIND_QUEUE, QueueDefinition
from postroom.manager.kernel.quota_definition import KIND_QUOTA, QuotaDefinition
from postroom.manager.kernel.statistics import CURRENT, ORDERED, UNBORN
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.kernel.transition_table import allowed
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.names.name_resolution import names_of
from postroom.manager.names.remote_queue_definition import KIND_REMOTE, RemoteQueueDefinition
from postroom.manager.producing import quotas
from postroom.manager.queues import annotations
from postroom.manager.queues.backlog import ZONE_ENTRIES
from postroom.manager.queues.placement import delay, ended, note_unbodied, watch_expiry
from postroom.manager.queues.queue import Queue, Subscription, as_queue
from postroom.manager.security import registry as principals
from postroom.manager.security.principal_definition import PrincipalDefinition
from postroom.manager.spark import sink_verbs as sinks
from postroom.manager.spark import subscription_verbs as spark_subscriptions
from postroom.manager.spark.sink import sinks_of
from postroom.manager.transactions import xa_verbs as branches
from postroom.model import numbers as n
from postroom.model.channel import ChannelDefinition
from postroom.model.holders import HOLDERS
from postroom.model.packed import CHUNK_ENTRIES, ORDERED_FIELDS, PACKED_BYTES, PACKED_FIELDS, UNBORN_FIELDS
from postroom.model.settings import restored

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import EntryRow, HolderRow, Recovered

_PRODUCER_CLOSED: Final = int(RecordType.PRODUCER_CLOSED)
_PACKED: Final = np.dtype(PACKED_FIELDS)
_UNBORN: Final = np.dtype(UNBORN_FIELDS)
_ORDERED: Final = np.dtype(ORDERED_FIELDS)

_GONE_WITH_THE_PROCESS: Final = frozenset(kind for kind, rule in HOLDERS.items() if rule.restart != "kept")
"""Holders that a restart ends; the others are kept."""


_SETTINGS: Final[dict[str, frozenset[str]]] = {
    KIND_QUOTA: frozenset(each.name for each in fields(QuotaDefinition)),
    KIND_REMOTE: frozenset(each.name for each in fields(RemoteQueueDefinition)),
}
_QUEUE_SETTINGS: Final = frozenset(each.name for each in fields(QueueDefinition))
_CHANNEL_SETTINGS: Final = frozenset(each.name for each in fields(ChannelDefinition))
_PRINCIPAL_SETTINGS: Final = frozenset(each.name for each in fields(PrincipalDefinition))


def restore(core: Core, recovered: "Recovered") -> None:
    """Take over what was recovered, and write what the restart itself changes. Raises ``UnknownSetting``."""
    destinations = destinations_of(core)
    # a setting of a later version would not be kept to
    for _, record in recovered.queues:
        kind = str(record.get("kind", KIND_QUEUE))
        _check_settings(kind, record, _SETTINGS.get(kind, _QUEUE_SETTINGS))
    for _, record in recovered.channels:
        _check_settings("channel", record, _CHANNEL_SETTINGS)
    for _, record in recovered.principals:
        _check_settings(str(record["kind"]), record, _PRINCIPAL_SETTINGS)
    core.counters.since_us = core.now_us
    core.durability.through = (
        core.ledger.next_position - 1
    )  # what comes from here on isn't, until we are told
    _define(core, recovered)
    principals.restore(core, recovered)
    destinations.next_id = max(destinations.next_id, recovered.next_queue_id)
    core.holders.ids.go_on(recovered.next_holder_id, _holders_in_the_ledger(recovered))
    for id, serial, queue_id, values in recovered.annotations:
        annotations.restore(core, as_queue(core.destinations[queue_id]), serial, id, values)
    for queue_id, packed in recovered.backlog:
        _add_packed(as_queue(core.destinations[queue_id]), packed)
    for queue_id, packed in recovered.unborn:
        there = as_queue(core.destinations[queue_id])
        there.delayed.restore(packed)
        _count(there, np.frombuffer(packed, _UNBORN), UNBORN)
    for queue_id, packed in recovered.ordered:
        there = as_queue(core.destinations[queue_id])
        there.delayed.ordered.restore(packed)
        _count(there, np.frombuffer(packed, _ORDERED), ORDERED)
    _restore_windows(core, recovered)
    for queue_id, state, serials in recovered.lost:
        lose_many(core, core.destinations[queue_id], state, serials)
    prepared = branches.restore(core, recovered.holders)
    writing = sinks.restore(core, recovered)
    batches = channels.restore(core, recovered)
    holders = store.restore_holders(core, recovered.holders)
    _take_back(core, recovered.explicit, holders, prepared | writing, batches)
    spark_subscriptions.restore(core, recovered)
    for transaction in prepared.values():
        _restore_ids(core, transaction)
    _restore_sink_ids(core, recovered)
    _close(core, recovered.holders, recovered.producers)
    for queue in [*destinations.queues.values(), *destinations.topics.values()]:
        _begin_again(core, queue)
    # routing sets that name somebody who is gone are of no use any more
    subscriptions = subscriptions_of(core)
    subscriptions.routing_sets.next_id = recovered.next_set_id
    for set_id, members in recovered.routing_sets:
        in_use = all(member in core.destinations for member in members)
        subscriptions.routing_sets.restore(set_id, members, in_use)


def _check_settings(kind: str, record: dict[str, Any], known: frozenset[str]) -> None:
    for setting in record:
        if setting not in known and setting != "kind":
            raise UnknownSetting(kind, str(record["name"]), setting)


def _define(core: Core, recovered: "Recovered") -> None:
    """Quotas, names and queues, as they were defined."""
    for quota_id, record in recovered.queues:
        if record.get("kind") == KIND_QUOTA:
            quotas.register(core, quota_id, restored(QuotaDefinition, record))
        elif record.get("kind") == KIND_REMOTE:
            names_of(core).register(quota_id, restored(RemoteQueueDefinition, record))
    for queue_id, record in recovered.queues:
        if record.get("kind") not in (KIND_QUOTA, KIND_REMOTE):
            queues.register(core, queue_id, restored(QueueDefinition, record))
    for queue in destinations_of(core).queues.values():
        if isinstance(queue, Subscription):  # its topic may have been made after it
            switches.at_startup(core, queue)


def _restore_windows(core: Core, recovered: "Recovered") -> None:
    for queue_id, taken in recovered.duplicates:
        window = core.destinations[queue_id].duplicates
        if window is not None:
            for serial, key in taken:
                window.add(key, serial)


def _restore_ids(core: Core, transaction: Transaction) -> None:
    """What a prepared branch put before the start is in the windows; let it know which keys are its own."""
    serials = {int(entry.serial) for entry in transaction.puts}
    for queue in core.destinations.values():
        if queue.duplicates is not None and serials:
            for key in queue.duplicates.keys_of(serials):
                transaction.message_ids[queue.duplicates, key] = None


def _restore_sink_ids(core: Core, recovered: "Recovered") -> None:
    """What undecided sink branches hold is in no window yet: the branches know it."""
    if not recovered.sink_ids:
        return
    taken = {(queue_id, serial): key for queue_id, ids in recovered.sink_ids for serial, key in ids}
    windows = {queue_id: core.destinations[queue_id].duplicates for queue_id, _ in recovered.sink_ids}
    for branch in sinks_of(core).branches.values():
        for entry in branch.transaction.puts:
            for queue_id, window in windows.items():
                key = taken.get((queue_id, int(entry.serial)))
                if key is not None and window is not None:
                    branch.transaction.message_ids[window, key] = None


def _begin_again(core: Core, destination: Destination) -> None:
    """Alarms, and the end of temporary queues, topics, and subscriptions that are not durable."""
    if not isinstance(destination, Queue):
        if destination.definition.temporary:
            queues.remove(core, destination)
        else:
            _watch_use(core, destination)
        return
    queue = destination
    store.close_empty_holders(core, queue)
    if queue.definition.temporary:
        if len(queue.held) == store.held_by_store(queue):
            administration.delete(core, queue, False, False)
        else:
            forsake(core, queue)
        return
    core.agenda.set_alarm(queue, queue.delayed.next_us())
    pausing.release(core, queue)
    if queue.units is not None:
        unit_turns.restored(core, queue, queue.units)
    for band in queue.bands:
        if band.backlog.count > 0:
            watch = band.backlog.min_expiry_us()
            if watch != 0:
                watch_expiry(core, queue, watch)
    _watch_use(core, queue)


def _watch_use(core: Core, destination: Destination) -> None:
    """An auto-created one goes when nobody has used it for long enough."""
    if destination.definition.auto_created:
        core.agenda.set_alarm(destination, core.now_us + core.options.auto_created_idle_ms * 1000)


def _add_packed(queue: Queue, packed: bytes) -> None:
    """A piece of the backlog: of one priority as recovery makes it, of several if need be."""
    rows = np.frombuffer(packed, _PACKED)
    priorities = rows["priority"]
    if int(priorities.min()) != int(priorities.max()):
        for priority in sorted(set(priorities.tolist()), reverse=True):
            _add_packed(queue, rows[priorities == priority].tobytes())
        return
    if len(rows) > CHUNK_ENTRIES:
        for at in range(0, len(packed), CHUNK_ENTRIES * PACKED_BYTES):
            _add_packed(queue, packed[at : at + CHUNK_ENTRIES * PACKED_BYTES])
        return
    backlog = queue.band(int(priorities[0])).backlog
    backlog.add_chunk(packed, len(rows), _zones(rows["expiry_us"]), {}, b"")
    backlog.count += len(rows)
    _count(queue, rows, CURRENT)


def _count(queue: Queue, rows: Any, slot: int) -> None:
    queue.statistics.restore_many(len(rows), int(rows["body_len"].sum()), slot)


def _zones(expiries_us: Any) -> list[int]:
    """The earliest expiry of each zone; empty if nothing expires."""
    if not expiries_us.any():
        return []
    never = np.iinfo(np.int64).max
    times = np.where(expiries_us == 0, never, expiries_us)
    soonest = np.minimum.reduceat(times, np.arange(0, len(times), ZONE_ENTRIES))
    return [0 if time_us == never else int(time_us) for time_us in soonest.tolist()]


def _take_back(
    core: Core,
    rows: "list[EntryRow]",
    holders: dict[int, store.Holder],
    undecided: dict[int, Transaction],
    batches: dict[int, Batch],
) -> None:
    """Entries that are not plain: each as its state and holder have it."""
    for row in rows:
        _take_back_one(core, as_queue(core.destinations[row.queue]), row, holders, undecided, batches)
        core.ledger.boundary()
    for queue in destinations_of(core).queues.values():
        for band in queue.bands:
            band.sort()


def _take_back_one(
    core: Core,
    queue: Queue,
    row: "EntryRow",
    holders: dict[int, store.Holder],
    undecided: dict[int, Transaction],
    batches: dict[int, Batch],
) -> None:
    entry = _entry(queue, row)
    recovered_as(entry, row.state, row.holder_kind, row.holder, row.causes)
    admit(core, entry)
    if entry.holder_kind != 0:
        if not allowed(entry, n.EVENT_RESTART):
            if entry.holder_kind == n.XA_PREPARED:
                branches.restore_held(undecided[row.holder], entry)
            elif entry.holder_kind == n.SPARK_BRANCH:
                sinks.restore_held(core, undecided[row.holder], entry)
            elif entry.holder_kind == n.CHANNEL_BATCH:
                hold(batches[row.holder], entry)
            if not store.restore_held(core, entry, holders):
                queue.held.add(entry)
            return
        step(core, entry, n.EVENT_RESTART, 0, 0, None, n.PAUSED if queue.switches.insertion_paused else 0)
        if row.noted == n.EVENT_DELETE and entry.state == n.AVAILABLE:
            step(core, entry, n.EVENT_DELETE, 0, 0, None, 0)
    if entry.state == n.DELETED:
        ended(core, entry)
    elif entry.state == n.DELAYED:
        delay(core, entry)
    else:
        queue.band(entry.priority).recover(entry)
        note_unbodied(queue, entry)
        if entry.expiry_us != 0:
            watch_expiry(core, queue, entry.expiry_us)


def _entry(queue: Queue, row: "EntryRow") -> Entry:
    entry = Entry(
        queue,
        row.serial,
        row.priority,
        row.flags & ~n.FLAG_RECEIVED,
        row.expiry_us,
        row.body_offset,
        row.body_len,
        None,
    )
    entry.body_serial = row.body_serial
    entry.place = row.place_position
    entry.ordinal = row.place_ordinal
    entry.due_us = row.due_us
    entry.delivery_count = row.delivery_count
    entry.failure_count = row.failure_count
    entry.noted = row.noted if row.noted == n.EVENT_DELETE else 0
    entry.annotations = annotations_of(queue, row.serial)
    return entry


def _holders_in_the_ledger(recovered: "Recovered") -> set[int]:
    """The ids of everybody whom its last records know, whether they are still there or not."""
    known = {row.holder for row in recovered.holders}
    for some in (recovered.producers, recovered.channels, recovered.channel_states, recovered.sinks):
        known.update(id for id, _ in some)
    known.update(id for id, *_ in recovered.annotations)
    return known


def _close(core: Core, holders: "list[HolderRow]", producers: list[tuple[int, dict[str, Any]]]) -> None:
    """Say of everybody whom the restart has ended that they are gone."""
    for holder in holders:
        if holder.holder_kind in _GONE_WITH_THE_PROCESS:
            core.holders.close(holder.holder, holder.holder_kind, True)
    for producer_id, _ in producers:
        core.ledger.record(_PRODUCER_CLOSED, 0, 0, producer_id, 0, 0, b"")
    core.ledger.boundary()
