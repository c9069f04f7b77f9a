"""A sink whose connection breaks: before and after every frame that it and the broker exchange, each message
of the batch is there once, without anything being started again.
"""

import asyncio
from pathlib import Path

import pytest

from postroom.spark.sink.errors import SinkError
from tests.faults.proxy import BROKER, CLIENT, CutPoint, FaultyProxy
from tests.server.harness import BrokerThread
from tests.spark.sink.sink_tasks import Query, bodies, numbered, received, shown

pytestmark = pytest.mark.sockets

ROWS = numbered(1, 7)
TWO_BRANCHES = {"maxMessagesPerBranch": "4"}
LEAST_PLACES = 80
AT_ONCE = 8


async def batch_over(
    broker: BrokerThread, app: str, folder: Path, *cuts: CutPoint
) -> tuple[str, FaultyProxy]:
    """A batch of one task with two branches, over connections that break there."""
    async with asyncio.timeout(60), FaultyProxy("127.0.0.1", broker.port, *cuts) as proxy:
        query = Query(proxy.url, app, folder, **TWO_BRANCHES)
        return await asyncio.to_thread(query.batch, 0, ROWS), proxy


def test_wherever_the_connection_breaks_each_message_is_there_once(tmp_path: Path) -> None:
    """Places are those of a run without a break: of the task's connection, and of the driver's."""
    with BrokerThread() as broker:
        status, proxy = asyncio.run(batch_over(broker, "whole", tmp_path / "whole"))
        assert status == "committed"
        assert received(broker, "whole") == bodies(ROWS)
        places = [place for place in proxy.seen if place.frame not in ("close", "detach", "end")]
        assert len(places) > LEAST_PLACES
        for some in batched(places, AT_ONCE):
            asyncio.run(cut_at(broker, tmp_path, some))
        for place in places:
            assert received(broker, str(place)) == bodies(ROWS), place
            assert shown(broker, str(place))["branches"] == 0, place


async def cut_at(broker: BrokerThread, folder: Path, places: list[CutPoint]) -> None:
    """A batch for each place, all at once; each has an app and a queue of its own."""
    done = await asyncio.gather(
        *(batch_over(broker, str(place), folder / str(place), place) for place in places)
    )
    for place, (status, proxy) in zip(places, done, strict=True):
        assert place not in proxy.cuts, f"the cut {place} never came"
        assert status in ("committed", "already"), place


def batched(places: list[CutPoint], size: int) -> list[list[CutPoint]]:
    return [places[start : start + size] for start in range(0, len(places), size)]


def test_it_breaks_again_and_again(tmp_path: Path) -> None:
    """Six times in the task, in the middle of what it sends and as it seals."""
    transfers = [CutPoint(CLIENT, "transfer", 4 + number, number % 2 == 0, number) for number in range(6)]
    with BrokerThread() as broker:
        status, _ = asyncio.run(batch_over(broker, "app", tmp_path, *transfers))
        assert status == "committed"
        assert received(broker, "app") == bodies(ROWS)
        assert shown(broker, "app")["branches"] == 0


def test_a_broker_that_stays_away_fails_the_attempt(tmp_path: Path) -> None:
    async def scenario() -> None:
        with BrokerThread() as broker:
            cut = CutPoint(BROKER, "attach", 2, True)
            async with asyncio.timeout(60), FaultyProxy("127.0.0.1", broker.port, cut) as proxy:
                proxy.on_cut = lambda _: setattr(proxy, "_port", 1)
                query = Query(proxy.url, "app", tmp_path, brokerTimeoutS="1")
                with pytest.raises(SinkError, match="can't be reached for 1 s"):
                    await asyncio.to_thread(query.task, 0, ROWS)

    asyncio.run(scenario())
