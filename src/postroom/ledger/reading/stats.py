"""Counts over a ledger: what each queue holds and what became of the rest, bytes, files, epochs.

Every event takes an entry from one state to another, so how many are in a state is what came in less what
went out: two sums over the events, no look at single entries, memory for the queues only.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from postroom.ledger.format.expand import Rows, expand
from postroom.ledger.format.file_names import (
    SUPERBLOCK_NAME,
    Listing,
    bodies_name,
    checkpoint_name,
    packed_name,
)
from postroom.ledger.format.layout import Array
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.retention.leases import Lease
from postroom.model.codes import STATE_COUNT, Outcome, State

Progress = Callable[[int, int], None]
"""Called with (records done, records in all)."""

OUTCOME_COUNT: Final = len(Outcome)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue: entries by state (not those that ended) and by outcome, since the history begins."""

    queue_id: int
    queue: str
    arrivals: int
    arrived_bytes: int
    states: dict[str, int]
    outcomes: dict[str, int]

    @property
    def held(self) -> int:
        """Entries that have not ended."""
        return sum(self.states.values())


@dataclass(frozen=True, slots=True)
class FileStats:
    """One file of the ledger; positions are 0 where the file has none of its own."""

    name: str
    size_bytes: int
    epoch: int
    first_position: int
    last_position: int


@dataclass(slots=True)
class LedgerStats:
    """A ledger in numbers."""

    ledger_id: str
    first_position: int
    durable_through: int
    epochs: list[int]
    records: int
    rows: int
    first_time_us: int
    last_time_us: int
    queues: list[QueueStats] = field(default_factory=list)
    files: list[FileStats] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    """Those in force, and broken ones that were not released."""

    @property
    def is_complete(self) -> bool:
        """Whether the history reaches back to the first record; else what is older is not counted."""
        return self.first_position == 1

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)


class _Sums:
    """Growing tables with a line for each queue id."""

    def __init__(self) -> None:
        self.states = np.zeros((1, STATE_COUNT), np.int64)
        self.outcomes = np.zeros((1, OUTCOME_COUNT), np.int64)
        self.arrivals = np.zeros(1, np.int64)
        self.bytes = np.zeros(1, np.int64)
        self.rows = 0

    def add(self, rows: Rows) -> None:
        """Count a block of rows."""
        queue = rows["queue"].astype(np.int64)
        self._grow(int(queue.max()) + 1)
        size = len(self.arrivals)
        self.states += _counts(queue, rows["to_state"], size, STATE_COUNT)
        self.states -= _counts(queue, rows["from_state"], size, STATE_COUNT)
        self.outcomes += _counts(queue, rows["outcome"], size, OUTCOME_COUNT)
        if rows.arrivals is not None:
            self.arrivals += np.bincount(queue, minlength=size)
            bytes_of = np.bincount(queue, weights=rows.arrivals["body_len"], minlength=size)
            self.bytes += bytes_of.astype(np.int64)
        self.rows += len(rows)

    def _grow(self, size: int) -> None:
        more = size - len(self.arrivals)
        if more > 0:
            self.states = np.pad(self.states, ((0, more), (0, 0)))
            self.outcomes = np.pad(self.outcomes, ((0, more), (0, 0)))
            self.arrivals = np.pad(self.arrivals, (0, more))
            self.bytes = np.pad(self.bytes, (0, more))


def _counts(queue: Array, code: Array, queues: int, codes: int) -> Array:
    counted: Array = np.bincount(queue * codes + code, minlength=queues * codes).reshape(queues, codes)
    return counted


def stats(folder: Path, progress: Progress | None = None) -> LedgerStats:
    """Counts over all that is durable. Raises ``NoLedger``, ``LedgerCorrupt``."""
    reader = LedgerReader(folder)
    sums = _Sums()
    names: dict[int, str] = {}
    times: list[int] = []
    leases: list[Lease] = []
    records = 0
    in_all = reader.durable_through - reader.first_position + 1
    for segment in reader.segments:
        source = reader.open(segment)
        definitions = source.definitions(segment.last_position)
        names.update(definitions.holding_names)
        leases = definitions.leases
        for chunk in source.chunks(segment.first_position, segment.last_position):
            for rows in expand(chunk, definitions.routing_sets):
                sums.add(rows)
            times += [
                int(part["time_us"][at])
                for part in (chunk.arrivals, chunk.transitions)
                if len(part)
                for at in (0, -1)
            ]
            records += chunk.record_count
            if progress is not None:
                progress(records, in_all)
    return LedgerStats(
        ledger_id=str(reader.ledger_id),
        first_position=reader.first_position,
        durable_through=reader.durable_through,
        epochs=sorted({segment.epoch for segment in reader.segments}),
        records=records,
        rows=sums.rows,
        first_time_us=min(times, default=0),
        last_time_us=max(times, default=0),
        queues=_queues(sums, names),
        files=_files(folder, reader),
        leases=leases,
    )


def _queues(sums: _Sums, names: dict[int, str]) -> list[QueueStats]:
    return [
        QueueStats(
            number,
            names.get(number, f"#{number}"),
            int(sums.arrivals[number]) if number < len(sums.arrivals) else 0,
            int(sums.bytes[number]) if number < len(sums.arrivals) else 0,
            _named(sums.states, number, State, (State.START, State.DELETED)),
            _named(sums.outcomes, number, Outcome, (Outcome.NONE,)),
        )
        for number in sorted(names)
    ]


def _named(
    table: Array, number: int, codes: type[State] | type[Outcome], without: tuple[int, ...]
) -> dict[str, int]:
    """A line of a table by the codes' names, zeros left out."""
    if number >= len(table):
        return {}
    line = table[number].tolist()
    return {code.name.lower(): line[code] for code in codes if code not in without and line[code]}


def _files(folder: Path, reader: LedgerReader) -> list[FileStats]:
    in_force = {s.name: (s.epoch, s.first_position, s.last_position) for s in reader.segments}
    with folder_of(folder) as disk:
        listing = Listing(disk.names())
    names = [*in_force, *map(bodies_name, listing.bodies), *map(packed_name, listing.packed)]
    names += [*map(checkpoint_name, listing.checkpoints), SUPERBLOCK_NAME]
    found = []
    for name in sorted(names):
        path = folder / name
        if path.exists():  # beside a running broker a file may go at any time
            found.append(FileStats(name, path.stat().st_size, *in_force.get(name, (0, 0, 0))))
    return found
