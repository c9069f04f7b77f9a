"""A folder that follows the log: the bytes of the journal as the active wrote them, sealed and checkpointed.

So a take-over is a recovery from a checkpoint that is about a file old. What this folder's ledger can let go
is decided here by the same rules as on the active; readers' leases count as of the newest checkpoint.
"""

from pathlib import Path
from typing import Final

from postroom.ledger.copying.placing import finish
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.fold.state import FoldState
from postroom.ledger.format.dictionary import LEASES, SPARK_SUBSCRIPTIONS
from postroom.ledger.format.file_names import Listing, journal_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, FileHeader, decode_file_header
from postroom.ledger.options import LedgerOptions, fitted
from postroom.ledger.recovery.recovery import Found, Images, recover
from postroom.ledger.retention.kept_history import Floors, Keep, lowest
from postroom.ledger.retention.leases import leases_from, unread_from
from postroom.ledger.storage.bodies import BodyStore
from postroom.ledger.storage.disk import Disk, DiskFile, RealDisk
from postroom.ledger.storage.superblock import Superblock, SuperblockFile
from postroom.ledger.upkeep.maintenance import Maintenance
from postroom.replication.entries import NO_CLAIM, Entry
from postroom.replication.errors import COPY_ADVICE, CopyNeeded, MemberRefused
from postroom.replication.folder_state import FolderState, read_state, write_state


class Follower:
    """Owns the folder for as long as its member follows. For one thread."""

    def __init__(self, folder: Path, options: LedgerOptions) -> None:
        """Raises LedgerLocked, LedgerCorrupt, MemberRefused or OSError."""
        self._disk: Final[Disk] = RealDisk(folder)
        self._disk.lock(False)
        try:
            finish(folder)
            self._options: Final = fitted(options, self._disk.describe(""), self._disk.volume_bytes())
            self.state = read_state(self._disk)
            self._maintenance: Maintenance | None = None
            self._file: DiskFile | None = None
            self._number = 0
            """The newest file, 0 before the first."""
            self.position = 0
            """The last position of the ledger as far as its files are sealed, or were found at the start."""
            found = recover(self._disk)
            self._ledger_id = found.ledger_id
            if found.file_number:
                self._take_up(found)
        except BaseException:
            self._disk.unlock()
            raise

    def _take_up(self, found: Found) -> None:
        """A folder that has a ledger: its newest journal goes on, those before are sealed."""
        assert found.superblock is not None
        self._number, self.position = found.file_number, found.seal.position
        history = [number for number in Listing(self._disk.names()).events if number not in found.unsealed]
        begun = (image.first_position for image in found.unsealed.values())
        maintenance = self._maintenance = self._upkeep(found.superblock, found)
        maintenance.begin(history, found.checkpoints, found.acts, min(begun, default=found.seal.position + 1))
        images = found.images or Images(self._disk, found.state)
        for number, image in sorted(found.unsealed.items()):
            if number != self._number:
                images.add(maintenance.seal_image(image))
        if self._number in found.unsealed:
            self._file = self._disk.update(journal_name(self._number))
        maintenance.start()

    def _upkeep(self, superblock: Superblock, found: Found) -> Maintenance:
        store = BodyStore(self._disk, self._options.read_gap_bytes)
        store.replace([], found.bodies)
        keep = Keep()
        superblock_file = SuperblockFile(self._disk, superblock)

        def hold_leases(state: FoldState) -> None:
            leases = leases_from(state.dictionary.of_kind(LEASES).values())
            unread = unread_from(state.dictionary.of_kind(SPARK_SUBSCRIPTIONS).values())
            keep.hold(lowest([*(lease.floors() for lease in leases), Floors(unread, unread)]))

        hold_leases(found.state)
        return Maintenance(self._disk, self._options, store, keep, superblock_file, hold_leases)

    def begins_with(self, log: str) -> FolderState:
        """From where the folder follows this log. Raises `MemberRefused` if it has followed another."""
        if self.state is None:
            self.state = FolderState(log)
        if self.state.log != log:
            raise MemberRefused(
                f"{self._disk.describe('')} has followed another log ({self.state.log}), not {log}: name the"
                " stream that it belongs to, or start this member with an empty folder or a copy of another"
                " member's"
            )
        return self.state

    def apply(self, entry: Entry) -> bool:
        """Write a part of a block to its place; whether a file has begun with it, which is durable now, as
        all before it is. Raises `MemberRefused` where the folder doesn't reach so far."""
        if entry.file_number == self._number + 1 and entry.offset == 0:
            self._begin_file(entry)
            return True
        if entry.file_number > self._number or (entry.file_number == self._number and self._file is None):
            raise CopyNeeded(
                f"{self._disk.describe('')} ends with file {self._number}, and the log goes on in file"
                f" {entry.file_number}: {COPY_ADVICE}"
            )
        if entry.file_number == self._number and self._file is not None:
            self._file.write_at(entry.offset, [entry.payload])
        return False  # of a file that is sealed: read again after a restart

    def _begin_file(self, entry: Entry) -> None:
        header = decode_file_header(bytes(entry.payload[:FILE_HEADER_BYTES]))
        if header is None or header.file_number != entry.file_number:
            raise LedgerCorrupt(journal_name(entry.file_number), 0, "the log's copy of the header is damaged")
        self._check_successor(header)
        if self._file is not None:
            self._file.sync()
        self._file = self._disk.create(journal_name(header.file_number))
        self._file.write_at(0, [entry.payload])
        self._file.sync()
        self._disk.sync_names()
        if self._maintenance is None:
            self._ledger_id = header.ledger_id
            found = Found(ledger_id=header.ledger_id)
            maintenance = self._maintenance = self._upkeep(Superblock(header.ledger_id), found)
            maintenance.begin([], [], [], header.first_position)
            maintenance.start()
        else:
            self._maintenance.written.clear()  # the active records its own checkpoints, not ours
            self._maintenance.roll(self._number, header.seal)
        self._number = header.file_number
        self.position = header.first_position - 1

    def _check_successor(self, header: FileHeader) -> None:
        if self._ledger_id is not None and header.ledger_id != self._ledger_id:
            raise MemberRefused(
                f"{self._disk.describe('')} has a ledger of its own, and the log is another's: start this"
                " member with an empty folder, or with a copy of another member's"
            )
        if header.seal.file_number != self._number:
            raise CopyNeeded(
                f"{self._disk.describe('')} ends with file {self._number}, and the log begins behind file"
                f" {header.seal.file_number}: {COPY_ADVICE}"
            )

    def save(self, sequence: int, claim: bytes = NO_CLAIM) -> None:
        """Everything up to this entry is applied: have it durable, and say so."""
        assert self.state is not None
        if self._file is not None:
            self._file.sync()
        self.state = FolderState(self.state.log, sequence, claim.hex())
        write_state(self._disk, self.state)

    def check_upkeep(self) -> None:
        """Raises what the background work has stopped by: without it files would pile up."""
        if self._maintenance is not None and self._maintenance.error is not None:
            error = self._maintenance.error
            where = self._disk.describe("")
            raise MemberRefused(f"{where}: sealing and checkpoints have stopped: {error}") from error

    def close(self) -> None:
        """End the background work and give up the folder."""
        if self._maintenance is not None:
            self._maintenance.stop()
        if self._file is not None:
            self._file.close()
        self._disk.unlock()
