"""What a ledger vouches for beside its files: how far back it reaches, and how far it had come.

Each file tells of the one before it. Nothing in them tells that the newest is gone or shorter than it was,
nor whether the oldest went by retention or by accident. The superblock does: 128 bytes, twice, written in
place, one copy after the other and the worse first, so that power cuts leave one of them whole. It is a
floor: what it says was durable before it said so, and what came since may not be in it yet. See
``FORMAT.md``, "Superblock".
"""

from dataclasses import dataclass, replace
from typing import Final

from postroom import __version__
from postroom.ledger.errors import LedgerCorrupt, UnknownFormat
from postroom.ledger.format.file_names import SUPERBLOCK_NAME
from postroom.ledger.format.headers import NO_SEAL, Seal, crc_matches, with_crc
from postroom.ledger.format.layout import SUPERBLOCK, SUPERBLOCK_MAGIC
from postroom.ledger.format.records import FORMAT_VERSION
from postroom.ledger.storage.disk import Disk, DiskFile
from postroom.ledger.storage.events_image import write_durably

COPY_OFFSETS: Final = (0, 4096)
"""Where the two copies begin: in different sectors and pages, so that no write touches both."""


WRITER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Superblock:
    """One state of it."""

    ledger_id: bytes
    sequence: int = 0
    """Counts the writes; the higher copy counts."""
    first_position: int = 1
    """Every record from here on must be there: retention has dropped nothing behind it."""
    newest_file: int = 0
    """The first write of this file was durable; 0: no file's."""
    end: Seal = NO_SEAL
    """A block that was durable: the ledger reaches it at least."""
    is_closed: bool = False
    """The ledger was closed, and ends with that block."""
    writer: str = __version__
    """The version of Postroom that wrote it."""
    acts_through: int = 0
    """Position of the last act that outlives its history in a file of acts; 0: of none."""
    acts_first_file: int = 0
    """Files of acts from this one on must be there, where `acts_through` says that there are any."""

    def encode(self) -> bytes:
        """One copy."""
        end = self.end
        return with_crc(
            SUPERBLOCK.struct.pack(
                SUPERBLOCK_MAGIC,
                0,
                FORMAT_VERSION,
                self.is_closed,
                self.ledger_id,
                self.sequence,
                self.first_position,
                self.newest_file,
                end.file_number,
                end.position,
                end.epoch,
                end.crc,
                self.writer.encode()[:WRITER_BYTES],
                self.acts_through,
                self.acts_first_file,
                b"",
            )
        )


def decode_superblock(data: bytes, where: str) -> Superblock | None:
    """One copy; None if it is damaged. Raises ``UnknownFormat``."""
    if len(data) < SUPERBLOCK.size_bytes or not crc_matches(data):
        return None
    fields = SUPERBLOCK.struct.unpack(data)
    magic, _, version, is_closed, ledger_id, sequence, first, newest, *rest = fields
    end_file, position, epoch, crc, written_by, acts_through, acts_first, _ = rest
    writer = written_by.rstrip(b"\0").decode("ascii", "replace")
    if magic != SUPERBLOCK_MAGIC:
        return None
    if version != FORMAT_VERSION:
        raise UnknownFormat(where, version, FORMAT_VERSION, writer)
    end = Seal(end_file, epoch, position, crc)
    return Superblock(
        ledger_id=ledger_id,
        sequence=sequence,
        first_position=first,
        newest_file=newest,
        end=end,
        is_closed=bool(is_closed),
        writer=writer,
        acts_through=acts_through,
        acts_first_file=acts_first,
    )


def read_copies(disk: Disk) -> list[Superblock | None] | None:
    """The two copies in the folder's superblock, None for one that is damaged; None where there is no file.

    Raises ``UnknownFormat``.
    """
    where, size = disk.describe(SUPERBLOCK_NAME), SUPERBLOCK.size_bytes
    try:
        file = disk.open(SUPERBLOCK_NAME)
    except FileNotFoundError:
        return None
    return [decode_superblock(file.read_at(at, size), where) for at in COPY_OFFSETS]


def read_superblock(disk: Disk) -> Superblock | None:
    """What the folder's says; None if there is none. Raises ``LedgerCorrupt`` if no copy is whole."""
    copies = read_copies(disk)
    if copies is None:
        return None
    whole = [copy for copy in copies if copy is not None]
    if not whole:
        raise LedgerCorrupt(disk.describe(SUPERBLOCK_NAME), 0, "both copies are damaged")
    return max(whole, key=lambda copy: copy.sequence)


def create_superblock(disk: Disk, superblock: Superblock) -> None:
    """Make the file, durable under its name, in the place of one that is there."""
    copy = superblock.encode()
    gap = bytes(COPY_OFFSETS[1] - len(copy))
    tail = bytes(COPY_OFFSETS[1] - len(copy))
    write_durably(disk, SUPERBLOCK_NAME, [copy, gap, copy, tail])


class SuperblockFile:
    """The superblock of a ledger that is open. For one thread at a time."""

    def __init__(self, disk: Disk, current: Superblock) -> None:
        """`current` is what the folder's says, or, where there is none, what it shall say."""
        if read_superblock(disk) is None:
            create_superblock(disk, current)
        self._offsets: Final = _worse_first(read_copies(disk) or [])
        self._file: Final[DiskFile] = disk.update(SUPERBLOCK_NAME)
        self.current = current

    def opened(self, newest_file: int, end: Seal) -> None:
        """A new epoch is durable."""
        self._write(replace(self.current, newest_file=newest_file, end=end, is_closed=False))

    def rolled(self, end: Seal) -> None:
        """The file that ends there has a successor, which is durable."""
        successor = end.file_number + 1
        if successor > self.current.newest_file:
            self._write(replace(self.current, newest_file=successor, end=end))

    def drops(self, last_position: int, acts_first_file: int, acts_through: int) -> None:
        """Retention will drop the records up to there, whose acts are in files of acts; durable on return, so
        that it may."""
        first = max(self.current.first_position, last_position + 1)
        acts = replace(self.current, acts_first_file=acts_first_file, acts_through=acts_through)
        self._write_changed(replace(acts, first_position=first))

    def drops_acts(self, first_file: int, through: int) -> None:
        """Retention will drop the files of acts before that one, which leaves acts up to `through`."""
        self._write_changed(replace(self.current, acts_first_file=first_file, acts_through=through))

    def _write_changed(self, changed: Superblock) -> None:
        if changed != self.current:
            self._write(changed)

    def closed(self, end: Seal) -> None:
        """Nothing follows that block."""
        self._write(replace(self.current, newest_file=end.file_number, end=end, is_closed=True))

    def _write(self, changed: Superblock) -> None:
        changed = replace(changed, sequence=self.current.sequence + 1, writer=__version__)
        for offset in self._offsets:
            self._file.write_at(offset, [changed.encode()])
            self._file.sync()
        self.current = changed


def _worse_first(copies: list[Superblock | None]) -> list[int]:
    """Where the copies begin. A crash may have left only one of them whole: that is written last, so that
    another crash finds it, or the other one."""
    sequences = {
        at: -1 if copy is None else copy.sequence for at, copy in zip(COPY_OFFSETS, copies, strict=True)
    }
    return sorted(sequences, key=lambda at: sequences[at])
