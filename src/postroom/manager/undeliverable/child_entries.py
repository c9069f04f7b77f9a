"""New entries made of old ones: dead letters, redirected and moved ones. They name their parent and share its
body; or, where their sections are to be others (a header on or off), have one of their own in the ledger."""

from collections.abc import Sequence
from typing import Final

from isal.isal_zlib import crc32
from mypy_extensions import i64

from postroom.amqp.errors import AmqpError
from postroom.amqp.message.message_head import scan_head
from postroom.ledger.format.entry_records import Arrival
from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.destinations import routing, tap
from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import begin_available, first_state
from postroom.manager.kernel.memory import stored
from postroom.manager.kernel.outgoing_sections import expiry_flag
from postroom.manager.kernel.overrides import birth_us
from postroom.manager.kernel.overrides import expiry_us as override_expiry_us
from postroom.manager.queues.annotations import annotate
from postroom.manager.queues.message_ids import ids_of
from postroom.manager.queues.placement import add_delayed, add_new
from postroom.manager.queues.queue import Queue, as_queue
from postroom.model import numbers as n
from postroom.model.ids import NO_IDS, MessageIds


def make_child(
    core: Core, parent: Entry, queue: Destination, event: i64, annotations: dict[str, object] | None
) -> None:
    """Put what ``parent`` carries on ``queue`` as a new entry, which expires only if ``queue`` says so; on a
    topic, as one for each of its subscriptions.

    The overrides of ``queue`` apply (priority, times), its quota doesn't: what could be delivered nowhere
    must find room (WebLogic's rules).
    """
    takers: Sequence[Queue]
    routing_set = queue.id
    flags = (parent.flags | n.FLAG_ADVERSE | n.FLAG_BODY_SHARED | expiry_flag(parent)) & ~n.FLAG_RECEIVED
    if isinstance(queue, Topic):
        route = routing.route_of(core, queue)
        takers = route.queues
        routing_set = routing.set_of(core, route, route.queues)
        if len(takers) > 1:
            flags |= n.FLAG_PUBLISHED
    else:
        takers = [as_queue(queue)]
    overrides = queue.overrides
    priority = parent.priority
    expiry_us: i64 = 0
    due_us: i64 = 0
    if overrides is not None:
        if overrides.priority >= 0:
            priority = overrides.priority
        expiry_us = override_expiry_us(core.now_us, overrides)
        due_us = birth_us(core.now_us, overrides)
    causes: i64 = n.UNBORN if due_us != 0 else n.PAUSED if queue.switches.insertion_paused else 0
    ids = _ids_in_memory(parent)
    state = first_state(event, n.NO_HOLDER, causes)
    arrival = Arrival(routing_set, event, state, ids, priority=priority, flags=flags, expiry_us=expiry_us)
    arrival.flags |= tap.flag(core, takers, flags, parent.body)
    arrival.causes = causes
    arrival.due_us = due_us
    serial = _write(core, parent, arrival)
    for taker in takers:
        child = _entry(taker, serial, priority, flags, expiry_us, parent)
        annotate(core, child, annotations)
        _note_ids(taker, serial, ids)
        place(core, taker, child, causes, due_us)


def move_child(
    core: Core, parent: Entry, queue: Queue, ids: MessageIds, annotations: dict[str, object] | None
) -> None:
    """Put what ``parent`` carries on ``queue``, by an administrator: only the queue is another.

    Expiry, birth, priority and ids stay, whatever the overrides of ``queue`` are; the counts of deliveries
    and failures begin again, and a redelivery delay ends.
    """
    flags = (parent.flags | n.FLAG_BODY_SHARED) & ~(n.FLAG_ADVERSE | n.FLAG_PUBLISHED | n.FLAG_RECEIVED)
    due_us = parent.due_us if parent.causes & n.UNBORN != 0 else 0
    causes: i64 = n.UNBORN if due_us != 0 else 0
    expiry_us = parent.expiry_us
    state = first_state(n.EVENT_MOVE, n.NO_HOLDER, causes)
    arrival = Arrival(
        queue.id, n.EVENT_MOVE, state, ids, priority=parent.priority, flags=flags, expiry_us=expiry_us
    )
    arrival.flags |= tap.flag(core, [queue], flags, parent.body)
    arrival.causes = causes
    arrival.due_us = due_us
    serial = _write(core, parent, arrival)
    child = _entry(queue, serial, parent.priority, flags, expiry_us, parent)
    annotate(core, child, annotations)
    _note_ids(queue, serial, ids)
    place(core, queue, child, causes, due_us)


def may_leave(entry: Entry) -> bool:
    """Whether what can't be delivered may go to another queue: some queues ask for the sender's word."""
    eligible = entry.flags & n.FLAG_DEAD_LETTER_ELIGIBLE != 0
    return eligible or not entry.queue.definition.dead_letter_eligible_only


def _ids_in_memory(parent: Entry) -> MessageIds:
    """The ids that the new arrival shows; where the body isn't in memory they are found through the
    parent's."""
    if parent.body is None:
        return NO_IDS
    try:
        head = scan_head(parent.body)
    except AmqpError:
        return NO_IDS
    ids = ids_of(head)
    ids.creation_us = head.creation_us
    ids.group_id = head.group_id
    ids.group_sequence = head.group_sequence
    return ids


def _note_ids(queue: Queue, serial: i64, ids: MessageIds) -> None:
    index = queue.ids
    if index is None:
        return
    if ids is not NO_IDS:
        index.add(serial, ids)
    else:
        index.missed.append(int(serial))


def _write(core: Core, parent: Entry, arrival: Arrival) -> i64:
    """Complete and write the arrival of a child, which shares the parent's body; unless that isn't in the
    ledger and is wanted there. Returns its serial."""
    arrival.parent_serial = parent.serial
    arrival.parent_queue = parent.queue.id
    flags = arrival.flags
    if flags & n.FLAG_TAPPED != 0 and flags & n.FLAG_BODY_STORED == 0 and parent.body is not None:
        arrival.body = parent.body
        arrival.body_crc = crc32(parent.body)
        arrival.flags = flags & ~n.FLAG_BODY_SHARED
    else:
        arrival.body_serial = parent.body_serial
        arrival.body_offset = parent.body_offset
        arrival.body_len = parent.body_len
    return core.ledger.arrival(arrival)


def _entry(queue: Queue, serial: i64, priority: i64, flags: i64, expiry_us: i64, parent: Entry) -> Entry:
    child = Entry(
        queue,
        serial,
        priority,
        flags,
        expiry_us,
        parent.body_offset,
        parent.body_len,
        None if stored(parent) else parent.body,
    )
    child.body_serial = parent.body_serial
    return child


def place(core: Core, queue: Queue, child: Entry, causes: i64, due_us: i64) -> None:
    """A new entry takes its place on ``queue``, or is delayed there, and is a member of its unit."""
    if queue.units is not None:
        queue.units.come(child)
    if causes != 0:
        add_delayed(core, child, causes, due_us)
        return
    begin_available(child)
    add_new(core, queue, child)
    wake(core, queue)


def wake(core: Core, queue: Queue) -> None:
    """Something new is on ``queue``: have it dispatched, if anybody waits there, when this command is
    over."""
    if queue.attached.ready or queue.attached.browsers or queue.schedule.watched:
        core.agenda.woken.append(queue)


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
    serial = _write_rewritten(core, parent, queue, arrival, sections)
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


def _write_rewritten(core: Core, parent: Entry, queue: Queue, arrival: Arrival, sections: bytes) -> i64:
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
