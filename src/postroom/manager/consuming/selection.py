"""Finding what a selector wants, in order, without judging anything twice.

A consumer with a selector takes the first wanted entry that everything before has been judged of. Judging
needs the message's sections; those of stored messages that aren't in memory are read ahead in batches. What
one turn may judge is bounded; the rest follows in the next.

`may_go` is the one place that says which entry may go to which consumer: an entry that a consumer has called
undeliverable doesn't come to it again; the messages of a group go to the consumer that has the group.
"""

from typing import Final

from mypy_extensions import i64

from postroom.manager.consuming.judging import judge_apart, request_bodies, walk
from postroom.manager.consuming.unit_turns import catch_up
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import SelectorRefused
from postroom.manager.kernel.memory import keep_body
from postroom.manager.queues.band import Band
from postroom.manager.queues.message_groups import GROUP_WINDOW
from postroom.manager.queues.placement import put_back_packed, refill, take_packed
from postroom.manager.queues.queue import PRIORITIES, Queue, as_queue
from postroom.manager.queues.selector_cursor import (
    Key,
    SelectorCursor,
    key_of,
    search_memory_of,
)
from postroom.manager.undeliverable.expiry import expire, expire_available, expired
from postroom.model.selector.errors import SelectorInvalid
from postroom.model.selector.selector import Selector, parse

MAX_LEFT_CURSORS: Final = 8
"""Cursors of one queue that nobody uses."""


def selector_of(text: str) -> Selector | None:
    """The selector that a consumer asks for, None for all. Raises SelectorRefused."""
    try:
        return parse(text) if text.strip() else None
    except SelectorInvalid as error:
        raise SelectorRefused(str(error)) from None


def use_cursor(core: Core, queue: Queue, selector: Selector) -> SelectorCursor:
    """The cursor of ``selector`` on ``queue``, with one user more; perhaps one that somebody left."""
    cursor = queue.selectors.cursors.get(selector.text)
    if cursor is None:
        cursor = SelectorCursor(queue, queue.selectors, selector, search_memory_of(core))
        queue.selectors.cursors[selector.text] = cursor
        for band in queue.bands:
            for entry in band.returned:
                cursor.came(band.priority, key_of(entry))
    if cursor.users == 0:
        queue.selectors.in_use += 1
        cursor.done = False
    cursor.users += 1
    return cursor


def leave_cursor(cursor: SelectorCursor) -> None:
    """A consumer has gone. When nobody is left, the cursor stays for the next who says the same, as many
    clients do that make a consumer for each receive; the one left longest goes.
    """
    cursor.users -= 1
    if cursor.users > 0:
        return
    queue = as_queue(cursor.queue)
    queue.selectors.in_use -= 1
    cursor.rest()
    del queue.selectors.cursors[cursor.selector.text]
    queue.selectors.cursors[cursor.selector.text] = cursor
    if len(queue.selectors.cursors) - queue.selectors.in_use > MAX_LEFT_CURSORS:
        longest = next(each for each in queue.selectors.cursors.values() if each.users == 0)
        longest.closed = True
        longest.rest()
        del queue.selectors.cursors[longest.selector.text]


def may_go(queue: Queue, consumer: Consumer, entry: Entry, body: bytes | None) -> bool:
    """Whether ``entry`` may go to ``consumer``, as far as can be said without its body where that is None."""
    if entry.excluded is not None and consumer.id in entry.excluded:
        return False
    groups = queue.groups
    if groups is None or body is None:
        return True
    return groups.may_go(consumer, groups.bucket_of(entry, body))


def first_for(core: Core, queue: Queue, consumer: Consumer) -> Entry | None:
    """The first available entry that may go to ``consumer``, or that must be read to say so."""
    limit: i64 = consumer.excluded + 1
    if queue.groups is not None:
        limit += GROUP_WINDOW
    priority: i64 = PRIORITIES - 1
    while priority >= 0:
        band = queue.bands[priority]
        if band.backlog.count > 0:
            refill(core, queue, band)
        front = band.first()
        if front is not None and may_go(queue, consumer, front, front.body):
            return front
        for entry in band.after(-1, 0, limit) if front is not None else []:
            if may_go(queue, consumer, entry, entry.body):
                return entry
        priority -= 1
    return None


# The next entry.


def next_wanted(core: Core, cursor: SelectorCursor, consumer: Consumer) -> Entry | None:
    """The next entry for ``consumer``, an object with its body, in its band or out of the backlog; None:
    nothing now.

    ``cursor.busy`` says whether there may be something later without anything new.
    """
    cursor.busy = len(cursor.requested) > 0
    if cursor.done:
        return None
    cursor.searches += 1
    bands = as_queue(cursor.queue).bands
    priority: i64 = PRIORITIES - 1
    while priority >= 0 and not cursor.busy:
        band = bands[priority]
        entry = None if band.vacant else _next_of(core, cursor, band, consumer)
        if entry is not None:
            return entry
        priority -= 1
    cursor.done = not cursor.busy and cursor.wants_nothing()
    return None


