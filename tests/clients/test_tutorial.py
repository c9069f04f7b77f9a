"""The tutorial of the asyncio worker, word by word: its commands and programs, against a real broker."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import ROOT, python_path

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
PAGE = (ROOT / "docs" / "tutorial" / "asyncio-worker.md").read_text()
WORKER, ORDER = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SHIPPED, STOPPED = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ postroom (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)
ORDERED = re.findall(r"^\$ python order.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
RUN_S = 60


def run(broker: BrokerProcess, *arguments: str) -> str:
    """What a program or command of the page prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        "POSTROOM_URL": f"amqp://127.0.0.1:{broker.port}",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(broker: BrokerProcess, line: str) -> str:
    return run(broker, "-m", "postroom.cli", *shlex.split(line))


def test_the_tutorial_does_what_it_says(own_broker: BrokerProcess) -> None:
    create_dead, create_orders, get_dead = COMMANDS
    for line, output in (create_dead, create_orders):
        assert command(own_broker, line) == output
    with subprocess.Popen(
        [sys.executable, "-c", WORKER.replace("5672", str(own_broker.port))],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert run(own_broker, "-c", ORDER.replace("5672", str(own_broker.port))) == ORDERED
        assert worker.stdout is not None and worker.stderr is not None
        shipped = [worker.stdout.readline() for _ in SHIPPED.splitlines()]
        assert sorted(shipped) == sorted(SHIPPED.splitlines(keepends=True))
        worker.send_signal(signal.SIGINT)
        assert worker.stdout.read() == STOPPED
        assert "ConnectionError: the warehouse doesn't answer" in worker.stderr.read()
        assert worker.wait(RUN_S) == 0
    letter = json.loads(command(own_broker, "browse orders.dead --json"))
    annotation = [letter["annotations"][f"x-opt-dead-letter-{name}"] for name in ("description", "queue")]
    assert annotation == ["there are none", "orders"]
    assert command(own_broker, get_dead[0]) == get_dead[1]
    assert command(own_broker, "browse orders --json") == ""
