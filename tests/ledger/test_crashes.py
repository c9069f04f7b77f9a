"""A power cut or a kill before every operation on the disk: nothing is lost, nothing comes back to life.

One run of a workload with rollovers, seals, checkpoints, compaction and deletion; before each of its disk
operations the folder is copied as a power cut would leave it (unsynced bytes lost or torn, unsynced names
lost) and as a kill would (everything still in the cache), and recovered from.
"""

from random import Random

import pytest

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.body_requests import BodyPlace
from tests.ledger import entry_records
from tests.ledger.cut_disk import CutDisk
from tests.ledger.histories import opened
from tests.ledger.workload import Snapshot, Workload, assert_bodies, assert_recovered
from tests.sampling import stride
from tests.simulation.disk import PowerLost, SimDisk

OPTIONS = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)
STEPS = 700
STEPS_PER_BLOCK = 25
ROUNDS_BETWEEN = 4
SYNC_OF_THE_FIRST_BLOCK = 5
"""Of a start: the operation that makes its first block durable."""


ALWAYS = 5
"""So many operations of each kind are cut before a sample leaves any out."""


class Cutter:
    """Recovers from a copy of the disk at every operation."""

    def __init__(self, disk: CutDisk, seed: int) -> None:
        self.disk = disk
        self.random = Random(seed)
        self.snapshots: dict[int, Snapshot] = {0: Snapshot()}
        self.acknowledged = 0
        self.cuts: dict[str, int] = {}

    def cut(self, what: str) -> None:
        self.cuts[what] = self.cuts.get(what, 0) + 1
        if self.cuts[what] > ALWAYS and self.cuts[what] % stride(6):
            return
        for survivor in self.disk.survivors(self.random):
            self.check(survivor)

    def check(self, survivor: SimDisk) -> None:
        """Recover; finish whatever work was cut off; recover once more."""
        ledger = opened(survivor, OPTIONS)
        position = ledger.recovered.next_position - 2  # the new epoch wrote one record
        assert position >= self.acknowledged, "an acknowledged block is gone"
        snapshot = self.snapshots[position]
        assert_recovered(ledger.recovered, snapshot)
        assert_bodies(ledger, snapshot)
        while ledger.maintenance_step():
            pass
        assert_bodies(ledger, snapshot)
        again = opened(survivor.crash(self.random), OPTIONS)
        assert_recovered(again.recovered, snapshot)
        assert_bodies(again, snapshot)


def commit(ledger: Ledger, work: Workload, cutter: Cutter) -> None:
    cutter.snapshots = {cutter.acknowledged: cutter.snapshots[cutter.acknowledged]}
    cutter.snapshots[ledger.builder.next_position - 1] = work.snapshot()
    ledger.submit()
    ledger.maintenance_step()  # while the block, maybe a new file's first, is in flight
    cutter.acknowledged = ledger.flush()


@pytest.mark.parametrize("seed", [1, 2])
def test_cut_before_every_operation(seed: int) -> None:
    disk = CutDisk()
    ledger = opened(disk, OPTIONS)
    cutter = Cutter(disk, seed)
    work = Workload(ledger.builder, Random(seed))
    work.define()
    cutter.snapshots = {ledger.durable_through: Snapshot()}
    cutter.acknowledged = ledger.durable_through
    disk.before = cutter.cut
    for step in range(1, STEPS):
        work.step()
        if step % STEPS_PER_BLOCK == 0:
            commit(ledger, work, cutter)
        if step % (STEPS_PER_BLOCK * ROUNDS_BETWEEN) == 0:
            while ledger.maintenance_step():
                pass
    assert {"write", "sync", "rename", "remove", "create", "sync_names"} <= cutter.cuts.keys()


def test_cut_while_starting() -> None:
    """Recovery itself is cut off before each of its operations, and the next one finds the same."""
    disk = CutDisk()
    ledger = opened(disk, OPTIONS)
    work = Workload(ledger.builder, Random(9))
    work.define()
    cutter = Cutter(disk, 9)
    for _ in range(400):
        work.step()
    cutter.snapshots = {ledger.builder.next_position - 1: work.snapshot()}
    ledger.flush()
    for epoch in range(3):  # with every cut-off start more epochs without records may lie between
        snapshot = next(iter(cutter.snapshots.values()))
        cutter.snapshots = dict.fromkeys(range(2000), snapshot)
        disk.before = cutter.cut
        restarted = opened(disk, OPTIONS)
        disk.before = None
        assert restarted.epoch == epoch + 2
        assert_recovered(restarted.recovered, snapshot)
    assert cutter.cuts["write"] >= 3


def put(ledger: Ledger, body: bytes) -> BodyPlace:
    place = entry_records.put(ledger.builder, body)
    ledger.flush()
    return place


def test_a_file_that_holds_nothing_hides_no_other() -> None:
    """A torn first block leaves one: it begins where the file of the next start does."""
    for seed in range(60):
        disk = SimDisk()
        put(opened(disk, OPTIONS), b"first")
        disk.crash_at_operation = disk.operations + SYNC_OF_THE_FIRST_BLOCK
        with pytest.raises(PowerLost, match="sync"):
            opened(disk, OPTIONS)
        ledger = opened(disk.crash(Random(seed)), OPTIONS)
        place = put(ledger, b"second")
        assert ledger.read_bodies([place]) == [b"second"]
        while ledger.maintenance_step():
            assert ledger.read_bodies([place]) == [b"second"]
