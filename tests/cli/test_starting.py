"""Commands start quickly: each loads what it uses, and help and shell completion load no command at all.

Times are measured by nobody here: what is loaded is looked at.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.cli.main import COMMANDS
from tests.server.harness import BrokerThread

RUN = """
import json, sys
from postroom.cli.main import main
loaded_to, *arguments = sys.argv[1:]
try:
    main(arguments, prog_name="postroom")
finally:
    with open(loaded_to, "w") as file:
        json.dump(sorted(sys.modules), file)
"""

HEAVY = {
    *("numpy", "pyarrow", "pandas", "pyspark", "starlette", "uvicorn", "wsproto", "uvloop", "msgspec"),
    *("prometheus_client", "isal", "rich"),
}
OF_CLIENT = {"isal", "uvloop"}
"""Of these, what the client itself uses: checksums, and the loop of its connection."""
SERVER_ROOMS = {"postroom.ledger", "postroom.channel", "postroom.server", "postroom.spark"}


def loaded(folder: Path, *arguments: str, exit_code: int = 0) -> set[str]:
    """The modules that a command has loaded in a process of its own."""
    found = folder / "loaded.json"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(found), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    return set(json.loads(found.read_text()))


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("-h",)])
def test_the_list_of_commands_loads_none_of_them(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = loaded(tmp_path, *arguments)
    ours = {name for name in modules if name.partition(".")[0] == "postroom"}
    assert ours == {"postroom", "postroom.cli", "postroom.cli.groups", "postroom.cli.main"}
    assert not modules & {*HEAVY, "asyncio", "ssl"}


def test_help_of_serve_loads_no_broker(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "serve", "--help")
    assert not modules & {*HEAVY, "asyncio", "postroom.ledger", "postroom.manager", "postroom.server.start"}


@pytest.mark.sockets
def test_put_and_get_load_the_client_alone(broker: BrokerThread, tmp_path: Path) -> None:
    for command in (
        ("put", "lean", "hello", "--ttl-ms", "60000", "--url", broker.url),
        ("put", "lean", "--count", "3", "hello", "--json", "--url", broker.url),
        ("get", "lean", "--count", "4", "--url", broker.url),
    ):
        modules = loaded(tmp_path, *command)
        assert "postroom.client.sync" in modules
        assert not modules & (HEAVY - OF_CLIENT | SERVER_ROOMS), command


@pytest.mark.sockets
def test_commands_about_queues_load_no_part_of_the_broker(broker: BrokerThread, tmp_path: Path) -> None:
    for command in (
        ("queue", "create", "made", "--set", "max_messages=10"),
        ("queue", "list"),
        ("queue", "show", "made"),
        ("message", "list", "made"),
        ("broker", "stats"),
        ("transaction", "list"),
    ):
        modules = loaded(tmp_path, *command, "--url", broker.url)
        assert not modules & (HEAVY - {*OF_CLIENT, "rich"} | SERVER_ROOMS), command
        assert "rich" not in modules or "create" not in command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_each_command_what_the_command_says(name: str) -> None:
    context = click.Context(main)
    assert isinstance(main, click.Group)
    command = main.get_command(context, name)
    assert command is not None and command.name == name
    assert command.get_short_help_str(10_000) == COMMANDS[name].help
    assert not command.hidden and not command.deprecated and "[" not in COMMANDS[name].help


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_list_looks_as_click_has_it(columns: int) -> None:
    context = click.Context(main, info_name="postroom", terminal_width=columns, max_content_width=columns)
    assert isinstance(main, click.Group)
    record, wanted = context.make_formatter(), context.make_formatter()
    main.format_commands(context, record)
    click.Group.format_commands(main, context, wanted)
    assert record.getvalue() == wanted.getvalue()


def test_no_command_of_that_name() -> None:
    done = CliRunner().invoke(main, ["putt"])
    assert done.exit_code == 2 and "No such command 'putt'" in done.stderr


def completions(*words: str) -> list[str]:
    """What bash is offered for the last of ``words``."""
    environment = {
        "_POSTROOM_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "postroom"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_the_shell_completes_commands_and_their_options() -> None:
    assert completions("postroom", "spark") == ["spark-subscription"]
    assert completions("postroom", "--v") == ["--version"]
    assert completions("postroom", "queue", "cre") == ["create"]
    assert completions("postroom", "put", "--pri") == ["--priority"]


def test_a_broker_without_http_loads_no_web_server() -> None:
    program = "import json, sys, postroom.server.start; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    modules = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not modules & (HEAVY - {"numpy", "msgspec", "isal", "uvloop"}) and "click" not in modules
