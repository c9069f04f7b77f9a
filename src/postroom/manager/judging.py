"""Asking selectors about entries."""

from typing import TYPE_CHECKING, Final

from postroom.amqp.message_fields import MessageFields
from postroom.manager.cursor import SelectorCursor, note_verdict
from postroom.manager.entry import Entry
from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.manager.queue import Queue

MATCHED_AHEAD: Final = 256
"""Wanted entries that a cursor remembers before it stops judging arrivals that nobody has asked for yet."""


def fields_of(entry: Entry, body: bytes) -> MessageFields:
    """What selectors see of ``entry``."""
    durable = entry.flags & n.FLAG_DURABLE != 0
    return MessageFields(entry.priority, durable, entry.delivery_count, body, entry.annotations)


def judge(cursor: SelectorCursor, entry: Entry, body: bytes) -> bool:
    """Whether the selector wants the entry; asked once for each."""
    cursor.judgements += 1
    return cursor.selector.matches(fields_of(entry, body))


def wanted_at_arrival(queue: "Queue", entry: Entry) -> bool:
    """Whether a selector that has come to the end of its priority wants ``entry``, which is to be packed.

    It is judged while its body is in memory, so that it need not be read again. If it is wanted, it is better
    kept as an object.
    """
    body = entry.body
    if body is None:
        return False
    wanted = False
    priority = entry.priority
    band = queue.bands[priority]
    for cursor in queue.cursors.values():
        follows = cursor.users > 0 and len(cursor.matched[priority]) < MATCHED_AHEAD
        if follows and band.ends_at(cursor.place[priority], cursor.ordinal[priority]):
            said = judge(cursor, entry, body)
            note_verdict(entry, cursor, said)
            cursor.at(priority, entry.place, entry.ordinal)
            wanted = wanted or said
    return wanted
