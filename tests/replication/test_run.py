"""A sample of ``python -m tests.replication``: a few faults, the traffic and the judge of the long run."""

from pathlib import Path

import pytest

from tests.replication.run.play import play
from tests.replication.run.stage import KAFKA, NATS
from tests.sampling import spread

FAULTS = {
    NATS: spread(
        ("kill active", "pause active", "hand over", "cut active for a while", "full disk of active"), 3
    ),
    KAFKA: ("kill active", "pause active", "cut active for a while"),
}

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]


@pytest.mark.parametrize("engine", [NATS, pytest.param(KAFKA, marks=[pytest.mark.peer, pytest.mark.long])])
def test_promises_survive_take_overs(tmp_path: Path, engine: str) -> None:
    faults = FAULTS[engine]
    run = play(tmp_path, seed=1, goes_on=lambda run: False, names=tuple(faults), engine=engine)
    assert run.problems == []
    assert set(run.rounds) == set(faults)
    assert run.take_overs >= len(faults) - 1  # a member may be active again by the end of its round
    assert run.recovered
    for account in run.accounts.values():
        assert account.answered
