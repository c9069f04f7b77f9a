"""A power cut or a kill before every operation on the disk: what a lease in force promises is there.

One run that grants, renews, releases and breaks leases while retention and compaction take everything they
may; the folder is recovered from before each of its disk operations, as in ``test_crashes``.
"""

from itertools import pairwise
from random import Random

import pytest

from postroom.ledger.errors import LeaseError
from postroom.ledger.format.file_names import Listing, journal_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, decode_file_header
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.retention.leases import Lease
from postroom.ledger.storage.events_image import load_image
from tests.ledger.cut_disk import CutDisk
from tests.ledger.entry_records import GET, put
from tests.ledger.histories import opened
from tests.ledger.workload import START_US
from tests.sampling import stride
from tests.simulation.disk import SimDisk

OPTIONS = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0, max_leases=4)
BODY = bytes(range(256)) * 3
SECOND_US = 1_000_000
BLOCKS = 120
MESSAGES_A_BLOCK = 10
NAMES = ("a", "b", "c")

Leases = dict[str, Lease]


class Run:
    """A ledger from which everything may go but what leases keep."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = CutDisk()
        self.ledger = opened(self.disk, OPTIONS)
        self.now_us = START_US
        self.leases_after: dict[int, Leases] = {self.ledger.durable_through: {}}
        """The leases after each position that a crash may leave as the last."""
        self.acknowledged = self.ledger.durable_through
        self.bodies: list[tuple[int, int, int]] = []
        self.cuts = 0
        self.kept = 0
        self.broken: set[str] = set()

    def go(self) -> None:
        self.disk.before = self.cut
        for _ in range(BLOCKS):
            self.work()
            self.commit()
        self.disk.before = None

    def work(self) -> None:
        self.now_us += self.random.randrange(3) * SECOND_US
        builder = self.ledger.builder
        builder.set_time(self.now_us)
        for _ in range(MESSAGES_A_BLOCK):
            self.bodies.append(put(builder, BODY))
            builder.entry_event(self.bodies[-1][0], 1, 0, GET)
        if self.random.random() < 0.4:
            self.change_a_lease()
        self.broken |= {lease.reason for lease in self.ledger.tend(self.now_us)}

    def change_a_lease(self) -> None:
        leases, name = self.ledger.leases, self.random.choice(NAMES)
        ahead = self.ledger.builder.next_position
        try:
            match self.random.randrange(4):
                case 0:
                    leases.release(name, self.now_us)
                case 1:
                    held = leases.get(name).position
                    leases.renew(name, self.now_us, self.random.randrange(held, ahead + 1))
                case _:
                    leases.grant(
                        name,
                        "",
                        self.now_us,
                        self.random.choice((None, 0, ahead - self.random.randrange(100))),
                        self.random.random() < 0.5,
                        self.random.randrange(5, 60),
                        self.random.choice((20_000, 1 << 20)),
                    )
        except LeaseError:
            pass

    def commit(self) -> None:
        self.leases_after = {self.acknowledged: self.leases_after[self.acknowledged]}
        self.leases_after[self.ledger.builder.next_position - 1] = by_name(self.ledger)
        self.ledger.submit()
        self.ledger.maintenance_step()
        self.acknowledged = self.ledger.flush()
        while self.ledger.maintenance_step():
            pass

    def cut(self, what: str) -> None:
        self.cuts += 1
        if self.cuts % stride(8):
            return
        for survivor in self.disk.survivors(self.random):
            self.check(survivor)

    def check(self, survivor: SimDisk) -> None:
        """Recover; finish what was cut off; recover once more: the promises hold all along."""
        ledger = opened(survivor, OPTIONS)
        expected = self.leases_after[ledger.recovered.next_position - 2]  # the new epoch wrote one record
        self.hold_to(ledger, survivor, expected)
        while ledger.maintenance_step():
            pass
        self.hold_to(ledger, survivor, expected)
        again = survivor.crash(self.random)
        self.hold_to(opened(again, OPTIONS), again, expected)

    def hold_to(self, ledger: Ledger, disk: SimDisk, expected: Leases) -> None:
        assert by_name(ledger) == expected
        for lease in expected.values():
            if lease.in_force:
                self.kept += 1
                assert history_begins(disk) <= lease.position
                assert ledger.leases.missing(lease).last == 0
                places = [place for place in self.bodies if lease.position <= place[0] <= self.acknowledged]
                if lease.bodies:
                    assert ledger.read_bodies(places) == [BODY] * len(places)


def by_name(ledger: Ledger) -> Leases:
    return {lease.name: lease for lease in ledger.leases.all()}


def history_begins(disk: SimDisk) -> int:
    """First position of the files, events and journals, that follow each other without a gap to the end."""
    listing = Listing(disk.names())
    numbers = sorted({*listing.events, *listing.journal})
    first = numbers[-1]
    for before, number in reversed(list(pairwise(numbers))):
        if number != before + 1:
            break
        first = before
    if first in listing.events:
        return load_image(disk, first).first_position
    header = decode_file_header(disk.open(journal_name(first)).read_at(0, FILE_HEADER_BYTES))
    assert header is not None
    return header.first_position


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_lease_promises_is_there_after_any_cut(seed: int) -> None:
    run = Run(seed)
    run.go()
    assert run.cuts > 300
    assert run.kept > 300 // stride(8)
    assert {"time", "bytes"} <= run.broken
    assert not run.ledger.leases.waits
