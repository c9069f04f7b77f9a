"""The verbs of the message store that look at many messages: browse, browse and lock, unlock, listen.

Answers are pages, bounded in messages and bytes. A page is fixed when its request first runs; bodies that
have to be read are added later, and a message that ended meanwhile is left out.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry, by_place
from postroom.manager.kernel.errors import LimitExceeded, NoMatchingMessage
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.message_store.filter import (
    StoreFilter,
    body_of,
    matching,
    need_ids,
    priorities_of,
    unique_id_of,
)
from postroom.manager.message_store.holders import open_lock
from postroom.manager.message_store.pending_requests import ReadsNeeded
from postroom.manager.message_store.verbs import (
    FilterVerb,
    StoreAnswer,
    StoreRow,
    check_no_properties,
    done,
    locked,
)
from postroom.manager.queues.entry_lookup import BEHIND_ALL, locations
from postroom.manager.queues.queue import PRIORITIES, Queue
from postroom.manager.undeliverable.expiry import expired

NEVER_US: Final = 0


class _Page(FilterVerb):
    """A fixed set of messages, to be told with ids and, if wanted, bodies."""

    def __init__(self, queue: Queue, target: Asker, filter: StoreFilter, just_uid: bool) -> None:
        super().__init__(queue, target, filter)
        self.just_uid = just_uid
        self.page: list[Entry] | None = None
        self.after: list[int] = []
        self.lock_id: i64 = 0
        self.found: i64 = 0

    def fix(self, core: Core, entries: list[Entry], more: bool) -> None:
        """These are the page, as far as there is room in an answer."""
        left: i64 = core.options.store_page_bytes
        page: list[Entry] = []
        for entry in entries:
            left -= 0 if self.just_uid else entry.body_len
            if page and left < 0:
                more = True
                break
            page.append(entry.copy_for(self))
        self.page = page
        if more and page:
            last = page[-1]
            self.after = [int(last.priority), int(last.place), int(last.ordinal)]

    def answer(self, core: Core) -> StoreAnswer:
        """The answer. Raises ReadsNeeded."""
        page = self.page
        assert page is not None
        missing = [] if self.just_uid else [entry for entry in page if body_of(self, entry) is None]
        serials = [int(entry.serial) for entry in page]
        try:
            all_ids = need_ids(self.queue, self, serials)
        except ReadsNeeded as needed:
            raise ReadsNeeded(missing, needed.ids, False) from None
        if missing:
            raise ReadsNeeded(missing, [], False)
        answer = done(self.found or len(page))
        answer.after = self.after
        answer.lock_id = self.lock_id
        for entry, ids in zip(page, all_ids, strict=True):
            body = None if self.just_uid else body_of(self, entry)
            if body is None or body:  # b"": it ended before its body was read
                answer.rows.append(StoreRow(entry, unique_id_of(core, entry.serial, ids), ids, body))
        return answer


@final
class Browse(_Page):
    """browseMessages; with a lock id the messages of that lock."""

    def __init__(
        self, queue: Queue, target: Asker, filter: StoreFilter, just_uid: bool, after: list[int], limit: i64
    ) -> None:
        super().__init__(queue, target, filter, just_uid)
        self.begin_after = after
        self.limit: i64 = limit

    def run(self, core: Core) -> object:
        if self.page is None:
            self.check_queue()
            limit = min(self.limit, core.options.store_page_entries)
            entries = self._entries(core, limit + 1)
            self.fix(core, entries[:limit], len(entries) > limit)
        return self.answer(core)

    def _entries(self, core: Core, limit: i64) -> list[Entry]:
        if self.filter.lock_id != 0:
            entries = locked(core, self, self.filter, core.options.max_browse_lock_entries)
        elif self.filter.by_id() or self.filter.properties:
            found = matching(core, self, self.filter, core.options.max_browse_lock_entries)
            entries = [location.entry for location in found]
        else:
            return self._in_order(core, limit)
        return [entry for entry in entries if _is_behind(entry, self.begin_after)][:limit]

    def _in_order(self, core: Core, limit: i64) -> list[Entry]:
        after = self.begin_after
        found: list[Entry] = []
        for priority in priorities_of(self.filter, after[0] if after else PRIORITIES - 1):
            continues = bool(after) and priority == after[0]
            place, ordinal = (after[1], after[2]) if continues else (-1, 0)
            for location in locations(self.queue, priority, place, ordinal):
                if len(found) >= limit:
                    return found
                if not expired(core, location.entry):
                    found.append(location.entry)
        return found


def _is_behind(entry: Entry, after: list[int]) -> bool:
    """Whether an entry comes after the place where a page ended."""
    if not after or entry.priority < after[0]:
        return True
    return entry.priority == after[0] and entry.behind(after[1], after[2])


@final
class BrowseAndLock(_Page):
    """browseMessagesAndLock: everything that matches now, under one lock id."""

    def __init__(
        self, queue: Queue, target: Asker, filter: StoreFilter, just_uid: bool, confirm_id: i64, lease_us: i64
    ) -> None:
        """``lease_us`` is how long the lock holds without unlock; 0: as long as locks hold here."""
        super().__init__(queue, target, filter, just_uid)
        self.confirm_id: i64 = confirm_id
        self.lease_us: i64 = lease_us

    def run(self, core: Core) -> object:
        if self.page is None:
            self._lock(core)
        return self.answer(core)

    def _lock(self, core: Core) -> None:
        self.check_queue()
        most = core.options.max_browse_lock_entries
        found = matching(core, self, self.filter, most + 1)
        if len(found) > most:
            raise LimitExceeded(
                f"more than {most} messages of queue {self.queue.name!r} match; one browse locks at most so "
                "many (max_browse_lock_entries): ask for fewer"
            )
        if not found:
            self.fix(core, [], False)
            return  # nothing is locked, and there is no lock
        all_ids = need_ids(self.queue, self, [int(location.entry.serial) for location in found])
        limit = core.options.store_page_entries
        self.fix(core, [location.entry for location in found[:limit]], len(found) > limit)
        by = open_lock(core, self.queue, self.confirm_id, self._until_us(core), self.user)
        for location, ids in zip(found, all_ids, strict=True):
            store.lock(core, location, by, unique_id_of(core, location.entry.serial, ids))
        self.lock_id = by.id
        self.found = len(found)

    def _until_us(self, core: Core) -> i64:
        longest: i64 = core.options.browse_lock_ms * 1000
        lease_us = self.lease_us
        if lease_us == 0 or (longest != 0 and lease_us > longest):
            lease_us = longest
        return core.now_us + lease_us if lease_us != 0 else NEVER_US


@final
class Unlock(FilterVerb):
    """unlockMessage: one by its unique id, or everything that is still locked under the lock id."""

    def run(self, core: Core) -> object:
        found = locked(core, self, self.filter, core.options.max_browse_lock_entries)
        for entry in reversed(found):
            store.unlock(core, entry)
        return done(len(found))


@final
class Listen(_Page):
    """What a message listener hears: messages that have become available since, without taking them."""

    def __init__(
        self, queue: Queue, target: Asker, filter: StoreFilter, position: i64, until_us: i64
    ) -> None:
        """``position``: that of the answer before; −1 begins with what comes from now on."""
        super().__init__(queue, target, filter, True)
        self.position: i64 = position
        self.until_us = until_us

    def run(self, core: Core) -> object:
        self.check_queue()
        check_no_properties(self.filter, "a listener")
        if self.position < 0:
            self.position = core.ledger.next_position - 1
        if self.page is None:
            self._search(core)
        answer = self.answer(core)
        answer.rows = [row for row in answer.rows if self.filter.fits(row.unique_id, row.ids, row.priority)]
        answer.count = len(answer.rows)
        self.page = None
        self.position = self.after[0]
        if not answer.rows and self.until_us > core.now_us:
            raise NoMatchingMessage("nothing has come yet")
        return answer

    def _search(self, core: Core) -> None:
        """Whole events only: what one of them made available stays together."""
        found: list[Entry] = []
        limit = core.options.store_page_entries
        for priority in range(PRIORITIES):
            found += _first_events(self.queue, priority, self.position, limit)
        found.sort(key=by_place)
        if len(found) > limit:
            last = found[limit - 1].place
            found = [entry for entry in found if entry.place <= last]
            self.after = [int(last)]
        else:
            self.after = [int(core.ledger.next_position - 1)]
        self.page = [entry.copy_for(self) for entry in found]


def _first_events(queue: Queue, priority: i64, position: i64, limit: i64) -> list[Entry]:
    """What the next events behind a position made available, ``limit`` messages if there are so many."""
    found: list[Entry] = []
    for location in locations(queue, priority, position, BEHIND_ALL):
        if len(found) > limit and location.entry.place != found[-1].place:
            break
        found.append(location.entry)
    return found