def _next_of(core: Core, cursor: SelectorCursor, band: Band, consumer: Consumer) -> Entry | None:
    """The next entry of one priority; None: nothing, or `busy`."""
    priority, queue = band.priority, as_queue(cursor.queue)
    if band.backlog.count > 0:
        refill(core, queue, band)
    if cursor.unjudged[priority]:
        judge_apart(core, cursor, band)
    if cursor.busy:
        return None
    walked = False
    while True:
        entry = _first_in_line(core, cursor, band, consumer)
        key = _first_key(core, cursor, band, consumer) if cursor.matched[priority] else None
        if catch_up(core, queue):
            walked = False
            continue
        if entry is not None and (key is None or _is_ahead(entry, key)):
            cursor.lines[priority].pop()
            return entry
        all_judged = walked and not cursor.busy
        if key is not None and (all_judged or cursor.passed(priority, key[0], key[1])):
            return _with_body(core, cursor, band, key)
        if walked:
            return None
        walked = not walk(core, cursor, band)


def _is_ahead(entry: Entry, key: Key) -> bool:
    return not entry.behind(key[0], key[1]) and not entry.at(key[0], key[1])


def _first_in_line(core: Core, cursor: SelectorCursor, band: Band, consumer: Consumer) -> Entry | None:
    """The first wanted one of those judged in their order that has its body and may go to ``consumer``; those
    before it are found by their places from now on."""
    queue, line = as_queue(cursor.queue), cursor.lines[band.priority]
    while True:
        entry = line.first()
        if entry is None:
            return None
        if expired(core, entry):
            line.pop()
            expire_available(core, entry)
        elif entry.body is not None and may_go(queue, consumer, entry, entry.body):
            return entry
        else:
            line.pop()
            cursor.wants(band.priority, key_of(entry), None)


def _first_key(core: Core, cursor: SelectorCursor, band: Band, consumer: Consumer) -> Key | None:
    """The first wanted place at which there is something that may go to ``consumer``; drops what has gone."""
    matched = cursor.matched[band.priority]
    not_his: list[Key] = []
    found: Key | None = None
    while matched and found is None:
        key = matched.first()
        entry = band.find(key[0], key[1])
        if entry is None and band.backlog.find(key[0], key[1]) is None:
            cursor.forget(band.priority, key)
        elif entry is not None and expired(core, entry):
            cursor.forget(band.priority, key)
            expire_available(core, entry)
        elif _may_go(cursor, consumer, band, entry, key):
            found = key
        else:
            not_his.append(matched.pop())
    for key in not_his:
        matched.push(key)
    return found


def _may_go(cursor: SelectorCursor, consumer: Consumer, band: Band, entry: Entry | None, key: Key) -> bool:
    """Whether a wanted entry may go to ``consumer``; for a packed one only its group can forbid it."""
    queue = as_queue(cursor.queue)
    if entry is None:
        found = band.backlog.find(key[0], key[1]) if queue.groups is not None else None
        if found is None:
            return True
        entry = band.backlog.object_at(found[0], found[1])
    return may_go(queue, consumer, entry, entry.body or cursor.bodies[key])


def _with_body(core: Core, cursor: SelectorCursor, band: Band, key: Key) -> Entry | None:
    """The entry at ``key`` as an object with its body; None: that must be read first, or its time is over."""
    queue, body = as_queue(cursor.queue), cursor.bodies[key]
    entry = band.find(key[0], key[1])
    if entry is None:
        return _unpacked(core, cursor, band, key, body)
    if entry.body is None and body is not None:
        keep_body(core, entry, body)
        queue.bodies.missing -= 1
    if entry.body is None:
        request_bodies(core, cursor, [entry], [entry], False)
        return None
    cursor.forget_first(band.priority, key)
    return entry


def _unpacked(core: Core, cursor: SelectorCursor, band: Band, key: Key, body: bytes | None) -> Entry | None:
    found = band.backlog.find(key[0], key[1])
    assert found is not None
    entry = take_packed(core, as_queue(cursor.queue), band, found[0], found[1])
    if expired(core, entry):
        expire(core, entry)
        cursor.busy = True
        core.agenda.woken.append(cursor.queue)  # for the next one
        return None
    if body is not None:
        keep_body(core, entry, body)
    if entry.body is not None:
        cursor.forget_first(band.priority, key)
        return entry
    put_back_packed(core, as_queue(cursor.queue), entry)
    request_bodies(core, cursor, [entry], [entry], False)
    return None
