"""Finding what a selector wants, in order, without judging anything twice.

A consumer with a selector takes the first wanted entry that everything before has been judged of. Judging
needs the message's sections; those of stored messages that aren't in memory are read ahead in batches. What
one turn may judge is bounded; the rest follows in the next.

`may_go` is the one place that says which entry may go to which consumer: an entry that a consumer has called
undeliverable doesn't come to it again; the messages of a group go to the consumer that has the group.
"""

import heapq
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.ledger.storage.body_requests import Body
from postroom.manager.consuming.body_fetch import readable, request, wait_for_durable
from postroom.manager.consuming.unit_turns import catch_up
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import SelectorRefused
from postroom.manager.kernel.memory import keep_body
from postroom.manager.kernel.outgoing_sections import fields_of
from postroom.manager.queues.band import Band
from postroom.manager.queues.entry_lookup import find_again, pick
from postroom.manager.queues.message_groups import GROUP_WINDOW
from postroom.manager.queues.placement import put_back_packed, refill, take_packed
from postroom.manager.queues.queue import PRIORITIES, Queue, as_queue
from postroom.manager.queues.selector_cursor import (
    Key,
    SelectorCursor,
    forget_verdict,
    key_of,
    note_verdict,
    search_memory_of,
    verdict_on,
)
from postroom.manager.undeliverable.dead_letters import discard_damaged
from postroom.manager.undeliverable.expiry import expire, expire_available, expired
from postroom.manager.undeliverable.unreadable_bodies import without_body
from postroom.model import numbers as n
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
    cursor.done = not cursor.busy and not cursor.bodies
    return None


def _next_of(core: Core, cursor: SelectorCursor, band: Band, consumer: Consumer) -> Entry | None:
    """The next entry of one priority; None: nothing, or `busy`."""
    priority = band.priority
    if cursor.unjudged[priority]:
        _judge_apart(core, cursor, band)
    while not cursor.busy:
        key = _first_key(core, cursor, band, consumer)
        if catch_up(core, as_queue(cursor.queue)):
            continue
        if key is not None and cursor.passed(priority, key[0], key[1]):
            return _with_body(core, cursor, band, key)
        if not _walk(core, cursor, band):
            if key is None or cursor.busy:
                return None
            return _with_body(core, cursor, band, key)
    return None


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
        _request(core, cursor, [entry], [entry], False)
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
    _request(core, cursor, [entry], [entry], False)
    return None


# Judging.


def _may_judge(core: Core, cursor: SelectorCursor) -> bool:
    """Whether this turn may do more; else the next one goes on."""
    if core.budget.judgements > 0:
        return True
    cursor.busy = True
    core.agenda.leave_for_next_turn(cursor.queue)
    return False


def _judge(cursor: SelectorCursor, entry: Entry, body: bytes) -> bool:
    """Whether the selector wants the entry; asked once for each."""
    cursor.judgements += 1
    return cursor.selector.matches(fields_of(entry, body))


def _judge_object(core: Core, cursor: SelectorCursor, entry: Entry, missing: list[Entry]) -> None:
    """Judge an object unless that has been done, or put it among those whose body is ``missing``."""
    key = key_of(entry)
    verdict = verdict_on(entry, cursor)
    if verdict < 0:
        body = entry.body
        if body is None and cursor.selector.needs_sections:
            missing.append(entry)
            return
        core.budget.judgements -= 1
        verdict = 1 if _judge(cursor, entry, body or b"") else 0
        note_verdict(entry, cursor, verdict == 1)
    if verdict == 1:
        cursor.wants(entry.priority, key, None)


def _judge_apart(core: Core, cursor: SelectorCursor, band: Band) -> None:
    """Judge what came (back) out of order on a priority, or be `busy` with it."""
    unjudged = cursor.unjudged[band.priority]
    missing: list[Entry] = []
    while unjudged and len(missing) < core.options.fetch_entries and _may_judge(core, cursor):
        key = heapq.heappop(unjudged)
        if unjudged and unjudged[0] == key:
            continue  # it came back twice
        entry = band.find(key[0], key[1])
        if entry is None:
            continue
        if cursor.selector.changes:
            forget_verdict(entry, cursor)
        _judge_object(core, cursor, entry, missing)
    if missing:
        requested = _request(core, cursor, missing, missing, False)
        for entry in missing[requested:]:
            cursor.came(band.priority, key_of(entry))


def _walk(core: Core, cursor: SelectorCursor, band: Band) -> bool:
    """Judge some more behind the position; False if there is nothing more, or it is `busy`."""
    priority = band.priority
    place, ordinal = cursor.place[priority], cursor.ordinal[priority]
    if band.ends_at(place, ordinal) or not _may_judge(core, cursor):
        return False
    entries = band.live_after(place, ordinal, core.options.fetch_entries)
    if entries:
        return _walk_live(core, cursor, entries)
    if band.backlog.count > 0:
        return _walk_backlog(core, cursor, band)
    last = band.live[-1]
    if last is not None:  # only gaps are left
        cursor.at(priority, last.place, last.ordinal)
    return False


