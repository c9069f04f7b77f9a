"""Addresses that can't be, and brokers that can't be had: one line that says what to do."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import hash_password
from postroom.server.exits import Exit
from tests.certificates import sign
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


def line_of(code: int, *arguments: str) -> str:
    """The one line that a command fails with."""
    result = CliRunner().invoke(main, list(arguments))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1), result.output
    return result.stderr.rstrip("\n")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (":5672", "has no host: 127.0.0.1 is this machine alone"),
        ("", "has no host"),
        ("5672", "has no host: for a port alone say 127.0.0.1:5672"),
        ("host:", "port '' is not a number from 0 to 65535"),
        ("host:99999", "port '99999' is not a number"),
        ("host:-1", "port '-1' is not a number"),
        ("host:amqp", "port 'amqp' is not a number"),
        ("::1", "put an IPv6 host into brackets, as in [::1]:5672"),
        ("::1:5672", "put an IPv6 host into brackets"),
        ("[::1", "put an IPv6 host into brackets"),
        ("[::1]:x", "port 'x' is not a number"),
        ("[]:1", "'' in the brackets is no IPv6 address"),
        ("[host]:1", "'host' in the brackets is no IPv6 address"),
        ("amqp://127.0.0.1:5672", "is a URL: only HOST:PORT of it is meant"),
        ("a b:1", "'a b' is no name of a host and no IP address"),
        ("user@host:1", "'user@host' is no name of a host"),
    ],
)
def test_an_address_that_can_not_be_listened_on(tmp_path: Path, address: str, why: str) -> None:
    line = line_of(Exit.CONFIGURATION, "serve", "--listen", address, "--data", str(tmp_path / "data"))
    assert line.startswith(f"postroom: --listen: address {address!r}")
    assert why in line
    assert not (tmp_path / "data").exists()


def test_a_host_that_is_none(tmp_path: Path) -> None:
    line = line_of(Exit.ADDRESS, "serve", "--listen", "nonsense.invalid", "--data", str(tmp_path / "data"))
    assert line.startswith("postroom: can't listen on nonsense.invalid: there is no host 'nonsense.invalid'")
    assert line.endswith("an address is HOST:PORT, as in 127.0.0.1:5672")


def of_url(url: str) -> str:
    return line_of(3, "queue", "list", "--url", url).removeprefix("Error: ")


@pytest.fixture
def nobody() -> str:
    """A place on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_no_broker_listens(nobody: str) -> None:
    advice = "start one with `postroom serve`, or name another with --url"
    assert of_url(f"amqp://{nobody}") == f"no broker listens on {nobody}: {advice}"
    port = nobody.rpartition(":")[2]
    assert of_url(f"amqps://localhost:{port}") == f"no broker listens on localhost:{port}: {advice}"
    several = f"failover:(amqp://{nobody},amqp://localhost:{port})?failover.startupMaxReconnectAttempts=1"
    assert of_url(several) == f"no broker listens on {nobody} or localhost:{port}: {advice}"


def test_no_such_host() -> None:
    line = of_url("amqp://ann:secret@nonsense.invalid")
    assert line.startswith("there is no host of this name: nonsense.invalid:5672 (")
    assert "secret" not in line


class Other:
    """Listens, and answers whatever comes with the same bytes before it hangs up."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _run(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer:
                peer.recv(1 << 16)
                peer.sendall(self._answer)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"AMQP\0\0\x09\x01"])
def test_no_broker_of_amqp_1_0(answer: bytes) -> None:
    other = Other(answer)
    line = of_url(f"amqp://{other.place}")
    assert line.startswith(f"what listens on {other.place} is no AMQP 1.0 broker: ")
    other.close()


def test_who_hangs_up_at_once() -> None:
    other = Other(b"")
    line = of_url(f"amqp://{other.place}")
    assert line.startswith(
        f"{other.place} ended the connection at once, as a port for TLS does (say amqps://)"
    )
    other.close()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker that lets in ann alone, in clear and with a certificate that nobody trusts."""
    signed = sign(tmp_path_factory.mktemp("tls"))
    listen = [
        ListenConfig(address="127.0.0.1:0", anonymous=False),
        ListenConfig(address="127.0.0.1:0", tls_certificate=str(signed.certificate), tls_key=str(signed.key)),
    ]
    with BrokerThread(make_config(listen=listen, users={"ann": hash_password("secret")})) as running:
        yield running


def test_a_broker_that_wants_a_password(closed: BrokerThread) -> None:
    plain = closed.addresses[0]
    wanted = f"the broker on {plain} wants a user and a password: say --url amqp://USER:PASSWORD@{plain}"
    assert of_url(f"amqp://{plain}") == wanted
    for user, password in (("ann", "wrong"), ("bob", "secret")):
        line = of_url(f"amqp://{user}:{password}@{plain}")
        assert line.startswith(f"the broker on {plain} doesn't know the user '{user}' with this password")
        assert password not in line.replace("password", "")
    result = CliRunner().invoke(main, ["queue", "list", "--url", f"amqp://ann:secret@{plain}"])
    assert result.exit_code == 0


def test_tls_and_clear_in_each_others_place(closed: BrokerThread) -> None:
    plain, tls = closed.addresses
    assert of_url(f"amqps://ann:secret@{plain}").startswith(f"{plain} doesn't speak TLS: say amqp://")
    assert "(say amqps://)" in of_url(f"amqp://ann:secret@{tls}")


def test_a_certificate_that_nobody_trusts(closed: BrokerThread) -> None:
    line = of_url(f"amqps://ann:secret@{closed.addresses[1]}")
    assert line.startswith(
        f"the certificate of {closed.addresses[1]} is not trusted: self-signed certificate"
    )
    assert "SSL_CERT_FILE" in line
