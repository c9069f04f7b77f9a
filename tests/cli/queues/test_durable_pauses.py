"""Pauses that hold beyond a restart, and those that don't; over a kill, too."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from postroom.server.configuration.config import QueueConfig
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


@contextmanager
def serving(folder: Path) -> Iterator[Shell]:
    """A broker in a process of its own, which is killed in the end."""
    command = [sys.executable, "-m", "postroom", "serve", "--data", str(folder), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), line
            yield Shell(line.removeprefix("listening on ").strip())
        finally:
            process.send_signal(signal.SIGKILL)


def paused(shell: Shell, name: str, kind: str = "queue") -> list[str]:
    (found,) = shell.json(kind, "stats", name)
    return [switch for switch in ("production", "insertion", "consumption") if found[f"{switch}_paused"]]


def test_durable_pauses_survive_a_kill_and_the_others_do_not(tmp_path: Path) -> None:
    with serving(tmp_path) as shell:
        for name in ("q", "made.again", "plain"):
            shell.ok("put", name, "a")
        shell.ok("queue", "pause", "q", "--durable")
        shell.ok("queue", "pause", "q", "production", "--durable")
        shell.ok("queue", "pause", "q", "insertion")
        shell.ok("queue", "pause", "made.again", "insertion", "--durable")
        shell.ok("queue", "resume", "made.again", "insertion")
        shell.ok("queue", "pause", "plain")
        assert paused(shell, "q") == ["production", "insertion", "consumption"]
        told = shell.ok("queue", "show", "q")
        assert "consumption is paused, also after a restart" in told and "insertion is paused\n" in told
    with serving(tmp_path) as shell:
        assert paused(shell, "q") == ["production", "consumption"]
        assert paused(shell, "made.again") == paused(shell, "plain") == []
        assert shell.run("get", "q").exit_code == 4 and shell.run("put", "q", "b").exit_code == 3
        shell.ok("queue", "resume", "q")
        shell.ok("queue", "pause", "q", "production")  # without --durable it stays as durable as it was
        assert shell.ok("get", "q") == "a\n"
    with serving(tmp_path) as shell:
        assert paused(shell, "q") == ["production"]


def test_a_topic_that_is_durably_paused_pauses_its_subscriptions_again(tmp_path: Path) -> None:
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        assert shell.run("get", "t", "--topic", "--subscription", "early").exit_code == 4
        shell.ok("topic", "pause", "t", "--durable")
        assert shell.run("get", "t", "--topic", "--subscription", "late").exit_code == 4
        names = [str(each["name"]) for each in shell.json("subscription", "list", "t")]
        (of_one, other) = names
        assert all(paused(shell, name, "subscription") == ["consumption"] for name in names)
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        assert all(paused(shell, name, "subscription") == ["consumption"] for name in names)
        shell.ok("topic", "resume", "t")
        assert all(paused(shell, name, "subscription") == [] for name in names)
        shell.ok("subscription", "pause", of_one, "--durable")
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        assert paused(shell, of_one, "subscription") == ["consumption"]
        assert paused(shell, other, "subscription") == paused(shell, "t", "topic") == []


def test_the_configuration_does_not_lift_a_durable_pause(tmp_path: Path) -> None:
    config = make_config(queue=[QueueConfig(name="q")])
    changed = make_config(queue=[QueueConfig(name="q", max_messages=5)])
    with BrokerThread(config, folder=tmp_path) as broker:
        Shell(broker.url).ok("queue", "pause", "q", "production", "--durable")
    for again in (config, changed):
        with BrokerThread(again, folder=tmp_path) as broker:
            assert paused(Shell(broker.url), "q") == ["production"]
    with BrokerThread(changed, folder=tmp_path) as broker:
        shell = Shell(broker.url)
        assert shell.json("queue", "list", "q")[0]["max_messages"] == 5
        shell.ok("queue", "alter", "q", "--set", "max_bytes=9")
        assert shell.json("queue", "list", "q")[0]["durably_paused"] == "production"
        shell.ok("queue", "resume", "q", "production")
        assert shell.json("queue", "list", "q")[0]["durably_paused"] == ""


def test_what_is_no_switch_is_noted_nowhere(broker: BrokerThread, shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    refused = shell.run("queue", "alter", queue, "--set", "durably_paused=consumption")
    assert refused.exit_code == 3 and "durably_paused can't be changed" in refused.stderr
    assert shell.run("queue", "pause", queue, "everything", "--durable").exit_code == 2
    assert shell.run("queue", "resume", queue, "--durable").exit_code == 2
    assert shell.json("queue", "list", queue)[0]["durably_paused"] == ""