def _walk_live(core: Core, cursor: SelectorCursor, entries: list[Entry]) -> bool:
    """Judge objects; the position stops before the first whose body must be read."""
    missing: list[Entry] = []
    for entry in entries:
        _judge_object(core, cursor, entry, missing)
        if not missing:
            cursor.at(entry.priority, entry.place, entry.ordinal)
    if missing:
        _request(core, cursor, missing, missing, True)
    return not missing


def _walk_backlog(core: Core, cursor: SelectorCursor, band: Band) -> bool:
    """Judge packed entries, or have their bodies read: those of one batch."""
    left: i64 = core.options.fetch_entries
    missing: list[Entry] = []
    backlog, priority = band.backlog, band.priority
    place, ordinal = cursor.place[priority], cursor.ordinal[priority] + 1
    backlog.sealed()
    at = backlog.chunk_at(place, ordinal)
    while at < len(backlog.chunks) and left > 0:
        chunk = backlog.chunks[at]
        index = chunk.first_at(place, ordinal)
        while index < chunk.count and left > 0:
            if not chunk.is_dead(index):
                left -= 1
                _judge_packed(core, cursor, backlog.object_at(chunk, index), missing)
            index += 1
        at += 1
    if missing:
        _request(core, cursor, missing, [None] * len(missing), True)
        return False
    if left == core.options.fetch_entries:  # only what has ended is left
        last_place, last_ordinal = backlog.last()
        cursor.at(priority, last_place, last_ordinal)
    return True


def _judge_packed(core: Core, cursor: SelectorCursor, entry: Entry, missing: list[Entry]) -> None:
    """As `_judge_object` for an entry that may be packed: then the position alone remembers the verdict."""
    if entry.body is not None:
        _judge_object(core, cursor, entry, missing)
    elif cursor.selector.needs_sections:
        missing.append(entry)
    else:
        core.budget.judgements -= 1
        if _judge(cursor, entry, b""):
            cursor.wants(entry.priority, key_of(entry), None)
    if not missing:
        cursor.at(entry.priority, entry.place, entry.ordinal)


# Bodies.


def _request(
    core: Core,
    cursor: SelectorCursor,
    entries: Sequence[Entry],
    objects: Sequence[Entry | None],
    walking: bool,
) -> int:
    """Have the bodies of ``entries`` read, as many as are on disk and one batch may have; returns how many.

    ``objects`` are those that are to be told the verdict.
    """
    bytes_left: i64 = core.options.fetch_bytes
    copies: list[Entry] = []
    memory = cursor.memory
    cursor.busy = True
    if memory.reading_bytes >= memory.max_bytes:
        memory.waiting[int(cursor.queue.id)] = cursor.queue
        return 0
    for index, entry in enumerate(entries):
        if not readable(core, entry):
            if not copies:
                wait_for_durable(core, as_queue(cursor.queue))
            break
        bytes_left -= entry.body_len
        if copies and bytes_left < 0:
            break
        copies.append(entry.copy_for(cursor))
        cursor.requested[key_of(entry)] = objects[index]
        cursor.requested_bytes += entry.body_len
    memory.reading_bytes += cursor.requested_bytes
    cursor.walking = walking
    if copies:
        request(core, copies)
    return len(copies)


def _without_body(
    core: Core, cursor: SelectorCursor, copy: Entry, original: Entry | None, damage: LedgerCorrupt
) -> None:
    """What is damaged isn't wanted, and ends if it was; what the disk didn't give is judged later."""
    if isinstance(damage, BodyUnreadable):
        location = find_again(as_queue(cursor.queue), copy)
        if location is not None:
            without_body(core, pick(core, as_queue(cursor.queue), location), damage)
        return
    if original is None:
        return
    if original.state == n.AVAILABLE and verdict_on(original, cursor) == 1:
        discard_damaged(core, original, damage)
    note_verdict(original, cursor, False)


def _judge_read(
    core: Core, cursor: SelectorCursor, copy: Entry, original: Entry | None, key: Key, body: bytes
) -> None:
    verdict = verdict_on(original, cursor) if original is not None else -1
    needed = verdict == 1
    if verdict < 0:
        core.budget.judgements -= 1
        verdict = 1 if _judge(cursor, copy, body) else 0
        if original is not None:
            note_verdict(original, cursor, verdict == 1)
    if verdict == 1:
        cursor.wants(copy.priority, key, body, needed)


@final
class SelectorPart(TurnPart):
    """Selectors judge what was read for them."""

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, SelectorCursor)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        """Bodies that `_request` asked for have come: judge, and let the queue be dispatched."""
        cursor = entries[0].owner
        assert isinstance(cursor, SelectorCursor)
        # others may read now
        memory = cursor.memory
        memory.reading_bytes -= cursor.requested_bytes
        cursor.requested_bytes = 0
        core.agenda.woken.extend(memory.waiting.values())
        memory.waiting = {}
        if cursor.closed:
            return
        for copy, body in zip(entries, bodies, strict=True):
            key = key_of(copy)
            original = cursor.requested.pop(key, None)
            if isinstance(body, LedgerCorrupt):
                _without_body(core, cursor, copy, original, body)
            elif len(body) == copy.body_len:  # else it has ended meanwhile, and its body is gone
                _judge_read(core, cursor, copy, original, key, body)
            if cursor.walking:
                cursor.at(copy.priority, copy.place, copy.ordinal)
        core.agenda.woken.append(cursor.queue)
