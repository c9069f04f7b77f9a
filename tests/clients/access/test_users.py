"""Signing in with a password or a token, with each client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tools.peers.ports import free_port

from postroom.server.configuration.passwords import SCRAM_MECHANISMS, hash_password
from tests.authority import Authority
from tests.clients.broker import BrokerProcess
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client, ClientError
from tests.clients.test_websocket import java_store
from tests.clients.texts import text, texts
from tests.server.access.tokens import AUDIENCE, ISSUER, OTHER_RSA_KEY, token, write_jwks

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
PASSWORD = "pass word: 50% & more"  # ASCII: rhea cuts off one byte for each character beyond


CONFIG = f"""
[[listen]]
address = "{{address}}"
anonymous = false

[users]
ann = "{hash_password(PASSWORD)}"
bob = "{hash_password(PASSWORD)}"

[[role]]
name = "administrator"
members = ["ann"]

[[role]]
name = "sender"
members = ["bob"]
grants = ["put, create on in.#"]
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

[[role]]
name = "administrator"
members = ["ann"]
"""


@pytest.fixture(scope="module", params=SCRAM_MECHANISMS)
def scram_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A broker that takes no password over the wire."""
    config = SCRAM_CONFIG.replace("MECHANISM", request.param)
    with BrokerProcess(tmp_path_factory.mktemp("scram") / "data", config) as process:
        yield process


TLS_CLIENTS = ("rhea", "qpid_jms")
"""Those of others; Proton signs in over TLS in tests/server/access."""
BOUND_CONFIG = """
[[listen]]
address = "{{address}}"

[[listen]]
address = "127.0.0.1:{port}"
anonymous = false
tls_certificate = "{server.certificate}"
tls_key = "{server.key}"

[users]
ann = {users}

[[role]]
name = "administrator"
members = ["ann"]
"""


@pytest.fixture(scope="module")
def bound_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str | int]]]:
    """Where a broker offers SCRAM with channel binding and without: by client what it has to connect with."""
    folder = tmp_path_factory.mktemp("bound")
    authority, port = Authority(folder / "authority"), free_port()
    users = [hash_password(PASSWORD, mechanism) for mechanism in SCRAM_MECHANISMS]
    config = BOUND_CONFIG.format(port=port, server=authority.server(), users=users)
    stores = {
        "rhea": authority.certificate,
        "qpid_jms": java_store(authority.certificate, folder / "store.p12"),
    }
    with BrokerProcess(folder / "data", config):
        yield {name: {"host": "localhost", "port": port, "ca": str(file)} for name, file in stores.items()}


TOKEN_CLIENTS = ("rhea", "qpid_jms")
"""Those of others that have XOAUTH2."""
OAUTH_CONFIG = """
[[listen]]
address = "{address}"
anonymous = false

[oauth]
issuer = "%s"
audience = "%s"
jwks = "%s"
roles_claim = "roles"

[users]
bob = "%s"

[[role]]
name = "sender"
members = ["bob"]
grants = ["put, create on in.#"]
"""


@pytest.fixture(scope="module")
def oauth_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that takes tokens."""
    folder = tmp_path_factory.mktemp("oauth")
    keys, kept = write_jwks(folder / "jwks.json"), hash_password(PASSWORD)
    config = OAUTH_CONFIG % (ISSUER, AUDIENCE, keys, kept)
    with BrokerProcess(folder / "data", config) as process:
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
    "who", [{}, {"user": "ann", "password": "wrong"}, {"user": "eve", "password": PASSWORD}]
)
def test_nobody_else_gets_in(
    name: str, who: dict[str, str], strict_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    with pytest.raises(ClientError):
        new_client(name)("connect", **strict_broker.address, **who)


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_a_user_may_what_is_granted_and_nothing_else(
    name: str, strict_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    client = new_client(name)
    client("connect", **strict_broker.address, user="bob", password=PASSWORD)
    client.send_accepted(f"in.{name}", text("a"))
    with pytest.raises(ClientError, match=r"(?i)unauthorized|no right"):
        client.receive(f"in.{name}")
    with pytest.raises(ClientError, match=r"(?i)unauthorized|no right"):
        client.send(f"out.{name}", text("b"))
    reader = new_client(name)
    reader("connect", **strict_broker.address, user="ann", password=PASSWORD)
    assert texts(reader.receive(f"in.{name}")) == ["a"]


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


@pytest.mark.parametrize("name", TLS_CLIENTS)
def test_who_has_no_channel_binding_goes_on_to_sign_in(
    name: str, bound_place: dict[str, dict[str, str | int]], new_client: Callable[[str], Client], queue: str
) -> None:
    client = new_client(name)
    client("connect", **bound_place[name], user="ann", password=PASSWORD)
    client.send_accepted(queue, text("a"))
    assert texts(client.receive(queue)) == ["a"]


@pytest.mark.parametrize("name", TOKEN_CLIENTS)
def test_a_token_signs_in(
    name: str, oauth_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    client = new_client(name)
    client("connect", **oauth_broker.address, user="ann", token=token("ann", roles=["sender"]))
    client.send_accepted(f"in.{name}", text("a"))
    with pytest.raises(ClientError, match=r"(?i)unauthorized|no right"):
        client.send(f"out.{name}", text("b"))


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_passwords_go_on_to_sign_in_where_tokens_are_taken(
    name: str, oauth_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    client = new_client(name)
    client("connect", **oauth_broker.address, user="bob", password=PASSWORD)
    client.send_accepted(f"in.{name}", text("a"))


@pytest.mark.parametrize("name", TOKEN_CLIENTS)
@pytest.mark.parametrize("bad", [token("ann", key=OTHER_RSA_KEY), token("eve"), "a.b.c"])
def test_a_bad_token_lets_nobody_in(
    name: str, bad: str, oauth_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    with pytest.raises(ClientError):
        new_client(name)("connect", **oauth_broker.address, user="ann", token=bad)
