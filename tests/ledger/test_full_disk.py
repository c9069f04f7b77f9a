"""A volume that fills: what is refused, what is given back by itself, and that nothing accepted is lost,
whatever fails or crashes while there is no room."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from postroom.ledger.errors import LedgerCorrupt, LedgerFailed, VolumeTooSmall
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import MIB, SMALLEST_VOLUME_BYTES, LedgerOptions, fitted
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.events_image import load_image
from tests.ledger.entry_records import ACQUIRE, CONFIRM, arrival_of
from tests.ledger.inline_writer import InlineWriter
from tests.ledger.workload import START_US, entries_of
from tests.sampling import spread
from tests.simulation.disk import PowerLost, SimDisk

BODY = bytes(range(256)) * 4
OPTIONS = LedgerOptions(journal_file_bytes=128 << 10, reserve_bytes=128 << 10)
"""Of a volume of 1 MiB, as `fitted` would have them."""
CAPACITY = 1 << 20
QUEUE = 1


class Broker:
    """Puts and consumes as the server does: nothing is put while the ledger says that space is low."""

    def __init__(self, capacity_bytes: int = CAPACITY, options: LedgerOptions = OPTIONS) -> None:
        self.disk = SimDisk().of_size(capacity_bytes)
        self.options = options
        self.now_us = START_US
        self.live: dict[int, BodyPlace] = {}
        """Accepted and not consumed, by serial."""
        self.doubtful: dict[int, BodyPlace] = {}
        """Put or consumed in the turn that is not durable yet."""
        self.start()

    def start(self) -> None:
        writer = InlineWriter(self.disk)
        self.ledger = Ledger.open(
            Path("simulated"), self.options, self.now_us, disk=self.disk, writer=writer, maintenance="manual"
        )
        if self.ledger.builder.next_position <= 2:
            self.ledger.builder.record(RecordType.QUEUE_DEFINED, 0, QUEUE, 0, 0, 0, b'{"name": "q"}')
            self.turn()

    def restart(self, disk: SimDisk) -> None:
        """On what is left; every message that was accepted is there, and no other that was consumed."""
        self.disk = disk
        self.start()
        held = {serial for serial, _ in entries_of(self.ledger.recovered)}
        assert set(self.live) <= held, "what was accepted and not consumed"
        assert held <= {*self.live, *self.doubtful}, "what was consumed, or never accepted"
        self.live |= {serial: self.doubtful[serial] for serial in held & set(self.doubtful)}
        self.doubtful = {}
        self.check_bodies()

    def turn(self) -> None:
        """The end of a turn, and what the maintenance thread does meanwhile."""
        self.now_us += 200_000
        self.ledger.tend(self.now_us)
        self.ledger.flush()
        self.maintain()

    def maintain(self) -> None:
        try:
            while self.ledger.maintenance_step():
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def idle(self) -> None:
        """Nothing comes for a while."""
        for _ in range(5):
            if self.ledger.mark_idle():
                self.ledger.wait()
            self.turn()

    def put(self, count: int = 10) -> bool:
        """Put some, together; whether they were taken."""
        if self.ledger.space_low:
            return False
        builder = self.ledger.builder
        builder.set_time(self.now_us)
        serials = [builder.arrival(arrival_of(QUEUE, BODY)) for _ in range(count)]
        places = {
            serial: (serial, number * (len(BODY) + 4), len(BODY)) for number, serial in enumerate(serials)
        }
        self.doubtful = places
        self.turn()
        self.doubtful = {}
        self.live |= places
        return True

    def consume(self, serials: list[int]) -> None:
        builder = self.ledger.builder
        builder.set_time(self.now_us)
        for serial in serials:
            builder.entry_event(serial, QUEUE, 9, ACQUIRE)
            builder.entry_event(serial, QUEUE, 9, CONFIRM)
        self.doubtful = {serial: self.live.pop(serial) for serial in serials}
        self.turn()
        self.doubtful = {}

    def fill(self) -> int:
        """Put until the ledger refuses; how many were taken."""
        before = len(self.live)
        while self.put():
            assert len(self.live) < 10_000
        return len(self.live) - before

    def consume_all(self, keep: Callable[[int], bool] = lambda number: False) -> None:
        """In the order of their arrival, but for those of these numbers."""
        gone = [serial for number, serial in enumerate(sorted(self.live)) if not keep(number)]
        for at in range(0, len(gone), 10):
            self.consume(gone[at : at + 10])

    def check_bodies(self) -> None:
        for body in self.ledger.read_bodies(list(self.live.values())):
            assert not isinstance(body, LedgerCorrupt)
            assert bytes(body) == BODY


def test_what_was_consumed_makes_room_by_itself() -> None:
    broker = Broker()
    first = broker.fill()
    assert broker.ledger.space_low and first > 300
    broker.consume_all()
    broker.idle()
    assert not broker.ledger.space_low and not broker.ledger.space_short
    assert broker.fill() > first * 0.8


def test_it_goes_on_for_ever() -> None:
    broker = Broker()
    taken = []
    for _ in range(12):
        taken.append(broker.fill())
        broker.consume_all()
        broker.idle()
    assert min(taken) > 0.7 * max(taken)
    assert len(Listing(broker.disk.names()).events) <= 16


@pytest.mark.parametrize("every", [2, 5, 20])
def test_live_messages_scattered_through_all_files_are_packed(every: int) -> None:
    broker = Broker()
    first = broker.fill()
    broker.consume_all(keep=lambda number: number % every == 0)
    broker.idle()
    kept = len(broker.live)
    assert not broker.ledger.space_low
    broker.check_bodies()
    again = broker.fill()
    assert again > 0.6 * (first - kept)
    broker.check_bodies()


def test_a_checkpoint_without_room_takes_the_place_of_the_spare_one() -> None:
    """Else nothing that ended after the newest would ever give its room back."""
    broker = Broker()
    for _ in range(3):
        broker.fill()
        broker.consume_all(keep=lambda number: number % 3 == 0)
        broker.idle()
    assert len(Listing(broker.disk.names()).checkpoints) == 2
    broker.disk.has_no_room_for = ".checkpoint.tmp"
    broker.consume_all()
    broker.idle()
    assert len(Listing(broker.disk.names()).checkpoints) == 1
    broker.disk.has_no_room_for = ""
    broker.idle()
    broker.restart(broker.disk.copy())
    assert len(Listing(broker.disk.names()).checkpoints) == 2


def test_history_goes_before_messages_are_refused() -> None:
    """Its bound is far away; the volume isn't."""
    broker = Broker(options=LedgerOptions(journal_file_bytes=128 << 10, reserve_bytes=128 << 10))
    for _ in range(2000):
        assert broker.put(5)
        broker.consume(sorted(broker.live))
    assert Listing(broker.disk.names()).events[0] > 1


