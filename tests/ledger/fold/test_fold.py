"""Recovery equals the slow model, with or without checkpoints, after any history and restarts."""

from random import Random

import pytest

from postroom.ledger.options import LedgerOptions
from postroom.model.codes import DelayCause, State
from tests.ledger.histories import HISTORY, SMALL, opened, run
from tests.ledger.workload import ROUTING_QUEUES, ROUTING_SET, Workload, assert_bodies, assert_recovered
from tests.sampling import spread
from tests.simulation.disk import SimDisk


@pytest.mark.parametrize("seed", spread(range(6), 2))
@pytest.mark.parametrize("options", [SMALL, HISTORY], ids=["retention 0", "history"])
@pytest.mark.parametrize("maintenance", [True, False], ids=["checkpoints", "full history"])
def test_recovery_equals_model(seed: int, options: LedgerOptions, maintenance: bool) -> None:
    disk = SimDisk()
    ledger = opened(disk, options)
    work = Workload(ledger.builder, Random(seed))
    work.define()
    for _ in range(3):
        run(ledger, work, 700, maintenance)
        snapshot = work.snapshot()
        assert_bodies(ledger, snapshot)
        disk = disk.copy()
        ledger = opened(disk, options)
        assert_recovered(ledger.recovered, snapshot)
        assert_bodies(ledger, snapshot)
        assert [queue for queue, _ in ledger.recovered.queues] == [1, 2, 3]
        assert ledger.recovered.next_holder_id == work.next_holder
        totals = {row.queue: row for row in ledger.recovered.totals}
        assert {queue: totals[queue].arrived for queue in work.arrived} == work.arrived
        for (queue, outcome), count in work.ended.items():
            assert totals[queue].ended[outcome] == count
        work.adopt(snapshot, ledger.builder)


def test_a_publish_beside_as_many_other_arrivals_has_entries_of_its_own_arrival() -> None:
    disk = SimDisk()
    ledger = opened(disk, HISTORY)
    work = Workload(ledger.builder, Random(1))
    work.define()
    work.arrive(ROUTING_SET, State.AVAILABLE)
    for _ in ROUTING_QUEUES[1:]:  # as many arrivals as the publish has entries
        work.arrive(1, State.DELAYED, causes=DelayCause.UNBORN, due_us=work.builder.time_us + 1000)
    ledger.flush()
    assert_recovered(opened(disk.copy(), HISTORY).recovered, work.snapshot())


def test_checkpoints_give_what_the_whole_history_gives() -> None:
    disk = SimDisk()
    ledger = opened(disk, HISTORY)
    work = Workload(ledger.builder, Random(42))
    work.define()
    run(ledger, work, 2500, maintenance=True)
    whole = disk.copy()
    checkpoints = [name for name in whole.names() if name.endswith(".checkpoint")]
    assert checkpoints
    for name in checkpoints:
        whole.remove(name)
    with_checkpoints = opened(disk.copy(), HISTORY).recovered
    without = opened(whole, HISTORY).recovered
    assert with_checkpoints.report.checkpoint_position > 0 == without.report.checkpoint_position
    assert_recovered(with_checkpoints, work.snapshot())
    assert_recovered(without, work.snapshot())
    assert with_checkpoints.totals == without.totals
    assert with_checkpoints.holders == without.holders


def test_recovering_twice_gives_the_same() -> None:
    disk = SimDisk()
    ledger = opened(disk, SMALL)
    work = Workload(ledger.builder, Random(7))
    work.define()
    run(ledger, work, 1500, maintenance=True)
    for _ in range(3):
        disk = disk.copy()
        assert_recovered(opened(disk, SMALL).recovered, work.snapshot())
