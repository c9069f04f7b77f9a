"""``postroom serve`` as a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import postroom

READY = "listening on amqp"


class Process:
    """`postroom serve` with a data folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "postroom.cli", "serve", "--data", str(folder / "data"), *options]
        self.log = (folder / "log").open("w+")
        environment = {**os.environ, "PYTHONPATH": str(Path(postroom.__file__).parents[1])}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=folder, env=environment
        )

    def ready(self) -> str:
        """Its URL, once it listens."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith(READY), self.log_text()
        return line.removeprefix("listening on ")

    def log_text(self) -> str:
        """Its log so far."""
        return (self.folder / "log").read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after this signal."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
        return code


def begin(start: list[Process], folder: Path, *options: str) -> Process:
    folder.mkdir(exist_ok=True)
    started = Process(folder, *options)
    start.append(started)
    return started
