"""The ledger's face on a real folder: commit, lock, standby, space, failure, reading beside the writer."""

import errno
import multiprocessing
import os
import select
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from postroom.ledger.errors import LedgerFailed, LedgerLocked
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.headers import decode_block_header
from postroom.ledger.format.records import BLOCK_MAGIC
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.disk import RealDisk, RealFile
from postroom.testing.disk import MemoryFile
from tests.ledger import entry_records
from tests.ledger.histories import opened
from tests.ledger.inline_writer import InlineWriter
from tests.ledger.workload import START_US, Workload, assert_bodies, assert_recovered
from tests.simulation.disk import SimDisk, SimFile

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=1 << 16, at_once_bytes=0)


def put(ledger: Ledger, body: bytes) -> tuple[int, int, int]:
    return entry_records.put(ledger.builder, body)


def consume(ledger: Ledger, serial: int) -> None:
    ledger.builder.entry_event(serial, 1, 0, entry_records.GET)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger.open(tmp_path, SMALL, START_US)
    yield made
    made.close()


def test_commit_signals_and_tells_the_position(ledger: Ledger) -> None:
    before = ledger.durable_through
    serial, _, _ = put(ledger, b"hello")
    assert ledger.submit() and ledger.in_flight
    put(ledger, b"second")
    assert not ledger.submit(), "one block is in flight at a time"
    assert select.select([ledger.completion_fd], [], [], 30)[0]
    assert ledger.complete() == serial == before + 1
    assert ledger.submit()
    assert ledger.wait() == serial + 1
    assert not ledger.submit(), "nothing is left"


def test_a_small_block_on_an_idle_ledger_is_written_at_once(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path, replace(SMALL, at_once_bytes=4096), START_US)
    serial, _, _ = put(ledger, b"small")
    assert ledger.submit() and ledger.in_flight and ledger.written_at_once
    put(ledger, b"another that waits")
    assert ledger.durable_through < serial, "nobody is told before complete()"
    assert ledger.complete() == serial and not ledger.written_at_once
    assert ledger.submit() and not ledger.written_at_once, "it was not idle: something waited"
    assert ledger.wait() == serial + 1
    put(ledger, b"x" * 5000)
    assert ledger.submit() and not ledger.written_at_once, "too large"
    ledger.wait()
    ledger.close()


def test_a_failed_write_at_once_is_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(tmp_path, replace(SMALL, at_once_bytes=4096), START_US)
    put(ledger, b"small")
    monkeypatch.setattr(RealFile, "sync", fail_sync)
    with pytest.raises(LedgerFailed, match="can't be written"):
        ledger.submit()
    with pytest.raises(LedgerFailed):
        ledger.submit()
    ledger.close()


def fail_sync(file: RealFile) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_what_nobody_waits_for_stays_in_the_builder_of_an_idle_ledger(ledger: Ledger) -> None:
    put(ledger, b"first")
    durable = ledger.flush()
    put(ledger, b"provisional")
    assert ledger.mark_idle()
    assert ledger.wait() == durable
    assert not ledger.builder.empty()
    assert ledger.flush() == durable + 1


def test_an_idle_ledger_says_once_that_its_end_is_durable(ledger: Ledger, tmp_path: Path) -> None:
    put(ledger, b"last")
    ledger.flush()
    assert ledger.mark_idle()
    ledger.wait()
    assert not ledger.mark_idle()
    data = next(tmp_path.glob("*.journal")).read_bytes()
    at = data.rindex(BLOCK_MAGIC.to_bytes(4, "little"))
    header = decode_block_header(data[at:])
    assert header is not None
    assert header.durable_through == ledger.durable_through == header.first_position - 1


def test_second_owner_is_told_the_first(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerLocked, match=str(tmp_path)) as caught:
        Ledger.open(tmp_path, SMALL, START_US)
    assert caught.value.pid == os.getpid()


def test_standby_takes_over(tmp_path: Path) -> None:
    first = Ledger.open(tmp_path, SMALL, START_US)
    body = put(first, b"handed over")
    first.flush()
    second: list[Ledger] = []
    standby = LedgerOptions(journal_file_bytes=64 << 10, standby=True)
    thread = threading.Thread(target=lambda: second.append(Ledger.open(tmp_path, standby, START_US)))
    thread.start()
    assert not second
    first.close()
    thread.join(30)
    assert second[0].epoch == 2
    assert second[0].read_bodies([body]) == [b"handed over"]
    second[0].close()


def _killed(folder: Path, ready: "multiprocessing.synchronize.Event") -> None:
    ledger = Ledger.open(folder, SMALL, START_US)
    for number in range(200):
        put(ledger, b"%d" % number * 100)
        if number % 10 == 9:
            ledger.flush()
    put(ledger, b"never committed")
    ready.set()
    threading.Event().wait()


