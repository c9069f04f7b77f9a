"""What commands make and say of queues with the broker's own defaults."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import AcknowledgeMode, ConnectionFactory
from postroom.server.configuration.config import Config
from postroom.server.configuration.listening import ListenConfig
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    config = Config(listen=[ListenConfig(address="127.0.0.1:0")])
    with BrokerThread(config, folder=tmp_path / "data") as running:
        yield Shell(running.url)


def test_a_plain_queue_is_as_by_default(shell: Shell) -> None:
    shell.ok("queue", "create", "plain")
    shell.ok("put", "made", "a")
    for queue in ("plain", "made"):
        assert "settings: as by default" in shell.ok("queue", "show", queue)
        (found,) = shell.json("queue", "show", queue)
        assert found["not_default"] == []
        settings = found["settings"]
        assert isinstance(settings, dict)
        assert (settings["redelivery_limit"], settings["dead_letter_queue"]) == (10, "postroom.dead")


def test_what_is_taken_away_is_told_as_no_default(shell: Shell) -> None:
    shell.ok("queue", "create", "bare", "--set", "redelivery_limit=-1", "--set", "dead_letter_queue=")
    output = shell.ok("queue", "show", "bare")
    assert "  redelivery_limit: -1  (default: 10; by management)\n" in output
    assert '  dead_letter_queue: ""  (default: "postroom.dead"; by management)\n' in output
    shell.ok("queue", "alter", "bare", "--set", "redelivery_limit=10")
    assert "redelivery_limit" not in shell.ok("queue", "show", "bare")


@pytest.mark.parametrize("command", ["get", "browse"])
def test_a_mistyped_name_makes_no_queue(shell: Shell, command: str) -> None:
    shell.ok("put", "orders", "a")
    before = shell.json("queue", "list")
    result = shell.run(command, "ordesr")
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (3, "", 1)
    assert "there is no queue 'ordesr'" in result.stderr and "did you mean 'orders'?" in result.stderr
    assert shell.json("queue", "list") == before


def test_dead_letters_are_listed_without_a_name(shell: Shell) -> None:
    shell.ok("put", "orders", "spoilt")
    with ConnectionFactory(shell.url).create_connection() as connection:
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer("orders")
        message = consumer.receive(20)
        assert message is not None
        consumer.reject(message, "app:no")
        consumer.close()
        listed = shell.ok("dlq", "list")
    assert "orders@postroom" in listed and "spoilt" in listed
