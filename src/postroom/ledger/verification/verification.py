"""Is this ledger whole? Everything that can be checked from the outside, all findings at once, nothing
changed.

Reading (`reader`) stops at the first damage; this goes on and tells all of it: the seals from file to file,
the chain of blocks, every CRC, that positions are dense and times never go back, that every record can be
spelled out, and on demand the CRC of every body.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from uuid import UUID

import numpy as np
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, UnknownRecord
from postroom.ledger.fold.checkpoint import (
    checkpoints_recorded,
    load_checkpoint,
    require_past,
    require_recorded,
)
from postroom.ledger.fold.known_records import unknowns
from postroom.ledger.format.block import BODY_TRAILER_BYTES
from postroom.ledger.format.expand import Chunk, ExpandError, expand
from postroom.ledger.format.file_names import (
    SUPERBLOCK_NAME,
    Listing,
    acts_name,
    bodies_name,
    checkpoint_name,
    events_name,
    journal_name,
    packed_name,
)
from postroom.ledger.format.headers import Seal, crc_matches
from postroom.ledger.format.layout import PACKED_HEADER, PACKED_MAGIC, PACKED_ROW_DTYPE, Array
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.acts import acts_of
from postroom.ledger.reading.definitions import Definitions, is_definition
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import SegmentReader, folder_of, walk_journal
from postroom.ledger.storage.acts_files import acts_blocks
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import (
    ARRIVAL_NAMES,
    EventsImage,
    build_image,
    load_image,
    name_bytes,
)
from postroom.ledger.storage.journal_scan import (
    Scan,
    arrivals_of,
    bodies_intact,
    chunk_list_bytes,
    piece_intact,
    scan_journal,
    void_bytes,
)
from postroom.ledger.storage.recovery_cases import TailVerdict
from postroom.ledger.storage.superblock import read_copies
from postroom.ledger.verification.integrity import check

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The ledger isn't whole: the broker and every reader refuse it, or the records make no sense."""
    WARNING = "warning"
    """Something is damaged that nothing depends on; why, the finding says."""
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or worth a note. `where` is a file, or a file and a position in it."""

    severity: Severity
    where: str
    what: str


@dataclass(slots=True)
class Verification:
    """What was checked and what was found."""

    folder: str
    ledger_id: str = ""
    first_position: int = 0
    durable_through: int = 0
    files: int = 0
    size_bytes: int = 0
    records: int = 0
    acts: int = 0
    """Those that have outlived their history."""
    with_bodies: bool = False
    """Whether bodies were read; else only their places were looked at."""
    bodies_checked: int = 0
    is_refused: bool = False
    """The broker and every reader refuse this ledger, in the words of a finding."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether no finding is an error."""
        return not self.of(Severity.ERROR)

    def of(self, severity: Severity) -> list[Finding]:
        """The findings that matter so much."""
        return [finding for finding in self.findings if finding.severity is severity]

    def error(self, where: str, what: str) -> None:
        self._add(Severity.ERROR, where, what)

    def warning(self, where: str, what: str) -> None:
        self._add(Severity.WARNING, where, what)

    def note(self, where: str, what: str) -> None:
        self._add(Severity.NOTE, where, what)

    def corrupt(self, error: LedgerCorrupt) -> None:
        """What a check has refused."""
        self.error(Path(error.file).name, f"byte {error.offset}: {error.reason}")

    def _add(self, severity: Severity, where: str, what: str) -> None:
        finding = Finding(severity, where, what)
        if finding not in self.findings:
            self.findings.append(finding)


def verify(folder: Path, bodies: bool = False, progress: Progress | None = None) -> Verification:
    """Check a ledger. Raises ``NoLedger``; everything else that is wrong is a finding.

    What the broker and every reader refuse comes first (`integrity.check`), then every file is gone through.
    With `bodies` every stored body is read and its CRC compared. Beside a running broker a file may go
    between two looks; what has gone is not checked.
    """
    result = Verification(str(folder), with_bodies=bodies)
    seals = _check_whole(folder, result)
    with folder_of(folder) as disk:
        listing = Listing(disk.names())
        checks = _checks(disk, listing, seals, bodies, result)
        for done, (name, check) in enumerate(checks):
            _guarded(disk, name, check, result)
            if progress is not None:
                progress(done + 1, len(checks))
        for name in listing.unfinished:
            result.note(name, "unfinished; the broker removes it at its next start")
    return result


