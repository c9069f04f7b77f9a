"""Signing in by certificate (SASL EXTERNAL), with rhea and Qpid JMS; Proton and our own client do so in
tests/server/access.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.peers.ports import free_port

from tests.authority import Authority
from tests.clients.broker import BrokerProcess
from tests.clients.driver import Client, ClientError
from tests.clients.test_websocket import java_store
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
CLIENTS = ("rhea", "qpid_jms")
CONFIG = """
[[listen]]
address = "{{address}}"

[[listen]]
address = "127.0.0.1:{port}"
anonymous = false
tls_certificate = "{server.certificate}"
tls_key = "{server.key}"
tls_client_ca = "{authority.certificate}"

[users]
ann = []

[[role]]
name = "administrator"
members = ["ann"]
"""


class Place:
    """A broker whose users sign in by certificate, and the files of its clients."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder / "authority")
        self._store = java_store(self._authority.certificate, folder / "store.p12")
        self._port = free_port()
        server = self._authority.server()
        config = CONFIG.format(port=self._port, server=server, authority=self._authority)
        self.broker = BrokerProcess(folder / "data", config)

    def fields(self, client: str, user: str) -> dict[str, str | int]:
        """Of ``connect``."""
        shown, place = self._authority.issue(user), {"host": "localhost", "port": self._port}
        if client == "qpid_jms":
            return {**place, "ca": str(self._store), "certificate": str(shown.key_store("changeit"))}
        ca = str(self._authority.certificate)
        return {**place, "ca": ca, "certificate": str(shown.certificate), "key": str(shown.key)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("certificates"))
    with made.broker:
        yield made


@pytest.mark.parametrize("name", CLIENTS)
def test_a_certificate_opens(
    name: str, place: Place, new_client: Callable[[str], Client], queue: str
) -> None:
    client = new_client(name)
    client("connect", **place.fields(name, "ann"))
    client.send_accepted(queue, text("a"))
    assert texts(client.receive(queue)) == ["a"]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_certificate_of_nobody_doesnt(name: str, place: Place, new_client: Callable[[str], Client]) -> None:
    with pytest.raises(ClientError):
        new_client(name)("connect", **place.fields(name, "eve"))
