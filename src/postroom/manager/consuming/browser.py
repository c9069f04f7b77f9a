"""Browsing: copies of what is available, in order, without taking or locking anything.

A browser remembers how far it has come on each priority, so it sees each entry once, also those that arrive
behind its cursor while it stays.
"""

from typing import final

from mypy_extensions import i64

from postroom.ledger.storage.body_requests import Body
from postroom.manager.consuming.body_fetch import readable, request, wait_for_durable
from postroom.manager.kernel.consumer import QueueReader
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.effects import Delivery, Sink
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ConsumerOptions
from postroom.manager.kernel.outgoing_sections import fields_of, outgoing_sections
from postroom.manager.queues.entry_lookup import locations
from postroom.manager.queues.queue import PRIORITIES, Queue, as_queue
from postroom.model import numbers as n
from postroom.model.selector.selector import Selector


@final
class Browser(QueueReader):
    """Someone who looks at one queue: how far it has come, by priority, and the copies that it gets next."""

    def __init__(
        self, id: i64, queue: Queue, sink: Sink, options: ConsumerOptions, selector: Selector | None
    ) -> None:
        super().__init__(id, queue, sink, options)
        self.selector = selector
        """Which messages it wants; None all."""
        self.place: list[int] = [0] * PRIORITIES
        self.ordinal: list[int] = [-1] * PRIORITIES
        self.copies: list[Entry] = []
        self.fetching = False

    def at(self, entry: Entry) -> None:
        """It stands on ``entry`` now."""
        self.place[entry.priority] = entry.place
        self.ordinal[entry.priority] = entry.ordinal


def browse(core: Core, browser: Browser) -> None:
    """Send copies while there is credit, and answer a drain at the end."""
    if browser.credit <= 0 or browser.fetching:
        return
    while browser.credit > 0:
        if core.budget.deliveries <= 0 or core.budget.delivery_bytes <= 0 or core.budget.judgements <= 0:
            core.agenda.leave_for_next_turn(browser.queue)
            return
        if not browser.copies:
            browser.copies = _next_copies(core, as_queue(browser.queue), browser)
            if not browser.copies:
                break
        copy = browser.copies[0]
        if copy.body is None:
            _fetch(core, as_queue(browser.queue), browser)
            return
        browser.copies.pop(0)
        if browser.selector is None or _wanted(core, browser.selector, copy, copy.body):
            _send(core, browser, copy)
    if browser.drain:
        browser.credit = 0
        browser.drain = False
        core.effects.drained.append(browser)


def _wanted(core: Core, selector: Selector, copy: Entry, body: bytes) -> bool:
    core.budget.judgements -= 1
    return selector.matches(fields_of(copy, body))


def _send(core: Core, browser: Browser, copy: Entry) -> None:
    body = copy.body
    assert body is not None
    browser.credit -= 1
    browser.assigned += 1
    core.budget.deliveries -= 1
    core.budget.delivery_bytes -= copy.body_len
    core.effects.deliveries.append(
        Delivery(
            browser, copy, outgoing_sections(copy, body), copy.delivery_count, copy.annotations, True, False
        )
    )


def _fetch(core: Core, queue: Queue, browser: Browser) -> None:
    """Have the bodies of the copies read, as soon as they can be."""
    wanted = [copy for copy in browser.copies if copy.body is None and readable(core, copy)]
    if not wanted or wanted[0] is not browser.copies[0]:
        wait_for_durable(core, queue)
        return
    browser.fetching = True
    request(core, wanted)


def fetched(core: Core, browser: Browser, entries: list[Entry], bodies: list[Body]) -> None:
    """Bodies of copies have come; entries that ended meanwhile may have none any more."""
    browser.fetching = False
    for copy, body in zip(entries, bodies, strict=True):
        if isinstance(body, bytes) and len(body) == copy.body_len:
            copy.body = body
        else:  # the entry has ended meanwhile, and its body is gone; or it is damaged
            browser.copies.remove(copy)
    if not browser.closed:
        browse(core, browser)


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


def _next_copies(core: Core, queue: Queue, browser: Browser) -> list[Entry]:
    """Copies of the next entries, of the highest priority that has any; the cursor moves behind them."""
    most = core.options.fetch_entries
    batch = _Batch(
        most if browser.selector is not None else min(browser.credit, most), core.options.fetch_bytes
    )
    priority: i64 = PRIORITIES - 1
    while priority >= 0 and not batch.entries:
        if queue.bands[priority].count() > 0:
            _fill(core, queue, browser, priority, batch)
        priority -= 1
    return [entry.copy_for(browser) for entry in batch.entries]


def _fill(core: Core, queue: Queue, browser: Browser, priority: i64, batch: _Batch) -> None:
    """Add what stands behind the cursor, objects and packed entries in one order, but nothing that is
    expired."""
    for location in locations(queue, priority, browser.place[priority], browser.ordinal[priority]):
        entry = location.entry
        browser.at(entry)
        if entry.expiry_us == 0 or entry.expiry_us > core.now_us:
            batch.add(entry)
        if batch.full():
            return


@final
class BrowserPart(TurnPart):
    """Browsers have what they asked for."""

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, Browser)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        owner = entries[0].owner
        assert isinstance(owner, Browser)
        fetched(core, owner, entries, bodies)
