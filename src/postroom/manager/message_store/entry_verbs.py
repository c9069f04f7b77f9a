"""What the verbs of the message store do to one entry, and what time does to those that are held.

The states are those of MQ Everyplace: put unconfirmed, unlocked (here: available), locked for browse, get
unconfirmed, browse get unconfirmed. Which entry is meant, and whether the caller may, `verbs` decides.
"""

from typing import TYPE_CHECKING, Any, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import drop_body
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store.holders import close_if_empty, forget, keep, note_confirmed, store_of
from postroom.manager.queues.entry_lookup import Location, pick
from postroom.manager.queues.placement import add_committed, delay, ended, why_put_waits
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.queues.store_holders import NO_LOCK, BrowseLock, ConfirmIdHolder, QueueStore
from postroom.manager.undeliverable.expiry import expired
from postroom.manager.undeliverable.returned_entries import come_back
from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import HolderRow

Holder = BrowseLock | ConfirmIdHolder


def hold_put(core: Core, entry: Entry, holder: ConfirmIdHolder, unique_id: bytes) -> None:
    """``entry`` has been put under a confirm id."""
    holder.entries[int(entry.serial)] = entry
    keep(core, as_queue(entry.queue), entry, unique_id)


def get(core: Core, location: Location) -> None:
    """getMessage without confirm id: the entry is consumed."""
    entry = pick(core, as_queue(location.entry.queue), location)
    step(core, entry, n.EVENT_GET, 0, 0, None, 0)
    ended(core, entry)


def acquire(core: Core, location: Location, holder: ConfirmIdHolder, unique_id: bytes) -> None:
    """getMessage under a confirm id."""
    entry = pick(core, as_queue(location.entry.queue), location)
    step(core, entry, n.EVENT_ACQUIRE, n.CONFIRM_ID, holder.id, holder, 0)
    drop_body(core, entry)
    holder.entries[int(entry.serial)] = entry
    keep(core, as_queue(entry.queue), entry, unique_id)


def lock(core: Core, location: Location, by: BrowseLock, unique_id: bytes) -> Entry:
    """browseMessagesAndLock: one of the messages found."""
    entry = pick(core, as_queue(location.entry.queue), location)
    step(core, entry, n.EVENT_LOCK, n.BROWSE_LOCK, by.id, by, 0)
    drop_body(core, entry)
    by.entries[int(entry.serial)] = entry
    keep(core, as_queue(entry.queue), entry, unique_id)
    return entry


def delete(core: Core, location: Location) -> None:
    """deleteMessage of an available entry."""
    entry = pick(core, as_queue(location.entry.queue), location)
    step(core, entry, n.EVENT_DELETE, 0, 0, None, 0)
    ended(core, entry)


def end_held(core: Core, entry: Entry, event: i64, detail: bytes = b"") -> None:
    """A held entry ends: got or deleted with its lock id, confirmed, expired, deleted with its queue."""
    _let_go(core, entry)
    step(core, entry, event, 0, 0, None, 0, detail)
    ended(core, entry)


def acquire_locked(core: Core, entry: Entry, holder: ConfirmIdHolder) -> None:
    """getMessage with a lock id and under a confirm id."""
    by = entry.owner
    assert isinstance(by, BrowseLock)
    del by.entries[int(entry.serial)]
    by.got += 1
    step(core, entry, n.EVENT_ACQUIRE, n.CONFIRM_ID, holder.id, holder, 0)
    holder.entries[int(entry.serial)] = entry


def confirm_put(core: Core, entry: Entry) -> None:
    """confirmPutMessage: available from now on (its place is that of the confirmation), or still to be
    born."""
    _let_go(core, entry)
    position = step(core, entry, n.EVENT_CONFIRM, 0, 0, None, why_put_waits(core, entry))
    if entry.state == n.DELAYED:
        delay(core, entry)
        return
    entry.place = position
    add_committed(core, as_queue(entry.queue), entry)
    core.agenda.woken.append(entry.queue)


def confirm_get(core: Core, entry: Entry) -> None:
    """confirmGetMessage: consumed; remembered for a while, in case that the answer is lost."""
    note_confirmed(entry)
    end_held(core, entry, n.EVENT_CONFIRM)


def undo(core: Core, entry: Entry, detail: bytes = b"") -> None:
    """One step back: an unconfirmed put ends, what was got returns to where it was, a lock is lifted.

    ``detail`` (JSON) goes to the ledger with it.
    """
    if entry.state == n.PUT_UNCONFIRMED:
        end_held(core, entry, n.EVENT_UNDO, detail)
    elif entry.state == n.GET_UNCONFIRMED or entry.state == n.LOCKED_FOR_BROWSE:
        _free(core, entry, n.EVENT_UNDO, detail)
    else:
        _lock_again(core, entry, detail)


def unlock(core: Core, entry: Entry, detail: bytes = b"") -> None:
    """unlockMessage, or the end of the lock's lease."""
    _free(core, entry, n.EVENT_UNLOCK, detail)


def _free(core: Core, entry: Entry, event: int, detail: bytes) -> None:
    _let_go(core, entry)
    come_back(core, entry, event, 0, detail)


def _lock_again(core: Core, entry: Entry, detail: bytes) -> None:
    """What was got through a lock is locked again, unless the lock's lease has ended meanwhile."""
    holder = entry.owner
    assert isinstance(holder, ConfirmIdHolder) and holder.lock is not None
    by = holder.lock
    del holder.entries[int(entry.serial)]
    step(core, entry, n.EVENT_UNDO, n.BROWSE_LOCK, by.id, by, 0, detail)
    by.entries[int(entry.serial)] = entry
    by.got -= 1
    close_if_empty(core, as_queue(entry.queue), holder)
    if by.over:
        unlock(core, entry, detail)


