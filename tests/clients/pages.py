"""How-to pages as the tests use them: their files are written down, their commands are run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.broker import BrokerProcess
from tests.clients.driver import ROOT, python_path

FOLDER = ROOT / "docs" / "howto"
FILE = re.compile(
    r"^```\{code-block\} \w+\n:caption: (?P<name>\S+)\n\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
COMMAND = re.compile(r"^\$ postroom (?P<arguments>.*)$", re.MULTILINE)
RUN_S = 60
STOP_S = 30


class Page:
    """A page, its broker and a folder with its files."""

    def __init__(self, name: str, broker: BrokerProcess, folder: Path) -> None:
        self.text = (FOLDER / name).read_text()
        self.broker = broker
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{python_path()}{os.pathsep}{folder}",
            "POSTROOM_URL": broker.url,
        }

    def write_files(self) -> None:
        """Every block with a caption, which is its file's name; the broker's port is the one of the test."""
        for name, text in files_of(self.text).items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("5672", str(self.broker.port)))

    def run_commands(self) -> None:
        """What the page does with ``postroom`` at its beginning."""
        for found in COMMAND.finditer(self.text.partition("\n## ")[0]):
            self.run([sys.executable, "-m", "postroom.cli", *shlex.split(found["arguments"])])

    def run(self, command: list[str]) -> str:
        """Run a command in the folder, which must succeed; what it says."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, command: list[str], *files: int) -> Iterator[subprocess.Popen[str]]:
        """A program that runs until SIGTERM, with these open files; its log is shown with a failing test."""
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, pass_fds=files)
        try:
            yield process
            process.terminate()
            process.wait(STOP_S)
        finally:
            process.kill()
            process.wait()


def files_of(text: str) -> dict[str, str]:
    """The files of a page, by name."""
    return {found["name"]: found["text"] for found in FILE.finditer(text)}


def fates(broker: BrokerProcess) -> dict[str, dict[str, int]]:
    """What became of the messages of each queue, by the ledger that the stopped broker has left."""
    command = [
        sys.executable,
        "-m",
        "postroom.cli",
        "ledger",
        "stats",
        "--data",
        str(broker.folder),
        "--json",
    ]
    fields: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    counts = {queue["queue"]: {**queue["outcomes"], **queue["states"]} for queue in fields["queues"]}
    return {name: fate for name, fate in counts.items() if fate and not name.startswith("postroom.dynamic.")}
