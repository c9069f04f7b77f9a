"""Queues at other queue managers, with every client: sent to by their address, never received from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client, ClientError
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

CONFIG = """
container_id = "QM1"
listen = [{{ address = "{address}" }}]

[[queue]]
name = "QM2"
usage = "transmission"

[[remote_queue]]
name = "REMOTE"
remote_queue = "Q"
remote_queue_manager = "QM2"
"""


@pytest.fixture(scope="module")
def queue_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("remote") / "data", CONFIG) as process:
        yield process


@pytest.fixture(params=CLIENT_NAMES)
def client(
    request: pytest.FixtureRequest, queue_manager: BrokerProcess, new_client: Callable[[str], Client]
) -> Client:
    started = new_client(request.param)
    started("connect", **queue_manager.address)
    return started


@pytest.mark.parametrize("address", ["Q@QM2", "REMOTE"])
def test_messages_wait_for_a_channel(client: Client, address: str) -> None:
    client.send_accepted(address, {**text("there"), "reply_to": "ANSWERS"})
    (message,) = client.receive("QM2")
    assert texts([message]) == ["there"]
    if "reply_to" in message:  # Qpid JMS's driver tells no address
        assert message["reply_to"] == "ANSWERS@QM1"
    assert client.receive("QM2") == []


def test_a_name_that_leads_nowhere_is_refused(client: Client) -> None:
    with pytest.raises(ClientError) as refused:
        client.send("Q@QM9", text("lost"))
    assert refused.value.condition == "amqp:not-found"
    assert "MQRC_UNKNOWN_REMOTE_Q_MGR (2087)" in str(refused.value.description)


@pytest.mark.parametrize("address", ["Q@QM2", "REMOTE"])
def test_nobody_receives_from_elsewhere(client: Client, address: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.receive(address)
    assert refused.value.condition == "amqp:not-allowed"
    assert "MQRC_OPTION_NOT_VALID_FOR_TYPE (2045)" in str(refused.value.description)


def test_an_answer_comes_back_by_this_queue_managers_name(client: Client) -> None:
    client.send_accepted("ANSWERS@QM1", text("answer"))
    assert texts(client.receive("ANSWERS")) == ["answer"]
