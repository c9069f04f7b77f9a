"""Taking a ledger as it is found, by a decision of its owner: `postroom ledger accept`.

Where files are gone for good, the superblock's word keeps the broker and every reader from taking the rest
for whole. This writes a superblock that vouches for no more than what is there. Damaged files are not
accepted: what can't be read can't be judged. Of acts that outlived their history, what follows on one another
up to the newest is vouched for; the rest stays as it is.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.file_names import Listing, journal_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, decode_file_header
from postroom.ledger.reading.reader import NoLedger, holds_ledger
from postroom.ledger.recovery.recovery import inspect
from postroom.ledger.retention.kept_history import NEVER
from postroom.ledger.storage.acts_files import acceptable_acts
from postroom.ledger.storage.disk import Disk, RealDisk
from postroom.ledger.storage.events_image import load_image
from postroom.ledger.storage.superblock import Superblock, create_superblock, read_superblock


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the superblock said, None if it couldn't be read, and what it says now."""

    before: Superblock | None
    now: Superblock


def accept(folder: Path) -> Accepted:
    """Vouch for what is there. Raises ``NoLedger``, ``LedgerLocked`` beside a broker, ``LedgerCorrupt``."""
    if not holds_ledger(folder):
        raise NoLedger(folder)
    disk = RealDisk(folder)
    disk.lock(standby=False)
    try:
        return accept_found(disk)
    finally:
        disk.unlock()


def accept_found(disk: Disk) -> Accepted:
    """The same in a folder that one owns. Raises ``LedgerCorrupt``."""
    before = _known(disk)
    ledger_id = before.ledger_id if before is not None else _id_of_most(disk)
    found = inspect(disk, Superblock(ledger_id, first_position=NEVER))
    sequence = 0 if before is None else before.sequence + 1
    acts_first_file, acts_through = acceptable_acts(found.acts)
    now = Superblock(
        ledger_id,
        sequence,
        found.first_position,
        found.file_number,
        found.seal,
        acts_through=acts_through,
        acts_first_file=acts_first_file,
    )
    create_superblock(disk, now)
    return Accepted(before, now)


def _known(disk: Disk) -> Superblock | None:
    try:
        return read_superblock(disk)
    except LedgerCorrupt:
        return None


def _id_of_most(disk: Disk) -> bytes:
    """The ledger's id as most of its files have it."""
    listing, ids = Listing(disk.names()), Counter[bytes]()
    for number in listing.journal:
        header = decode_file_header(disk.open(journal_name(number)).read_at(0, FILE_HEADER_BYTES))
        if header is not None:
            ids[header.ledger_id] += 1
    ids.update(load_image(disk, number).ledger_id for number in listing.events)
    if not ids:
        raise LedgerCorrupt(disk.describe(""), 0, "no file's header can be read")
    return ids.most_common(1)[0][0]
