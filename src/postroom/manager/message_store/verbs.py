"""The verbs of the message store, as requests: who is meant, whether the caller may, and what the answer is.

Names in brackets are those of MQ Everyplace. A message that a caller may not see isn't there: the answer is
that none matches, whatever state it is in.
"""

import json
from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import NoMatchingMessage, NotAllowed, QueueNotFound, RequestInvalid
from postroom.manager.kernel.outgoing_sections import outgoing_sections
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.message_store.filter import (
    ANY_PRIORITY,
    StoreFilter,
    body_of,
    in_order,
    known_ids,
    matching,
    need_ids,
    unique_id_of,
)
from postroom.manager.message_store.holders import confirm_id_holder, store_of
from postroom.manager.message_store.pending_requests import MAX_IDS_READ, ReadsNeeded, StoreRequest
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.store_holders import NO_CONFIRM_ID, BrowseLock, ConfirmIdHolder, QueueStore
from postroom.model import numbers as n
from postroom.model.ids import MessageIds

NO_MATCHING_MSG: Final = "Except_Q_NoMatchingMsg"
ADMINISTRATOR: Final = "postroom:administrator"
"""In the detail of events that an administrator has caused."""
_GOT: Final = (n.GET_UNCONFIRMED, n.BROWSE_GET_UNCONFIRMED)


@final
class StoreRow:
    """One message as an answer tells of it."""

    def __init__(self, entry: Entry, unique_id: bytes, ids: MessageIds, body: bytes | None) -> None:
        self.serial: i64 = entry.serial
        self.unique_id = unique_id
        self.ids = ids
        self.priority: i64 = entry.priority
        self.durable = entry.flags & n.FLAG_DURABLE != 0
        self.delivery_count: i64 = entry.delivery_count
        self.expiry_us: i64 = entry.expiry_us
        self.annotations = entry.annotations
        self.body = outgoing_sections(entry, body) if body is not None else None
        """The sections; None where only ids were asked for, or the answer has no room."""


@final
class StoreAnswer:
    """What a request brought."""

    def __init__(self) -> None:
        self.rows: list[StoreRow] = []
        self.unique_id = b""
        """Of what was put."""
        self.lock_id: i64 = 0
        self.count: i64 = 0
        """How many messages it was done to."""
        self.after: list[int] = []
        """Where the next page begins: (priority, place, ordinal), or for a listener one position; empty at
        the end."""


def no_match(queue: Queue, what: str) -> NoMatchingMessage:
    return NoMatchingMessage(f"{NO_MATCHING_MSG}: queue {queue.name!r} has no message {what}")


def done(count: i64) -> StoreAnswer:
    answer = StoreAnswer()
    answer.count = count
    return answer


class StoreVerb(StoreRequest):
    """What the verbs have in common."""

    def check_queue(self) -> None:
        if self.queue.deleted:
            raise QueueNotFound(f"queue {self.queue.name!r} has been deleted")

    def learn_held(self, core: Core) -> QueueStore:
        """The store, with all unique ids known of what it holds. Raises ReadsNeeded."""
        self.check_queue()
        held = store_of(self.queue)
        if held.unread:
            unread = [serial for serial in held.unread if serial in held.held]
            all_ids = need_ids(self.queue, self, unread[:MAX_IDS_READ])
            for serial, ids in zip(unread, all_ids, strict=False):
                unique_id = unique_id_of(core, serial, ids)
                held.serials[unique_id] = serial
                held.unique_ids[serial] = unique_id
            held.unread = unread[len(all_ids) :]
            if held.unread:
                return self.learn_held(core)
        return held

    def held_entry(self, core: Core, unique_id: bytes) -> Entry | None:
        """What the store holds under that unique id, unless its time is over. Raises ReadsNeeded."""
        held = self.learn_held(core)
        serial = held.serials.get(unique_id)
        if serial is None:
            return None
        entry = held.held[serial]
        return None if store.expire_if_due(core, entry) else entry

    def holder_of(self, core: Core, confirm_id: i64, lock: BrowseLock | None) -> ConfirmIdHolder:
        return confirm_id_holder(core, self.queue, confirm_id, lock, self.user)


class FilterVerb(StoreVerb):
    """A verb for what a filter means, perhaps under a confirm id."""

    def __init__(
        self, queue: Queue, target: Asker, filter: StoreFilter, confirm_id: i64 = NO_CONFIRM_ID
    ) -> None:
        super().__init__(queue, target)
        self.filter = filter
        self.confirm_id: i64 = confirm_id


