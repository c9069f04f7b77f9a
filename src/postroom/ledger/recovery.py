"""Starting from what is on the disk: which files count, where they end, and the state they fold to.

Every question is one of the tables in `cases`. Nothing is written here but the end of what a crash cut off
(unfinished files are removed, an interrupted rename is finished).
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from postroom.ledger.bodies import MAX_POSITION, BodyFile, JournalBodies, PackedBodies, SealedBodies
from postroom.ledger.carry import forget_unneeded
from postroom.ledger.cases import (
    FILE_CASES,
    HEAD_CASES,
    EventsFact,
    FilesVerdict,
    HeadFact,
    HeadVerdict,
    TailVerdict,
)
from postroom.ledger.checkpoint import load_checkpoint
from postroom.ledger.disk import Disk
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.files import (
    VOID_SUFFIX,
    Listing,
    PackedName,
    bodies_name,
    events_name,
    journal_name,
    packed_name,
)
from postroom.ledger.fold import fold_image, survives
from postroom.ledger.headers import FILE_HEADER_BYTES, NO_SEAL, FileHeader, Seal, decode_file_header
from postroom.ledger.image import EventsImage, build_image, load_image
from postroom.ledger.journal import BlockTable
from postroom.ledger.layout import Array
from postroom.ledger.packed import load_packed_span
from postroom.ledger.recovered import RecoveryReport
from postroom.ledger.scan import Scan, bodies_start, count_blocks, read_block, scan_journal, void_bytes
from postroom.ledger.state import CARRIED_FILE, FoldState


@dataclass
class Found:
    """The folder after recovery: what the ledger goes on from."""

    ledger_id: bytes | None
    """None in an empty folder."""
    epoch: int = 0
    file_number: int = 0
    """The newest file, 0 if there is none."""
    seal: Seal = NO_SEAL
    """Where the newest file ends."""
    state: FoldState = field(default_factory=FoldState)
    images: "Images | None" = None
    unsealed: dict[int, EventsImage] = field(default_factory=dict)
    """Journals not yet sealed, as images in memory."""
    bodies: list[BodyFile] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)
    """Positions of the valid ones, ascending."""
    report: RecoveryReport = field(default_factory=RecoveryReport)


class Images:
    """Events images by file number: those in memory first, others mapped when asked for."""

    def __init__(self, disk: Disk, state: FoldState) -> None:
        self._disk = disk
        self._state = state
        self._known: dict[int, EventsImage] = {}

    def add(self, image: EventsImage) -> None:
        self._known[image.file_number] = image

    def forget(self, file_number: int) -> None:
        self._known.pop(file_number, None)

    def image(self, file_number: int) -> EventsImage:
        """Checked once, when first loaded."""
        if file_number not in self._known:
            self._known[file_number] = load_image(self._disk, file_number)
        return self._known[file_number]

    def arrivals(self, file_number: int) -> Array:
        if file_number == CARRIED_FILE:
            return self._state.carried
        return self.image(file_number).arrivals


def recover(disk: Disk) -> Found:
    """Bring the folder in order and fold its records. Raises LedgerCorrupt with the place of a damage."""
    listing = Listing(disk.names())
    found = Found(ledger_id=None)
    disk.sync_names()  # what is seen now must not change its name at the next power cut
    for name in listing.unfinished:
        disk.remove(name)
        found.report.cut.append(f"{name}: unfinished, removed")
    found.ledger_id = _known_ledger_id(disk, listing)
    headers = _journal_headers(disk, listing, found)
    if not headers:
        _require_empty(disk, listing)
        found.ledger_id = None
        return found
    newest = max(headers)
    found.epoch, found.file_number = headers[newest].epoch, newest
    _choose_checkpoint(disk, listing, found)
    found.images = Images(disk, found.state)
    scans = _bring_in_order(disk, listing, headers, found)
    _fold(found, found.images)
    found.bodies = _body_files(disk, Listing(disk.names()), scans, found)
    _check_bodies(disk, found)
    return found


def _known_ledger_id(disk: Disk, listing: Listing) -> bytes | None:
    """The ledger's id as most of its journal heads have it; None if none can be read."""
    ids = []
    for number in listing.journal:
        header = decode_file_header(disk.open(journal_name(number)).read_at(0, FILE_HEADER_BYTES))
        if header is not None:
            ids.append(header.ledger_id)
    return max(ids, key=ids.count) if ids else None


