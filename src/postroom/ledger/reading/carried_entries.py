"""Entries older than the history: where retention has dropped files, the newest checkpoint still tells of
those alive.

A checkpoint carries the arrivals, word for word, of live entries whose file is gone, and the state of each at
its position; an old file may also be kept for the arrivals in it alone, with a hole behind it. What ended
before the history began has left nothing but its queue's totals.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.fold.checkpoint import load_checkpoint
from postroom.ledger.fold.state import CARRIED_FILE, FoldState, find, rows_from_arrivals
from postroom.ledger.format.dictionary import QUEUES
from postroom.ledger.format.expand import NO_RECORD, Rows, arrival_rows
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.layout import Array, rows_together
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import load_image
from postroom.model.codes import Event


@dataclass(frozen=True, slots=True)
class Carried:
    """The live entries that are older than the history, as they were at the checkpoint's `position`.

    In the rows the event is NONE, from and to state are where the entry was, the deltas are its counts until
    then, the time is that of its arrival.
    """

    position: int
    blocks: list[Rows]
    queue_names: dict[int, str]
    totals: Array
    """TOTAL_DTYPE: per queue what had arrived and ended until then; queue 0 sums those that were deleted."""


def newest_checkpoint(disk: Disk, ledger_id: bytes) -> FoldState | None:
    """The newest checkpoint that is whole; None if there is none."""
    for position in reversed(Listing(disk.names()).checkpoints):
        try:
            return load_checkpoint(disk, position, ledger_id)
        except (LedgerCorrupt, FileNotFoundError):
            continue  # `verify` tells; an older one, or none, serves as well
    return None


def carried(folder: Path, ledger_id: bytes, first_position: int, last_position: int) -> Carried | None:
    """What a checkpoint tells of entries older than `first_position`; None where none lies in the range.

    Raises ``LedgerCorrupt`` if a file that the checkpoint needs is missing.
    """
    with folder_of(folder) as disk:
        try:
            return _carried(disk, ledger_id, first_position, last_position)
        except FileNotFoundError:  # a newer checkpoint may just have let it go
            pass
        try:
            return _carried(disk, ledger_id, first_position, last_position)
        except FileNotFoundError as error:
            raise LedgerCorrupt(
                str(error.filename), 0, "missing, though the checkpoint needs its arrivals"
            ) from error


def _carried(disk: Disk, ledger_id: bytes, first_position: int, last_position: int) -> Carried | None:
    state = newest_checkpoint(disk, ledger_id)
    if state is None or not first_position - 1 <= state.position <= last_position:
        return None
    blocks = []
    ordinal = 0
    for number, arrivals, names in _old_arrivals(disk, state, first_position):
        entries = _entries(state, number, arrivals, first_position)
        blocks.append(_rows(state, entries, arrivals, names, ordinal))
        ordinal += len(entries)
    queues = state.dictionary.of_kind(QUEUES).items()
    queue_names = {number: str(json.loads(record.detail)["name"]) for number, record in queues}
    return Carried(state.position, blocks, queue_names, state.totals)


def _old_arrivals(
    disk: Disk, state: FoldState, first_position: int
) -> Iterator[tuple[int, Array, npt.NDArray[np.uint8]]]:
    """(file, arrivals, names) of everything that arrivals older than the history may lie in."""
    yield CARRIED_FILE, state.carried, np.frombuffer(state.carried_names, np.uint8)
    for span in state.needs:
        if span.last_position < first_position:
            image = load_image(disk, span.number)
            yield span.number, image.arrivals, np.frombuffer(image.names, np.uint8)


def _entries(state: FoldState, number: int, arrivals: Array, first_position: int) -> Array:
    """The live entries whose arrivals these are."""
    plain = [
        rows_from_arrivals(arrivals.take(indexes), np.full(len(indexes), queue, np.uint32))
        for (file, queue), indexes in state.plain.items()
        if file == number
    ]
    explicit = state.explicit.compress(state.file_of(state.explicit["serial"]) == number)
    entries = rows_together([*plain, explicit])
    entries = entries.compress(entries["serial"] < first_position)
    found: Array = entries.compress(find(arrivals["position"], entries["serial"]) >= 0)
    return found


def _rows(
    state: FoldState, entries: Array, arrivals: Array, names: npt.NDArray[np.uint8], ordinal: int
) -> Rows:
    columns = {
        name: entries[name]
        for name in ("time_us", "serial", "due_us", "queue", "holder", "holder_kind", "causes")
    }
    columns |= {
        "position": np.full(len(entries), state.position, np.uint64),
        "from_state": entries["state"],
        "to_state": entries["state"],
        "event": np.full(len(entries), Event.NONE, np.uint8),
        "outcome": np.zeros(len(entries), np.uint8),
        "flags": entries["arrival_flags"],
        "delivery_delta": entries["delivery_count"],
        "failure_delta": entries["failure_count"],
    }
    numbers = np.arange(ordinal, ordinal + len(entries), dtype=np.uint32)
    own = arrivals[find(arrivals["position"], entries["serial"])]
    return arrival_rows(columns, NO_RECORD, numbers, own, names)