def _check_whole(folder: Path, result: Verification) -> dict[int, Seal | None]:
    """The check that the broker makes at its start, and the look that every reader takes: what they refuse is
    a finding. Returns the seals of the files in force."""
    try:
        result.size_bytes = check(folder).size_bytes
        reader = LedgerReader(folder)
    except LedgerCorrupt as error:
        result.is_refused = True
        result.corrupt(error)
        return {}
    except UnknownRecord:
        result.is_refused = True  # the check of its file tells more
        return {}
    result.ledger_id = str(reader.ledger_id)
    result.first_position, result.durable_through = reader.first_position, reader.durable_through
    if reader.first_position > 1:
        what = f"history begins at position {reader.first_position}: retention dropped what is older"
        result.note(str(folder), what)
    if reader.undecided_records:
        what = f"{reader.undecided_records} records after {reader.durable_through} may not be synced yet"
        result.note(reader.segments[-1].name, what)
    return {segment.number: segment.seal for segment in reader.segments}


Check = Callable[[], None]

Vouched = dict[int, int]
"""header_crc of the checkpoint at each position, as the ledger recorded it."""


def _checks(
    disk: Disk, listing: Listing, seals: dict[int, Seal | None], bodies: bool, result: Verification
) -> list[tuple[str, Check]]:
    """One check a file, in the order of the files."""
    checks: list[tuple[str, Check]] = []
    vouched: Vouched = {}
    for number in listing.events:
        checks.append((events_name(number), partial(_check_events, disk, number, vouched, result)))
    for number in listing.journal:
        if number not in seals and seals:
            result.note(
                journal_name(number), "not in force: it was never begun, or another history replaced it"
            )
            continue
        journal = partial(_check_journal, disk, number, seals.get(number), bodies, vouched, result)
        checks.append((journal_name(number), journal))
    for position in listing.checkpoints:
        spare = partial(_check_checkpoint, disk, position, vouched, result)
        checks.append((checkpoint_name(position), spare))
    for number in listing.acts:
        checks.append((acts_name(number), partial(_check_acts, disk, number, result)))
    checks.append((SUPERBLOCK_NAME, partial(_check_superblock, disk, result)))
    if bodies:
        for number in listing.bodies:
            checks.append(
                (bodies_name(number), partial(_check_bodies, disk, number, seals.get(number), result))
            )
        for packed in listing.packed:
            checks.append((packed_name(packed), partial(_check_packed, disk, packed_name(packed), result)))
    return checks


def _guarded(disk: Disk, name: str, check_one: Check, result: Verification) -> None:
    """A check whose refusals become findings, so that the next file is checked all the same."""
    try:
        check_one()
        result.files += 1
    except LedgerCorrupt as error:
        result.corrupt(error)
    except FileNotFoundError:
        result.note(name, "gone since the folder was listed: a broker is at work beside this")
    except OSError as error:
        result.error(name, f"can't be read: {error.strerror}")


# --- records ----------------------------------------------------------------------------------------


def _check_events(disk: Disk, number: int, vouched: Vouched, result: Verification) -> None:
    _check_records(events_name(number), load_image(disk, number), vouched, result)


def _check_journal(
    disk: Disk, number: int, seal: Seal | None, bodies: bool, vouched: Vouched, result: Verification
) -> None:
    scan, data = walk_journal(disk, number, seal)
    name = journal_name(number)
    if scan.verdict in (TailVerdict.CUT_TORN, TailVerdict.VOID_AFTER_SEAL):
        kind = (
            "a torn block, never acknowledged"
            if scan.verdict is TailVerdict.CUT_TORN
            else "void, behind the seal"
        )
        result.note(name, f"{void_bytes(data, scan.end)} bytes from byte {scan.end}: {kind}")
    _check_records(name, build_image(scan, data), vouched, result)
    if bodies:
        _check_body_heaps(name, scan, data, result)


