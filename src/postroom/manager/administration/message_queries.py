"""Looking at messages as an administrator, whatever their state, without touching them: WebLogic's
getMessages and getMessage.

A query leaves a cursor: the serials of what it found, in order, as it was then. A page of it shows each
message as it is now; what has ended since is told as gone. A cursor that nobody uses for its time-out is
closed.
"""

from array import array
from typing import Final, cast, final

from mypy_extensions import i64

from postroom.manager.administration.message_search import Search, Wanted, located
from postroom.manager.administration.message_states import states_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import CursorUnknown, LimitExceeded, NoMatchingMessage, QueueNotFound
from postroom.manager.message_store.filter import stored_body
from postroom.manager.message_store.pending_requests import MAX_IDS_READ, ReadsNeeded, StoreRequest
from postroom.manager.queues.entry_lookup import BEHIND_ALL
from postroom.manager.queues.queue import Queue
from postroom.model.ids import MessageIds

NEVER_US: Final = BEHIND_ALL


@final
class MessageRow:
    """One message as an administrator sees it; only `serial` where it has ended."""

    def __init__(self, serial: i64) -> None:
        self.serial: i64 = serial
        self.entry: Entry | None = None
        """A copy of it, body and all states included."""
        self.states: i64 = 0
        self.ids: MessageIds | None = None
        self.parent_queue = ""
        """The name of the queue that its parent lay on; "" none, or gone."""
        self.body: bytes | None = None
        """The stored sections; None where they weren't asked for, or the answer has no room."""


@final
class MessageCursor:
    """What a query found."""

    def __init__(self, id: i64, queue: Queue, idle_us: i64) -> None:
        self.id: i64 = id
        self.queue = queue
        self.serials = array("q")
        self.idle_us: i64 = idle_us
        """0: it stays until closed."""
        self.until_us: i64 = NEVER_US

    def used(self, core: Core) -> None:
        """Its time-out begins again."""
        if self.idle_us > 0:
            self.until_us = core.now_us + self.idle_us


@final
class MessageCursors:
    """The open ones of a queue manager."""

    def __init__(self) -> None:
        self.open: dict[int, MessageCursor] = {}
        """By id."""
        self.last_id: i64 = 0


def message_cursors_of(core: Core) -> MessageCursors:
    """Those of a queue manager."""
    return cast(MessageCursors, core.state(MessageCursors))


@final
class QueryAnswer:
    """What a query or a page brought."""

    def __init__(self) -> None:
        self.cursor: i64 = 0
        self.count: i64 = 0
        """Of the whole cursor."""
        self.rows: list[MessageRow] = []


def check_there(queue: Queue) -> None:
    """Raise QueueNotFound when the queue has been deleted."""
    if queue.deleted:
        raise QueueNotFound(f"queue {queue.name!r} has been deleted")


@final
class OpenCursor(StoreRequest):
    """getMessages: find what is meant, and keep it as a cursor."""

    def __init__(self, queue: Queue, target: Asker, wanted: Wanted, idle_us: i64) -> None:
        """``idle_us``: how long the cursor may go unused; 0 for ever."""
        super().__init__(queue, target)
        self.search = Search(wanted)
        self.cursor: MessageCursor | None = None
        self.idle_us: i64 = idle_us

    def run(self, core: Core) -> object:
        check_there(self.queue)
        cursor = self.cursor
        if cursor is None:
            cursor = self.cursor = _opened(core, self.queue, self.idle_us)
        try:
            self.search.go_on(core, self)
        finally:
            self._keep(core, cursor)
        message_cursors_of(core).open[int(cursor.id)] = cursor
        cursor.used(core)
        answer = QueryAnswer()
        answer.cursor, answer.count = cursor.id, len(cursor.serials)
        return answer

    def _keep(self, core: Core, cursor: MessageCursor) -> None:
        found = self.search.found
        self.search.found = []
        room = core.options.max_cursor_entries - len(cursor.serials)
        if len(found) > room:
            raise LimitExceeded(
                f"more than {core.options.max_cursor_entries} messages of queue {self.queue.name!r} match; "
                "a cursor has no more (max_cursor_entries): narrow the selector"
            )
        cursor.serials.extend([int(entry.serial) for entry in found])


def _opened(core: Core, queue: Queue, idle_us: i64) -> MessageCursor:
    """A new cursor, not yet to be found. Raises LimitExceeded."""
    known = message_cursors_of(core)
    drop_idle(core)
    if len(known.open) >= core.options.max_message_cursors:
        raise LimitExceeded(
            f"{core.options.max_message_cursors} cursors are open (max_message_cursors): close one, or wait "
            "until one runs out"
        )
    known.last_id += 1
    return MessageCursor(known.last_id, queue, idle_us)


