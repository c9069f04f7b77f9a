"""Duplicate detection as clients meet it: what is sent twice, in whatever way, comes once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Delivery as ProtonDelivery
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection

from postroom.client.messages.message import Message
from postroom.client.sync import Connection, ConnectionFactory
from postroom.server.configuration.config import QueueConfig
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

NAME = "orders"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with running(tmp_path) as broker:
        yield broker


def running(folder: Path) -> BrokerThread:
    return BrokerThread(make_config(queue=[QueueConfig(name=NAME, duplicate_window=100)]), folder=folder)


def bodies(connection: Connection) -> list[object]:
    """What waits on the queue."""
    return [message.body for message in connection.create_session().create_browser(NAME)]


def send(url: str, *names: str) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        producer = connection.create_session().create_producer(NAME)
        for name in names:
            producer.send(Message(f"body of {name}", message_id=name))


def test_it_comes_once_over_connections_and_restarts(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        send(broker.url, "ID:a", "ID:b")
    with running(tmp_path) as broker:
        send(broker.url, "ID:b", "ID:c", "ID:a")
        with ConnectionFactory(broker.url).create_connection() as connection:
            assert bodies(connection) == ["body of ID:a", "body of ID:b", "body of ID:c"]
            stats = connection.create_management().read("postroom.queue", NAME)
            assert stats["duplicates_dropped"] == 2


def test_another_client_is_told_that_its_duplicate_was_taken(broker: BrokerThread) -> None:
    send(broker.url, "ID:a")
    proton = BlockingConnection(broker.address, timeout=15)
    sender = proton.create_sender(NAME)
    assert sender.send(ProtonMessage("again", id="ID:a")).remote_state == ProtonDelivery.ACCEPTED
    assert sender.send(ProtonMessage("without an id")).remote_state == ProtonDelivery.ACCEPTED
    proton.close()
    with ConnectionFactory(broker.url).create_connection() as connection:
        assert bodies(connection) == ["body of ID:a", "without an id"]


def test_large_bodies_too(broker: BrokerThread) -> None:
    large = "x" * (700 << 10)
    with ConnectionFactory(broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer(NAME)
        for _ in range(2):
            producer.send(Message(large, message_id="ID:large"))
        assert bodies(connection) == [large]
