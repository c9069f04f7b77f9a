"""`postroom status` of real brokers: who serves, who is paused, who was killed, and what a probe is told."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from postroom.cli import main
from postroom.server import status as status_module
from postroom.server.status import NoStatus, StatusDoor, read_status, why_not_ready, why_unhealthy
from tests.clients.broker import USUAL, BrokerProcess

pytestmark = pytest.mark.sockets
WAIT_S = 60.0
POLL_S = 0.05


def status(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["status", "--data", str(folder), *options])


def test_a_broker_is_active_until_it_is_gone(tmp_path: Path) -> None:
    """A paused one doesn't answer; nothing is left in the folder of one that was killed."""
    folder = tmp_path / "data"
    none = status(folder)
    assert (none.exit_code, none.output) == (1, f"Error: {folder}: no such folder\n")
    with BrokerProcess(folder, USUAL) as broker:
        found = json.loads(status(folder, "--json", "--ready", "--active").output)
        assert found["state"] == "active"
        assert found["epoch"] == 1
        assert found["urls"] == [broker.url]
        shown = status(folder)
        assert shown.exit_code == 0
        assert f"clients at:     {broker.url}" in shown.output
        broker.send_signal(signal.SIGSTOP)
        paused = status(folder)
        assert (paused.exit_code, "doesn't answer within" in paused.output) == (1, True)
        broker.send_signal(signal.SIGCONT)
        broker.kill()
        dead = status(folder)
        assert (dead.exit_code, "no broker of it runs here" in dead.output) == (1, True)
        broker.start()
        assert json.loads(status(folder, "--json").output)["epoch"] == 2
        assert not [each for each in folder.iterdir() if each.is_socket()]


def test_one_that_waits_for_the_engine_lives_and_is_not_ready(tmp_path: Path) -> None:
    nobody = '[replication]\nmember = "a"\nservers = ["nats://127.0.0.1:1"]\n'
    folder = tmp_path / "data"
    folder.mkdir()
    broker = BrokerProcess(folder, USUAL + nobody)
    broker.launch()
    try:
        wait_for(lambda: status(folder).exit_code == 0)
        assert json.loads(status(folder, "--json").output)["state"] == "starting"
        for option in ("--ready", "--active"):
            refused = status(folder, option)
            assert (refused.exit_code, "it is starting" in refused.output) == (1, True)
    finally:
        broker.kill()


def wait_for(holds: Callable[[], bool]) -> None:
    """The door opens soon after the start."""
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s, "it never was"
        time.sleep(POLL_S)


def test_only_the_same_user_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StatusDoor(tmp_path):
        wait_for_door(tmp_path)
        other = os.geteuid() + 1
        real = status_module._user_of
        monkeypatch.setattr(status_module, "_user_of", lambda peer: other)
        with pytest.raises(NoStatus, match="another user's"):
            read_status(tmp_path)
        monkeypatch.setattr(status_module, "_user_of", real)
        assert read_status(tmp_path)["state"] == "starting"
    with pytest.raises(NoStatus, match="no broker of it runs here"):
        read_status(tmp_path)


def wait_for_door(folder: Path) -> None:
    def opens() -> bool:
        try:
            read_status(folder)
        except NoStatus:
            return False
        return True

    wait_for(opens)


def test_a_second_door_opens_when_the_first_is_closed(tmp_path: Path) -> None:
    with StatusDoor(tmp_path) as first:
        first.report = lambda: {"state": "first"}
        wait_for_door(tmp_path)
        with StatusDoor(tmp_path) as second:
            second.report = lambda: {"state": "second"}
            assert read_status(tmp_path)["state"] == "first"
            first.__exit__(None, None, None)
            wait_for_door(tmp_path)
            assert read_status(tmp_path)["state"] == "second"


@pytest.mark.parametrize(
    ("found", "unhealthy", "not_ready"),
    [
        ({"state": "active", "loop_s": 1.0}, "", ""),
        ({"state": "active", "loop_s": 31.0}, "its loop hasn't run for 31 s", "its loop hasn't run for 31 s"),
        ({"state": "following", "behind_s": 10.0}, "", ""),
        ({"state": "following", "behind_s": 10.5}, "", "it is 10 s behind the log's end"),
        ({"state": "copying"}, "", "it is copying"),
        ({"state": "starting"}, "", "it is starting"),
    ],
)
def test_what_a_probe_is_told(found: dict[str, Any], unhealthy: str, not_ready: str) -> None:
    assert why_unhealthy(found) == unhealthy
    assert why_not_ready(found, 10.0) == not_ready