def drop_idle(core: Core) -> None:
    """Close the cursors that have not been used for too long, and those of deleted queues."""
    cursors = message_cursors_of(core)
    for id, cursor in list(cursors.open.items()):
        if cursor.until_us <= core.now_us or cursor.queue.deleted:
            del cursors.open[id]


def cursor_of(core: Core, queue: Queue, id: i64) -> MessageCursor:
    """The open cursor of that id. Raises CursorUnknown."""
    drop_idle(core)
    cursor = message_cursors_of(core).open.get(int(id))
    if cursor is None or cursor.queue is not queue:
        raise CursorUnknown(
            f"queue {queue.name!r} has no cursor {id}: it was closed or not used for its time-out; ask again"
        )
    return cursor


class ShowRows(StoreRequest):
    """Tell of certain messages, with ids and perhaps bodies."""

    def __init__(self, queue: Queue, target: Asker, with_bodies: bool) -> None:
        super().__init__(queue, target)
        self.with_bodies = with_bodies
        self.rows: list[MessageRow] | None = None

    def fix(self, core: Core, serials: list[int]) -> None:
        """These are told of, as they are now, as far as there is room in an answer."""
        found = located(self.queue, set(serials))
        left: i64 = core.options.store_page_bytes
        self.rows = []
        for serial in serials:
            row = MessageRow(serial)
            entry = found.get(serial)
            if entry is not None:
                if self.with_bodies:
                    left -= entry.body_len
                if self.rows and left < 0:
                    return
                row.entry = entry
                row.states = states_of(core, entry)
                row.body = entry.body if self.with_bodies else None
            self.rows.append(row)

    def answer(self, core: Core) -> QueryAnswer:
        """The answer. Raises ReadsNeeded."""
        assert self.rows is not None
        living = [row for row in self.rows if row.entry is not None]
        missing_ids = [int(row.serial) for row in living if int(row.serial) not in self.ids]
        missing: list[Entry] = []
        for row in living:
            entry = row.entry
            if self.with_bodies and row.body is None and entry is not None:
                row.body = stored_body(self, entry)
                if row.body is None:
                    missing.append(entry)
        if missing_ids or missing:
            raise ReadsNeeded(missing, missing_ids, False)
        for row in living:
            ids = self.ids[int(row.serial)]
            row.ids = ids
            if ids.parent_serial != 0:
                parent = core.destinations.get(int(ids.parent_queue))
                row.parent_queue = parent.name if parent is not None else ""
        answer = QueryAnswer()
        answer.rows = self.rows
        answer.count = len(self.rows)
        return answer


@final
class ReadCursor(ShowRows):
    """A page of a cursor: its items from ``offset`` on."""

    def __init__(
        self, queue: Queue, target: Asker, cursor: i64, offset: i64, count: i64, with_bodies: bool
    ) -> None:
        super().__init__(queue, target, with_bodies)
        self.cursor: i64 = cursor
        self.offset: i64 = offset
        self.count: i64 = count

    def run(self, core: Core) -> object:
        check_there(self.queue)
        cursor = cursor_of(core, self.queue, self.cursor)
        cursor.used(core)
        if self.rows is None:
            count = min(self.count, core.options.store_page_entries, MAX_IDS_READ)
            self.fix(core, cursor.serials[self.offset : self.offset + count].tolist())
        answer = self.answer(core)
        answer.cursor, answer.count = cursor.id, len(cursor.serials)
        return answer


@final
class CloseCursor(StoreRequest):
    """The cursor is not wanted any more."""

    def __init__(self, queue: Queue, target: Asker, cursor: i64) -> None:
        super().__init__(queue, target)
        self.cursor: i64 = cursor

    def run(self, core: Core) -> object:
        cursor = cursor_of(core, self.queue, self.cursor)
        del message_cursors_of(core).open[int(cursor.id)]
        answer = QueryAnswer()
        answer.cursor = cursor.id
        return answer


@final
class ShowMessage(ShowRows):
    """getMessage: one message, by message id or serial, in whatever state."""

    def __init__(self, queue: Queue, target: Asker, wanted: Wanted, with_bodies: bool) -> None:
        super().__init__(queue, target, with_bodies)
        self.search = Search(wanted)

    def run(self, core: Core) -> object:
        check_there(self.queue)
        if self.rows is None:
            self.search.go_on(core, self)
            found = self.search.found
            if not found:
                raise NoMatchingMessage(f"queue {self.queue.name!r} has no such message")
            self.fix(core, [int(found[0].serial)])
        return self.answer(core)