def _journal_headers(disk: Disk, listing: Listing, found: Found) -> dict[int, FileHeader]:
    """The checked headers of all journals; a newest file that was never begun is removed."""
    headers: dict[int, FileHeader] = {}
    previous: FileHeader | None = None
    for number in listing.journal.copy():
        name = journal_name(number)
        data = memoryview(disk.open(name).view())
        header = decode_file_header(bytes(data[:FILE_HEADER_BYTES]))
        fact = _head_fact(header, number, previous, found.ledger_id)
        if fact is HeadFact.GOOD and header is not None and not _has_dictionary(data, header):
            fact = HeadFact.DAMAGED
        newest = number == listing.journal[-1]
        second = fact is HeadFact.DAMAGED and count_blocks(data, found.ledger_id, number) > 1
        verdict = HEAD_CASES[fact, newest, second]
        if verdict is HeadVerdict.REFUSE:
            raise LedgerCorrupt(disk.describe(name), 0, _HEAD_REASONS[fact])
        if verdict is HeadVerdict.NEVER_BEGUN or header is None:
            found.report.cut.append(_set_aside(disk, name, data, found.ledger_id, number))
            listing.journal.remove(number)
        else:
            previous = headers[number] = header
    return headers


def _set_aside(disk: Disk, name: str, data: memoryview, ledger_id: bytes | None, number: int) -> str:
    """Remove a file that was never begun; keep it under another name if a whole block is in it."""
    if count_blocks(data, ledger_id, number):
        disk.rename(name, name + VOID_SUFFIX)
        return f"{name}: the head is damaged, void, renamed to {name}{VOID_SUFFIX}"
    disk.remove(name)
    return f"{name}: never begun, removed"


def _head_fact(
    header: FileHeader | None, number: int, previous: FileHeader | None, ledger_id: bytes | None
) -> HeadFact:
    if header is None:
        return HeadFact.DAMAGED
    if header.ledger_id != ledger_id:
        return HeadFact.OTHER_LEDGER
    if header.file_number != number:
        return HeadFact.OTHER_NUMBER
    if previous is not None and (header.seal[:2] != previous.seal_key() or header.epoch < previous.epoch):
        return HeadFact.WRONG_PREDECESSOR
    return HeadFact.GOOD


_HEAD_REASONS = {
    HeadFact.DAMAGED: "the file's header or dictionary is damaged",
    HeadFact.OTHER_LEDGER: "the file belongs to another ledger",
    HeadFact.OTHER_NUMBER: "the header has another file number than the name",
    HeadFact.WRONG_PREDECESSOR: "the file does not follow the one before it",
}


def _has_dictionary(data: memoryview, header: FileHeader) -> bool:
    block = read_block(data, FILE_HEADER_BYTES, header.identity(), header.first_position, header.crc)
    return block is not None and block.header.is_dictionary()


def _require_empty(disk: Disk, listing: Listing) -> None:
    """Without a journal there must be nothing at all: a new ledger."""
    if listing.events or listing.bodies or listing.packed or listing.checkpoints:
        raise LedgerCorrupt(disk.describe(""), 0, "the active journal file is missing")


def _choose_checkpoint(disk: Disk, listing: Listing, found: Found) -> None:
    """The newest valid one; a damaged one is passed over."""
    for position in reversed(listing.checkpoints):
        try:
            state = load_checkpoint(disk, position, found.ledger_id)
        except LedgerCorrupt as error:
            found.report.cut.append(f"{error}: passed over")
            continue
        found.state = state
        found.report.checkpoint_position = position
        found.checkpoints = [other for other in listing.checkpoints if other <= position]
        return


def _bring_in_order(
    disk: Disk, listing: Listing, headers: dict[int, FileHeader], found: Found
) -> dict[int, Scan]:
    """Judge the files of every number that matters; scan the journals among them."""
    scans: dict[int, Scan] = {}
    needed = {span.number for span in found.state.needs}
    present = {*listing.journal, *listing.events, *listing.bodies}
    wanted = range(found.state.file_number + 1, found.file_number + 1)
    for number in sorted(present | needed | set(wanted)):
        covered = number <= found.state.file_number and number not in needed
        events = _events_fact(disk, listing, number, covered, found)
        case = (number in listing.journal, events, number in listing.bodies, covered)
        verdict = FILE_CASES[case]
        if verdict.name.startswith("REFUSE"):
            raise LedgerCorrupt(disk.describe(f"{number:08d}.*"), 0, _FILE_REASONS[verdict])
        if verdict is FilesVerdict.FINISH_SEAL:
            disk.rename(journal_name(number), bodies_name(number))
            disk.sync_names()
            found.report.cut.append(f"{journal_name(number)}: sealing finished")
        elif verdict in (FilesVerdict.JOURNAL, FilesVerdict.REDO_SEAL):
            scans[number] = _scan(disk, number, headers, found)
    return scans


_FILE_REASONS = {
    FilesVerdict.REFUSE_MISSING: "the records of this file are missing and no checkpoint covers them",
    FilesVerdict.REFUSE_DAMAGED: "the events file is damaged",
    FilesVerdict.REFUSE_TWICE: "there is a journal and a bodies file of this number",
}


def _events_fact(disk: Disk, listing: Listing, number: int, covered: bool, found: Found) -> EventsFact:
    if number not in listing.events:
        return EventsFact.NONE
    if covered or found.images is None:
        return EventsFact.GOOD  # not read: nothing depends on it
    try:
        found.images.image(number)
    except LedgerCorrupt as error:
        found.report.cut.append(str(error))
        return EventsFact.DAMAGED
    return EventsFact.GOOD


