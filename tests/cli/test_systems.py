"""The commands that ask a running broker run on macOS and Windows, too; one that can't says why, in one line.

As in `tests.client.test_systems`, what a system lacks is taken away in a process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.harness import BrokerThread

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.sockets


def run(system: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.client.other_system", system, "--", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("system", ["windows", "mac"])
def test_a_running_broker_is_asked_from_anywhere(system: str, broker: BrokerThread) -> None:
    queue = f"from.{system}"
    for arguments, record in (
        (("queue", "create", queue, "--set", "max_messages=2"), f"created {queue}"),
        (("put", queue, "a", "b"), f"sent 2 to {queue}"),
        (("get", queue), "a"),
        (("message", "delete", queue, "--all"), f"deleted 1 messages from {queue}"),
    ):
        done = run(system, *arguments, "--url", broker.url)
        assert (done.stdout.strip(), done.stderr, done.returncode) == (record, "", 0)
    exported = run(system, "definitions", "export", "--auto-created", "--url", broker.url)
    assert (exported.returncode, exported.stderr) == (0, "") and f'name = "{queue}"' in exported.stdout
    listed = run(system, "queue", "list", "--json", "--url", broker.url).stdout.splitlines()
    assert queue in [json.loads(line)["name"] for line in listed]


@pytest.mark.parametrize(
    ("system", "name", "missing"),
    [
        ("windows", "Windows", "fcntl, os.eventfd, os.fdatasync, os.preadv, os.pwritev"),
        ("mac", "Darwin", "os.eventfd, os.fdatasync"),
    ],
)
def test_serve_says_what_no_broker_runs_without(system: str, name: str, missing: str, tmp_path: Path) -> None:
    done = run(system, "serve", "--data", str(tmp_path / "data"))
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"postroom: the broker runs on Linux, and {name} has no {missing}: ")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [("ledger", "verify"), ("trace", "--id", "x"), ("token", "list")])
def test_a_command_over_a_brokers_files_says_that_it_is_not_for_windows(command: tuple[str, ...]) -> None:
    done = run("windows", *command)
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"Error: {command[0]} is built on the broker's own parts and runs where it does, on Linux"
    )


@pytest.mark.parametrize("system", ["windows", "mac"])
def test_help_is_the_same_everywhere(system: str) -> None:
    assert run(system, "--help").stdout == run("bare", "--help").stdout != ""
    assert "--listen" in run(system, "serve", "--help").stdout
