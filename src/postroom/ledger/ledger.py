"""The ledger: opened, written a block at a time, read for bodies, kept small in the background."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from postroom import __version__
from postroom.ledger.copying.placing import finish
from postroom.ledger.errors import LedgerFailed
from postroom.ledger.format.block import BlockBuilder, SealedParts
from postroom.ledger.format.dictionary import LEASES, SPARK_SUBSCRIPTIONS, Dictionary
from postroom.ledger.format.file_names import Listing, journal_name
from postroom.ledger.format.headers import FileHeader, Seal, new_id
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import RecordType
from postroom.ledger.options import LedgerOptions, fitted
from postroom.ledger.reading.message_id_index import HashedIds, IdReader
from postroom.ledger.recovery.recovered import Recovered, recovered_from
from postroom.ledger.recovery.recovery import Found, Images, recover
from postroom.ledger.retention.kept_history import Keep
from postroom.ledger.retention.leases import Lease, Leases, leases_from, unread_from
from postroom.ledger.storage.bodies import BodyStore
from postroom.ledger.storage.body_file import JournalBodies
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.ledger.storage.disk import Disk, RealDisk, is_no_space
from postroom.ledger.storage.events_image import EventsImage
from postroom.ledger.storage.journal import Job, Journal
from postroom.ledger.storage.superblock import Superblock, SuperblockFile
from postroom.ledger.storage.writer import Writer, do_job, new_writer
from postroom.ledger.upkeep.maintenance import Maintenance
from postroom.model.ids import MessageIds

T = TypeVar("T")

UNSYNCED_SHARE: Final = 4
"""At most this part of the reserve is taken in and not yet durable."""

UNBOUNDED_BYTES: Final = 1 << 60
"""Without a reserve."""

MAX_REPORTED: Final = 20
"""Lines of recovery's report that the record of the new epoch keeps."""


