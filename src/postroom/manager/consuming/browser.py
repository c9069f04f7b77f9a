"""Browsing: copies of what is available, in order, without taking or locking anything.

A browser remembers how far it has come on each priority, so it sees each entry once, also those that arrive
behind its cursor while it stays.
"""

from typing import TYPE_CHECKING, cast, final

from mypy_extensions import i64

from postroom.ledger.storage.body_requests import Body
from postroom.manager.consuming.body_fetch import readable, request, wait_for_durable
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.effects import Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.outgoing_sections import fields_of, outgoing_sections
from postroom.manager.queues.entry_lookup import locations
from postroom.manager.queues.queue import PRIORITIES, Queue, as_queue
from postroom.model import numbers as n
from postroom.model.selector.selector import Selector

if TYPE_CHECKING:
    pass


@final
class Cursor:
    """How far one browser has come, by priority, and the copies it will be sent next."""

    def __init__(self) -> None:
        self.place: list[int] = [0] * PRIORITIES
        self.ordinal: list[int] = [-1] * PRIORITIES
        self.copies: list[Entry] = []
        self.fetching = False

    def at(self, entry: Entry) -> None:
        """The cursor stands on ``entry`` now."""
        self.place[entry.priority] = entry.place
        self.ordinal[entry.priority] = entry.ordinal


def browse(core: Core, consumer: "Consumer") -> None:
    """Send copies while there is credit, and answer a drain at the end."""
    cursor = cast(Cursor | None, consumer.cursor)
    if cursor is None or consumer.credit <= 0 or cursor.fetching:
        return
    while consumer.credit > 0:
        if core.budget.deliveries <= 0 or core.budget.delivery_bytes <= 0 or core.budget.judgements <= 0:
            core.agenda.leave_for_next_turn(consumer.queue)
            return
        if not cursor.copies:
            cursor.copies = _next_copies(core, as_queue(consumer.queue), cursor, consumer)
            if not cursor.copies:
                break
        copy = cursor.copies[0]
        if copy.body is None:
            _fetch(core, as_queue(consumer.queue), cursor)
            return
        cursor.copies.pop(0)
        if consumer.selector is None or _wanted(core, consumer.selector, copy, copy.body):
            _send(core, consumer, copy)
    if consumer.drain:
        consumer.credit = 0
        consumer.drain = False
        core.effects.drained.append(consumer)


def _wanted(core: Core, selector: Selector, copy: Entry, body: bytes) -> bool:
    core.budget.judgements -= 1
    return selector.matches(fields_of(copy, body))


def _send(core: Core, consumer: "Consumer", copy: Entry) -> None:
    body = copy.body
    assert body is not None
    consumer.credit -= 1
    consumer.assigned += 1
    core.budget.deliveries -= 1
    core.budget.delivery_bytes -= copy.body_len
    core.effects.deliveries.append(
        Delivery(
            consumer, copy, outgoing_sections(copy, body), copy.delivery_count, copy.annotations, True, False
        )
    )


def _fetch(core: Core, queue: Queue, cursor: Cursor) -> None:
    """Have the bodies of the copies read, as soon as they can be."""
    wanted = [copy for copy in cursor.copies if copy.body is None and readable(core, copy)]
    if not wanted or wanted[0] is not cursor.copies[0]:
        wait_for_durable(core, queue)
        return
    cursor.fetching = True
    request(core, wanted)


def fetched(core: Core, consumer: "Consumer", entries: list[Entry], bodies: list[Body]) -> None:
    """Bodies of copies have come; entries that ended meanwhile may have none any more."""
    cursor = cast(Cursor | None, consumer.cursor)
    if cursor is None:
        return
    cursor.fetching = False
    for copy, body in zip(entries, bodies, strict=True):
        if isinstance(body, bytes) and len(body) == copy.body_len:
            copy.body = body
        else:  # the entry has ended meanwhile, and its body is gone; or it is damaged
            cursor.copies.remove(copy)
    if not consumer.closed:
        browse(core, consumer)


@final
class _Batch:
    """Entries to copy, within the bounds of one batch."""

    def __init__(self, limit: i64, limit_bytes: i64) -> None:
        self.entries: list[Entry] = []
        self.left = limit
        self._bytes_left = limit_bytes

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.left -= 1
        self._bytes_left -= entry.body_len

    def full(self) -> bool:
        return self.left <= 0 or self._bytes_left <= 0


def _next_copies(core: Core, queue: Queue, cursor: Cursor, consumer: "Consumer") -> list[Entry]:
    """Copies of the next entries, of the highest priority that has any; the cursor moves behind them."""
    most = core.options.fetch_entries
    batch = _Batch(
        most if consumer.selector is not None else min(consumer.credit, most), core.options.fetch_bytes
    )
    priority: i64 = PRIORITIES - 1
    while priority >= 0 and not batch.entries:
        if queue.bands[priority].count() > 0:
            _fill(core, queue, cursor, priority, batch)
        priority -= 1
    return [entry.copy_for(consumer) for entry in batch.entries]


def _fill(core: Core, queue: Queue, cursor: Cursor, priority: i64, batch: _Batch) -> None:
    """Add what stands behind the cursor, objects and packed entries in one order, but nothing that is
    expired."""
    for location in locations(queue, priority, cursor.place[priority], cursor.ordinal[priority]):
        entry = location.entry
        cursor.at(entry)
        if entry.expiry_us == 0 or entry.expiry_us > core.now_us:
            batch.add(entry)
        if batch.full():
            return


@final
class BrowserPart(TurnPart):
    """Browsers have what they asked for."""

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, Consumer)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        owner = entries[0].owner
        assert isinstance(owner, Consumer)
        fetched(core, owner, entries, bodies)
