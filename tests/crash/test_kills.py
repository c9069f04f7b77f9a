"""SIGKILL in the middle of sends and receives: what was accepted is there once, what was answered is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import kills
from tests.sampling import WHOLE

KILLS = 6 if WHOLE else 3
MUTANT_KILLS = 3 if WHOLE else 2


@pytest.mark.sockets
def test_promises_survive_kills(tmp_path: Path) -> None:
    history = kills.run(kills.broker_in(tmp_path, kills.source_of_this_build()), KILLS, seed=1)
    assert history.problems == []
    assert history.lives == KILLS + 1
    assert len(history.answered) > KILLS * kills.SHORTEST


@pytest.mark.sockets
def test_a_broker_that_writes_late_is_found(tmp_path: Path) -> None:
    module = "tests.crash.mutants.write_late"
    history = kills.run(kills.broker_in(tmp_path, kills.source_of_this_build(), module), MUTANT_KILLS, seed=1)
    assert history.problems != []
