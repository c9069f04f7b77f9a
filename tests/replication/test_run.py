"""A sample of ``python -m tests.replication``: a few faults, the traffic and the judge of the long run."""

from pathlib import Path

import pytest

from tests.replication.run.play import play

FAULTS = ("kill active", "pause active", "hand over", "cut active for a while", "full disk of active")

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]


def test_promises_survive_take_overs(tmp_path: Path) -> None:
    run = play(tmp_path, seed=1, goes_on=lambda run: False, names=FAULTS)
    assert run.problems == []
    assert set(run.rounds) == set(FAULTS)
    assert run.take_overs >= len(FAULTS) - 1  # a member may be active again by the end of its round
    assert run.recovered
    for account in run.accounts.values():
        assert account.answered
