"""AMQP over WebSocket with clients that speak it, in clear and over TLS, and across a restart."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.peers.ports import free_port

from postroom.server.configuration.passwords import hash_password
from tests.certificates import sign
from tests.clients.broker import BrokerProcess
from tests.clients.driver import Client, ClientError
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
CLIENTS = ["rhea", "qpid_jms"]
PATH = "/mq/amqp"
PASSWORD = "sesame"

CONFIG = """
[[listen]]
address = "{{address}}"
websocket = {{{{ path = "{path}" }}}}

[[listen]]
address = "127.0.0.1:{tls_port}"
anonymous = false
tls_certificate = "{signed.certificate}"
tls_key = "{signed.key}"
websocket = {{{{ path = "{path}" }}}}

[[listen]]
address = "127.0.0.1:{plain_port}"

[users]
ann = "{hashed}"

[[role]]
name = "administrator"
members = ["ann", "anonymous"]
"""


class Places:
    """A broker with all of the listeners, and how to reach each."""

    def __init__(self, folder: Path) -> None:
        self.signed = sign(folder)
        self.store = java_store(self.signed.certificate, folder / "trust.p12")
        self.tls_port, self.plain_port = free_port(), free_port()
        config = CONFIG.format(
            path=PATH,
            tls_port=self.tls_port,
            plain_port=self.plain_port,
            signed=self.signed,
            hashed=hash_password(PASSWORD),
        )
        self.broker = BrokerProcess(folder / "data", config)

    def fields(self, client: str, tls: bool) -> dict[str, str | int]:
        """Of ``connect``."""
        if not tls:
            return {**self.broker.address, "websocket": PATH}
        ca = self.store if client == "qpid_jms" else self.signed.certificate
        login = {"user": "ann", "password": PASSWORD}
        return {"host": "localhost", "port": self.tls_port, "websocket": PATH, "ca": str(ca), **login}

    @property
    def plain(self) -> dict[str, str | int]:
        return {"host": "127.0.0.1", "port": self.plain_port}


def java_store(certificate: Path, file: Path) -> Path:
    """A key store for Java's TLS that trusts ``certificate``."""
    command = ["keytool", "-importcert", "-noprompt", "-alias", "it", "-file", str(certificate)]
    store = ["-keystore", str(file), "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run([*command, *store], check=True, capture_output=True)
    return file


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    made = Places(tmp_path_factory.mktemp("websocket"))
    with made.broker:
        yield made


@pytest.mark.parametrize("tls", [False, True], ids=["ws", "wss"])
@pytest.mark.parametrize("name", CLIENTS)
def test_what_it_sent_is_in_the_ledger_after_a_restart(
    name: str, tls: bool, places: Places, new_client: Callable[[str], Client], queue: str
) -> None:
    """The body of 300,000 bytes takes several messages of WebSocket each way."""
    large = {"durable": True, "body": {"data": {"size": 300_000, "seed": 7}}}
    with new_client(name) as client:
        client("connect", **places.fields(name, tls))
        client.send_accepted(queue, text("taken"), text("a"), large)
        assert texts(client.receive(queue)) == ["taken"]
        client("close")
    places.broker.restart_after_kill()
    plain = new_client("proton")
    plain("connect", **places.plain)
    assert plain.browse(queue)[0]["body"] == text("a")["body"]
    again = new_client(name)
    again("connect", **places.fields(name, tls))
    first, second = again.receive(queue, 2)
    assert texts([first]) == ["a"]
    assert second["body"]["data"]["size"] == 300_000
    assert plain.browse(queue) == []


@pytest.mark.parametrize("name", CLIENTS)
def test_it_says_that_a_path_is_wrong(name: str, places: Places, new_client: Callable[[str], Client]) -> None:
    fields = {**places.fields(name, False), "websocket": "/elsewhere"}
    with pytest.raises(ClientError, match="404"):
        new_client(name)("connect", **fields)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_wrong_password_is_refused(name: str, places: Places, new_client: Callable[[str], Client]) -> None:
    with pytest.raises(ClientError):
        new_client(name)("connect", **{**places.fields(name, True), "password": "wrong"})


def test_a_killed_client_gives_back_what_it_held(
    places: Places, new_client: Callable[[str], Client], queue: str
) -> None:
    crashing, other = new_client("rhea"), new_client("qpid_jms")
    for client in (crashing, other):
        client("connect", **places.fields(client.name, False))
    other.send_accepted(queue, text("held"))
    assert texts(crashing.receive(queue, outcome="none", keep=True)) == ["held"]
    crashing.kill()
    (message,) = other.receive(queue, wait=True)
    assert (texts([message]), message["delivery_count"]) == (["held"], 1)
