"""Is anything gone? The files that are there, held against what the superblock vouches for.

Whoever takes a ledger for whole asks these, the broker at its start and every reader: so all of them refuse
the same, in the same words.
"""

from collections.abc import Callable
from typing import Final

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.file_names import SUPERBLOCK_NAME, events_name, journal_name
from postroom.ledger.format.headers import FileHeader, Seal
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.superblock import Superblock


def required_superblock(disk: Disk, superblock: Superblock | None) -> Superblock:
    """The superblock of a folder that has files of a ledger. Raises ``LedgerCorrupt``."""
    if superblock is None:
        reason = (
            "missing: without it nothing tells whether other files are gone, too; restore it, or, if you know"
            " what is missing and accept it, make it anew with `postroom ledger accept`"
        )
        raise LedgerCorrupt(disk.describe(SUPERBLOCK_NAME), 0, reason)
    return superblock


HEAD_DAMAGED: Final = "the file's header or dictionary is damaged"
OTHER_LEDGER: Final = "the file belongs to another ledger"
OTHER_NUMBER: Final = "the header has another file number than the name"


def require_begun(disk: Disk, superblock: Superblock, number: int) -> None:
    """A file whose head is damaged is one that was never begun, unless it is vouched for."""
    if number <= superblock.newest_file:
        raise LedgerCorrupt(disk.describe(journal_name(number)), 0, HEAD_DAMAGED)


def require_newest(disk: Disk, superblock: Superblock, newest: int) -> None:
    """Whether the newest file that is there (0: none) is the newest that there was."""
    if newest < superblock.newest_file:
        found = f"the newest file that is there is {newest}" if newest else "no such file is there"
        reason = f"missing: {found}, and the ledger had come to file {superblock.newest_file}"
        raise LedgerCorrupt(disk.describe(journal_name(superblock.newest_file)), 0, reason)


def require_end(
    disk: Disk, superblock: Superblock, newest: int, last_position: int, has: Callable[[Seal], bool]
) -> None:
    """Whether the newest file reaches as far as it did; `has` tells whether a block is in it."""
    end = superblock.end
    if end.file_number == newest and not has(end):
        reason = (
            f"a block that was durable, up to position {end.position}, is not there: the file is damaged, cut"
            f" short, or an older one; what is there ends at position {last_position}"
        )
        raise LedgerCorrupt(disk.describe(journal_name(newest)), 0, reason)


def require_beginning(disk: Disk, superblock: Superblock, first_position: int, before: Seal) -> None:
    """Whether the files that follow on one another reach back to where retention has dropped them.

    `first_position` is that of the oldest of them, `before` what it says of the one that isn't there.
    """
    if first_position > superblock.first_position:
        reason = (
            f"missing: nothing is there of positions {superblock.first_position} to {before.position}, and"
            f" retention has dropped {_through(superblock.first_position - 1)}"
        )
        raise LedgerCorrupt(disk.describe(events_name(before.file_number)), 0, reason)


def _through(position: int) -> str:
    return f"no more than what came before, up to position {position}" if position else "nothing"


def require_seal(disk: Disk, ended: Seal, recorded: Seal) -> None:
    """Whether a sealed file ended as the file after it says."""
    if ended != recorded:
        where = disk.describe(events_name(recorded.file_number))
        raise LedgerCorrupt(where, 0, f"it ends as {ended}, the file after it says {recorded}")


def require_neighbours(newer: str, first_position: int, older: str, last_position: int) -> None:
    """Whether one file's positions follow on those of the one before."""
    if first_position != last_position + 1:
        reason = f"begins at position {first_position}, but {older} ends at {last_position}"
        raise LedgerCorrupt(newer, 0, reason)


def require_own(disk: Disk, superblock: Superblock, name: str, ledger_id: bytes) -> None:
    """Whether a file is of the superblock's ledger."""
    if ledger_id != superblock.ledger_id:
        raise LedgerCorrupt(disk.describe(name), 0, OTHER_LEDGER)


def require_journal(disk: Disk, superblock: Superblock, number: int, header: FileHeader | None) -> None:
    """Whether a journal's header is that of this file of this ledger."""
    name = journal_name(number)
    if header is None:
        raise LedgerCorrupt(disk.describe(name), 0, HEAD_DAMAGED)
    require_own(disk, superblock, name, header.ledger_id)
    if header.file_number != number:
        raise LedgerCorrupt(disk.describe(name), 0, OTHER_NUMBER)