class Ledger:
    """One process' hold of a ledger folder. All methods but those that read (`read_…`, `hash_ids`) belong to
    one thread."""

    __deletable__: Final = ["recovered"]  # compiled, attributes stay unless this says otherwise

    ledger_id: UUID
    epoch: int
    epoch_id: bytes
    recovered: Recovered
    builder: BlockBuilder
    leases: Leases
    """What readers have been promised to find."""

    def __init__(
        self, disk: Disk, options: LedgerOptions, found: Found, writer: Writer, header: FileHeader
    ) -> None:
        self.ledger_id = UUID(bytes=header.ledger_id)
        self.epoch = header.epoch
        self.epoch_id = header.epoch_id
        self._disk = disk
        self._writer = writer
        self._job: Job | None = None
        self._succeeded: Seal | None = None
        """The end of the file before the active one, while the active one is not yet durable."""
        self._at_once_bytes = options.at_once_bytes
        self.most_unsynced_bytes = options.reserve_bytes // UNSYNCED_SHARE or UNBOUNDED_BYTES
        """What may be taken in and wait for the disk: more of it at once could use up the reserve before new
        messages are refused."""
        self._idle = False
        """Whether nothing waited when the last block became durable."""
        self.written_at_once = False
        """Whether `submit` has made its block durable itself: call `complete`, nothing will signal it."""
        self._failed = False
        dictionary: Dictionary = found.state.dictionary.copy()
        self._superblock = SuperblockFile(disk, found.superblock or Superblock(header.ledger_id))
        self.builder = BlockBuilder(header.first_position, header.time_us)
        self._journal = Journal(disk, options, header, dictionary)
        self._store = BodyStore(disk, options.read_gap_bytes)
        self._store.replace([], found.bodies)
        self._ids = IdReader(disk, header.ledger_id, self._store)
        keep = Keep()
        granted = leases_from(dictionary.of_kind(LEASES).values())
        unread = unread_from(dictionary.of_kind(SPARK_SUBSCRIPTIONS).values())
        self.leases = Leases(self.builder, keep, options, granted, unread)
        self._maintenance = Maintenance(disk, options, self._store, keep, self._superblock)
        self._learn_file()

    @classmethod
    def open(
        cls,
        folder: Path,
        options: LedgerOptions,
        now_us: int,
        *,
        disk: Disk | None = None,
        writer: Writer | None = None,
        maintenance: str = "thread",
    ) -> "Ledger":
        """Own the folder, recover, begin a new epoch (durably), and start the background work.

        `maintenance` is "thread", or "manual": then nothing happens but in `maintenance_step`.
        Raises LedgerLocked, LedgerCorrupt, or OSError.
        """
        disk = disk if disk is not None else RealDisk(folder)
        disk.lock(options.standby)
        try:
            if isinstance(disk, RealDisk):
                finish(disk.folder)
            options = fitted(options, disk.describe(""), disk.volume_bytes())
            found = recover(disk)
            for number in found.unsealed:
                disk.trim(journal_name(number))  # what its writer had reserved is needed for what follows
            header = _new_epoch(found, now_us)
            writer = writer or new_writer(disk)
            ledger = cls(disk, options, found, writer, header)
            ledger._begin(found, now_us)
        except BaseException:
            if writer is not None:
                writer.close()
            disk.unlock()
            raise
        if maintenance == "thread":
            ledger._maintenance.start()
        return ledger

    @property
    def completion_fd(self) -> int:
        """Readable when the block in flight is durable (or has failed)."""
        return self._writer.completion_fd

    @property
    def durable_through(self) -> int:
        """The last position known durable."""
        return self._journal.durable_through

    @property
    def in_flight(self) -> bool:
        """Whether a block is being written."""
        return self._job is not None

    @property
    def over(self) -> bool:
        """Whether the block in flight is durable or has failed: `complete` will tell. To be asked often."""
        return self._job is not None and (self.written_at_once or self._writer.over())

    @property
    def space_low(self) -> bool:
        """The disk gave no more and the reserve is half used: new puts must be refused, the rest goes on."""
        return self._journal.space_low

    @property
    def space_short(self) -> bool:
        """The disk gave no more of the reserve, or not enough for the background work: what can go goes."""
        return self._journal.space_short or self._maintenance.space_short

    @property
    def free_bytes(self) -> int:
        """What the volume can still give; asks the system."""
        return self._disk.free_bytes()

    @property
    def behind(self) -> bool:
        """Writing outruns sealing and compaction: taking in less until this ends bounds the disk used."""
        return self._maintenance.behind()

    @property
    def maintenance_error(self) -> Exception | None:
        """What the background work fails by at present; it is tried again."""
        return self._maintenance.error

    @property
    def maintenance_failure(self) -> Exception | None:
        """Why the background work has ended, if it has: no file can follow, and the process must end."""
        return self._maintenance.failure

    def tend(self, now_us: int) -> list[Lease]:
        """Record what the ledger itself has done or must do; call at the end of each turn, before `submit`.

        Returns the leases that were broken now, for an alarm.
        """
        self._journal.retry_reservation(now_us)
        short = self.space_short
        broken = self.leases.tend(now_us, short)
        self._maintenance.be_thrifty(short, short and self._journal.lacks_room_for_next(), now_us)
        if self._maintenance.written and not self.builder.empty():
            # checkpoints ride with the next block that has something else to say: an idle ledger stays idle
            self.builder.set_time(now_us)
            while self._maintenance.written:
                position, size_bytes, header_crc = self._maintenance.written.popleft()
                detail = json.dumps({"bytes": size_bytes, "header_crc": header_crc}).encode()
                self.builder.record(RecordType.CHECKPOINT_WRITTEN, position, 0, 0, 0, 0, detail)
        return broken

    def submit(self) -> bool:
        """Hand the builder's oldest block to the writer unless one is in flight; whether that was done."""
        return (self._failed or self._job is None) and self._submit(None)

    def mark_idle(self) -> bool:
        """Tell readers beside the broker, by a block without records, that the last block is durable; or with
        one begin the next file, where only that makes room.

        What the builder holds, and nobody waits for, stays there.
        """
        if self._job is not None or not (self._journal.owes_marker() or self._journal.wants_next()):
            return False
        at = self.builder.next_to_take()
        return self._submit(SealedParts(at, at - 1, self.builder.time_us, b"", b"", b"", [], []))

    def complete(self) -> int:
        """Call when `completion_fd` is readable or the block was `written_at_once`.

        Returns the last durable position. Raises LedgerFailed.
        """
        if self._job is not None and (self.written_at_once or self._guarded(self._writer.complete)):
            self._written(self._job)
        return self._journal.durable_through

    def wait(self) -> int:
        """Until the block in flight is durable; returns the last durable position. Raises LedgerFailed."""
        if self._job is not None:
            if not self.written_at_once:
                self._guarded(self._writer.wait)
            self._written(self._job)
        return self._journal.durable_through

    def flush(self) -> int:
        """Write everything that the builder holds and wait for it (tools, tests, the end)."""
        self.wait()
        while self.submit():
            self.wait()
        return self._journal.durable_through

    def flush_for_readers(self) -> int:
        """`flush`, and tell readers beside the broker that all of it is durable."""
        durable_through = self.flush()
        if self.mark_idle():
            self.wait()
        return durable_through

    def read_bodies(self, wanted: Sequence[BodyPlace]) -> list[Body]:
        """Durable bodies by (body_serial, body_offset, body_len), in that order, in any thread.

        b"" stands for a body that compaction took away: its entries had ended before. (A stored message is
        never empty, so for a live entry b"" is corruption.) LedgerCorrupt stands for a damaged one. Raises
        LedgerCorrupt where a whole file has become unreadable.
        """
        return self._store.read(wanted)

    def read_cached_bodies(self, wanted: list[BodyPlace]) -> list[Body] | None:
        """The same if the page cache has them all, so that a loop may ask; None: ask `read_bodies`."""
        return self._store.read_cached(wanted)

    def read_ids(self, serials: list[int]) -> list[MessageIds | None]:
        """The ids of durable arrivals, in that order, in any thread; None where one isn't known any more."""
        return self._ids.ids(serials)

    def hash_ids(self, serials: Array) -> list[list[HashedIds]]:
        """The hashed ids of durable arrivals (u64 serials), for an index of them; in any thread."""
        return self._ids.hashed(serials)

    def maintenance_step(self) -> bool:
        """With ``maintenance="manual"``: do one piece of background work; whether there was any."""
        return self._maintenance.step()

    def close(self) -> None:
        """Write what is left, say that it is durable, stop the background work, give up the folder."""
        if not self._failed:
            self.flush_for_readers()
        self._maintenance.stop()
        self._writer.close()
        if not self._failed:
            self._superblock.closed(self._journal.seal())
        self._disk.unlock()

    def abandon(self) -> None:
        """Stop the background work and give up the folder without writing anything more, as a process that
        ends: what is not durable is lost."""
        self._failed = True
        self.close()

    def check_free_space(self) -> None:
        """Ask the disk at once whether it still has what is kept free, instead of when more is needed."""
        self._journal.check_free_space()
        self._maintenance.wake()

    def _begin(self, found: Found, now_us: int) -> None:
        """Make the new epoch durable; only then may the files before it be sealed."""
        self.builder.set_time(now_us)
        opened = {
            "broker": __version__,
            "checkpoint": found.report.checkpoint_position,
            "passed_over": found.report.cut[:MAX_REPORTED],
        }
        self.builder.record(RecordType.EPOCH_OPENED, 0, 0, 0, 0, 0, json.dumps(opened).encode())
        self.flush()
        self._superblock.opened(self._journal.identity.file_number, self._journal.seal())
        history = [number for number in Listing(self._disk.names()).events if number not in found.unsealed]
        begun = (image.first_position for image in found.unsealed.values())
        history_end = min(begun, default=self._journal.header.first_position)
        self._maintenance.begin(history, found.checkpoints, found.acts, history_end)
        images = found.images or Images(self._disk, found.state)
        for image in found.unsealed.values():
            self._seal_old(image, images)
        self.recovered = recovered_from(found.state, images.arrivals)
        self.recovered.report = found.report
        self.recovered.next_position = self.builder.next_position

    def _seal_old(self, image: EventsImage, images: Images) -> None:
        """Seal a journal of an earlier epoch; without space for it, it stays in memory and is tried again."""
        try:
            images.add(self._maintenance.seal_image(image))
        except OSError as error:
            if not is_no_space(error):
                raise
            self._maintenance.roll(image.file_number, image.seal())

    def _submit(self, parts: SealedParts | None) -> bool:
        if self._failed:
            raise LedgerFailed("the ledger has failed before; the process must end")
        journal = self._journal
        parts = parts if parts is not None else self.builder.take()
        if parts is None:
            return False
        number_before = journal.identity.file_number
        job = self._job = self._guarded(lambda: journal.append(parts))
        if job.file_number != number_before:
            self._learn_file()
            self._succeeded = journal.header.seal
        if self._idle and sum(map(len, job.parts)) <= self._at_once_bytes:
            self._guarded(lambda: do_job(self._disk, job.file, job.offset, job.parts, job.sync_names))
            self.written_at_once = True
        else:
            self._writer.submit(job.file, job.offset, job.parts, job.sync_names)
        self._idle = False
        return True

    def _written(self, job: Job) -> None:
        self._guarded(self._disk.check_hold)
        self._journal.written(job)
        if self.leases.waits and self.leases.durable(self._journal.durable_through):
            self._maintenance.wake()
        self._job = None
        self.written_at_once = False
        self._idle = self.builder.empty()
        if self._succeeded is not None:
            # Sealed only now: a journal must be left whatever happens to its successor.
            self._maintenance.roll(self._succeeded.file_number, self._succeeded)
            self._succeeded = None

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except OSError as error:
            self._failed = True
            raise LedgerFailed(f"the journal can't be written: {error}; the process must end") from error
        except LedgerFailed:
            self._failed = True
            raise

    def _learn_file(self) -> None:
        """The active file is where the bodies of the coming blocks will lie."""
        journal = self._journal
        number, first = journal.identity.file_number, journal.header.first_position
        name = journal_name(number)
        self._store.replace([], [JournalBodies(name, journal.file, number, first, journal.table)])


def _new_epoch(found: Found, now_us: int) -> FileHeader:
    """The head of the file that every start begins; it seals the newest one before."""
    return FileHeader(
        ledger_id=found.ledger_id or new_id(),
        epoch=found.epoch + 1,
        epoch_id=new_id(),
        file_number=found.file_number + 1,
        first_position=found.state.position + 1,
        time_us=max(now_us, found.state.time_us),
        seal=found.seal,
        crc=0,
    )
