"""Real processes: the connection of a channel breaks, or one end is killed, at a sample of all frames that it
says. ``python -m tests.channels`` breaks at each of them.
"""

import asyncio
from pathlib import Path

import pytest

from tests.channels.scene import sweep
from tests.faults.proxy import CutPoint
from tests.sampling import WHOLE

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]
CUTS, KILLS = (10, 4) if WHOLE else (6, 2)


@pytest.mark.parametrize(
    ("victim", "count"), [("", CUTS), ("LONDON", KILLS), ("PARIS", KILLS)], ids=["line", "sender", "receiver"]
)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, victim: str, count: int) -> None:
    def choose(points: list[CutPoint]) -> list[CutPoint]:
        assert len(points) > 20, points
        return points[:: len(points) // count]

    assert asyncio.run(sweep(tmp_path, choose, victim)) >= count - 1
