"""A ledger that keeps little history."""

from pathlib import Path

from postroom.ledger.format.file_names import Listing
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.events_image import load_image
from tests.ledger.entry_records import GET, put
from tests.ledger.inline_writer import InlineWriter
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
        self.ended: list[tuple[int, int, int]] = []

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
            place = put(builder, BODY, message_id=b"id", message_id_type=1)
            if self.count % self.keep_every == 0:
                self.kept.append(place)
            else:
                self.ended.append(place)
                builder.entry_event(place[0], 1, 0, GET)
            if self.count % 10 == 0:
                self.settle()

    def settle(self) -> None:
        """A turn, and all of the background work."""
        self.ledger.tend(self.now_us())
        self.ledger.flush()
        while self.ledger.maintenance_step():
            pass

    def now_us(self) -> int:
        return START_US + self.count * SECOND_US

    def oldest_position(self) -> int:
        """Where the history begins."""
        return load_image(self.disk, self.files().events[0]).first_position

    def bodies_behind(self, position: int) -> list[bytes]:
        """Those of messages that have ended, from this position on."""
        return self.ledger.read_bodies([place for place in self.ended if place[0] >= position])

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
