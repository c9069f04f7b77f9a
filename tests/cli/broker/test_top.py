"""`postroom top`: its tables, its rates, and the command itself."""

import json
import os
import pty
import re
import select
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import postroom
from postroom.cli.broker.top_view import Snapshot, View
from postroom.client import ConnectionFactory
from postroom.model.names import DYNAMIC_PREFIX
from postroom.server.configuration.channels import ChannelConfig
from postroom.server.configuration.config import QueueConfig
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config


def broker(**changes: Any) -> dict[str, Any]:
    return {
        "container_id": "LONDON",
        "version": "1.0",
        "queues": 2,
        "connections": 1,
        "blocked_sends": 0,
        "space_low": False,
        "alarms": [],
        **changes,
    }


def queue(name: str, received: int, current: int, pending: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "messages_received": received,
        "messages_current": current,
        "messages_pending": pending,
        "bytes_current": 1536,
        "consumers": 1,
    }


def channel(name: str, state: str = "running", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "partner": "PARIS",
        "in_doubt": False,
        "in_doubt_messages": 0,
        "current_sequence": 0,
        "last_sequence": 7,
        "messages": 0,
        "batches": 0,
        "short_retries_left": 9,
        "long_retries_left": 99,
        "reason": "",
        **changes,
    }


def connection(name: str, came: int = 0, left: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "container_id": "PARIS",
        "user": "anonymous",
        "links": 2,
        "messages_in": came,
        "messages_out": left,
        "unsettled": 0,
        "blocked_sends": 0,
        "outgoing": True,
    }


def text_of(view: View, columns: int = 100, lines: int = 0) -> str:
    console = Console(width=columns, color_system=None)
    with console.capture() as captured:
        console.print(view.render(columns, lines))
    return captured.get()


def line_of(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if name in line.split())


def test_rates_are_what_lies_between_two_looks() -> None:
    before = Snapshot(
        10.0, broker(), [queue("q", 100, 5)], [channel("A.B", messages=50)], [connection("h:1", 5, 10)]
    )
    now = Snapshot(
        12.0, broker(), [queue("q", 200, 25, 2)], [channel("A.B", messages=55)], [connection("h:1", 5, 30)]
    )
    text = text_of(View(before, now))
    assert line_of(text, "q") == ["q", "27", "2", "1.5", "KB", "50", "39", "1"]
    assert line_of(text, "A.B") == ["A.B", "running", "PARIS", "no", "7", "55", "2.5"]
    assert line_of(text, "h:1") == ["→", "h:1", "PARIS", "anonymous", "2", "0", "10", "0", "0"]


def test_without_a_look_before_there_are_no_rates() -> None:
    text = text_of(View(None, Snapshot(10.0, broker(), [queue("q", 100, 5)], [], [])))
    assert line_of(text, "q")[-3:-1] == ["–", "–"]
    assert View(None, Snapshot(1.0, broker(), [queue("q", 1, 1)], [], [])).as_json()["queues"] == [
        {**queue("q", 1, 1), "in_s": None, "out_s": None}
    ]


def test_counters_that_begin_anew_give_no_negative_rate() -> None:
    before = Snapshot(1.0, broker(), [queue("q", 100, 0)], [], [])
    text = text_of(View(before, Snapshot(2.0, broker(), [queue("q", 3, 0)], [], [])))
    assert line_of(text, "q")[-3:-1] == ["0", "0"]


def test_a_channel_says_why_it_does_not_run_and_what_is_in_doubt() -> None:
    retrying = channel("R", "retrying", reason="no route")
    doubtful = channel("D", "stopped", in_doubt=True, in_doubt_messages=3, reason="stopped by a command")
    long = channel("L", "retrying", reason="no route", short_retries_left=0)
    text = text_of(View(None, Snapshot(1.0, broker(), [], [retrying, doubtful, long], [])), 140)
    assert "9 short retries left: no route" in text and "99 long retries left: no route" in text
    assert line_of(text, "D")[:5] == ["D", "stopped", "PARIS", "3", "7"]
    assert "stopped by a command" in text


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("rate", ["busy", "deep", "idle"]),
        ("depth", ["deep", "busy", "idle"]),
        ("name", ["busy", "deep", "idle"]),
    ],
)
def test_what_comes_first(sort: str, order: list[str]) -> None:
    before = Snapshot(1.0, broker(), [queue("idle", 0, 0), queue("deep", 9, 9), queue("busy", 0, 0)], [], [])
    now = Snapshot(2.0, broker(), [queue("idle", 0, 0), queue("deep", 9, 9), queue("busy", 50, 0)], [], [])
    assert [row[0] for row in View(before, now, sort).sections()[1].rows] == order


