"""Starting from what is on the disk: which files count, where they end, and the state they fold to.

Every question is one of the tables in `recovery_cases`, or of what the superblock vouches for
(`completeness`). `recover` is for the owner: it writes nothing but the end of what a crash cut off
(unfinished files are removed, an interrupted rename is finished). `inspect` finds the same, and refuses the
same, and changes nothing.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.fold.carried_arrivals import forget_unneeded
from postroom.ledger.fold.checkpoint import (
    checkpoints_recorded,
    load_checkpoint,
    require_past,
    require_recorded,
)
from postroom.ledger.fold.fold import fold_image, prune_chunks
from postroom.ledger.fold.known_records import require_known
from postroom.ledger.fold.state import CARRIED_FILE, FoldState
from postroom.ledger.format.file_names import (
    VOID_SUFFIX,
    Listing,
    PackedName,
    bodies_name,
    events_name,
    journal_name,
    packed_name,
)
from postroom.ledger.format.headers import (
    FILE_HEADER_BYTES,
    NO_SEAL,
    FileHeader,
    Seal,
    decode_file_header,
    require_known_version,
)
from postroom.ledger.format.layout import Array
from postroom.ledger.recovery.body_coverage import (
    check_bodies,
    check_packed,
    check_sealed,
    live_pieces,
    whole_files,
)
from postroom.ledger.recovery.recovered import RecoveryReport
from postroom.ledger.storage.acts_files import ActsFile, find_acts_files, require_acts
from postroom.ledger.storage.body_file import (
    MAX_POSITION,
    BodyFile,
    JournalBodies,
    PackedBodies,
    SealedBodies,
)
from postroom.ledger.storage.completeness import (
    HEAD_DAMAGED,
    OTHER_LEDGER,
    OTHER_NUMBER,
    require_beginning,
    require_begun,
    require_end,
    require_neighbours,
    require_newest,
    require_seal,
    required_superblock,
)
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import EventsImage, build_image, load_image
from postroom.ledger.storage.journal import BlockTable
from postroom.ledger.storage.journal_scan import (
    Scan,
    bodies_start,
    count_blocks,
    read_block,
    scan_journal,
    void_bytes,
)
from postroom.ledger.storage.packed_bodies import load_packed_span
from postroom.ledger.storage.recovery_cases import (
    FILE_CASES,
    HEAD_CASES,
    EventsFact,
    FilesVerdict,
    HeadFact,
    HeadVerdict,
    TailVerdict,
)
from postroom.ledger.storage.superblock import Superblock, read_superblock


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
    superblock: Superblock | None = None
    """None in an empty folder."""
    acts: list[ActsFile] = field(default_factory=list)
    """The files of acts, ascending."""
    first_position: int = 1
    """The oldest position of the history that reaches to the end without a gap."""
    mends: bool = True
    """Whether what a crash cut off is brought to its end."""


class Images:
    """Events images by file number: those in memory first, others mapped when asked for."""

    def __init__(self, disk: Disk, state: FoldState) -> None:
        self._disk = disk
        self._state = state
        self.known: dict[int, EventsImage] = {}
        """Those that were asked for, or added, so far."""

    def add(self, image: EventsImage) -> None:
        self.known[image.file_number] = image

    def forget(self, file_number: int) -> None:
        self.known.pop(file_number, None)

    def image(self, file_number: int) -> EventsImage:
        """Checked once, when first loaded."""
        if file_number not in self.known:
            self.known[file_number] = load_image(self._disk, file_number)
        return self.known[file_number]

    def number_of(self, position: int) -> int:
        """The file that holds a position, among those known; 0: none of them."""
        for number, image in self.known.items():
            if image.first_position <= position <= image.last_position:
                return number
        return 0

    def arrivals(self, file_number: int) -> Array:
        if file_number == CARRIED_FILE:
            return self._state.carried
        return self.image(file_number).arrivals


def recover(disk: Disk) -> Found:
    """Bring the folder in order and fold its records. Raises LedgerCorrupt with the place of a damage."""
    disk.sync_names()  # what is seen now must not change its name at the next power cut
    return _found(disk, Found(ledger_id=None, superblock=read_superblock(disk)))


def inspect(disk: Disk, superblock: Superblock | None = None) -> Found:
    """What `recover` would find, and refuse: nothing is changed. `superblock`: what vouches for the files in
    place of the folder's own."""
    superblock = superblock or read_superblock(disk)
    return _found(disk, Found(ledger_id=None, superblock=superblock, mends=False))


