"""`postroom dlq handle` over a connection with fail-over that breaks at any frame of its work."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from postroom.cli.messages.dead_letter_handler import handle
from postroom.client import ConnectionFactory
from postroom.manager.kernel.options import QueueDefinition
from tests.channel.rules.tables import parse_table
from tests.cli.messages.dead_letters import NUMBERS, dead_letter
from tests.faults.proxy import BROKER, CLIENT, CutPoint, FaultyProxy
from tests.server.client_messages import send
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

MESSAGES = 12
TABLE = parse_table("WAIT(NO) RETRYINT(0)\nACTION(RETRY) RETRY(3)\n")
FRAMES = [(CLIENT, "declare"), (CLIENT, "transfer"), (CLIENT, "disposition"), (CLIENT, "discharge")]
CUTS = [
    CutPoint(sender, frame, number, after)
    for sender, frame in [*FRAMES, (BROKER, "disposition")]
    for number in (0, 1, 7)
    for after in (False, True)
]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(container_id="HERE")) as running:
        yield running


async def handled(broker: BrokerThread, queue: str, cut: CutPoint, again: CutPoint) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(60), FaultyProxy("127.0.0.1", broker.port, cut, again) as proxy:
        url = f"failover:({proxy.url})?failover.maxReconnectAttempts=20"
        counts = await handle(url, TABLE, queue, "", events.append)
    return [*events, {"event": "ended", **counts}]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_each_goes_once_whatever_breaks(broker: BrokerThread, cut: CutPoint) -> None:
    queue = f"dead.{next(NUMBERS)}"
    target = f"{queue}.target"
    broker.call(lambda one: one.manager.create_queue(QueueDefinition(name=target), one.manager.core.now_us))
    send(broker, queue, *(dead_letter(f"{number}", target) for number in range(MESSAGES)))
    again = CutPoint(cut.sender, cut.frame, cut.number, cut.after, 1)
    events = asyncio.run(handled(broker, queue, cut, again))
    assert events[-1]["event"] == "ended"
    assert bodies(broker, queue) == []
    assert sorted(bodies(broker, target), key=int) == [f"{number}" for number in range(MESSAGES)]


def bodies(broker: BrokerThread, queue: str) -> list[str]:
    """Takes what is there."""
    found = []
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer(queue)
        while (message := consumer.receive_no_wait()) is not None:
            found.append(str(message.body))
    return found
