"""The six cases of a break (docs/reference/semantics/failover.md) across a take-over: the active member is
killed at the frame that breaks the connection, and the client goes on at the other one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tools.peers.nats import NatsCluster

from postroom.ledger.verification.verification import Severity, verify
from tests.clients.broker import BrokerProcess
from tests.faults.cases import CASES, Case, Scene, cut_points, non_transacted_bulk
from tests.faults.proxy import CutPoint, FaultyProxy
from tests.replication.members import members
from tests.sampling import WHOLE

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]  # NATS takes up to 10 s to elect a leader
FRAMES = {"transfer", "disposition", "declare", "discharge"}
"""What of a connection a message or a transaction depends on."""
BREAKS = 4 if WHOLE else 2
"""Of each case, spread over all that there could be."""
CASE_S = 90.0
QUICKLY = "heartbeat_ms = 100\nclaim_after_ms = 1000"


async def play_over_take_over(case: Case, active: BrokerProcess, other: BrokerProcess, cut: CutPoint) -> bool:
    """A case whose connection goes to whoever is active; `active` ends with the connection. Whether it did:
    how many answers of messages sent in bulk share a frame is a matter of time, so that a second frame with
    answers may not come."""
    async with asyncio.timeout(CASE_S), FaultyProxy(active.host, active.port, cut) as proxy:
        scene = Scene(proxy, f"failover:({active.url},{other.url})")
        counted = proxy.on_cut

        def take_over(at: CutPoint) -> None:
            counted(at)
            active.kill()
            proxy.direct(other.host, other.port)

        proxy.on_cut = take_over
        await scene.prepare()
        await case(scene)
        shares = case is non_transacted_bulk and cut.frame == "disposition" and cut.number > 0
        assert scene.cuts == 1 or (scene.cuts == 0 and shares)
        return scene.cuts == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_nothing_is_lost_wherever_the_active_member_is_killed(
    tmp_path: Path, nats: NatsCluster, stream: str, case: Case
) -> None:
    with members(tmp_path, nats, stream, more=QUICKLY) as made:

        async def act() -> None:
            active, other = made
            places = [each for each in await cut_points(case, active.url) if each.frame in FRAMES]
            step = len(places) // BREAKS
            assert step > 1, places
            breaks = 0
            for cut in places[CASES.index(case) % step :: step]:
                try:
                    broke = await play_over_take_over(case, active, other, cut)
                except BaseException as failure:
                    raise AssertionError(f"killed {cut}: {failure!r}") from failure
                if broke:
                    breaks += 1
                    await asyncio.to_thread(active.launch)
                    active, other = other, active
            assert breaks >= (BREAKS - 1 if case is non_transacted_bulk else BREAKS)

        asyncio.run(act())
        for each in made:
            each.stop()
            found = verify(each.folder, bodies=True)
            assert found.of(Severity.ERROR) == []
            assert found.records
