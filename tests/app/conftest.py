"""Fixtures: a broker, and what is to be found on its queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import Message, connect
from postroom.server.configuration.config import AutoCreateConfig, QueueConfig
from tests.server.harness import BrokerThread, make_config

WAIT_S = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    queues = [
        QueueConfig(name="orders", redelivery_limit=10, redelivery_delay_ms=0, dead_letter_queue="dead"),
        QueueConfig(name="invoices"),
        QueueConfig(name="dead"),
    ]
    with BrokerThread(make_config(queue=queues), folder=tmp_path / "data") as running:
        yield running


@pytest.fixture
def strict_broker() -> Iterator[BrokerThread]:
    """It creates no queues."""
    with BrokerThread(make_config(auto_create=AutoCreateConfig(enabled=False))) as running:
        yield running


def send(url: str, *bodies: object, queue: str = "orders") -> None:
    """Each as a message, accepted by the broker."""
    with connect(url) as connection, connection.producer(queue) as producer:
        producer.send_all([Message(body) for body in bodies])


def waiting(url: str, queue: str = "orders") -> list[object]:
    """The bodies that are there for everybody."""
    with connect(url) as connection, connection.browser(queue) as browser:
        return [message.body for message in browser]


def received(url: str, queue: str, count: int = 1) -> list[Message]:
    """The next messages, waited for and accepted."""
    messages = []
    with connect(url) as connection, connection.consumer(queue) as consumer:
        for _ in range(count):
            message = consumer.receive(WAIT_S)
            assert message is not None, f"{len(messages)} of {count} came"
            message.acknowledge()
            messages.append(message)
    return messages
