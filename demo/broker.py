"""A broker of the demo: a process of its own, killed and started again on the same port and data."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

READY = re.compile(r"listening on amqp://(\S+):(\d+)")
STOP_S = 30


class Broker:
    """``postroom serve`` with its data in ``data``; the operating system chooses the port, once.

    ``name`` is the queue manager's, ``settings`` what else its configuration file says; ``port`` is given
    where others must know it before.
    """

    def __init__(self, data: Path, name: str, settings: str = "", port: int = 0) -> None:
        self.data = data
        self.name = name
        self._settings = settings
        self.host = "127.0.0.1"
        self.port = port
        self._log = data.with_name(f"{data.name}.log")
        self._config = data.with_name(f"{data.name}.toml")
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"amqp://{self.host}:{self.port}"

    def start(self) -> None:
        """Start the process and wait until it listens; RuntimeError with its log if it doesn't."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process: one that follows doesn't listen yet."""
        head = f'container_id = "{self.name}"\n'
        listen = f'[[listen]]\naddress = "{self.host}:{self.port}"\n'
        self._config.write_text(head + self._settings + listen)
        command = [sys.executable, "-m", "postroom.cli", "serve", "--data", str(self.data)]
        command += ["--config", str(self._config)]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def wait_until_ready(self) -> None:
        """Until it listens; RuntimeError with its log if it ends."""
        assert self._process is not None and self._process.stdout is not None
        ready = READY.search(self._process.stdout.readline())
        if ready is None:
            raise RuntimeError(f"the broker didn't start; its log says:\n{self._log.read_text()}")
        self.port = int(ready[2])

    def kill(self) -> None:
        """SIGKILL: the process has no chance to write, or to say, anything more."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: an orderly end."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(STOP_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
