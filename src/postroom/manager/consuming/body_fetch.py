"""Bodies that are not in memory: asked for in batches, ahead of need, a batch at a time for each queue."""

from typing import final

from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable
from postroom.ledger.storage.body_requests import Body
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.effects import Fetch
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import check_body, keep_body, shared_body
from postroom.manager.queues.band import Band
from postroom.manager.queues.placement import take_out
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.undeliverable.unreadable_bodies import without_body
from postroom.model import numbers as n


def fetch_ahead(core: Core, queue: Queue, band: Band) -> None:
    """Ask for the next bodies of ``band`` unless enough are there or on their way."""
    if queue.bodies.fetching or queue.bodies.ahead * 2 > core.options.fetch_entries:
        return
    wanted, ahead = _missing(core, queue, band.after(-1, 0, core.options.fetch_entries))
    queue.bodies.ahead = ahead
    if wanted:
        queue.bodies.fetching = True
        request(core, wanted)


def fetch_entry(core: Core, queue: Queue, entry: Entry) -> None:
    """Ask for one body, wherever its entry stands: those before it may not go to who waits."""
    if queue.bodies.fetching or entry.fetching:
        return
    if take_shared(core, queue, entry):
        core.agenda.woken.append(queue)
    elif readable(core, entry):
        queue.bodies.fetching = True
        request(core, [entry])
    else:
        wait_for_durable(core, queue)


def fetch_to_judge(core: Core, queue: Queue, entries: list[Entry]) -> None:
    """Have the bodies of available objects read, as many as one batch may have, so that selectors can judge
    them. The queue is woken when they are there, or those that are being read for others."""
    if queue.bodies.fetching:
        return
    wanted, _ = _missing(core, queue, entries)
    for entry in wanted:
        entry.judging = True
    if wanted:
        queue.bodies.fetching = True
        request(core, wanted)


def _missing(core: Core, queue: Queue, entries: list[Entry]) -> tuple[list[Entry], i64]:
    """Those of ``entries``, which are available, whose bodies are missing, as many as one batch may have; and
    how many before them have theirs, or will."""
    bytes_left: i64 = core.options.fetch_bytes
    wanted: list[Entry] = []
    ahead: i64 = 0
    for entry in entries:
        if entry.body is not None or entry.fetching or take_shared(core, queue, entry):
            ahead += 1
        elif not readable(core, entry):
            if not wanted:
                wait_for_durable(core, queue)
            break
        else:
            bytes_left -= entry.body_len
            if wanted and bytes_left < 0:
                break
            wanted.append(entry)
    return wanted, ahead


def readable(core: Core, entry: Entry) -> bool:
    """Whether the block that holds the body is on disk."""
    return entry.body_serial <= core.durability.through


def wait_for_durable(core: Core, queue: Queue) -> None:
    """The next body of ``queue`` can be read once its block is durable."""
    if not queue.bodies.waits_for_durable:
        queue.bodies.waits_for_durable = True
        core.durability.waiting.append(queue)


def request(core: Core, wanted: list[Entry]) -> None:
    """Have the bodies of ``wanted`` read, all of one queue; not those that another queue has asked for."""
    missing = [entry for entry in wanted if not _wait_for_other(core, entry)]
    for entry in wanted:
        entry.fetching = True
    if not missing:
        as_queue(wanted[0].queue).bodies.fetching = False
        return
    places = [(int(entry.body_serial), int(entry.body_offset), int(entry.body_len)) for entry in missing]
    core.effects.fetches.append(Fetch(missing, places))


def take_shared(core: Core, queue: Queue, entry: Entry) -> bool:
    """Whether another subscription had the body of the available ``entry`` in memory: it has it now, too."""
    body = shared_body(core, entry)
    if body is None:
        return False
    keep_body(core, entry, body)
    queue.bodies.missing -= 1
    return True


def _wait_for_other(core: Core, entry: Entry) -> bool:
    """Whether the body is being read for another subscription; a browser's copy waits for nobody."""
    if entry.flags & n.FLAG_PUBLISHED == 0 or entry.state == n.START:
        return False
    waiting = core.memory.shared_reads.get(entry.body_serial)
    if waiting is None:
        core.memory.shared_reads[entry.body_serial] = []
        return False
    waiting.append(entry)
    as_queue(entry.queue).bodies.awaited += 1
    return True


def arrived(core: Core, entry: Entry, body: Body) -> None:
    """The body that ``entry`` asked for is there, or damaged: for everybody who waits for it."""
    entry.fetching = False
    _take(core, entry, body)
    if entry.flags & n.FLAG_PUBLISHED == 0:
        return
    for other in core.memory.shared_reads.pop(entry.body_serial, []):
        other.fetching = False
        as_queue(other.queue).bodies.awaited -= 1
        _take(core, other, body)
        core.agenda.woken.append(other.queue)


def _take(core: Core, entry: Entry, body: Body) -> None:
    queue = as_queue(entry.queue)
    judging = entry.judging
    entry.judging = False
    if entry.state != n.AVAILABLE or entry.body is not None:
        return
    if isinstance(body, bytes):
        check_body(entry, body)
        keep_body(core, entry, body)
        queue.bodies.missing -= 1
    elif judging and not isinstance(body, BodyUnreadable) and not queue.selectors.wanted_by_any(entry):
        queue.selectors.cannot_judge(entry)
    else:
        take_out(queue, entry)
        without_body(core, entry, body)


@final
class BodyFetchPart(TurnPart):
    """Queues have the bodies of their available entries, or may read more of them."""

    def reads(self, entry: Entry) -> bool:
        return entry.state != n.START

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        queue = as_queue(entries[0].queue)
        queue.bodies.fetching = False
        for row, entry in enumerate(entries):
            arrived(core, entry, bodies[row])
        core.agenda.woken.append(queue)

    def durable(self, core: Core) -> None:
        waiting = core.durability.waiting
        core.durability.waiting = []
        for queue in waiting:
            as_queue(queue).bodies.waits_for_durable = False
            core.agenda.woken.append(queue)
