"""The six cases, the connection being cut at a sample of all protocol steps; ``python -m tests.faults`` cuts
at each of them.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.clients.broker import BrokerProcess
from tests.faults.cases import CASES, Case, cut_points, play
from tests.sampling import WHOLE

pytestmark = pytest.mark.sockets
EVERY = 6 if WHOLE else 10
"""One in so many places is cut; ``python -m tests.faults`` cuts at all of them."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_nothing_is_lost_wherever_the_connection_breaks(broker: BrokerProcess, case: Case) -> None:
    async def act() -> None:
        points = await cut_points(case, broker.url)
        assert len(points) > 40, points
        for point in points[CASES.index(case) % EVERY :: EVERY]:
            try:
                await play(case, broker.url, point)
            except BaseException as failure:
                raise AssertionError(f"cut {point}: {failure!r}") from failure

    asyncio.run(act())