def _check_records(name: str, image: EventsImage, vouched: Vouched, result: Verification) -> None:
    """Everything about the records of one file, but their CRCs, which the caller has compared."""
    before = len(result.findings)
    positions = _merged_positions(image)
    result.records += len(positions)
    expected = np.arange(image.first_position, image.first_position + len(positions), dtype=np.uint64)
    if len(positions) != image.last_position - image.first_position + 1 or (positions != expected).any():
        wrong = (
            int(expected[np.argmax(positions != expected)])
            if (positions != expected).any()
            else image.last_position
        )
        result.error(name, f"positions are not dense: {wrong} is missing or out of order")
        return
    _check_times(name, image, result)
    _check_codes(name, image, result)
    _check_definitions(name, image, result)
    vouched |= checkpoints_recorded(image, name)
    if len(result.findings) == before:
        _check_rows(name, image, result)


def _merged_positions(image: EventsImage) -> Array:
    positions = np.concatenate([image.arrivals["position"], image.own_transitions()["position"]])
    positions.sort()
    return positions


def _check_times(name: str, image: EventsImage, result: Verification) -> None:
    """Times never go back, in the order of positions."""
    own = image.own_transitions()
    positions = np.concatenate([image.arrivals["position"], own["position"]])
    times = np.concatenate([image.arrivals["time_us"], own["time_us"]])[np.argsort(positions)]
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        result.error(
            name,
            f"position {image.first_position + int(back[0]) + 1}: its time is before that of the one before",
        )


def _check_codes(name: str, image: EventsImage, result: Verification) -> None:
    """Nothing is beyond what this version knows."""
    for unknown in unknowns(image).values():
        result.error(name, f"position {unknown.position}: {unknown.what} is unknown to this version")


def _check_definitions(name: str, image: EventsImage, result: Verification) -> None:
    """Every definition's detail lies in the heap and is what it should be."""
    transitions = image.transitions[is_definition(image.transitions)]
    names = np.frombuffer(image.names, np.uint8)
    end = transitions["detail_offset"].astype(np.int64) + transitions["detail_len"]
    wrong = np.flatnonzero(end > len(names))
    if len(wrong):
        result.error(
            name, f"position {transitions['position'][wrong[0]]}: its detail lies outside the names heap"
        )
        return
    definitions = Definitions(transitions, names)
    try:
        _ = (
            definitions.queue_names,
            definitions.producer_names,
            definitions.holder_names,
            definitions.routing_sets,
            definitions.leases,
            definitions.channels,
            definitions.channel_states,
            definitions.annotations,
        )
    except ExpandError as error:
        result.error(name, str(error))


def _check_rows(name: str, image: EventsImage, result: Verification) -> None:
    """Every record can be spelled out into entries, and no entry is older than its message or from the
    future."""
    segment = SegmentReader(image)
    sets = segment.definitions(image.last_position).routing_sets
    try:
        for chunk in segment.chunks(image.first_position, image.last_position):
            _check_ids(name, chunk, result)
            for rows in expand(chunk, sets):
                wrong = np.flatnonzero((rows["serial"] == 0) | (rows["serial"] > rows["position"]))
                if len(wrong):
                    result.error(name, f"position {rows['position'][wrong[0]]}: its serial is not before it")
                    return
    except ExpandError as error:
        result.error(name, str(error))


def _check_ids(name: str, chunk: Chunk, result: Verification) -> None:
    """The ids of arrivals lie in the names heap."""
    for offset, lengths in ARRIVAL_NAMES:
        end = chunk.arrivals[offset].astype(np.int64) + name_bytes(chunk.arrivals, lengths)
        wrong = np.flatnonzero(end > len(chunk.names))
        if len(wrong):
            position = chunk.arrivals["position"][wrong[0]]
            result.error(name, f"position {position}: its {lengths[0][:-4]} lies outside the names heap")