def _scan(disk: Disk, number: int, headers: dict[int, FileHeader], found: Found) -> Scan:
    name = journal_name(number)
    successor = headers.get(number + 1)
    file = disk.open(name)
    file.sync()  # a block may have been written and not synced: what the next file's seal names must stay
    data = memoryview(file.view())
    scan = scan_journal(disk.describe(name), data, successor.seal if successor is not None else None)
    if scan is None:
        raise LedgerCorrupt(disk.describe(name), 0, _HEAD_REASONS[HeadFact.DAMAGED])
    if scan.verdict is not TailVerdict.CLEAN:
        dropped = void_bytes(data, scan.end)
        found.report.cut.append(f"{name} at byte {scan.end}: {dropped} bytes void ({scan.verdict.name})")
    image = build_image(scan, data)
    found.unsealed[number] = image
    if found.images is not None:
        found.images.add(image)
    return scan


def _fold(found: Found, images: Images) -> None:
    """From the checkpoint to the newest file; each must follow the one before."""
    state, last = found.state, None
    for number in range(state.file_number + 1, found.file_number + 1):
        image = images.image(number)
        if image.first_position != state.position + 1 or (last is not None and image.sealed != last):
            raise LedgerCorrupt(events_name(number), 0, "the file does not follow the one before it")
        fold_image(state, image, images.arrivals)
        last = image.seal()
        found.report.files_folded += 1
        found.report.records_folded += image.last_position - image.first_position + 1
    forget_unneeded(state)
    newest = images.image(found.file_number)
    found.seal = newest.seal()


def _body_files(disk: Disk, listing: Listing, scans: dict[int, Scan], found: Found) -> list[BodyFile]:
    """Every file that holds bodies, leftovers of compaction removed."""
    packed = [name for name in listing.packed if not _superseded(disk, name, listing.packed, found)]
    numbers = []
    for number in listing.bodies:
        whole = PackedName(number, number, 0)
        if not any(name.supersedes(whole) for name in packed):
            numbers.append(number)
        else:
            disk.remove(bodies_name(number))
            found.report.cut.append(f"{bodies_name(number)}: packed already, removed")
    files: list[BodyFile] = [
        PackedBodies(disk, name, load_packed_span(disk, name, found.ledger_id or b"")) for name in packed
    ]
    files += [_sealed_bodies(disk, number) for number in numbers]
    files += [_unsealed_bodies(disk, number, scan) for number, scan in scans.items()]
    files.sort(key=lambda file: file.first_position)
    for file, following in pairwise(files):
        file.last_position = min(file.last_position, following.first_position - 1)
    return files


def _superseded(disk: Disk, name: PackedName, others: list[PackedName], found: Found) -> bool:
    if not any(other.supersedes(name) for other in others):
        return False
    disk.remove(packed_name(name))
    found.report.cut.append(f"{packed_name(name)}: packed again, removed")
    return True


def _sealed_bodies(disk: Disk, number: int) -> SealedBodies:
    name = bodies_name(number)
    header = decode_file_header(disk.open(name).read_at(0, FILE_HEADER_BYTES))
    if header is None:
        raise LedgerCorrupt(disk.describe(name), 0, _HEAD_REASONS[HeadFact.DAMAGED])
    return SealedBodies(disk, number, header.first_position, MAX_POSITION)


def _unsealed_bodies(disk: Disk, number: int, scan: Scan) -> JournalBodies:
    table = BlockTable()
    for block in scan.blocks:
        head = block.header
        if head.next_position() > head.first_position:
            positions = (head.first_position, head.next_position() - 1)
            table.add(positions, head.records_bytes(), bodies_start(block), head.bodies_bytes)
    name = journal_name(number)
    return JournalBodies(name, disk.open(name), number, scan.header.first_position, table)


def _check_bodies(disk: Disk, found: Found) -> None:
    """Every live body must have a file that covers its position."""
    state, images = found.state, found.images
    rows = state.explicit[survives(state.explicit["arrival_flags"])]
    wanted = [rows["body_serial"]]
    if images is not None:
        for (file_number, _), indexes in state.plain.items():
            arrivals = images.arrivals(file_number)[indexes[:1]]
            wanted.append(arrivals["position"][survives(arrivals["flags"])])
    serials = np.concatenate(wanted)
    firsts = np.array([file.first_position for file in found.bodies], np.uint64)
    lasts = np.array([file.last_position for file in found.bodies], np.uint64)
    at = np.searchsorted(firsts, serials, "right") - 1
    missing = (at < 0) | (serials > lasts[at]) if len(firsts) else np.ones(len(serials), np.bool_)
    if missing.any():
        serial = int(serials[missing][0])
        raise LedgerCorrupt(disk.describe(""), 0, f"the file with the body of message {serial} is missing")
