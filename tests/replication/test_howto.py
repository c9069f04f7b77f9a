"""The pages on replication and backups are true: their files are made, their commands run, word by word but
for the ports."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tools.peers.ports import free_port

from tests.clients.driver import ROOT, python_path

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(400)]  # NATS takes up to 10 s to elect a leader
PAGES = ROOT / "docs" / "howto"
BLOCK = re.compile(r"^```(toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORTS = re.compile(r"\b(?:[58]67[23]|[468]22(?=[123$]))")
RUN_S = 300
END = "--- end of a command"


def script_of(page: str, ports: dict[str, str]) -> tuple[str, list[str]]:
    """One for bash, and what each of its commands should print; "" where the page shows nothing."""
    lines, printed = ["set -e", "trap 'kill -9 $(jobs -p)' EXIT"], []
    for kind, text in BLOCK.findall(page):
        block = PORTS.sub(lambda found: ports[found[0]], text)
        if kind == "toml":
            name = block.split(maxsplit=2)[1]
            lines.append(f"cat > {name} << 'EOF'\n{block}EOF")
            continue
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = command.partition("\n")
            if line.startswith("pip install"):
                continue
            lines += [line, f"echo '{END}'"]
            printed.append(output)
    return "\n".join(lines), printed


def free_tens(taken: set[str]) -> str:
    """The beginning of three ports, with 1, 2 and 3 at the end, that nobody listened on a moment ago."""
    while (tens := str(free_port())[:-1]) in taken or not all(map(is_free, (f"{tens}{n}" for n in "123"))):
        pass
    return tens


def is_free(port: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", int(port)))
        except OSError:
            return False
        return True


@pytest.mark.parametrize(
    ("page", "shows"), [("replicate-a-broker.md", "active"), ("back-up-and-restore.md", "whole")]
)
def test_the_page_does_what_it_says(tmp_path: Path, page: str, shows: str) -> None:
    command = tmp_path / "bin" / "postroom"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m postroom.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    ports = {name: str(free_port()) for name in ("5672", "5673", "8161", "8162")}
    for name in ("422", "622", "822"):
        ports[name] = free_tens({*ports.values()})
    script, printed = script_of((PAGES / page).read_text(), ports)
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path()}
    environment["POSTROOM_URL"] = f"amqp://127.0.0.1:{ports['5672']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = done.stdout.split(f"{END}\n")[:-1]
    assert len(found) == len(printed) > 10
    for shown, expected in zip(found, printed, strict=True):
        assert not expected or shown == expected
    assert shows in "".join(found)