def test_a_small_terminal_shows_the_first_rows_of_each_table() -> None:
    queues = [queue(f"q{number:03}", 0, 0) for number in range(100)]
    text = text_of(View(None, Snapshot(1.0, broker(), queues, [channel("A.B")], [])), 80, 20)
    assert len(text.splitlines()) == 20
    assert "Queues (100, 12 shown)" in text and "A.B" in text


def test_nothing_is_wider_than_the_terminal() -> None:
    wide = channel("A" * 20, "retrying", reason="x" * 200, partner="P" * 20)
    text = text_of(View(None, Snapshot(1.0, broker(), [queue("q" * 300, 1, 1)], [wide], [])), 90)
    assert max(len(line) for line in text.splitlines()) <= 90


def test_troubles_of_the_broker_are_in_the_first_line() -> None:
    text = text_of(
        View(None, Snapshot(1.0, broker(blocked_sends=3, alarms=[{"name": "puts-refused"}]), [], [], []))
    )
    assert "3 sends blocked" in text.splitlines()[0] and "puts-refused" in text.splitlines()[0]


@pytest.mark.sockets
def test_one_look_at_a_running_broker() -> None:
    sender = ChannelConfig(
        name="A.B", type="sender", transmission_queue="B", connection="amqp://b:1", triggered=False
    )
    queues = [QueueConfig(name="B", usage="transmission"), QueueConfig(name="work")]
    with BrokerThread(make_config(container_id="A", queue=queues, channel=[sender])) as running:
        shell = Shell(running.url)
        shell.ok("put", "work", "one", "two")
        text = shell.ok("top", "--once")
        assert line_of(text, "work")[:3] == ["work", "2", "0"]
        assert line_of(text, "A.B")[:2] == ["A.B", "inactive"]
        assert DYNAMIC_PREFIX not in text and "←" in text
        with ConnectionFactory(running.url).create_connection() as connection:
            connection.create_session().create_temporary_queue()
            assert DYNAMIC_PREFIX not in shell.ok("top", "--once")
            assert DYNAMIC_PREFIX in shell.ok("top", "--once", "--all")
        output = json.loads(shell.ok("top", "--once", "--json"))
        assert {each["name"] for each in output["queues"]} == {"B", "work"}
        assert output["channels"][0]["state"] == "inactive" and output["broker"]["container_id"] == "A"


@pytest.mark.sockets
def test_the_live_view_ends_with_q() -> None:
    with BrokerThread(make_config(("work",), container_id="A")) as running:
        command = [sys.executable, "-m", "postroom.cli", "top", "--url", running.url, "--interval", "0.2"]
        environment = {"PYTHONPATH": str(Path(postroom.__file__).parents[1]), "TERM": "xterm", "PATH": ""}
        child, terminal = pty.fork()
        if child == 0:
            os.execve(sys.executable, command, environment)
        seen = read_until(terminal, b"Connections (1)")
        assert "work" in seen
        os.write(terminal, b"s")
        os.write(terminal, b"q")
        read_until(terminal, b"\x1b[?1049l")  # back on the usual screen
        assert os.waitpid(child, 0)[1] == 0
        os.close(terminal)


def read_until(terminal: int, mark: bytes) -> str:
    """What the terminal shows, control sequences left out."""
    seen = b""
    while mark not in seen:
        ready, _, _ = select.select([terminal], [], [], 20)
        assert ready, seen
        seen += os.read(terminal, 65_536)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