def check_no_properties(filter: StoreFilter, where: str) -> None:
    if filter.properties:
        raise RequestInvalid(f"with {where} only ids and priority can be asked for, not properties")


def check_unique_id(filter: StoreFilter, operation: str) -> None:
    if not filter.unique_id:
        raise RequestInvalid(f"{operation} needs the unique id of one message: origin queue manager and time")


def may_confirm(entry: Entry, confirm_id: i64) -> bool:
    """Whether that confirm id is the one; none is needed where the queue says so."""
    holder = entry.owner
    if confirm_id == NO_CONFIRM_ID and not entry.queue.definition.confirm_id_required:
        return True
    return isinstance(holder, ConfirmIdHolder) and holder.confirm_id == confirm_id


# -- getting


@final
class Get(FilterVerb):
    """getMessage, and waitForMessage where it may wait."""

    def __init__(
        self, queue: Queue, target: Asker, filter: StoreFilter, confirm_id: i64, until_us: i64
    ) -> None:
        super().__init__(queue, target, filter, confirm_id)
        self.until_us = until_us

    def run(self, core: Core) -> object:
        self.check_queue()
        if self.queue.switches.consumption_paused or self.queue.switches.get_inhibited:
            raise no_match(self.queue, "that can be got now")
        if self.filter.lock_id != 0:
            return self._get_locked(core)
        found = matching(core, self, self.filter, 1)
        if not found:
            raise no_match(self.queue, "that matches")
        location = found[0]
        row = _whole_row(core, self, location.entry)
        if self.confirm_id == NO_CONFIRM_ID:
            store.get(core, location)
        else:
            holder = self.holder_of(core, self.confirm_id, None)
            store.acquire(core, location, holder, row.unique_id)
        return _one(row)

    def _get_locked(self, core: Core) -> object:
        found = locked(core, self, self.filter, 1)
        entry = found[0]
        row = _whole_row(core, self, entry)
        if self.confirm_id == NO_CONFIRM_ID:
            store.end_held(core, entry, n.EVENT_GET)
        else:
            by = entry.owner
            assert isinstance(by, BrowseLock)
            store.acquire_locked(core, entry, self.holder_of(core, self.confirm_id, by))
        return _one(row)


def _one(row: StoreRow) -> StoreAnswer:
    answer = done(1)
    answer.rows = [row]
    answer.unique_id = row.unique_id
    return answer


def _whole_row(core: Core, request: StoreRequest, entry: Entry) -> StoreRow:
    """Everything about one message. Raises ReadsNeeded."""
    serial = int(entry.serial)
    ids = known_ids(request.queue, request, serial)
    body = body_of(request, entry)
    if ids is None or body is None:
        raise ReadsNeeded([entry] if body is None else [], [serial] if ids is None else [], False)
    if not body:
        raise NotAllowed(f"the body of message {serial} is damaged: it can be unlocked or deleted, not got")
    return StoreRow(entry, unique_id_of(core, serial, ids), ids, body)


def locked(core: Core, verb: StoreVerb, filter: StoreFilter, limit: i64) -> list[Entry]:
    """What is locked under the filter's lock id and meant by it, in the order of the browse.

    Raises NoMatchingMessage, RequestInvalid, ReadsNeeded.
    """
    check_no_properties(filter, "a lock id")
    held = verb.learn_held(core)
    by = held.locks.get(int(filter.lock_id))
    found = [] if by is None else _locked_by(core, verb, held, by, filter)
    if not found:
        raise no_match(verb.queue, "that matches under that lock id")
    found.sort(key=in_order)
    return found[:limit]


def _locked_by(
    core: Core, verb: StoreVerb, held: QueueStore, by: BrowseLock, filter: StoreFilter
) -> list[Entry]:
    entries = list(by.entries.values())
    if filter.unique_id:
        named = held.held.get(held.serials.get(filter.unique_id, 0))
        entries = [named] if named is not None and named.owner is by else []
    entries = [entry for entry in entries if not store.expire_if_due(core, entry)]
    if not filter.by_id() and filter.priority == ANY_PRIORITY:
        return entries
    all_ids = need_ids(verb.queue, verb, [int(entry.serial) for entry in entries])
    return [
        entry
        for entry, ids in zip(entries, all_ids, strict=True)
        if filter.fits(held.unique_ids[int(entry.serial)], ids, entry.priority)
    ]