def _let_go(core: Core, entry: Entry) -> None:
    """Its holder holds it no longer."""
    holder = entry.owner
    queue = as_queue(entry.queue)
    forget(queue, entry)
    if isinstance(holder, BrowseLock | ConfirmIdHolder):
        del holder.entries[int(entry.serial)]
        close_if_empty(core, queue, holder)
    if isinstance(holder, ConfirmIdHolder) and holder.lock is not None:
        holder.lock.got -= 1
        close_if_empty(core, queue, holder.lock)


def last_first(entry: Entry) -> tuple[int, int]:
    """In this order each stands at the end of what has come back, where adding costs nothing."""
    return (-entry.place, -entry.ordinal)


def end_holder(core: Core, queue: Queue, holder: Holder, detail: bytes) -> int:
    """An administrator ends a confirm id by undo, a lock by unlocking: to how many messages that was done.

    What was got through a lock that has ended is unlocked when it is undone.
    """
    if isinstance(holder, BrowseLock):
        return _end_lock(core, queue, holder, detail)
    held = [entry for entry in holder.entries.values() if not expire_if_due(core, entry)]
    held.sort(key=last_first)
    for entry in held:
        undo(core, entry, detail)
        core.ledger.boundary()
    return len(held)


def _end_lock(core: Core, queue: Queue, by: BrowseLock, detail: bytes) -> int:
    by.over = True
    held = list(by.entries.values())
    for entry in held:
        unlock(core, entry, detail)
        core.ledger.boundary()
    close_if_empty(core, queue, by)
    return len(held)


# -- time


def expire_if_due(core: Core, entry: Entry) -> bool:
    """Under confirm ids and locks expiry acts at once; whether it has."""
    if not expired(core, entry):
        return False
    end_held(core, entry, n.EVENT_EXPIRE)
    return True


def _expire_held(core: Core, queue: Queue, store: QueueStore) -> None:
    if store.expiry_us <= core.now_us:
        soonest: i64 = 0
        for entry in list(store.held.values()):
            if entry.expiry_us == 0 or expire_if_due(core, entry):
                continue
            if soonest == 0 or entry.expiry_us < soonest:
                soonest = entry.expiry_us
        store.expiry_us = soonest
    core.agenda.set_alarm(queue, store.expiry_us)


# -- queues and restarts


def held_by_store(queue: Queue) -> int:
    """How many entries of the queue its confirm ids and locks hold."""
    return len(queue.store.held) if queue.store is not None else 0


def delete_held(core: Core, queue: Queue) -> int:
    """The queue is deleted: what confirm ids and locks hold ends with it; returns how many that were."""
    if queue.store is None:
        return 0
    held = list(queue.store.held.values())
    for entry in held:
        end_held(core, entry, n.EVENT_DELETE)
    return len(held)


def restore_holders(core: Core, rows: "list[HolderRow]") -> dict[int, Holder]:
    """Confirm ids and locks as they were before the start, by their ids."""
    found: dict[int, Holder] = {}
    for row in rows:  # locks first, since confirm ids name them
        if row.holder_kind == n.BROWSE_LOCK:
            queue = as_queue(core.destinations[int(row.detail["queue"])])
            by = BrowseLock(row.holder, int(row.detail["confirm_id"]), int(row.detail["until_us"]))
            by.since_us, by.user = int(row.detail["since_us"]), str(row.detail["user"])
            store_of(queue).locks[row.holder] = by
            found[row.holder] = by
            core.agenda.set_alarm(queue, by.until_us)
    for row in rows:
        if row.holder_kind == n.CONFIRM_ID:
            found[row.holder] = _restore_confirm_id(core, row.holder, row.detail)
    return found


def _restore_confirm_id(core: Core, id: i64, detail: dict[str, Any]) -> ConfirmIdHolder:
    queue = as_queue(core.destinations[int(detail["queue"])])
    confirm_id, lock_id = int(detail["confirm_id"]), int(detail["lock"])
    store = store_of(queue)
    holder = ConfirmIdHolder(id, confirm_id, store.locks[lock_id] if lock_id != NO_LOCK else None)
    holder.since_us, holder.user = int(detail["since_us"]), str(detail["user"])
    store.holders[confirm_id, lock_id] = holder
    return holder


def restore_held(core: Core, entry: Entry, holders: dict[int, Holder]) -> bool:
    """Give an entry back to the confirm id or lock that held it; False if none did."""
    if entry.holder_kind != n.CONFIRM_ID and entry.holder_kind != n.BROWSE_LOCK:
        return False
    holder = holders[int(entry.holder)]
    entry.owner = holder
    holder.entries[int(entry.serial)] = entry
    if isinstance(holder, ConfirmIdHolder) and holder.lock is not None:
        holder.lock.got += 1
    keep(core, as_queue(entry.queue), entry, b"")
    return True


def close_empty_holders(core: Core, queue: Queue) -> None:
    """After a restart: holders of nothing but what was lost are none."""
    store = queue.store
    if store is not None:
        for holder in list(store.holders.values()):
            close_if_empty(core, queue, holder)
        for by in list(store.locks.values()):
            close_if_empty(core, queue, by)


@final
class StoreHolderPart(TurnPart):
    """Locks and what they hold come to their end."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        """End leases and held entries whose time is over."""
        if not isinstance(destination, Queue) or destination.store is None:
            return
        queue, store = destination, destination.store
        for by in list(store.locks.values()):
            if by.until_us != 0 and not by.over:
                if by.until_us <= core.now_us:
                    _end_lock(core, queue, by, b"")
                else:
                    core.agenda.set_alarm(queue, by.until_us)
        if store.expiry_us != 0:
            _expire_held(core, queue, store)