def test_a_crash_at_any_step_loses_nothing() -> None:
    random = Random(3)
    for seed in spread(range(40), 8):
        broker = Broker()
        broker.disk.crash_at_operation = broker.disk.operations + random.randrange(900, 2500)
        try:
            for _ in range(6):
                broker.fill()
                broker.consume_all(keep=lambda number: number % 7 == 0)
                broker.idle()
        except PowerLost:
            pass
        broker.restart(broker.disk.crash(Random(seed)))
        broker.idle()
        broker.consume_all()
        broker.idle()
        assert not broker.ledger.space_low


BEHIND_A_RENAME = 417
"""The operation after the rename of a journal that was sealed: `make mutants` says when it moves."""


def test_no_space_at_any_operation_harms_nothing() -> None:
    """What may fail so is tried again; the journal's own writes end the process, and recovery decides."""
    for operation in (BEHIND_A_RENAME, *spread(range(300, 1600, 13), 16)):
        broker = Broker()
        broker.disk.fail_at_operation, broker.disk.fail_errno = operation, errno.ENOSPC
        try:
            for _ in range(3):
                broker.fill()
                broker.consume_all(keep=lambda number: number % 9 == 0)
                broker.idle()
        except LedgerFailed:
            pass
        broker.disk.fail_at_operation = None
        broker.restart(broker.disk.copy())
        broker.consume_all()
        broker.idle()
        assert not broker.ledger.space_low, broker.disk.failed


def test_a_disk_that_fails_at_any_operation_ends_the_process_and_loses_nothing() -> None:
    """The journal never tries a failed write or sync again, other work is given up: recovery decides."""
    failed = set()
    for operation in spread(range(300, 1600, 17), 16):
        broker = Broker()
        broker.disk.fail_at_operation, broker.disk.fail_errno = operation, errno.EIO
        with pytest.raises((LedgerFailed, OSError)):
            for _ in range(5):
                broker.fill()
                broker.consume_all(keep=lambda number: number % 9 == 0)
                broker.idle()
        failed.add(broker.disk.failed)
        broker.restart(broker.disk.crash(Random(operation)))
        broker.consume_all()
        broker.idle()
        assert not broker.ledger.space_low, broker.disk.failed
    assert failed > {"write", "sync", "reserve"}


def test_time_never_goes_back_in_the_ledger() -> None:
    """The clock steps back by a day and forward by a year, also between two starts."""
    broker = Broker()
    day_us = 86_400_000_000
    for step_us in (0, -day_us, 365 * day_us, -400 * day_us, 1):
        broker.now_us += step_us
        assert broker.put()
        broker.consume(sorted(broker.live)[:3])
        broker.ledger.close()
        broker.start()
    folder_of_times = [load_image(broker.disk, number) for number in Listing(broker.disk.names()).events]
    times = np.concatenate([image.arrivals["time_us"] for image in folder_of_times])
    assert len(times) > 20 and (np.diff(times) >= 0).all()
    assert [image.last_time_us for image in folder_of_times] == sorted(
        image.last_time_us for image in folder_of_times
    )


def test_options_fit_the_volume() -> None:
    fit = fitted(LedgerOptions(), "folder", 160 * MIB)
    assert (fit.journal_file_bytes, fit.reserve_bytes) == (20 * MIB, 20 * MIB)
    assert fitted(LedgerOptions(), "folder", 1 << 40) == LedgerOptions()
    with pytest.raises(
        VolumeTooSmall, match=r"folder: the volume has 1,000 bytes, a ledger needs 50,331,648"
    ):
        fitted(LedgerOptions(), "folder", 1000)
    assert fitted(LedgerOptions(), "folder", SMALLEST_VOLUME_BYTES).journal_file_bytes == 6 * MIB
