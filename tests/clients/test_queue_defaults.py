"""The broker's own defaults with every client: what fails again and again, or is rejected, lies on
``postroom.dead``; and to receive from a mistyped name is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.broker import USUAL, BrokerProcess
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client, ClientError
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

DEAD = "postroom.dead"
LIMIT = 2
LONGEST_S = 20
QUICK = f"""
{USUAL}
[queue_defaults]
redelivery_limit = {LIMIT}
redelivery_delay_ms = 20
"""


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("defaults") / "data", QUICK) as process:
        yield process


@pytest.fixture(params=CLIENT_NAMES)
def client(
    request: pytest.FixtureRequest, quick_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> Client:
    started = new_client(request.param)
    started("connect", **quick_broker.address)
    return started


def next_of(client: Client, address: str, **fields: Any) -> list[dict[str, Any]]:
    """The next message, which may have a delay before it: a receive takes what there is."""
    deadline = time.monotonic() + LONGEST_S
    while not (found := client.receive(address, **fields)):
        assert time.monotonic() < deadline, f"nothing comes from {address}"
    return found


def test_a_poison_message_ends_among_the_dead_letters(client: Client, queue: str) -> None:
    client.send_accepted(queue, text(f"poison for {client.name}"))
    for _ in range(LIMIT + 1):
        next_of(client, queue, outcome={"modify": {"failed": True}})
    assert texts(next_of(client, DEAD)) == [f"poison for {client.name}"]


def test_a_rejected_message_ends_among_the_dead_letters(client: Client, queue: str) -> None:
    client.send_accepted(queue, text(f"bad for {client.name}"))
    next_of(client, queue, outcome="reject")
    assert texts(next_of(client, DEAD)) == [f"bad for {client.name}"]


def test_to_receive_from_a_mistyped_name_is_refused(client: Client) -> None:
    with pytest.raises(ClientError, match="there is no queue 'ordesr'"):
        client.receive("ordesr", timeout_ms=1000)
