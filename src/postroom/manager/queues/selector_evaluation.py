"""Asking selectors about entries."""

from typing import Final

from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.outgoing_sections import fields_of
from postroom.manager.queues.band import Band
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.selector_cursor import SelectorCursor, key_of, note_verdict

MATCHED_AHEAD: Final = 256
"""Wanted entries that a cursor remembers before it stops judging arrivals that nobody has asked for yet."""


def judge(cursor: SelectorCursor, entry: Entry, body: bytes) -> bool:
    """Whether the selector wants the entry; asked once for each."""
    cursor.judgements += 1
    return cursor.selector.matches(fields_of(entry, body))


def wanted_at_arrival(queue: Queue, entry: Entry) -> bool:
    """Whether a selector that has come to the end of its priority wants ``entry``, which is about to stand
    there.

    It is judged while its body is in memory, so that it need not be read again, and nobody who doesn't want
    it is woken. A wanted one is better kept as an object.
    """
    priority, body = entry.priority, entry.body
    band = queue.bands[priority]
    fields = fields_of(entry, body) if body is not None else None
    wanted = False
    for cursor in queue.selectors.cursors.values():
        if fields is None or not _follows(cursor, band):
            cursor.done = False
            continue
        cursor.judgements += 1
        verdict = cursor.selector.matches(fields)
        note_verdict(entry, cursor, verdict)
        cursor.at(priority, entry.place, entry.ordinal)
        if verdict:
            cursor.wants(priority, key_of(entry), None)
            wanted = True
    return wanted


def _follows(cursor: SelectorCursor, band: Band) -> bool:
    """Whether somebody uses the cursor, and it has been through everything there was of a priority."""
    priority = band.priority
    if cursor.users == 0 or len(cursor.matched[priority]) >= MATCHED_AHEAD:
        return False
    return band.ends_at(cursor.place[priority], cursor.ordinal[priority])
