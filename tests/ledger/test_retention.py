"""How long history stays: by bytes, by age, never before two checkpoints cover it, never while it lives."""

from pathlib import Path
from zlib import crc32

from postroom.ledger import Ledger, LedgerOptions
from postroom.ledger.files import Listing
from postroom.ledger.writer import InlineWriter
from postroom.model.codes import Event, State
from tests.ledger.workload import START_US
from tests.simulation.disk import SimDisk

SECOND_US = 1_000_000
BODY = bytes(500)


class Broker:
    """Puts messages a second apart, all consumed but one in so many."""

    def __init__(self, options: LedgerOptions, keep_every: int) -> None:
        self.disk = SimDisk()
        self.options = options
        self.keep_every = keep_every
        self.ledger = self.open()
        self.count = 0
        self.kept: list[tuple[int, int, int]] = []

    def open(self) -> Ledger:
        writer = InlineWriter(self.disk)
        return Ledger.open(
            Path("simulated"), self.options, START_US, disk=self.disk, writer=writer, maintenance="manual"
        )

    def put(self, messages: int) -> None:
        builder = self.ledger.builder
        for _ in range(messages):
            self.count += 1
            builder.set_time(START_US + self.count * SECOND_US)
            head = (1, State.AVAILABLE, Event.PUT, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0)
            serial = builder.arrival(*head, BODY, crc32(BODY), b"id", 1, b"", 0, b"", 0)
            if self.count % self.keep_every == 0:
                self.kept.append((serial, builder.last_body_offset, len(BODY)))
            else:
                end = (State.AVAILABLE, State.DELETED, 0, 0, 1, 0, 0, 0, 0, 0)
                builder.entry_event(serial, 1, Event.GET, *end)
            if self.count % 10 == 0:
                self.ledger.flush()
                while self.ledger.maintenance_step():
                    pass

    def files(self) -> Listing:
        return Listing(self.disk.names())

    def check(self) -> None:
        """Everything kept is there, its body too, after a restart as well."""
        assert self.ledger.read_bodies(self.kept) == [BODY] * len(self.kept)
        self.ledger.flush()
        self.disk = self.disk.copy()
        self.ledger = self.open()
        assert sum(len(piece) // 40 for _, piece in self.ledger.recovered.backlog) == len(self.kept)
        assert self.ledger.read_bodies(self.kept) == [BODY] * len(self.kept)


def options(**changes: float) -> LedgerOptions:
    fixed = {"journal_file_bytes": 64 << 10, "reserve_bytes": 0}
    return LedgerOptions(**(fixed | changes))  # type: ignore[arg-type]


def test_history_is_kept_up_to_a_size() -> None:
    broker = Broker(options(retention_bytes=60_000), keep_every=100)
    broker.put(1500)
    sizes = [broker.disk.files[f"{number:08d}.events"].size_bytes() for number in broker.files().events]
    assert 30_000 < sum(sizes) <= 60_000 + max(sizes) * 2
    assert broker.files().events[0] > 1
    broker.check()


def test_history_is_kept_up_to_an_age() -> None:
    broker = Broker(options(retention_s=300), keep_every=100)
    broker.put(1500)
    oldest = broker.files().events[0]
    assert oldest > 1
    young = Broker(options(retention_s=3000), keep_every=100)
    young.put(1500)
    assert young.files().events[0] == 1
    broker.check()


def test_everything_is_kept_by_default() -> None:
    broker = Broker(options(), keep_every=100)
    broker.put(1500)
    assert broker.files().events[0] == 1
    broker.check()


def test_history_goes_only_under_two_checkpoints() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=100)
    while not broker.files().events:
        broker.put(10)
    assert len(broker.files().checkpoints) == 1
    broker.put(10)
    assert broker.files().events == [1]
    broker.check()


def test_what_is_mostly_live_is_no_history() -> None:
    """Nothing is consumed: every file stays, however little history is wanted, and nothing is carried."""
    broker = Broker(options(retention_bytes=0), keep_every=1)
    broker.put(600)
    assert broker.files().events[0] == 1
    newest = broker.disk.files[f"{broker.files().checkpoints[-1]:020d}.checkpoint"]
    assert newest.size_bytes() < 3000
    broker.check()


def test_a_straggler_outlives_its_file() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=500)
    broker.put(3000)
    assert broker.files().events[0] > 3
    assert not broker.files().bodies or broker.files().bodies[0] > 3
    assert len(broker.kept) == 6
    broker.check()
