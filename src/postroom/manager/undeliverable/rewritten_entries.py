"""New entries made of old ones whose sections are to be others: a header on or off.

As `child_entries`, but with a body of their own in the ledger.
"""

from typing import Final

from isal.isal_zlib import crc32
from mypy_extensions import i64

from postroom.amqp.message.message_head import scan_head
from postroom.ledger.format.entry_records import Arrival
from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import first_state
from postroom.manager.kernel.outgoing_sections import expiry_flag
from postroom.manager.kernel.overrides import birth_us
from postroom.manager.kernel.overrides import expiry_us as override_expiry_us
from postroom.manager.queues.queue import Queue
from postroom.manager.undeliverable.child_entries import place
from postroom.model import numbers as n

_TAKEN_OVER: Final = n.FLAG_DURABLE | n.FLAG_DEAD_LETTER_ELIGIBLE | n.FLAG_REPORTS | n.FLAG_ACQUIRED
"""Flags of the parent that its child has, too."""


def make_rewritten(core: Core, parent: Entry, queue: Queue, event: i64, sections: bytes) -> i64:
    """Put ``sections`` on ``queue``, which is no topic, in the stead of ``parent``; returns the serial.

    With EVENT_MOVE it has the parent's priority, expiry and birth. With any other event, such as
    EVENT_DEAD_LETTER,
    it expires only if ``queue`` says so, whose overrides apply, and is flagged as adverse. Limits and quotas
    are the caller's to look at, and so is the end of ``parent``, in the same command: this is the first thing
    that the command writes, since a large body may take more than one block.
    """
    flags = parent.flags & _TAKEN_OVER
    priority, expiry_us = parent.priority, parent.expiry_us
    due_us: i64 = parent.due_us if parent.causes & n.UNBORN != 0 else 0
    if event != n.EVENT_MOVE:
        flags |= n.FLAG_ADVERSE | expiry_flag(parent)
        expiry_us = due_us = 0
        overrides = queue.overrides
        if overrides is not None:
            priority = overrides.priority if overrides.priority >= 0 else priority
            expiry_us = override_expiry_us(core.now_us, overrides)
            due_us = birth_us(core.now_us, overrides)
    causes: i64 = n.UNBORN if due_us != 0 else n.PAUSED if queue.switches.insertion_paused else 0
    head = scan_head(sections)
    state = first_state(event, n.NO_HOLDER, causes)
    arrival = Arrival(queue.id, event, state, head, priority=priority, flags=flags, expiry_us=expiry_us)
    arrival.causes = causes
    arrival.due_us = due_us
    serial = _write(core, parent, queue, arrival, sections)
    if queue.ids is not None:
        queue.ids.note(serial, head)
    size: i64 = len(sections)
    if size > CHUNK_BODY_BYTES:
        flags |= n.FLAG_BODY_STORED | n.FLAG_BODY_CHUNKED
    elif flags & n.FLAG_DURABLE != 0:
        flags |= n.FLAG_BODY_STORED
    offset = arrival.body_offset
    child = Entry(queue, serial, priority, flags, expiry_us, offset, size, sections)
    if flags & n.FLAG_REPORTS != 0 and causes == 0:
        core.reports.note(child, n.FEEDBACK_COA)
    place(core, queue, child, causes, due_us)
    return serial


def _write(core: Core, parent: Entry, queue: Queue, arrival: Arrival, sections: bytes) -> i64:
    """Complete and write the arrival of a child with ``sections``; returns its serial."""
    arrival.parent_serial = parent.serial
    arrival.parent_queue = parent.queue.id
    arrival.body_len = len(sections)
    arrival.body_crc = crc32(sections)
    arrival.chunk_positions = _chunks(core, sections)
    if arrival.chunk_positions is None:
        if parent.flags & n.FLAG_DURABLE != 0:
            arrival.body = sections
        elif queue.taps != 0:
            arrival.body = sections
            arrival.flags |= n.FLAG_TAPPED
    return core.ledger.arrival(arrival)


def _chunks(core: Core, sections: bytes) -> list[int] | None:
    """The positions of a large body's pieces; None for one that goes into its arrival.

    Blocks may end between them: pieces without an arrival are void after a crash.
    """
    if len(sections) <= CHUNK_BODY_BYTES:
        return None
    positions: list[int] = []
    for at in range(0, len(sections), CHUNK_BODY_BYTES):
        first = positions[0] if positions else 0
        positions.append(int(core.ledger.body_chunk(first, sections[at : at + CHUNK_BODY_BYTES])))
        core.ledger.boundary()
    return positions
