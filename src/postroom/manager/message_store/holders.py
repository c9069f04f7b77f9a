"""Confirm ids and browse locks: who holds entries by the verbs of the message store.

A confirm id is the application's number; on each queue it is one holder for what was put or got under it, and
one more for each lock through which something was got, so that undo finds the way back to the lock. Holders
are in the ledger from their first entry to their last, and are kept over a restart.
"""

import json

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.queues.store_holders import (
    MAX_CONFIRMED,
    NO_LOCK,
    BrowseLock,
    ConfirmIdHolder,
    QueueStore,
)
from postroom.model import numbers as n


def store_of(queue: Queue) -> QueueStore:
    """The queue's store, made when first needed."""
    if queue.store is None:
        queue.store = QueueStore()
    return queue.store


def confirm_id_holder(
    core: Core, queue: Queue, confirm_id: i64, lock: BrowseLock | None, user: str
) -> ConfirmIdHolder:
    """The holder of that confirm id, made for ``user`` when first needed. Raises LimitExceeded when it has
    all it may."""
    holders = store_of(queue).holders
    key = (int(confirm_id), int(lock.id) if lock is not None else NO_LOCK)
    holder = holders.get(key)
    if holder is None:
        holder = ConfirmIdHolder(core.holders.ids.take(), confirm_id, lock)
        holders[key] = holder
        holder.since_us, holder.user = core.now_us, user
        record = {"queue": int(queue.id), "confirm_id": key[0], "lock": key[1], **_begun(core, user)}
        core.holders.open(holder.id, n.CONFIRM_ID, json.dumps(record).encode())
    if len(holder.entries) >= core.options.max_confirm_id_entries:
        raise LimitExceeded(
            f"confirm id {confirm_id} holds {len(holder.entries)} messages of queue {queue.name!r}, "
            "its limit (max_confirm_id_entries): confirm or undo some"
        )
    return holder


def _begun(core: Core, user: str) -> dict[str, object]:
    return {"since_us": int(core.now_us), "user": user}


def open_lock(core: Core, queue: Queue, confirm_id: i64, until_us: i64, user: str) -> BrowseLock:
    """A new lock of ``user``, which holds nothing yet."""
    lock = BrowseLock(core.holders.ids.take(), confirm_id, until_us)
    lock.since_us, lock.user = core.now_us, user
    store_of(queue).locks[int(lock.id)] = lock
    record = {
        "queue": int(queue.id),
        "confirm_id": int(confirm_id),
        "until_us": int(until_us),
        **_begun(core, user),
    }
    core.holders.open(lock.id, n.BROWSE_LOCK, json.dumps(record).encode())
    core.agenda.set_alarm(queue, until_us)
    return lock


def keep(core: Core, queue: Queue, entry: Entry, unique_id: bytes) -> None:
    """``entry``, which its holder has taken, is on the store's books; b"": its unique id isn't known."""
    store = store_of(queue)
    queue.held.add(entry)
    store.held[int(entry.serial)] = entry
    if unique_id:
        store.serials[unique_id] = int(entry.serial)
        store.unique_ids[int(entry.serial)] = unique_id
    else:
        store.unread.append(int(entry.serial))
    if entry.expiry_us != 0 and (store.expiry_us == 0 or entry.expiry_us < store.expiry_us):
        store.expiry_us = entry.expiry_us
        core.agenda.set_alarm(queue, entry.expiry_us)


def forget(queue: Queue, entry: Entry) -> None:
    """``entry``, which its holder has let go, is off the books."""
    store = store_of(queue)
    serial = int(entry.serial)
    queue.held.discard(entry)
    del store.held[serial]
    unique_id = store.unique_ids.pop(serial, b"")
    if unique_id:
        del store.serials[unique_id]


def note_confirmed(entry: Entry) -> None:
    """The get of ``entry`` is about to be confirmed: the same confirmation may come again."""
    store, holder = store_of(as_queue(entry.queue)), entry.owner
    unique_id = store.unique_ids.get(int(entry.serial), b"")
    if not unique_id or not isinstance(holder, ConfirmIdHolder):
        return
    store.confirmed.pop(unique_id, None)
    store.confirmed[unique_id] = int(holder.confirm_id)
    if len(store.confirmed) > MAX_CONFIRMED:
        del store.confirmed[next(iter(store.confirmed))]


def close_if_empty(core: Core, queue: Queue, holder: object) -> None:
    """A holder that holds nothing any more is none."""
    store = store_of(queue)
    if isinstance(holder, BrowseLock):
        if not holder.entries and holder.got == 0 and store.locks.pop(int(holder.id), None) is not None:
            core.holders.close(holder.id, n.BROWSE_LOCK, True)
    elif isinstance(holder, ConfirmIdHolder) and not holder.entries:
        lock = holder.lock
        key = (int(holder.confirm_id), int(lock.id) if lock is not None else NO_LOCK)
        if store.holders.pop(key, None) is not None:
            core.holders.close(holder.id, n.CONFIRM_ID, True)