def _check_checkpoint(disk: Disk, position: int, vouched: Vouched, result: Verification) -> None:
    """Header, directory and sections by their CRCs; that it is the one that the ledger recorded, if it did;
    and that it is of this ledger's past."""
    try:
        load_checkpoint(disk, position, UUID(result.ledger_id).bytes if result.ledger_id else None)
        if result.ledger_id:
            require_past(disk, position, result.durable_through)
        require_recorded(disk, position, vouched)
    except LedgerCorrupt as error:
        if result.is_refused:
            raise
        spared = "passed over, the state is the same from the checkpoint before, or from all records"
        result.warning(checkpoint_name(position), f"byte {error.offset}: {error.reason}: {spared}")


def _check_acts(disk: Disk, number: int, result: Verification) -> None:
    """The acts of a file, as far as its blocks are whole; that none is missing, was checked before."""
    if not result.ledger_id:
        return
    name, end = acts_name(number), 0
    for block in acts_blocks(disk, number, UUID(result.ledger_id).bytes):
        end = block.end
        try:
            result.acts += sum(1 for _ in acts_of(block.chunk))
        except ValueError as error:
            result.error(name, f"up to byte {end}: an act is no JSON: {error}")
    void = bytes(memoryview(disk.open(name).view())[end:]).rstrip(b"\0")
    if void and not result.is_refused:
        result.note(name, f"{len(void)} bytes from byte {end}: a torn block, never counted on")


def _check_superblock(disk: Disk, result: Verification) -> None:
    """That both of its copies are whole; that one is, was checked before."""
    copies = read_copies(disk)
    if copies is not None and copies.count(None) == 1:
        result.warning(SUPERBLOCK_NAME, "one of its two copies is damaged: the broker's next write mends it")


# --- bodies -----------------------------------------------------------------------------------------


def _check_bodies(disk: Disk, number: int, seal: Seal | None, result: Verification) -> None:
    """A .bodies file is the journal that it was."""
    name = bodies_name(number)
    data = memoryview(disk.open(name).view())
    scan = scan_journal(disk.describe(name), data, seal)
    if scan is None:
        raise LedgerCorrupt(disk.describe(name), 0, "no valid header with a dictionary")
    _check_body_heaps(name, scan, data, result)


def _check_body_heaps(name: str, scan: Scan, data: memoryview, result: Verification) -> None:
    for block in scan.blocks:
        result.bodies_checked += int(
            np.count_nonzero(arrivals_of(data, block)["flags"] & ArrivalFlag.BODY_STORED)
        )
        if not bodies_intact(data, block):
            first, last = block.header.first_position, block.header.next_position() - 1
            result.error(name, f"byte {block.offset}: a body of positions {first} to {last} is damaged")


def _check_packed(disk: Disk, name: str, result: Verification) -> None:
    """Every piece of a packed file: a body or a chunk with its CRC, or the list of a body's chunks."""
    data = memoryview(disk.open(name).view())
    head = bytes(data[: PACKED_HEADER.size_bytes])
    if len(head) < PACKED_HEADER.size_bytes or not crc_matches(head):
        raise LedgerCorrupt(disk.describe(name), 0, "no valid header of a packed file")
    f = dict(
        zip((field for field, _ in PACKED_HEADER.fields), PACKED_HEADER.struct.unpack(head), strict=True)
    )
    start, size = f["index_offset"], f["index_count"] * PACKED_ROW_DTYPE.itemsize
    if (
        f["magic"] != PACKED_MAGIC
        or start + size > len(data)
        or crc32(data[start : start + size]) != f["index_crc"]
    ):
        raise LedgerCorrupt(disk.describe(name), start, "the index of the packed file is damaged")
    index = np.frombuffer(data, PACKED_ROW_DTYPE, f["index_count"], start)
    for key, offset, length in zip(*(index[c].tolist() for c in ("key", "offset", "length")), strict=True):
        result.bodies_checked += 1
        is_piece = piece_intact(data, offset, length - BODY_TRAILER_BYTES)
        if not is_piece and chunk_list_bytes(data, offset) != length:
            result.error(name, f"byte {offset}: the body of position {key} is damaged")
