"""Where HTTP is served without a word: beside AMQP's default port on this machine, and nowhere else."""

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tools.peers.ports import free_port

from postroom.server.addresses import DEFAULT_PORT
from postroom.server.configuration import config as configuration
from postroom.server.configuration.config import Config
from postroom.server.configuration.http import DEFAULT_HTTP_PORT, HttpConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.console.parts import console_parts
from postroom.server.exits import Exit, StartError
from postroom.server.http.http_service import Http
from tests.server.broker_process import Process, begin
from tests.server.http_client import get


def listening(*addresses: str) -> Config:
    return Config(listen=[ListenConfig(address=each) for each in addresses])


@pytest.mark.parametrize(
    ("addresses", "is_served"),
    [
        ((f"127.0.0.1:{DEFAULT_PORT}",), True),
        (("localhost",), True),
        ((f"[::1]:{DEFAULT_PORT}", "127.0.0.1:6000"), True),
        (("127.0.0.1:0",), False),
        (("127.0.0.1:5673",), False),
        ((f"127.0.0.1:{DEFAULT_PORT}", "0.0.0.0:5673"), False),
    ],
)
def test_it_is_served_beside_the_default_port_on_loopback(
    addresses: tuple[str, ...], is_served: bool
) -> None:
    served = listening(*addresses).http_served
    assert served == (HttpConfig() if is_served else None)


def test_the_configuration_has_the_last_word() -> None:
    assert Config().http_served == HttpConfig()
    assert HttpConfig().address == f"127.0.0.1:{DEFAULT_HTTP_PORT}"
    assert Config(http=HttpConfig(enabled=False)).http_served is None
    other = HttpConfig(address="127.0.0.1:1")
    assert Config(listen=listening("127.0.0.1:0").listen, http=other).http_served == other


@pytest.mark.sockets
def test_a_default_port_that_is_taken_keeps_nobody_from_starting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default here is a port that nobody else comes and goes at."""
    caplog.set_level(logging.WARNING)
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = HttpConfig(address=f"127.0.0.1:{other.getsockname()[1]}")
        monkeypatch.setattr(configuration, "HttpConfig", lambda: taken)
        http = Http(Config(), console_parts)
        assert http.listener is None
        http.stop()
    (record,) = [each for each in caplog.records if each.getMessage().startswith("http-not-served")]
    assert "--http" in str(record.__dict__)


@pytest.mark.sockets
def test_nor_does_one_that_is_taken_after_it_was_bound(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers that start at the same time are both bound to it before one listens."""
    caplog.set_level(logging.WARNING)
    shared = HttpConfig(address=f"127.0.0.1:{free_port()}")
    monkeypatch.setattr(configuration, "HttpConfig", lambda: shared)
    first, second = Http(Config(), console_parts), Http(Config(), console_parts)
    assert first.listener is not None
    with closing(first.listener):
        assert first.listen() == [f"http://{shared.address}"]
        assert second.listen() == [] and second.listener is None
    assert any(each.getMessage().startswith("http-not-served") for each in caplog.records)


@pytest.mark.sockets
def test_a_configured_port_that_is_taken_after_it_was_bound_is_told() -> None:
    config = Config(http=HttpConfig(address=f"127.0.0.1:{free_port()}"))
    first, second = Http(config, console_parts), Http(config, console_parts)
    assert first.listener is not None and second.listener is not None
    with closing(first.listener), closing(second.listener):
        first.listen()
        with pytest.raises(StartError, match="in use"):
            second.listen()


@pytest.fixture
def start() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.wait()


def served_by(process: Process) -> str:
    process.ready()
    assert process.process.stdout is not None
    return process.process.stdout.readline().strip().removeprefix("serving ")


@pytest.mark.sockets
def test_serve_says_where_and_serves_there(start: list[Process], tmp_path: Path) -> None:
    options = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    process = begin(start, tmp_path, *options)
    url = served_by(process)
    ready = get(url, "/health/ready").json()
    assert ready["state"] == "active" and set(ready["checks"]) >= {"recovered", "listening", "disk"}
    assert get(url, "/api/v1/queues").json()["items"]
    assert get(url, "/metrics").status == 200
    assert process.end() == Exit.STOPPED


@pytest.mark.sockets
@pytest.mark.parametrize("options", [("--http", "off"), ()])
def test_nothing_is_served_where_it_is_off(
    start: list[Process], tmp_path: Path, options: tuple[str, ...]
) -> None:
    process = begin(start, tmp_path, "--listen", "127.0.0.1:0", *options)
    process.ready()
    assert process.end() == Exit.STOPPED
    assert "http=off" in process.log_text()


@pytest.mark.sockets
def test_an_address_that_cannot_be_is_said_in_one_line(start: list[Process], tmp_path: Path) -> None:
    process = begin(start, tmp_path, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0")
    assert process.wait() == Exit.CONFIGURATION
    assert process.log_text().startswith("postroom: --http: ") and "plain = true" in process.log_text()
