"""`--watch`: on a terminal and in a pipe, ended by Ctrl-C; and which commands have it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import postroom
from postroom.cli import main
from postroom.cli.common.broker_group import WATCHED
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

COMMAND = (sys.executable, "-m", "postroom")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(postroom.__file__).parent.parent), "TERM": "xterm"}
WAIT_S = 30


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_that_shows_what_a_running_broker_has_can_be_watched() -> None:
    of_brokers = {
        name: {parameter.name for parameter in command.params}
        for name, command in commands(main)
        if name.split()[-1] in WATCHED and any(each.name == "url" for each in command.params)
    }
    assert len(of_brokers) > 25 and "queue show" in of_brokers
    assert [name for name, parameters in of_brokers.items() if "interval_s" not in parameters] == []


def restore_interrupts() -> None:
    """In the new process: of a shell's background job it would have inherited that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(broker: BrokerThread, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments, "--url", broker.url],
        env=ENVIRONMENT,
        preexec_fn=restore_interrupts,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_in_a_pipe_one_comes_after_the_other_until_ctrl_c(broker: BrokerThread, shell: Shell) -> None:
    shell.ok("queue", "create", "piped")
    with started(broker, "queue", "list", "piped", "--json", "--watch=0.2") as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["messages_current"] == 0
        shell.ok("put", "piped", "x")
        while json.loads(process.stdout.readline())["messages_current"] == 0:
            pass
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(WAIT_S) == 0 and process.stderr.read() == ""


def test_what_goes_wrong_ends_it(broker: BrokerThread, shell: Shell) -> None:
    shell.ok("queue", "create", "gone")
    with started(broker, "queue", "show", "gone", "--watch=0.2") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "gone\n"
        shell.ok("queue", "delete", "gone")
        process.stdout.read()
        assert process.wait(WAIT_S) == 3 and "there is no queue 'gone'" in process.stderr.read()


def read_until(terminal: int, mark: str) -> str:
    """What the terminal shows, control sequences left out."""
    seen = ""
    while mark not in seen:
        ready, _, _ = select.select([terminal], [], [], WAIT_S)
        assert ready, seen
        seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(terminal, 65_536).decode())
    return seen


def test_on_a_terminal_it_is_the_whole_screen_and_what_does_not_fit_is_counted(
    broker: BrokerThread, shell: Shell
) -> None:
    for number in range(9):
        shell.ok("queue", "create", f"shown.{number}")
    child, terminal = pty.fork()
    if child == 0:
        restore_interrupts()
        arguments = [*COMMAND, "queue", "list", "shown", "--watch=0.2", "--url", broker.url]
        os.execve(sys.executable, arguments, {**ENVIRONMENT, "LINES": "8", "COLUMNS": "120"})
    seen = read_until(terminal, "lines more")
    assert "every 0.2 s; Ctrl-C ends it" in seen and "shown.0" in seen and "shown.8" not in seen
    for number in range(1, 9):
        shell.ok("queue", "delete", f"shown.{number}")
    shell.ok("put", "shown.0", *map(str, range(1234)))
    assert "shown.0" in read_until(terminal, "1,234")
    os.write(terminal, b"\x03")
    while True:  # what it prints last has to be read, or it can't end
        try:
            if not os.read(terminal, 65_536):
                break
        except OSError:
            break
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)


@pytest.mark.parametrize(("seconds", "wanted"), [("0.1", "0.2"), ("x", "not a valid float"), ("1e9", "3600")])
def test_intervals_have_bounds(shell: Shell, seconds: str, wanted: str) -> None:
    done = shell.run("queue", "list", f"--watch={seconds}")
    assert done.exit_code == 2 and wanted in done.stderr
