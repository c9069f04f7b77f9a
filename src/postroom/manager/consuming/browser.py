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


def _next_copies(core: Core, queue: Queue, browser: Browser) -> list[Entry]:
    """Copies of the next entries that haven't expired, of the highest priority that has any, within the
    bounds of a batch; the cursor moves behind them."""
    most: i64 = core.options.fetch_entries
    left = most if browser.selector is not None else min(browser.credit, most)
    bytes_left: i64 = core.options.fetch_bytes
    copies: list[Entry] = []
    priority: i64 = PRIORITIES - 1
    while priority >= 0 and not copies:
        behind = (browser.place[priority], browser.ordinal[priority])
        for location in locations(queue, priority, *behind) if queue.bands[priority].count() > 0 else ():
            entry = location.entry
            browser.at(entry)
            if entry.expiry_us == 0 or entry.expiry_us > core.now_us:
                copies.append(entry.copy_for(browser))
                left -= 1
                bytes_left -= entry.body_len
            if left <= 0 or bytes_left <= 0:
                break
        priority -= 1
    return copies


@final
class BrowserPart(TurnPart):
    """Browsers have what they asked for."""

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, Browser)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        """Bodies of copies have come; entries that ended meanwhile may have none any more."""
        browser = entries[0].owner
        assert isinstance(browser, Browser)
        browser.fetching = False
        for copy, body in zip(entries, bodies, strict=True):
            if isinstance(body, bytes) and len(body) == copy.body_len:
                copy.body = body
            else:  # the entry has ended meanwhile, and its body is gone; or it is damaged
                browser.copies.remove(copy)
        if not browser.closed:
            browse(core, browser)
