"""The shell's completion: the script that `postroom` prints, run in a real bash; names of a running broker;
and that a broker that doesn't answer holds nobody.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import postroom
from postroom.cli.common import broker_group
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

SOURCE = str(Path(postroom.__file__).parent.parent)
IN_BASH = r"""
source "$1"
complete -p postroom > /dev/null || exit 9
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_postroom_completion postroom
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A command `postroom`, and its script for bash."""
    made = tmp_path_factory.mktemp("completion")
    command = made / "postroom"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m postroom "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "_POSTROOM_COMPLETE": "bash_source"}
    script = subprocess.run([command], env=environment, capture_output=True, timeout=60, check=True).stdout
    (made / "script").write_bytes(script)
    return made


def completed(folder: Path, *words: str, url: str = "amqp://127.0.0.1:1") -> list[str]:
    """What bash offers for the last of ``words``."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    done = subprocess.run(
        [bash, "-c", IN_BASH, "bash", str(folder / "script"), *words],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "POSTROOM_URL": url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_choices(folder: Path) -> None:
    assert completed(folder, "postroom", "def") == ["definitions"]
    assert completed(folder, "postroom", "definitions", "") == ["apply", "convert", "diff", "export"]
    assert completed(folder, "postroom", "definitions", "apply", "--dry") == ["--dry-run"]
    assert completed(folder, "postroom", "definitions", "export", "--format", "j") == ["json"]
    assert completed(folder, "postroom", "queue", "pause", "orders", "prod") == ["production"]


@pytest.mark.parametrize("shell_name", ["zsh", "fish"])
def test_scripts_for_other_shells_are_there(folder: Path, shell_name: str) -> None:
    environment = {**os.environ, "_POSTROOM_COMPLETE": f"{shell_name}_source"}
    done = subprocess.run([folder / "postroom"], env=environment, capture_output=True, timeout=60, check=True)
    assert b"_POSTROOM_COMPLETE" in done.stdout


def test_bash_completes_names_of_a_running_broker(folder: Path, broker: BrokerThread, shell: Shell) -> None:
    shell.ok("queue", "create", "orders.eu")
    shell.ok("queue", "create", "orders.us")
    shell.ok("topic", "create", "orders.topic")
    for words in (("queue", "show"), ("get",), ("message", "list"), ("message", "move", "orders.eu")):
        assert completed(folder, "postroom", *words, "orders.", url=broker.url) == ["orders.eu", "orders.us"]
    assert completed(folder, "postroom", "topic", "show", "ord", url=broker.url) == ["orders.topic"]
    by_option = completed(folder, "postroom", "queue", "show", "--url", broker.url, "orders.e")
    assert by_option == ["orders.eu"]
    assert completed(folder, "postroom", "queue", "create", "ord", url=broker.url) == []


def test_without_a_broker_nothing_is_offered(folder: Path) -> None:
    assert completed(folder, "postroom", "queue", "show", "ord") == []
    assert completed(folder, "postroom", "queue", "show", "ord", url="nonsense://") == []


def test_a_broker_that_does_not_answer_holds_nobody(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert completed(folder, "postroom", "queue", "show", "ord", url=f"amqp://127.0.0.1:{port}") == []
        peer, _ = silent.accept()  # it has tried
        peer.close()
    assert broker_group.COMPLETION_S <= 2
