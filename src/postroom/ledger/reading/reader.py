"""Reading a ledger from outside: offline, or beside a running broker, without its lock and without disturbing
it.

A `LedgerReader` is one look at the folder: which files are in force (by the seals, from the newest file
back), what positions each has, and through which position all is durable. It gives record arrays straight
from the mapped files; `expand` makes rows of them. It does not read past ``durable_through``: what a broker
has written and not yet synced may still vanish in a crash, and nobody outside has been told of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.format.block import BLOCK_HEADER_BYTES
from postroom.ledger.format.expand import Chunk, Rows, expand
from postroom.ledger.format.file_names import Listing, events_name, journal_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, Seal, decode_block_header, decode_file_header
from postroom.ledger.format.records import BLOCK_MAGIC
from postroom.ledger.reading.segments import (
    Segment,
    SegmentReader,
    durable_through,
    folder_of,
    journal_segment,
    open_segment,
    sealed_segment,
    walk_journal,
)
from postroom.ledger.storage.completeness import (
    require_beginning,
    require_begun,
    require_end,
    require_journal,
    require_neighbours,
    require_newest,
    require_own,
    require_seal,
    required_superblock,
)
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import load_image
from postroom.ledger.storage.journal_scan import Scan
from postroom.ledger.storage.recovery_cases import HEAD_CASES, HeadFact, HeadVerdict
from postroom.ledger.storage.superblock import Superblock, read_superblock


def holds_ledger(folder: Path) -> bool:
    """Whether a folder has files of a ledger."""
    if not folder.is_dir():
        return False
    with folder_of(folder) as disk:
        listing = Listing(disk.names())
    return bool(listing.journal or listing.events)


SNAPSHOT_ATTEMPTS: Final = 10
"""A look at the folder is repeated when a running broker renames a file under it, at most so often."""


class NoLedger(LedgerError):
    """The folder holds no ledger."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder}: no ledger here (no .journal or .events file); name the broker's data folder"
        )


