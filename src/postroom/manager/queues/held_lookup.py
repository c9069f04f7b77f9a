"""Looking at what Spark subscriptions hold of a queue, which stays packed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import assigned_again
from postroom.manager.queues.held_entries import HeldChunk, PackedHolder
from postroom.manager.queues.queue import Queue
from postroom.model.packed import PackedEntry


def held_entries(queue: Queue) -> Iterator[Entry]:
    """Copies of all that is held, in order of serial."""
    parts = [(holder, chunk) for holder in queue.packed_holders for chunk in holder.held.seen()]
    if not parts:
        return
    serials: Any = np.concatenate([chunk.rows(chunk.head, chunk.end)["serial"] for _, chunk in parts])
    counts = [int(chunk.end - chunk.head) for _, chunk in parts]
    part: Any = np.repeat(np.arange(len(parts)), counts)
    index: Any = np.concatenate([np.arange(int(chunk.head), int(chunk.end)) for _, chunk in parts])
    for at in np.argsort(serials, kind="stable").tolist():
        holder, chunk = parts[int(part[at])]
        yield _copy(queue, holder, chunk, int(index[at]))


def held_entry(queue: Queue, serial: int) -> Entry | None:
    """A copy of the entry of that serial, if a Spark subscription holds it."""
    return held_among(queue, {serial}).get(serial)


def held_among(queue: Queue, serials: set[int]) -> dict[int, Entry]:
    """Copies of those of these entries that Spark subscriptions hold, by serial."""
    found: dict[int, Entry] = {}
    wanted = np.array(sorted(serials), np.uint64)
    for holder in queue.packed_holders:
        for chunk in holder.held.seen():
            own: Any = chunk.rows(chunk.head, chunk.end)["serial"]
            for at in np.flatnonzero(np.isin(own, wanted)).tolist():
                entry = _copy(queue, holder, chunk, int(chunk.head) + at)
                found[int(entry.serial)] = entry
    return found


def held_serials(queue: Queue) -> list[Any]:
    """Of all that is held, as u64 arrays."""
    return [
        np.asarray(chunk.rows(chunk.head, chunk.end)["serial"], np.uint64)
        for holder in queue.packed_holders
        for chunk in holder.held.seen()
    ]


def _copy(queue: Queue, holder: PackedHolder, chunk: HeldChunk, index: int) -> Entry:
    entry = chunk.entry(index, queue, PackedEntry()).copy_for(holder)
    assigned_again(entry, holder.id)
    return entry
