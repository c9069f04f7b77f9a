"""Judging entries for a selector, each once, and having the bodies read that it takes.

A cursor goes through the live head, whose entries are objects, and then through the backlog, whose entries
stay packed; what came (back) out of order is judged apart. What one turn may judge is bounded; the rest
follows in the next.
"""

import heapq
from collections.abc import Sequence
from typing import final

from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.ledger.storage.body_requests import Body
from postroom.manager.consuming.body_fetch import (
    fetch_to_judge,
    readable,
    request,
    take_shared,
    wait_for_durable,
)
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import drop_body
from postroom.manager.kernel.outgoing_sections import fields_of
from postroom.manager.queues.band import Band
from postroom.manager.queues.entry_lookup import find_again, pick
from postroom.manager.queues.placement import note_unbodied, take_out
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.queues.selector_cursor import (
    Key,
    SelectorCursor,
    forget_verdict,
    key_of,
    note_verdict,
    verdict_on,
)
from postroom.manager.undeliverable.dead_letters import discard_damaged
from postroom.manager.undeliverable.unreadable_bodies import without_body
from postroom.model import numbers as n


def _may_judge(core: Core, cursor: SelectorCursor) -> bool:
    """Whether this turn may do more; else the next one goes on."""
    if core.budget.judgements > 0:
        return True
    cursor.busy = True
    core.agenda.leave_for_next_turn(cursor.queue)
    return False


def _judge(core: Core, cursor: SelectorCursor, entry: Entry, body: bytes) -> bool:
    """Whether the selector wants the entry; asked once for each."""
    core.budget.judgements -= 1
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
        verdict = 1 if _judge(core, cursor, entry, body or b"") else 0
        note_verdict(entry, cursor, verdict == 1)
    if verdict == 1:
        cursor.wants(entry.priority, key, None)


def judge_apart(core: Core, cursor: SelectorCursor, band: Band) -> None:
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
        requested = request_bodies(core, cursor, missing, missing, False)
        for entry in missing[requested:]:
            cursor.came(band.priority, key_of(entry))


def walk(core: Core, cursor: SelectorCursor, band: Band) -> bool:
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
    queue = as_queue(cursor.queue)
    for index, entry in enumerate(entries):
        if not _judge_next(core, queue, cursor, entry):
            fetch_to_judge(core, queue, entries[index:])
            cursor.busy = True
            return False
        cursor.at(entry.priority, entry.place, entry.ordinal)
    return True


def _judge_next(core: Core, queue: Queue, cursor: SelectorCursor, entry: Entry) -> bool:
    """Judge an object of the live head in its order, unless that has been done; False: its body must be read
    first, to judge it or to give it out."""
    verdict = verdict_on(entry, cursor)
    if verdict < 0:
        unread = entry.body is None and cursor.selector.needs_sections
        if unread and not take_shared(core, queue, entry):
            return False
        wanted = _judge(core, cursor, entry, entry.body or b"")
        note_verdict(entry, cursor, wanted)
        verdict = 1 if wanted else 0
        if not wanted and entry.body is not None and core.memory.cached_bytes > core.memory.body_cache_bytes:
            drop_body(core, entry)
            note_unbodied(queue, entry)
    if verdict == 1:
        if entry.body is None and not take_shared(core, queue, entry):
            return False
        cursor.wants_next(entry)
    return True


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
        request_bodies(core, cursor, missing, [None] * len(missing), True)
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
        if _judge(core, cursor, entry, b""):
            cursor.wants(entry.priority, key_of(entry), None)
    if not missing:
        cursor.at(entry.priority, entry.place, entry.ordinal)


# Bodies.


def request_bodies(
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
        take_out(as_queue(cursor.queue), original)
        discard_damaged(core, original, damage)
    note_verdict(original, cursor, False)


def _judge_read(
    core: Core, cursor: SelectorCursor, copy: Entry, original: Entry | None, key: Key, body: bytes
) -> None:
    verdict = verdict_on(original, cursor) if original is not None else -1
    needed = verdict == 1
    if verdict < 0:
        verdict = 1 if _judge(core, cursor, copy, body) else 0
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
