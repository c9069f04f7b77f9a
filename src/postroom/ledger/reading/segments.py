"""One file of the ledger as record arrays, whether it is sealed or still a journal.

Both give the same: the definitions that a range of positions needs, and the records of the range in chunks. A
file stands for itself: nothing outside it is looked at.
"""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import events_name, journal_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, FileHeader, Seal, require_known_version
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import RecordType
from postroom.ledger.reading.definitions import Definitions, is_definition
from postroom.ledger.storage.completeness import HEAD_DAMAGED
from postroom.ledger.storage.disk import Disk, RealDisk
from postroom.ledger.storage.events_image import EventsImage, build_image, load_image
from postroom.ledger.storage.journal_scan import Scan, scan_journal

CHUNK_RECORDS: Final = 1 << 16
"""Records handed out at once: many enough that numpy's fixed costs vanish, few enough for the processor's
cache."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file's positions, first to last, both included; last is first − 1 if it has none."""

    number: int
    ledger_id: bytes
    epoch: int
    first_position: int
    last_position: int
    is_sealed: bool
    """An .events file; else a journal."""
    seal: Seal | None
    """For a journal that another file follows: where it ends."""
    epoch_id: bytes
    """The random id of the epoch: a restored backup that ran on has another under the same number."""
    first_time_us: int
    """When the file was begun."""
    last_time_us: int
    """Time of its last block: no record of it is later."""
    records_bytes: int
    """Size of its records and names, without bodies: what reading all of it costs."""

    @property
    def record_count(self) -> int:
        return self.last_position - self.first_position + 1

    @property
    def name(self) -> str:
        """The file's name."""
        return events_name(self.number) if self.is_sealed else journal_name(self.number)


def segment_of(
    file: FileHeader | EventsImage, seal: Seal | None, last: int, last_time_us: int, records_bytes: int
) -> Segment:
    """A file's, by its header, up to `last`; `seal` is what the file after it says of its end."""
    return Segment(
        number=file.file_number,
        ledger_id=file.ledger_id,
        epoch=file.epoch,
        first_position=file.first_position,
        last_position=last,
        is_sealed=isinstance(file, EventsImage),
        seal=seal,
        epoch_id=file.epoch_id,
        first_time_us=file.time_us,
        last_time_us=last_time_us,
        records_bytes=records_bytes,
    )


def sealed_segment(image: EventsImage, seal: Seal | None) -> Segment:
    """What a look says of an .events file."""
    size = image.transitions.nbytes + image.arrivals.nbytes + len(image.names)
    return segment_of(image, seal, image.last_position, image.last_time_us, size)


def journal_segment(scan: Scan, seal: Seal | None) -> Segment:
    """The same of a journal, as far as it counts."""
    size = sum(block.header.records_bytes() for block in (scan.dictionary, *scan.blocks))
    return segment_of(scan.header, seal, scan.seal().position, scan.last_time_us(), size)


class SegmentReader:
    """The records of one file."""

    def __init__(self, image: EventsImage) -> None:
        self.image: Final = image
        self._whole: Final = Chunk(
            image.arrivals, image.own_transitions(), np.frombuffer(image.names, np.uint8)
        )

    def definitions(self, last: int) -> Definitions:
        """What records up to `last` may speak of: the dictionary of the file, and what was defined since."""
        own = find_position(self._whole.transitions, last + 1)
        so_far = self.image.transitions[: self.image.dictionary_count + own]
        types = np.ascontiguousarray(so_far["type"])  # one pass over records that lie far apart
        others = so_far[np.flatnonzero(types >= RecordType.QUEUE_DEFINED)]
        return Definitions(others[is_definition(others)], self._whole.names)

    def chunks(self, first: int, last: int) -> Iterator[Chunk]:
        """The records with positions first to last, both included, in ascending chunks: views, nothing is
        copied."""
        for start in range(first, last + 1, CHUNK_RECORDS):
            yield cut(self._whole, start, min(start + CHUNK_RECORDS - 1, last))


def find_position(records: Array, position: int) -> int:
    """Index of the first record at or behind a position; touches a few records only."""
    positions = records["position"]
    return bisect_left(range(len(records)), position, key=lambda index: int(positions[index]))


def cut(chunk: Chunk, first: int, last: int) -> Chunk:
    """The records of a chunk with positions first to last, both included."""
    a, t = chunk.arrivals, chunk.transitions
    return Chunk(
        a[find_position(a, first) : find_position(a, last + 1)],
        t[find_position(t, first) : find_position(t, last + 1)],
        chunk.names,
    )


# --- opening files --------------------------------------------------------------------------------


@contextmanager
def folder_of(path: Path) -> Iterator[Disk]:
    """The folder for reading. Raises FileNotFoundError if there is none: readers create nothing."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder")
    disk = RealDisk(path)
    try:
        yield disk
    finally:
        disk.unlock()


def open_segment(path: Path, segment: Segment) -> SegmentReader:
    """A file of the ledger, by what a look at the folder said of it; a journal sealed meanwhile is read as
    .events.

    Raises ``LedgerCorrupt``; FileNotFoundError if retention has dropped the file since.
    """
    with folder_of(path) as disk:
        if not segment.is_sealed:
            try:
                return SegmentReader(build_image(*walk_journal(disk, segment.number, segment.seal)))
            except FileNotFoundError:
                pass  # sealed between the look and now: its .events file has the same records
        return SegmentReader(load_image(disk, segment.number))


def walk_journal(disk: Disk, number: int, seal: Seal | None) -> tuple[Scan, memoryview]:
    """A journal, walked to its end or its seal, and its bytes as they are now. Raises ``LedgerCorrupt``."""
    name = journal_name(number)
    data = memoryview(disk.open(name).view())
    require_known_version(disk.describe(name), bytes(data[:FILE_HEADER_BYTES]))
    try:
        scan = scan_journal(disk.describe(name), data, seal)
    except LedgerCorrupt:
        # Beside a writer a block may be seen half-written, and after that its successor: look again.
        scan = scan_journal(disk.describe(name), data, seal)
    if scan is None:
        raise LedgerCorrupt(disk.describe(name), 0, HEAD_DAMAGED)
    return scan, data


def durable_through(scan: Scan) -> int:
    """The highest position that a journal says was durable."""
    return max(block.header.durable_through for block in (scan.dictionary, *scan.blocks))
