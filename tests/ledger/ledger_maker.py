"""Makes ledgers for tests of those who read them: what happened to each entry is said step by step."""

import json
from pathlib import Path
from uuid import UUID

from postroom.ledger.format.block import BlockBuilder, Group, SealedParts, encode_groups
from postroom.ledger.format.dictionary import Dictionary
from postroom.ledger.format.file_names import bodies_name, events_name, journal_name
from postroom.ledger.format.headers import NO_SEAL, FileHeader
from postroom.ledger.format.records import SET_BASE, ArrivalFlag, RecordType
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.segments import folder_of, walk_journal
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.events_image import build_image, encode_image, load_image, write_durably
from postroom.ledger.storage.journal import Journal
from postroom.ledger.storage.superblock import Superblock, SuperblockFile
from postroom.model.codes import Event, HolderKind, IdType, Outcome, State
from tests.ledger.entry_records import arrival_of, event_of

LEDGER_ID = UUID("0195f2a0-0000-7000-8000-00000000000a")
START_US = 1_790_000_000_000_000
STEP_US = 1000

S, E, H, O = State, Event, HolderKind, Outcome  # noqa: E741
CONSUMER = 900


class LedgerMaker:
    """A ledger in a folder: each step is one record, `commit` makes a block of them, each record a
    millisecond later."""

    def __init__(self, folder: Path, ledger_id: UUID = LEDGER_ID) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._disk = RealDisk(folder)
        self._options = LedgerOptions(reserve_bytes=0)
        self.builder = BlockBuilder(1, START_US)
        self.still = False
        """While it is true, all records are of one moment."""
        self._queues = 0
        self._sets = SET_BASE
        self._dictionary = Dictionary()
        self._superblock = SuperblockFile(self._disk, Superblock(ledger_id.bytes))
        self._journal = self._begin(FileHeader(ledger_id.bytes, 1, b"e" * 16, 1, 1, START_US, NO_SEAL, 0))

    def _begin(self, header: FileHeader) -> Journal:
        return Journal(self._disk, self._options, header, self._dictionary)

    # --- files

    def commit(self) -> None:
        """Everything since the last commit becomes durable as one block."""
        parts = self.builder.take()
        if parts is not None:
            self._write(parts)

    def marker(self) -> None:
        """An idle broker's block without records: readers beside it may now read all."""
        position, now = self.builder.next_position, self.builder.time_us
        self._write(SealedParts(position, position - 1, now, b"", b"", b"", [], []))

    def _write(self, parts: SealedParts) -> None:
        job = self._journal.append(parts)
        job.file.write_at(job.offset, job.parts)
        self._journal.written(job)

    def next_file(self, new_epoch: bool = False) -> None:
        """What comes next goes to another file; with a new epoch, as after a restart."""
        self.commit()
        old = self._journal.header
        header = old._replace(
            epoch=old.epoch + new_epoch,
            epoch_id=b"f" * 16 if new_epoch else old.epoch_id,
            file_number=old.file_number + 1,
            first_position=self.builder.next_position,
            time_us=self.builder.time_us,
            seal=self._journal.seal(),
        )
        self._journal = self._begin(header)

    def seal(self, number: int) -> None:
        """Writes the .events file of a journal and renames the journal to .bodies."""
        with folder_of(self.folder) as disk:
            scan, data = walk_journal(disk, number, None)
            write_durably(disk, events_name(number), encode_image(build_image(scan, data)))
            disk.rename(journal_name(number), bodies_name(number))

    def drop(self, *numbers: int) -> None:
        """Retention lets the events files of these go."""
        with folder_of(self.folder) as disk:
            for number in numbers:
                self._superblock.drops(load_image(disk, number).last_position, 0, 0)
                disk.remove(events_name(number))

    def finish(self) -> Path:
        """The folder, everything written and readable."""
        self.commit()
        self.marker()
        self._superblock.opened(self._journal.identity.file_number, self._journal.seal())
        self._disk.unlock()
        return self.folder

    # --- records

    def _tick(self) -> BlockBuilder:
        if not self.still:
            self.builder.set_time(self.builder.time_us + STEP_US)
        return self.builder

    def queue(self, name: str, **definition: object) -> int:
        self._queues += 1
        detail = json.dumps({"name": name, **definition}).encode()
        self._tick().record(RecordType.QUEUE_DEFINED, 0, self._queues, 0, 0, 0, detail)
        return self._queues

    def producer(self, number: int, name: str) -> None:
        detail = json.dumps({"name": name, "container": "app", "user": "guest"}).encode()
        self._tick().record(RecordType.PRODUCER_OPENED, 0, 0, number, 0, 0, detail)

    def receiving_channel(self, number: int, name: str, sender: UUID) -> None:
        """The producer of what comes through a channel from the ledger ``sender``."""
        detail = {"name": name, "channel": name, "queue_manager": "QM1", "ledger": sender.hex}
        self._tick().record(RecordType.PRODUCER_OPENED, 0, 0, number, 0, 0, json.dumps(detail).encode())

    def holder(self, number: int, kind: int = H.CONSUMER, **detail: str) -> None:
        """Someone who may hold entries; ``name``, ``container``, ``user`` and so on are told of it."""
        self._tick().record(RecordType.HOLDER_OPENED, 0, 0, number, kind, 0, json.dumps(detail).encode())

    def holder_closed(self, number: int, kind: int = H.CONSUMER) -> None:
        """It is no more."""
        self._tick().record(RecordType.HOLDER_CLOSED, 0, 0, number, kind, 0, b"")

    def channel(self, number: int, **definition: str) -> None:
        """A channel is defined."""
        self._tick().record(RecordType.CHANNEL_DEFINED, 0, 0, number, 0, 0, json.dumps(definition).encode())

    def act(self, **detail: object) -> int:
        """An administrator has done something, or somebody was refused; returns its position."""
        builder = self._tick()
        position = builder.next_position
        text = json.dumps(detail).encode()
        builder.record(RecordType.ADMINISTRATIVE_ACT, position, 0, 0, 0, 0, text)
        return position

    def routing_set(self, *queues: int) -> int:
        self._sets += 1
        detail = b"".join(queue.to_bytes(4, "little") for queue in queues)
        self._tick().record(RecordType.ROUTING_SET_DEFINED, 0, 0, self._sets, 0, 0, detail)
        return self._sets

    def put(
        self,
        queue: int,
        *,
        durable: bool = True,
        body: bytes | None = b"hello",
        message_id: bytes = b"",
        id_type: int = IdType.STRING,
        correlation_id: bytes = b"",
        group_id: bytes = b"",
        producer: int = 0,
        priority: int = 4,
        event: int = E.PUT,
        to_state: int = S.AVAILABLE,
        holder_kind: int = H.NONE,
        holder: int = 0,
        parent: tuple[int, int] = (0, 0),
        expiry_us: int = 0,
        received: bool = False,
        adverse: bool = False,
        causes: int = 0,
        due_us: int = 0,
        creation_us: int = 0,
        body_serial: int = 0,
    ) -> int:
        """An arrival; returns its serial. ``received``: through a channel; then ``parent`` is its serial in
        the sender's ledger and its number in the channel's sequence. ``body_serial``: whose body it has."""
        flags = (ArrivalFlag.DURABLE if durable else 0) | (ArrivalFlag.RECEIVED if received else 0)
        flags |= ArrivalFlag.ADVERSE if adverse else 0
        flags |= ArrivalFlag.BODY_SHARED if body_serial else 0
        arrival = arrival_of(
            queue, body, event=event, to_state=to_state, holder_kind=holder_kind, holder=holder,
            causes=causes, priority=priority, flags=flags, producer=producer, expiry_us=expiry_us,
            due_us=due_us, creation_us=creation_us,
            message_id=message_id, message_id_type=id_type if message_id else 0,
            correlation_id=correlation_id, correlation_id_type=IdType.STRING if correlation_id else 0,
            group_id=group_id, group_sequence=7 if group_id else 0, body_serial=body_serial,
            parent_serial=parent[0], parent_queue=parent[1],
        )  # fmt: skip
        return self._tick().arrival(arrival)

    def change(
        self,
        serial: int,
        queue: int,
        event: int,
        from_state: int,
        to_state: int,
        *,
        holder_kind: int = H.CONSUMER,
        holder: int = CONSUMER,
        outcome: int = O.NONE,
        delivery_delta: int = 0,
        failure_delta: int = 0,
        due_us: int = 0,
        causes: int = 0,
        flags: int = 0,
        detail: dict[str, object] | None = None,
    ) -> int:
        """One entry's event; returns its position."""
        record = event_of(
            event, from_state, to_state, holder_kind, outcome, causes=causes, flags=flags, due_us=due_us,
            delivery_delta=delivery_delta, failure_delta=failure_delta,
            detail=b"" if detail is None else json.dumps(detail).encode(),
        )  # fmt: skip
        return self._tick().entry_event(serial, queue, holder, record)

    def acquire(self, serial: int, queue: int) -> int:
        return self.change(serial, queue, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED)

    def confirm(self, serial: int, queue: int) -> int:
        return self.change(serial, queue, E.CONFIRM, S.GET_UNCONFIRMED, S.DELETED, outcome=O.CONSUMED)

    def consume(self, serial: int, queue: int) -> None:
        self.acquire(serial, queue)
        self.confirm(serial, queue)

    def fail(self, serial: int, queue: int) -> None:
        """Delivered, and given back as failed."""
        self.acquire(serial, queue)
        self.change(serial, queue, E.FAIL, S.GET_UNCONFIRMED, S.AVAILABLE, delivery_delta=1, failure_delta=1)

    def dead_letter(self, serial: int, queue: int, to: int, children: int = 1) -> list[int]:
        """Delivered, rejected, put to the dead-letter queue; more or fewer children than one are a fault."""
        self.acquire(serial, queue)
        self.change(serial, queue, E.DEAD_LETTER, S.GET_UNCONFIRMED, S.DELETED, outcome=O.DEAD_LETTERED)
        return [self.put(to, event=E.DEAD_LETTER, parent=(serial, queue)) for _ in range(children)]

    def unknown(self) -> int:
        """A record of a type that there is not yet; returns its position."""
        return self._tick().record(200, 0, 0, 0, 0, 0, b"")

    def group(
        self,
        event: int,
        groups: list[Group],
        *,
        decision: bool = False,
        holder_kind: int = 0,
        holder: int = 0,
    ) -> int:
        """A GROUP_EVENT, or with `decision` a DECISION."""
        kind = RecordType.DECISION if decision else RecordType.GROUP_EVENT
        return self._tick().record(kind, 0, 0, holder, holder_kind, event, encode_groups(groups))
