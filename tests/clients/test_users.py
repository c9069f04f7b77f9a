"""Signing in with a password, with each client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from postroom.server.configuration.passwords import SCRAM_MECHANISMS, hash_password
from tests.clients.broker import BrokerProcess
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client, ClientError
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
PASSWORD = "pass word: 50% & more"  # ASCII: rhea cuts off one byte for each character beyond


CONFIG = f"""
[[listen]]
address = "{{address}}"
anonymous = false

[users]
ann = "{hash_password(PASSWORD)}"
"""


SCRAM_CLIENTS = ("qpid_jms", "postroom")
"""Those that have SCRAM; rhea and Proton, as its wheel is built, don't."""
SCRAM_CONFIG = f"""
[[listen]]
address = "{{address}}"
anonymous = false
mechanisms = ["MECHANISM"]

[users]
ann = {[hash_password(PASSWORD, mechanism) for mechanism in SCRAM_MECHANISMS]}
"""


@pytest.fixture(scope="module", params=SCRAM_MECHANISMS)
def scram_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A broker that takes no password over the wire."""
    config = SCRAM_CONFIG.replace("MECHANISM", request.param)
    with BrokerProcess(tmp_path_factory.mktemp("scram") / "data", config) as process:
        yield process


@pytest.fixture(scope="module")
def strict_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that lets nobody in without a password."""
    with BrokerProcess(tmp_path_factory.mktemp("users") / "data", CONFIG) as process:
        yield process


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_the_right_password_opens(
    name: str, strict_broker: BrokerProcess, new_client: Callable[[str], Client], queue: str
) -> None:
    client = new_client(name)
    client("connect", **strict_broker.address, user="ann", password=PASSWORD)
    client.send_accepted(queue, text("a"))
    assert texts(client.receive(queue)) == ["a"]


@pytest.mark.parametrize("name", CLIENT_NAMES)
@pytest.mark.parametrize(
    "who", [{}, {"user": "ann", "password": "wrong"}, {"user": "bob", "password": PASSWORD}]
)
def test_nobody_else_gets_in(
    name: str, who: dict[str, str], strict_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    with pytest.raises(ClientError):
        new_client(name)("connect", **strict_broker.address, **who)


@pytest.mark.parametrize("name", SCRAM_CLIENTS)
def test_who_signs_in_by_scram_gets_in(
    name: str, scram_broker: BrokerProcess, new_client: Callable[[str], Client], queue: str
) -> None:
    client = new_client(name)
    client("connect", **scram_broker.address, user="ann", password=PASSWORD)
    client.send_accepted(queue, text("a"))
    assert texts(client.receive(queue)) == ["a"]


@pytest.mark.parametrize("name", SCRAM_CLIENTS)
@pytest.mark.parametrize("who", [{"user": "ann", "password": "wrong"}, {"user": "bob", "password": PASSWORD}])
def test_nobody_else_gets_in_by_scram(
    name: str, who: dict[str, str], scram_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    with pytest.raises(ClientError):
        new_client(name)("connect", **scram_broker.address, **who)
