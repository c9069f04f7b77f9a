"""Rules of the random test: browsers, queries and their cursors, and what one sees of a message."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from postroom.manager.administration.message_queries import (
    NEVER_US,
    CloseCursor,
    MessageRow,
    OpenCursor,
    QueryAnswer,
    ReadCursor,
    ShowMessage,
)
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import ALL_STATES, STATE_NAMES, mask_of, named
from postroom.manager.kernel.errors import CursorUnknown, LimitExceeded, NoMatchingMessage, QueueNotFound
from postroom.manager.queues.queue import Queue
from tests.manager.random_commands.machine import FAVOURED, QUEUES, SMALL, TEXTS, Machine, again
from tests.manager.random_commands.reference_destination import Message, Place
from tests.manager.random_commands.reference_queries import found_by, same_order, states_of
from tests.manager.store_face import Recorder
from tests.manager.world import MS

PAGE = 2


@dataclass(eq=False)
class Opened:
    """A cursor of the test: what it is to show."""

    id: int
    place: Place
    queue: Queue
    idle_us: int
    until_us: int
    items: list[tuple[int, Message]]
    """Serials and messages, as they were found."""
    next: int = 0

    def used(self, now_us: int) -> None:
        if self.idle_us:
            self.until_us = now_us + self.idle_us


class Looking(Machine):
    def opened(self) -> list[Opened]:
        """The cursors that are not over."""
        now_us = self.world.now_us
        return [each for each in self.cursors if each.until_us > now_us and not each.queue.deleted]

    @rule(name=st.sampled_from(QUEUES), wanted=st.sampled_from([None, None, 0, 1]))
    def browse(self, name: str, wanted: int | None) -> None:
        place = self.reference.places[name]
        browser = self.world.browser(self.queue(name), selector=TEXTS[wanted])
        self.world.credit(browser, 1000, drain=True)
        self.rest()
        seen = [delivery.body for delivery in self.world.delivered if delivery.consumer is browser]
        expected = [m for m in place.in_sight() if wanted in (None, m.number)]
        if not place.takes_children:
            assert seen == [message.body for message in expected]
        assert len(seen) <= len(expected)
        self.world.close(browser)
        self.rest()

    @rule(
        data=st.data(),
        wanted=st.sampled_from([None, None, 0, 1]),
        states=st.sets(st.sampled_from(STATE_NAMES), max_size=2),
        idle_ms=st.sampled_from([0, 0, 5, 1000]),
    )
    def open_cursor(self, data: st.DataObject, wanted: int | None, states: set[str], idle_ms: int) -> None:
        """A query of any queue or subscription; what it found is read through at once."""
        names = sorted(self.reference.places)
        place = self.reference.places[self.chosen(data.draw(st.sampled_from([*names, *FAVOURED])))]
        queue = self.queue(place.name)
        meant = Wanted(mask_of(sorted(states)), TEXTS[wanted])
        answer = self.perform(OpenCursor(queue, Recorder(), meant, idle_ms * MS))
        if len(self.opened()) >= SMALL.max_message_cursors:
            assert isinstance(answer, LimitExceeded)
            return
        expected = found_by(place, wanted, states, self.world.now_us)
        assert isinstance(answer, QueryAnswer) and answer.count == len(expected)
        opened = Opened(int(answer.cursor), place, queue, idle_ms * MS, NEVER_US, [])
        opened.used(self.world.now_us)
        self.cursors.append(opened)
        self._read_through(opened, expected)

    locals().update(again(open_cursor, 2))

    def _read_through(self, opened: Opened, expected: list[Message]) -> None:
        """Learn which message has which serial."""
        by_body = {message.body: message for message in expected}
        rows: list[MessageRow] = []
        while len(rows) < len(expected):
            page = self._page(opened, len(rows), PAGE, True).rows
            assert page, "a cursor has less than it counts"
            rows += page
        assert sorted(str(row.body) for row in rows) == sorted(str(message.body) for message in expected)
        if len(by_body) < len(expected):
            self.close_cursor_of(opened)  # copies can't be told apart
            return
        shown = [by_body[row.body or b""] for row in rows]
        assert same_order(opened.place, shown, expected)
        opened.items = [(int(row.serial), message) for row, message in zip(rows, shown, strict=True)]
        for row, message in zip(rows, shown, strict=True):
            self._check_row(opened.place, row, message, True)

    def _page(self, opened: Opened, offset: int, count: int, bodies: bool) -> QueryAnswer:
        answer = self.perform(ReadCursor(opened.queue, Recorder(), opened.id, offset, count, bodies))
        assert isinstance(answer, QueryAnswer)
        opened.used(self.world.now_us)
        return answer

    def _check_row(self, place: Place, row: MessageRow, message: Message, bodies: bool) -> None:
        if message not in place.messages:
            assert row.entry is None and row.states == 0 and row.body is None, "it has ended"
            return
        entry, ids = row.entry, row.ids
        assert entry is not None and ids is not None, "it is there"
        assert set(named(row.states)) == states_of(place, message, self.world.now_us)
        assert row.body == (message.body if bodies else None)
        assert ids.message_id == message.id.encode()
        origin = message.origin[0].name if message.origin is not None else ""
        assert row.parent_queue in ("", origin)
        record = (entry.priority, bool(entry.flags & 1), entry.expiry_us, entry.delivery_count)
        assert record == (message.priority, message.durable, message.expiry_us, message.deliveries)

    @precondition(lambda self: self.cursors)
    @rule(data=st.data(), bodies=st.booleans(), on=st.booleans(), offset=st.integers(0, 6))
    def read_cursor(self, data: st.DataObject, bodies: bool, on: bool, offset: int) -> None:
        """The next page, or one from somewhere: of each message what is now, and of those that are gone
        that they are."""
        opened = data.draw(st.sampled_from(self.cursors))
        if opened not in self.opened():
            self._find_closed(opened)
            return
        offset = opened.next if on else offset
        answer = self._page(opened, offset, PAGE, bodies)
        items = opened.items[offset : offset + PAGE]
        opened.next = offset + len(items)
        assert answer.count == len(opened.items)
        assert [row.serial for row in answer.rows] == [serial for serial, _ in items]
        for row, (_, message) in zip(answer.rows, items, strict=True):
            self._check_row(opened.place, row, message, bodies)

    locals().update(again(read_cursor, 6))

    def _find_closed(self, opened: Opened) -> None:
        answer = self.perform(ReadCursor(opened.queue, Recorder(), opened.id, 0, PAGE, False))
        assert isinstance(answer, QueueNotFound if opened.queue.deleted else CursorUnknown)
        if opened in self.cursors:
            self.cursors.remove(opened)

    @precondition(lambda self: self.opened())
    @rule(data=st.data())
    def close_cursor(self, data: st.DataObject) -> None:
        self.close_cursor_of(data.draw(st.sampled_from(self.opened())))

    def close_cursor_of(self, opened: Opened) -> None:
        assert isinstance(self.perform(CloseCursor(opened.queue, Recorder(), opened.id)), QueryAnswer)
        self.cursors.remove(opened)
        self._find_closed(opened)

    @rule(name=st.sampled_from(QUEUES), id=st.sampled_from(["id 1", "id 2"]))
    def show_by_id(self, name: str, id: str) -> None:
        """One of those with that message id, whatever its state."""
        place, meant = self.reference.places[name], Wanted(ALL_STATES)
        meant.message_id, meant.message_id_type = id.encode(), 1
        candidates = {message.body for message in place.messages if message.id == id}
        answer = self.perform(ShowMessage(self.queue(name), Recorder(), meant, True))
        if not candidates:
            assert isinstance(answer, NoMatchingMessage)
        else:
            assert isinstance(answer, QueryAnswer) and answer.rows[0].body in candidates

    @precondition(lambda self: any(consumer.held for consumer in self.consumers))
    @rule(data=st.data(), bodies=st.booleans())
    def show_held(self, data: st.DataObject, bodies: bool) -> None:
        """What a consumer holds, by its serial."""
        consumer = data.draw(st.sampled_from([each for each in self.consumers if each.held]))
        entry = data.draw(st.sampled_from(self.world.held(consumer)))
        meant: Any = Wanted(ALL_STATES)
        meant.serial = entry.serial
        answer = self.perform(ShowMessage(entry.queue, Recorder(), meant, bodies))
        assert isinstance(answer, QueryAnswer)
        self._check_row(self.place_of(entry), answer.rows[0], self.entries[entry], bodies)
