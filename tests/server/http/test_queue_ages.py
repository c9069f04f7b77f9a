"""How long the oldest message of a queue has waited, as Prometheus is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.manager.queues.band import Band
from postroom.server.configuration.http import HttpConfig
from postroom.testing.clock import SettableClock
from tests.manager.world import START_US, World
from tests.server.harness import BrokerThread, make_config
from tests.server.http_client import get

NAME = "postroom_queue_oldest_seconds"
pytestmark = pytest.mark.sockets


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START_US)


@pytest.fixture
def served(clock: SettableClock, tmp_path: Path) -> Iterator[BrokerThread]:
    config = make_config(("a", "b", "empty"), http=HttpConfig(address="127.0.0.1:0"))
    with BrokerThread(config, folder=tmp_path / "data", clock=clock) as running:
        yield running


def ages(served: BrokerThread) -> dict[str, float]:
    lines = get(served.http_urls[0], "/metrics").body.decode().splitlines()
    found = [line.split('queue="')[1].split('"} ') for line in lines if line.startswith(NAME)]
    return {name: float(value) for name, value in found}


def test_it_is_that_of_the_message_that_came_first(served: BrokerThread, clock: SettableClock) -> None:
    connection = BlockingConnection(served.url, timeout=15)
    senders = {name: connection.create_sender(name) for name in ("a", "b")}
    senders["a"].send(Message(body="first", durable=True, priority=1))
    served.advance(clock, 5_000_000)
    senders["a"].send(Message(body="urgent", durable=True, priority=9))
    senders["b"].send(Message(body="only", durable=False))
    served.advance(clock, 2_000_000)
    found = ages(served)
    assert found.keys() == {"a", "b"}
    assert found["a"] >= 7 and found["a"] - 4 > found["b"] >= 2
    receiver = connection.create_receiver("b", credit=1)
    receiver.receive(15)
    assert ages(served).keys() == {"a"}, "one that somebody has doesn't wait"
    connection.close()


def test_one_that_is_packed_is_found() -> None:
    world = World()
    queue = world.queue()
    band: Band = queue.band(4)
    assert band.first_serial() == 0
    world.put(queue)
    (entry,) = band.waiting()
    assert band.first_serial() == entry.serial
    world.turn()
    packed = Band(queue, 4)
    packed.backlog.append_entry(entry, False)
    assert packed.first() is None and packed.first_serial() == entry.serial
