"""New entries made of old ones whose sections are to be others: a header on or off.

As `child_entries`, but with a body of their own in the ledger.
"""

from typing import Final

from isal.isal_zlib import crc32
from mypy_extensions import i64

from postroom.amqp.message.message_head import scan_head
from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import first_state
from postroom.manager.kernel.outgoing_sections import expiry_flag
from postroom.manager.kernel.overrides import birth_us
from postroom.manager.kernel.overrides import expiry_us as override_expiry_us
from postroom.manager.queues.message_ids import ids_of_head
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
    serial = _arrival(core, parent, queue, event, sections, flags, priority, expiry_us, causes, due_us)
    size: i64 = len(sections)
    if size > CHUNK_BODY_BYTES:
        flags |= n.FLAG_BODY_STORED | n.FLAG_BODY_CHUNKED
    elif flags & n.FLAG_DURABLE != 0:
        flags |= n.FLAG_BODY_STORED
    offset = core.ledger.last_body_offset
    child = Entry(queue, serial, priority, flags, expiry_us, serial, offset, size, sections)
    if flags & n.FLAG_REPORTS != 0 and causes == 0:
        core.reports.note(child, n.FEEDBACK_COA)
    place(core, queue, child, causes, due_us)
    return serial


def _arrival(
    core: Core,
    parent: Entry,
    queue: Queue,
    event: i64,
    sections: bytes,
    flags: i64,
    priority: i64,
    expiry_us: i64,
    causes: i64,
    due_us: i64,
) -> i64:
    head = scan_head(sections)
    chunks = _chunks(core, sections)
    stored = sections if parent.flags & n.FLAG_DURABLE != 0 and chunks is None else None
    if queue.taps != 0 and stored is None and chunks is None:
        stored = sections
        flags |= n.FLAG_TAPPED
    serial = core.ledger.arrival(
        queue.id,
        first_state(event, n.NO_HOLDER, causes),
        event,
        n.NO_HOLDER,
        0,
        causes,
        priority,
        flags,
        0,
        expiry_us,
        due_us,
        head.creation_us,
        0,
        stored,
        crc32(sections),
        head.message_id,
        head.message_id_type,
        head.correlation_id,
        head.correlation_id_type,
        head.group_id,
        head.group_sequence,
        0,
        len(sections),
        parent.serial,
        parent.queue.id,
        chunks,
        0,
        head.unique_id,
    )
    if queue.ids is not None:
        queue.ids.add(serial, ids_of_head(head))
    return serial


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
