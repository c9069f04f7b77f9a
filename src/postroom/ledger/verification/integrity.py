"""The one check of what a ledger is, for whoever takes it for whole without owning it.

It finds what the broker finds at its start (`recovery.inspect`) and refuses what that refuses, in the same
words: files that are gone, chains and seals that don't hold, sections whose CRC is wrong, bodies of live
entries without a place. `verify` goes on from there and tells all findings at once; what it checks beyond are
the records' own sense and, on demand, the bytes of bodies.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.file_names import SUPERBLOCK_NAME, Listing
from postroom.ledger.reading.reader import SNAPSHOT_ATTEMPTS, NoLedger, QuietMark, holds_ledger
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.recovery.recovery import Found, inspect
from postroom.ledger.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class Covered:
    """What a verdict about a ledger is about."""

    ledger_id: str
    """A dashed UUID."""
    files: int
    """Files of the ledger that are in force, of every kind."""
    first_position: int
    """Where the history begins."""
    last_position: int
    size_bytes: int
    """Of all of them."""
    bodies_checked: int
    """How many bodies were read and held against their CRC; 0: none were, only their places."""


def check(folder: Path) -> Covered:
    """Whether a ledger is whole, offline or beside its broker; nothing is changed.

    Raises ``NoLedger``; ``LedgerCorrupt`` with the first damage; OSError.
    """
    if not holds_ledger(folder):
        raise NoLedger(folder)
    failure: tuple[QuietMark, str] | None = None
    for _ in range(SNAPSHOT_ATTEMPTS):
        with folder_of(folder) as disk:
            seen = QuietMark.of(disk)
            try:
                return covered_by(disk, inspect(disk))
            except FileNotFoundError:
                continue
            except LedgerCorrupt as error:
                # Beside a writer a block may be seen half-written, or files change: only what is found
                # twice, while nothing came or went, is so.
                if failure == (seen, str(error)):
                    raise
                failure = seen, str(error)
    with folder_of(folder) as disk:
        return covered_by(disk, inspect(disk))


def covered_by(disk: Disk, found: Found) -> Covered:
    """What an inspection has looked at."""
    names = files_of(disk.names())
    return Covered(
        str(UUID(bytes=found.ledger_id)) if found.ledger_id else "",
        len(names),
        found.first_position,
        found.seal.position,
        sum(disk.open(name).size_bytes() for name in names),
        0,
    )


def files_of(names: list[str]) -> list[str]:
    """The ledger's files among the names of a folder, without what is unfinished."""
    return [name for name in names if name == SUPERBLOCK_NAME or not Listing([name]).is_empty()]