def _found(disk: Disk, found: Found) -> Found:
    listing = Listing(disk.names())
    if found.mends:
        for name in listing.unfinished:
            disk.remove(name)
            found.report.cut.append(f"{name}: unfinished, removed")
    if found.superblock is None and listing.is_empty():
        return found
    superblock = found.superblock = required_superblock(disk, found.superblock)
    found.ledger_id = superblock.ledger_id
    found.acts = find_acts_files(disk, superblock.ledger_id)
    require_acts(disk, superblock, found.acts)
    headers = _journal_headers(disk, listing, superblock, found)
    found.file_number = max([*headers, *listing.events], default=0)
    require_newest(disk, superblock, found.file_number)
    if found.file_number == 0:
        if listing.events or listing.bodies or listing.packed or listing.checkpoints:
            raise LedgerCorrupt(disk.describe(""), 0, "the active journal file is missing")
        return found
    _choose_checkpoint(disk, listing, found)
    images = found.images = Images(disk, found.state)
    scans, missing = _bring_in_order(disk, listing, headers, found)
    newest = images.image(found.file_number)
    found.epoch, found.seal = newest.epoch, newest.seal()
    has = scans[found.file_number].has if found.file_number in scans else newest.seal().__eq__
    require_end(disk, superblock, found.file_number, newest.last_position, has)
    _check_history(disk, {*listing.events, *scans}, superblock, images, found)
    if missing is not None:
        raise missing
    _fold(disk, found, images)
    found.bodies = _body_files(disk, listing, scans, found)
    for file in found.bodies:
        if isinstance(file, PackedBodies):
            check_packed(disk, file)
    pieces = live_pieces(found.state, images.arrivals, whole_files(found.bodies, images.known))
    check_bodies(disk, found.bodies, pieces, images.number_of)
    return found


def _journal_headers(
    disk: Disk, listing: Listing, superblock: Superblock, found: Found
) -> dict[int, FileHeader]:
    """The checked headers of all journals; a newest file that was never begun is removed."""
    headers: dict[int, FileHeader] = {}
    previous: FileHeader | None = None
    for number in listing.journal.copy():
        name = journal_name(number)
        data = memoryview(disk.open(name).view())
        require_known_version(disk.describe(name), bytes(data[:FILE_HEADER_BYTES]))
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
            require_begun(disk, superblock, number)
            found.report.cut.append(_set_aside(disk, name, data, number, found))
            listing.journal.remove(number)
        else:
            previous = headers[number] = header
    return headers


def _set_aside(disk: Disk, name: str, data: memoryview, number: int, found: Found) -> str:
    """Remove a file that was never begun; keep it under another name if a whole block is in it."""
    if count_blocks(data, found.ledger_id, number):
        if found.mends:
            disk.rename(name, name + VOID_SUFFIX)
        return f"{name}: the head is damaged, void, renamed to {name}{VOID_SUFFIX}"
    if found.mends:
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
    if previous is None or header.seal.file_number != previous.file_number:
        return HeadFact.GOOD  # the one before is sealed, or gone: the chain tells
    if header.seal.epoch != previous.epoch or header.epoch < previous.epoch:
        return HeadFact.WRONG_PREDECESSOR
    return HeadFact.GOOD


_HEAD_REASONS = {
    HeadFact.DAMAGED: HEAD_DAMAGED,
    HeadFact.OTHER_LEDGER: OTHER_LEDGER,
    HeadFact.OTHER_NUMBER: OTHER_NUMBER,
    HeadFact.WRONG_PREDECESSOR: "the file does not follow the one before it",
}


