"""Bodies that are not in memory: asked for in batches, ahead of need, a batch at a time for each queue."""

from mypy_extensions import i64

from postroom.manager.band import Band
from postroom.manager.core import Core
from postroom.manager.effects import Fetch
from postroom.manager.entry import Entry
from postroom.manager.queue import Queue


def fetch_ahead(core: Core, queue: Queue, band: Band) -> None:
    """Ask for the next bodies of ``band`` unless enough are there or on their way."""
    if queue.fetching or queue.ahead * 2 > core.options.fetch_entries:
        return
    wanted = _missing(core, queue, band)
    if wanted:
        queue.fetching = True
        request(core, wanted)


def fetch_entry(core: Core, queue: Queue, entry: Entry) -> None:
    """Ask for one body, wherever its entry stands: those before it may not go to who waits."""
    if queue.fetching:
        return
    if readable(core, entry):
        queue.fetching = True
        request(core, [entry])
    else:
        wait_for_durable(core, queue)


def _missing(core: Core, queue: Queue, band: Band) -> list[Entry]:
    """Entries from the front on whose bodies are missing, within the bounds of a batch; counts who has
    his."""
    limit: i64 = core.options.fetch_entries
    bytes_left: i64 = core.options.fetch_bytes
    wanted: list[Entry] = []
    ahead: i64 = 0
    for entry in band.after(-1, 0, limit):
        if entry.body is not None:
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
    queue.ahead = ahead
    return wanted


def readable(core: Core, entry: Entry) -> bool:
    """Whether the block that holds the body is on disk."""
    return entry.body_serial <= core.durable_through


def wait_for_durable(core: Core, queue: Queue) -> None:
    """The next body of ``queue`` can be read once its block is durable."""
    if not queue.waits_for_durable:
        queue.waits_for_durable = True
        core.waiting_for_durable.append(queue)


def request(core: Core, wanted: list[Entry]) -> None:
    """Have the bodies of ``wanted`` read."""
    places = [(int(entry.body_serial), int(entry.body_offset), int(entry.body_len)) for entry in wanted]
    for entry in wanted:
        entry.fetching = True
    core.effects.fetches.append(Fetch(wanted, places))