class LedgerReader:
    """One look at a ledger. Raises ``NoLedger``, ``LedgerCorrupt``, ``OSError``; takes no lock.

    ``segments`` are the files in force, oldest first; where retention has dropped old ones they begin later
    than position 1. ``durable_through`` is the last position that is read. With `beyond_durable` the last
    block counts although no later block says that it was synced: that is what recovery will decide if the
    broker is dead. The look is not renewed: open another reader to see what was written since.
    """

    def __init__(self, folder: Path, beyond_durable: bool = False) -> None:
        self.folder: Final = folder
        self._snapshot: Final = stable_snapshot(folder, FileOpener())
        self.ledger_id: Final = UUID(bytes=self._snapshot.segments[-1].ledger_id)
        self.durable_through: Final = self._snapshot.durable_through(beyond_durable)
        """The last position that is read."""
        self.segments: Final = [up_to(segment, self.durable_through) for segment in self._snapshot.segments]
        self.first_position: Final = self.segments[0].first_position
        """The oldest position that there is history of."""

    @property
    def undecided_records(self) -> int:
        """Records behind ``durable_through``: written, and not known to be synced."""
        return self._snapshot.segments[-1].last_position - self.segments[-1].last_position

    def open(self, segment: Segment) -> SegmentReader:
        """One file's records."""
        return open_segment(self.folder, segment)

    def segment_of(self, position: int) -> Segment | None:
        """The file that holds a position; None if none does."""
        for segment in self.segments:
            if segment.first_position <= position <= segment.last_position:
                return segment
        return None

    def chunks(
        self, first: int | None = None, last: int | None = None
    ) -> Iterator[tuple[Segment, SegmentReader, Chunk]]:
        """The records of a range of positions, both included, default all: ascending, with where they come
        from."""
        low = self.first_position if first is None else first
        high = self.durable_through if last is None else min(last, self.durable_through)
        for segment in self.segments:
            start, end = max(low, segment.first_position), min(high, segment.last_position)
            if start > end:
                continue
            source = self.open(segment)
            for chunk in source.chunks(start, end):
                yield segment, source, chunk

    def rows(self, first: int | None = None, last: int | None = None) -> Iterator[Rows]:
        """The rows of a range of positions: see `expand`."""
        for segment, source, chunk in self.chunks(first, last):
            yield from expand(chunk, source.definitions(segment.last_position).routing_sets)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file as a look sees it: an .events file or a journal."""

    segment: Segment
    sealed: Seal
    """What it says of the file before it."""
    durable_through: int
    """The highest position that it says was durable."""
    has: Callable[[Seal], bool]
    """Whether a block is in it."""


class FileOpener:
    """Opens files for a look, from their first byte each time."""

    def newest(self, disk: Disk, number: int) -> FoundFile | None:
        """The newest file, a journal; None if it was never begun (`cases.HEAD_CASES`)."""
        try:
            return _found_journal(walk_journal(disk, number, None)[0], None)
        except LedgerCorrupt:
            has_second_block = _data_blocks(bytes(disk.open(journal_name(number)).view()), number) > 1
            if HEAD_CASES[HeadFact.DAMAGED, True, has_second_block] is not HeadVerdict.NEVER_BEGUN:
                raise
            return None

    def sealed(self, disk: Disk, seal: Seal, vouched: Superblock, listing: Listing) -> FoundFile:
        """A file that another follows, checked against what that one says of it."""
        number = seal.file_number
        if number not in listing.events:
            return _found_journal(walk_journal(disk, number, seal)[0], seal)
        image = load_image(disk, number)
        require_own(disk, vouched, events_name(number), image.ledger_id)
        require_seal(disk, image.seal(), seal)
        end = image.last_position
        return FoundFile(sealed_segment(image, seal), image.sealed, end, image.seal().__eq__)


def _found_journal(scan: Scan, seal: Seal | None) -> FoundFile:
    return FoundFile(journal_segment(scan, seal), scan.header.seal, durable_through(scan), scan.has)


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """What one look at the folder found: the files in force, oldest first."""

    segments: list[Segment]
    newest: FoundFile

    def durable_through(self, beyond_durable: bool = False) -> int:
        """The last position that is known durable; or, `beyond_durable`, that is there."""
        newest = self.newest.segment
        if beyond_durable:
            return newest.last_position
        return min(newest.last_position, max(self.newest.durable_through, newest.first_position - 1))


def stable_snapshot(folder: Path, opener: FileOpener) -> LedgerSnapshot:
    """A look at a folder; once more if files came or went while looking."""
    for _ in range(SNAPSHOT_ATTEMPTS - 1):
        if not folder.is_dir():
            raise NoLedger(folder)
        with folder_of(folder) as disk:
            seen = QuietMark.of(disk)
            try:
                return _snapshot(folder, disk, seen, opener)
            except FileNotFoundError:
                continue
            except LedgerCorrupt:
                if QuietMark.of(disk) == seen:
                    raise
    with folder_of(folder) as disk:
        return _snapshot(folder, disk, QuietMark.of(disk), opener)


class QuietMark(NamedTuple):
    """The same while no file of a folder comes or goes: what is found wrong then is wrong."""

    names: list[str]
    superblock: Superblock | None

    @classmethod
    def of(cls, disk: Disk) -> "QuietMark":
        """As the folder is now. Raises ``LedgerCorrupt``."""
        return cls(disk.names(), read_superblock(disk))


def _snapshot(folder: Path, disk: Disk, seen: QuietMark, opener: FileOpener) -> LedgerSnapshot:
    listing = Listing(seen.names)
    numbers = sorted({*listing.journal, *listing.events})
    if not numbers and seen.superblock is None:
        raise NoLedger(folder)
    vouched = required_superblock(disk, seen.superblock)
    require_newest(disk, vouched, numbers[-1] if numbers else 0)
    newest: FoundFile | None = None
    while numbers and newest is None:
        number = numbers.pop()
        _require_own_journal(disk, vouched, number)
        newest = opener.newest(disk, number)
        if newest is None:
            require_begun(disk, vouched, number)
    if newest is None:
        raise NoLedger(folder)
    segments, seal = _chain(disk, newest, vouched, opener, listing)
    require_end(disk, vouched, segments[0].number, segments[0].last_position, newest.has)
    require_beginning(disk, vouched, segments[-1].first_position, seal)
    return LedgerSnapshot(segments[::-1], newest)


def _require_own_journal(disk: Disk, vouched: Superblock, number: int) -> None:
    """A damaged head is left to who opens the file: it may never have been begun."""
    header = decode_file_header(disk.open(journal_name(number)).read_at(0, FILE_HEADER_BYTES))
    if header is not None:
        require_journal(disk, vouched, number, header)


def _chain(
    disk: Disk, newest: FoundFile, vouched: Superblock, opener: FileOpener, listing: Listing
) -> tuple[list[Segment], Seal]:
    """The files in force, newest first, as far back as each is there; and how the one ended that isn't."""
    segments, seal = [newest.segment], newest.sealed
    while seal.file_number in {*listing.events, *listing.journal} and seal.file_number < segments[-1].number:
        if seal.file_number not in listing.events:
            _require_own_journal(disk, vouched, seal.file_number)
        before = opener.sealed(disk, seal, vouched, listing)
        newer, older = segments[-1], before.segment
        require_neighbours(newer.name, newer.first_position, older.name, older.last_position)
        segments.append(older)
        seal = before.sealed
    return segments, seal


def _data_blocks(data: bytes, number: int) -> int:
    """How many valid headers of data blocks of a file there are, wherever they lie."""
    magic = BLOCK_MAGIC.to_bytes(4, "little")
    found, blocks = data.find(magic), 0
    while found >= 0:
        header = decode_block_header(data[found : found + BLOCK_HEADER_BYTES])
        blocks += header is not None and header.file_number == number and not header.is_dictionary()
        found = data.find(magic, found + 1)
    return blocks


def up_to(segment: Segment, position: int) -> Segment:
    """A segment cut at a position."""
    return replace(segment, last_position=min(segment.last_position, position))