def _has_dictionary(data: memoryview, header: FileHeader) -> bool:
    block = read_block(data, FILE_HEADER_BYTES, header.identity(), header.first_position, header.crc)
    return block is not None and block.header.is_dictionary()


def _check_history(disk: Disk, there: set[int], superblock: Superblock, images: Images, found: Found) -> None:
    """From the newest file back, each is the one that its successor names, as far as retention left them."""
    newer = images.image(found.file_number)
    while newer.sealed.file_number in there and newer.sealed.file_number < newer.file_number:
        older = images.image(newer.sealed.file_number)
        require_seal(disk, older.seal(), newer.sealed)
        names = events_name(newer.file_number), events_name(older.file_number)
        require_neighbours(names[0], newer.first_position, names[1], older.last_position)
        newer = older
    require_beginning(disk, superblock, newer.first_position, newer.sealed)
    found.first_position = newer.first_position


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
) -> tuple[dict[int, Scan], LedgerCorrupt | None]:
    """Judge the files of every number that matters; scan the journals among them. Returns what of the records
    is missing, too: where it lies in the history, that tells more."""
    scans: dict[int, Scan] = {}
    missing: LedgerCorrupt | None = None
    needed = {span.number for span in found.state.needs}
    present = {*listing.journal, *listing.events, *listing.bodies}
    wanted = range(found.state.file_number + 1, found.file_number + 1)
    for number in sorted(present | needed | set(wanted)):
        covered = number <= found.state.file_number and number not in needed
        damage = _damage_of_events(disk, listing, number, found)
        events = EventsFact.NONE if number not in listing.events else EventsFact.GOOD
        events = events if damage is None else EventsFact.DAMAGED
        case = (number in listing.journal, events, number in listing.bodies, covered)
        verdict = FILE_CASES[case]
        if verdict is FilesVerdict.REFUSE_DAMAGED and damage is not None:
            raise damage
        if verdict is FilesVerdict.REFUSE_TWICE:
            reason = "there is a journal and a bodies file of this number"
            raise LedgerCorrupt(disk.describe(bodies_name(number)), 0, reason)
        if verdict is FilesVerdict.REFUSE_MISSING:
            reason = "missing: no checkpoint that is whole covers the records of this file"
            missing = missing or LedgerCorrupt(disk.describe(events_name(number)), 0, reason)
        elif verdict is FilesVerdict.FINISH_SEAL and found.mends:
            disk.rename(journal_name(number), bodies_name(number))
            disk.sync_names()
            listing.sealed(number)
            found.report.cut.append(f"{journal_name(number)}: sealing finished")
        elif number in listing.journal:
            scans[number] = _scan(disk, listing, number, headers, found)
    return scans, missing


def _damage_of_events(disk: Disk, listing: Listing, number: int, found: Found) -> LedgerCorrupt | None:
    """What is wrong with the events file of a number, if there is one."""
    if number not in listing.events or found.images is None:
        return None
    try:
        image = found.images.image(number)
    except LedgerCorrupt as error:
        found.report.cut.append(str(error))
        return error
    if image.ledger_id != found.ledger_id:
        return LedgerCorrupt(disk.describe(events_name(number)), 0, OTHER_LEDGER)
    return None


def _scan(disk: Disk, listing: Listing, number: int, headers: dict[int, FileHeader], found: Found) -> Scan:
    name = journal_name(number)
    file = disk.open(name)
    if found.mends:
        file.sync()  # a block may have been written and not synced: what the next file's seal names must stay
    data = memoryview(file.view())
    scan = scan_journal(disk.describe(name), data, _seal_of(number, headers, listing.events, found))
    if scan is None:
        raise LedgerCorrupt(disk.describe(name), 0, HEAD_DAMAGED)
    if scan.verdict is not TailVerdict.CLEAN:
        dropped = void_bytes(data, scan.end)
        found.report.cut.append(f"{name} at byte {scan.end}: {dropped} bytes void ({scan.verdict.name})")
    image = build_image(scan, data)
    found.unsealed[number] = image
    if found.images is not None:
        found.images.add(image)
    return scan


