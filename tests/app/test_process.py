"""A program of its own that handles messages: its orderly end, its crash, and the broker's restart, to what
the ledger says of each message.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.conftest import received, send
from tests.clients.broker import BrokerProcess
from tests.clients.driver import ROOT, python_path
from tests.clients.pages import fates

pytestmark = pytest.mark.sockets

END_S = 30
PIPE = subprocess.PIPE


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


@contextmanager
def worker(url: str) -> Iterator[subprocess.Popen[str]]:
    """The program, whatever becomes of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.app.worker"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path(), "POSTROOM_URL": url},
        stdin=PIPE,
        stdout=PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def begun(process: subprocess.Popen[str]) -> str:
    """Its next line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def write_line(process: subprocess.Popen[str], text: str) -> None:
    """Let a handler go on."""
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_handler_end_and_gives_back_the_others(
    broker: BrokerProcess, number: signal.Signals
) -> None:
    send(broker.url, '{"id": 1}', '{"id": 2}', '{"id": 3}')
    with worker(broker.url) as process:
        assert begun(process) == "begun 1"
        process.send_signal(number)
        write_line(process, "done")
        assert process.wait(END_S) == 0
        assert begun(process) == ""
    assert [invoice.body for invoice in received(broker.url, "invoices")] == ["invoice 1 done"]
    left = received(broker.url, "orders", 2)
    assert [(message.body, message.delivery_count) for message in left] == [
        ('{"id": 2}', 0),
        ('{"id": 3}', 0),
    ]
    broker.stop()
    assert fates(broker) == {"orders": {"consumed": 3}, "invoices": {"consumed": 1}}


def test_a_second_signal_cancels_the_handler(broker: BrokerProcess) -> None:
    send(broker.url, '{"id": 1}', queue="endless")
    with worker(broker.url) as process:
        assert begun(process) == "begun 1"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 0
    (left,) = received(broker.url, "endless")
    assert left.delivery_count == 0


def test_a_signal_ends_a_program_that_waits_for_its_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(END_S)
        with worker(f"failover:(amqp://127.0.0.1:{silent.getsockname()[1]})") as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                assert process.wait(END_S) == 0


def test_a_signal_ends_a_program_whose_broker_has_gone(broker: BrokerProcess) -> None:
    """What was under way comes again: its outcome can't be said."""
    send(broker.url, '{"id": 1}')
    with worker(f"failover:({broker.url})") as process:
        assert begun(process) == "begun 1"
        broker.kill()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 0
    broker.start()
    (left,) = received(broker.url, "orders")
    assert left.delivery_count == 1


def test_a_crash_brings_the_message_back(broker: BrokerProcess) -> None:
    send(broker.url, '{"id": 1}')
    with worker(broker.url) as process:
        assert begun(process) == "begun 1"
        process.kill()
    with worker(broker.url) as process:
        assert begun(process) == "begun 1"
        write_line(process, "again")
        assert [invoice.body for invoice in received(broker.url, "invoices")] == ["invoice 1 again"]
        process.terminate()
        assert process.wait(END_S) == 0
    broker.stop()
    assert fates(broker) == {"orders": {"consumed": 1}, "invoices": {"consumed": 1}}


def test_a_restart_of_the_broker_is_survived(broker: BrokerProcess) -> None:
    """The order that was under way comes again; its answer and that of the next one arrive."""
    send(broker.url, '{"id": 1}')
    with worker(f"failover:({broker.url})") as process:
        assert begun(process) == "begun 1"
        broker.restart_after_kill()
        write_line(process, "before")
        assert begun(process) == "begun 1"
        write_line(process, "again")
        send(broker.url, '{"id": 2}')
        assert begun(process) == "begun 2"
        write_line(process, "done")
        bodies = [invoice.body for invoice in received(broker.url, "invoices", 3)]
        process.terminate()
        assert process.wait(END_S) == 0
    assert bodies == ["invoice 1 before", "invoice 1 again", "invoice 2 done"]
    broker.stop()
    assert fates(broker)["orders"] == {"consumed": 2}
