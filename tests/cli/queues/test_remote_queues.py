"""`postroom remote-queue` against a running broker."""

from collections.abc import Iterator

import pytest

from postroom.server.configuration.config import QueueConfig
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    queues = [QueueConfig(name="QM2", usage="transmission")]
    with BrokerThread(make_config(container_id="QM1", queue=queues)) as running:
        yield Shell(running.url)


def test_remote_queues_are_defined_altered_shown_and_deleted(shell: Shell) -> None:
    settings = ("--set", "remote_queue=ORDERS", "--set", "remote_queue_manager=QM2")
    assert shell.ok("remote-queue", "define", "SALES", *settings) == "created SALES\n"
    assert shell.ok("put", "SALES", "hello")
    (listed,) = shell.json("remote-queue", "list", "SA")
    assert (listed["leads_to"], listed["waits_on"]) == ("ORDERS@QM2", "QM2")
    assert "ORDERS" in shell.ok("remote-queue", "list")
    told = shell.ok("remote-queue", "alter", "SALES", "--set", "transmission_queue=NONE")
    assert told == 'altered SALES: transmission_queue "" → "NONE"\n'
    shown = shell.ok("remote-queue", "show", "SALES")
    assert "transmission_queue: NONE" in shown and "MQRC_UNKNOWN_XMIT_Q" in shown
    refused = shell.run("put", "SALES", "lost")
    assert refused.exit_code == 3 and "2196" in refused.stderr
    (got,) = shell.json("get", "QM2")
    assert got["body"] == "hello"
    assert shell.ok("remote-queue", "delete", "SALES") == "deleted SALES\n"
    assert shell.json("remote-queue", "list") == []


def test_a_transmission_queue_is_created_like_any_other(shell: Shell) -> None:
    shell.ok("queue", "create", "QM3", "--set", "usage=transmission")
    (listed,) = shell.json("queue", "list", "QM3")
    assert listed["usage"] == "transmission"
    assert shell.ok("put", "ORDERS@QM3", "hello")


def test_errors_are_told_in_one_line(shell: Shell) -> None:
    for arguments in (
        ("define", "BAD"),
        ("define", "BAD", "--set", "colour=red"),
        ("alter", "NONE", "--set", "remote_queue=Q"),
        ("delete", "NONE"),
        ("show", "NONE"),
    ):
        result = shell.run("remote-queue", *arguments)
        assert result.exit_code == 3 and len(result.stderr.strip().splitlines()) == 1, result.stderr