@final
class ConfirmGet(FilterVerb):
    """confirmGetMessage: by unique id; a second time it does nothing."""

    def run(self, core: Core) -> object:
        check_unique_id(self.filter, "CONFIRM-GET")
        entry = self.held_entry(core, self.filter.unique_id)
        if entry is None and self._is_repeated():
            return done(0)
        if entry is None or entry.state not in _GOT or not may_confirm(entry, self.confirm_id):
            raise no_match(self.queue, "of that unique id got under that confirm id")
        store.confirm_get(core, entry)
        return done(1)

    def _is_repeated(self) -> bool:
        """Whether that get was confirmed before, and the answer may have been lost."""
        confirmed = store_of(self.queue).confirmed.get(self.filter.unique_id, NO_CONFIRM_ID)
        if confirmed == NO_CONFIRM_ID:
            return False
        by_id_alone = self.confirm_id == NO_CONFIRM_ID and not self.queue.definition.confirm_id_required
        return by_id_alone or self.confirm_id == confirmed


@final
class Delete(FilterVerb):
    """deleteMessage: by unique id, with the lock id if it is locked."""

    def run(self, core: Core) -> object:
        self.check_queue()
        check_unique_id(self.filter, "DELETE-MESSAGE")
        if self.filter.lock_id != 0:
            store.end_held(core, locked(core, self, self.filter, 1)[0], n.EVENT_DELETE)
            return done(1)
        found = matching(core, self, self.filter, 1)
        if not found:
            raise no_match(self.queue, "of that unique id that can be deleted")
        store.delete(core, found[0])
        return done(1)


# -- all under one id


class _ConfirmIdVerb(StoreVerb):
    """A verb for all that was put or got under one confirm id."""

    def __init__(self, queue: Queue, target: Asker, confirm_id: i64) -> None:
        super().__init__(queue, target)
        self.confirm_id: i64 = confirm_id


@final
class Confirm(_ConfirmIdVerb):
    """confirm: everything put or got under one confirm id."""

    def run(self, core: Core) -> object:
        self.learn_held(core)
        held = [
            entry for entry in _under(self.queue, self.confirm_id) if not store.expire_if_due(core, entry)
        ]
        if not held:
            raise no_match(self.queue, f"under confirm id {self.confirm_id}")
        for entry in held:
            if entry.state == n.PUT_UNCONFIRMED:
                store.confirm_put(core, entry)
            else:
                store.confirm_get(core, entry)
        return done(len(held))


@final
class Undo(_ConfirmIdVerb):
    """undo: one step back for everything under one confirm id, the locks of its browses too."""

    def run(self, core: Core) -> object:
        self.check_queue()
        held = _under(self.queue, self.confirm_id)
        for by in list(store_of(self.queue).locks.values()):
            if by.confirm_id == self.confirm_id:
                held += by.entries.values()
        held = [entry for entry in held if not store.expire_if_due(core, entry)]
        if not held:
            raise no_match(self.queue, f"under confirm id {self.confirm_id}")
        held.sort(key=store.last_first)
        for entry in held:
            store.undo(core, entry)
        return done(len(held))


def _under(queue: Queue, confirm_id: i64) -> list[Entry]:
    if confirm_id == NO_CONFIRM_ID:
        raise RequestInvalid("a confirm id is greater than 0")
    holders = list(store_of(queue).holders.values())
    return [
        entry for holder in holders if holder.confirm_id == confirm_id for entry in holder.entries.values()
    ]


# -- by an administrator


def holder_by_id(queue: Queue, id: i64) -> BrowseLock | ConfirmIdHolder | None:
    """The confirm id or lock that has this id as a holder in the ledger."""
    if queue.store is None:
        return None
    for holder in queue.store.holders.values():
        if holder.id == id:
            return holder
    return queue.store.locks.get(int(id))


@final
class EndHolder(StoreVerb):
    """A confirm id is undone, or a browse lock lifted, by somebody else than its application."""

    def __init__(self, queue: Queue, target: Asker, id: i64) -> None:
        super().__init__(queue, target)
        self.id: i64 = id

    def run(self, core: Core) -> object:
        self.check_queue()
        holder = holder_by_id(self.queue, self.id)
        if holder is None:
            raise no_match(self.queue, f"held by {self.id}")
        return done(store.end_holder(core, self.queue, holder, detail_by(self.user)))


def detail_by(user: str) -> bytes:
    """What the ledger is told with each message: that an administrator did it, and who."""
    record = {"condition": ADMINISTRATOR, "description": "ended by an administrator", "user": user}
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