def test_a_killed_owner_leaves_what_was_durable(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_killed, args=(tmp_path, ready))
    process.start()
    assert ready.wait(60)
    process.kill()
    process.join()
    ledger = Ledger.open(tmp_path, SMALL, START_US)
    assert sum(len(piece) // 40 for _, piece in ledger.recovered.backlog) == 200
    ledger.close()


class FullFile(SimFile):
    """A file on a disk without space to reserve."""

    def reserve(self, offset: int, size: int) -> None:
        if isinstance(self._disk, FullDisk) and self._disk.full:
            raise OSError(errno.ENOSPC, "no space")


class FullDisk(SimDisk):
    """It gives nothing ahead any more; what is written all the same finds room."""

    full = False
    left_bytes = 0

    def allocate(self, file: MemoryFile, end: int) -> None:
        pass

    def free_bytes(self) -> int:
        return self.left_bytes if self.full else super().free_bytes()

    def new_file(self) -> MemoryFile:
        return FullFile(self)


def test_space_low_is_raised_and_taken_back() -> None:
    disk = FullDisk()
    disk.left_bytes = -(64 << 10)  # others take what the ledger gives back
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=32 << 10)
    ledger = Ledger.open(
        Path("simulated"), options, START_US, disk=disk, writer=InlineWriter(disk), maintenance="manual"
    )
    assert not ledger.space_low
    disk.full = True
    while not ledger.space_low:
        put(ledger, bytes(2000))
        ledger.flush()
    for _ in range(100):  # what frees space goes on, and no new file is begun without room
        put(ledger, bytes(2000))
        ledger.flush()
    assert [name for name in disk.names() if name.endswith(".journal")] == ["00000001.journal"]
    disk.full = False
    put(ledger, b"x")
    ledger.flush()
    assert not ledger.space_low
    put(ledger, b"x")
    ledger.flush()
    assert "00000002.journal" in disk.names()


def test_leases_are_broken_before_puts_are_refused() -> None:
    """What they kept is free, and nobody was turned away."""
    disk = FullDisk()
    disk.left_bytes = 40 << 10
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=32 << 10, retention_bytes=0)
    ledger = Ledger.open(
        Path("simulated"), options, START_US, disk=disk, writer=InlineWriter(disk), maintenance="manual"
    )
    ledger.leases.grant("slow", "ann", START_US)
    lease = ledger.leases.get("slow")
    while not ledger.leases.held_bytes(lease):
        consume(ledger, put(ledger, bytes(2000))[0])
        ledger.flush()
        while ledger.maintenance_step():
            pass
    oldest = Listing(disk.names()).events[0]
    disk.full = True
    broken = ledger.tend(START_US)
    while not broken:
        assert not ledger.space_low
        consume(ledger, put(ledger, bytes(2000))[0])
        ledger.flush()
        broken = ledger.tend(START_US)
    assert [(lease.name, lease.reason) for lease in broken] == [("slow", "space")]
    while ledger.maintenance_step():
        pass
    assert oldest in Listing(disk.names()).events, "not before the record is durable"
    ledger.flush()
    while ledger.maintenance_step():
        pass
    assert oldest not in Listing(disk.names()).events
    assert not ledger.space_low


class FailingFile(SimFile):
    def sync(self) -> None:
        if isinstance(self._disk, FailingDisk) and self._disk.failing:
            raise OSError(errno.EIO, "the disk is broken")
        super().sync()


class FailingDisk(SimDisk):
    failing = False

    def new_file(self) -> MemoryFile:
        return FailingFile(self)


def test_a_failed_sync_is_fatal_and_never_retried() -> None:
    disk = FailingDisk()
    ledger = opened(disk, SMALL)
    put(ledger, b"good")
    durable = ledger.flush()
    disk.failing = True
    put(ledger, b"bad")
    ledger.submit()
    with pytest.raises(LedgerFailed, match="the disk is broken"):
        ledger.complete()
    disk.failing = False
    put(ledger, b"later")
    with pytest.raises(LedgerFailed):
        ledger.submit()
    assert ledger.durable_through == durable
    ledger.close()


def test_reading_beside_compaction_in_threads(tmp_path: Path) -> None:
    """Readers in other threads see every live body while files are sealed, packed and removed."""
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)
    ledger = Ledger.open(tmp_path, options, START_US)
    kept: list[tuple[BodyPlace, bytes]] = []
    written: list[tuple[BodyPlace, bytes]] = []
    stop = threading.Event()
    failures: list[Exception] = []

    def read() -> None:
        random = Random(3)
        while not stop.is_set():
            sample = random.sample(kept, min(len(kept), 20))
            try:
                bodies = ledger.read_bodies([place for place, _ in sample])
                assert bodies == [body for _, body in sample]
            except Exception as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    random = Random(4)
    for number in range(1500):
        body = random.randbytes(300)
        place = put(ledger, body)
        if number % 50 == 0:
            written.append((place, body))
        else:
            consume(ledger, place[0])
        if number % 10 == 0:
            ledger.flush()
            kept += written
            written.clear()
    stop.set()
    for reader in readers:
        reader.join()
    ledger.close()
    assert failures == []
    assert ledger.maintenance_error is None
    assert list(tmp_path.glob("*.packed"))


def test_real_folder_equals_model(tmp_path: Path) -> None:
    random = Random(8)
    snapshot = None
    for _ in range(3):
        ledger = Ledger.open(tmp_path, SMALL, START_US)
        work = Workload(ledger.builder, random)
        if snapshot is None:
            work.define()
        else:
            assert_recovered(ledger.recovered, snapshot)
            work.adopt(snapshot, ledger.builder)
        for step in range(500):
            work.step()
            if step % 10 == 0:
                ledger.flush()
        ledger.flush()
        snapshot = work.snapshot()
        assert_bodies(ledger, snapshot)
        ledger.close()


def test_options_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"journal_file_bytes": 1000},
        {"journal_file_bytes": 2 << 30},
        {"reserve_bytes": -1},
        {"retention_bytes": -1},
        {"acts_retention_bytes": -1},
        {"acts_retention_s": -1},
        {"compact_below": 0.0},
        {"carry_below": 1.5},
        {"maintenance_failing_s": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LedgerOptions(**wrong)  # type: ignore[arg-type]


def test_the_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    Ledger.open(folder, SMALL, START_US).close()
    assert RealDisk(folder).names() == ["00000001.journal", "lock", "superblock"]