def _seal_of(number: int, headers: dict[int, FileHeader], events: list[int], found: Found) -> Seal | None:
    """What the file after says of a journal's end; None where there is none."""
    if number + 1 in headers:
        return headers[number + 1].seal
    if number + 1 not in events or found.images is None:
        return None
    return found.images.image(number + 1).sealed


def _fold(disk: Disk, found: Found, images: Images) -> None:
    """From the checkpoint to the newest file; the first must follow on what the checkpoint covers, and the
    checkpoint be the one that they tell of."""
    state, recorded = found.state, dict[int, int]()
    for number in range(state.file_number + 1, found.file_number + 1):
        image = images.image(number)
        name = journal_name(number) if number in found.unsealed else events_name(number)
        recorded |= checkpoints_recorded(image, disk.describe(name))
        if image.first_position != state.position + 1:
            raise LedgerCorrupt(events_name(number), 0, "the file does not follow the one before it")
        require_known(image)
        fold_image(state, image, images.arrivals)
        found.report.files_folded += 1
        found.report.records_folded += image.last_position - image.first_position + 1
    if found.report.checkpoint_position:
        require_past(disk, found.report.checkpoint_position, found.seal.position)
        require_recorded(disk, found.report.checkpoint_position, recorded)
    forget_unneeded(state)
    prune_chunks(state, images.arrivals)


def _body_files(disk: Disk, listing: Listing, scans: dict[int, Scan], found: Found) -> list[BodyFile]:
    """Every file that holds bodies, leftovers of compaction removed."""
    packed = [name for name in listing.packed if not _superseded(disk, name, listing.packed, found)]
    numbers = []
    for number in listing.bodies:
        whole = PackedName(number, number, 0)
        if not any(name.supersedes(whole) for name in packed):
            numbers.append(number)
        else:
            _leave_out(disk, bodies_name(number), "packed already", found)
    files: list[BodyFile] = [
        PackedBodies(disk, name, load_packed_span(disk, name, found.ledger_id or b"")) for name in packed
    ]
    files += [_sealed_bodies(disk, number, listing, found) for number in numbers]
    files += [_unsealed_bodies(disk, number, scan) for number, scan in scans.items()]
    files.sort(key=lambda file: file.first_position)
    for file, following in pairwise(files):
        file.last_position = min(file.last_position, following.first_position - 1)
    return files


def _superseded(disk: Disk, name: PackedName, others: list[PackedName], found: Found) -> bool:
    if not any(other.supersedes(name) for other in others):
        return False
    _leave_out(disk, packed_name(name), "packed again", found)
    return True


def _leave_out(disk: Disk, name: str, why: str, found: Found) -> None:
    """A file that another has taken the place of."""
    if found.mends:
        disk.remove(name)
    found.report.cut.append(f"{name}: {why}, removed")


def _sealed_bodies(disk: Disk, number: int, listing: Listing, found: Found) -> SealedBodies:
    name, superblock = bodies_name(number), found.superblock
    image = found.images.image(number) if number in listing.events and found.images is not None else None
    header = decode_file_header(disk.open(name).read_at(0, FILE_HEADER_BYTES))
    if header is None:
        raise LedgerCorrupt(disk.describe(name), 0, HEAD_DAMAGED)
    last = MAX_POSITION if image is None else image.last_position
    file = SealedBodies(disk, number, header.first_position, last)
    assert superblock is not None
    check_sealed(disk, superblock.ledger_id, file, header, image)
    return file


def _unsealed_bodies(disk: Disk, number: int, scan: Scan) -> JournalBodies:
    table = BlockTable()
    for block in scan.blocks:
        head = block.header
        if head.next_position() > head.first_position:
            positions = (head.first_position, head.next_position() - 1)
            table.add(positions, head.records_bytes(), bodies_start(block), head.bodies_bytes)
    name = journal_name(number)
    return JournalBodies(name, disk.open(name), number, scan.header.first_position, table)
