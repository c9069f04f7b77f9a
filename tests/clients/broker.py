"""A real broker process for the tests: started, killed, started again on the same data and port."""

from __future__ import annotations

import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from tools.peers.ports import free_port

from tests.originals import ORIGINALS_TOML

START_S = 60.0
STOP_S = 30.0
READY = re.compile(r"listening on (?:amqp://)?(\S+):(\d+)")


USUAL = """
[[listen]]
address = "{address}"
"""
"""A configuration that says nothing more, as users meet it."""


class BrokerProcess:
    """``postroom serve`` on loopback, with its data in ``folder``.

    ``config`` is the text of a configuration in which {address} is where to listen; without one queues are as
    with the originals. ``name`` tells it from another one with the same folder.
    """

    def __init__(self, folder: Path, config: str | None = None, name: str = "") -> None:
        self.folder = folder
        self.host = "127.0.0.1"
        self.port = free_port()
        self._config = config or ORIGINALS_TOML + USUAL
        self._files = folder.with_name(folder.name + name)
        self._log = self._files.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None
        self.prefix: list[str] = []
        """What runs the command, if not this process."""
        self.module = "postroom.cli"
        """The command's."""

    def start(self) -> None:
        """Start it and wait for the line that says that it is ready."""
        self.launch()
        self._await_ready()

    def launch(self) -> None:
        """Start it: one that stands by isn't ready until the other has gone."""
        command = [*self.prefix, sys.executable, "-m", self.module, "serve", "--data", str(self.folder)]
        command += self._where_to_listen()
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def _where_to_listen(self) -> list[str]:
        address = f"{self.host}:{self.port}"
        file = self._files.with_suffix(".toml")
        file.write_text(self._config.format(address=address))
        return ["--config", str(file)]

    def _await_ready(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        lines: list[str] = []
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            end = time.monotonic() + START_S
            while selector.select(max(end - time.monotonic(), 0)):
                line = self._process.stdout.readline()
                lines.append(line)
                if READY.search(line):
                    return
                if not line:
                    break
        raise RuntimeError(
            f"the broker is not ready; it said {lines}; its log: {self._log.read_text()[-4000:]}"
        )

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait for the orderly end."""
        self._end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process is not None
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Such as SIGSTOP and SIGCONT."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait_for_exit(self) -> int:
        """Until it ends by itself; its exit code."""
        assert self._process is not None
        assert self._process.stdout is not None
        code = self._process.wait(STOP_S)
        self._process.stdout.close()
        self._process = None
        return code

    def wait_until_ready(self) -> None:
        """Until one that was launched takes clients."""
        self._await_ready()

    @property
    def log_text(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(STOP_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not ended from here."""
        return self._process is not None

    def restart_after_kill(self) -> None:
        """Crash and come back."""
        self.kill()
        self.start()

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def address(self) -> dict[str, str | int]:
        """The fields of a driver's ``connect``."""
        return {"host": self.host, "port": self.port}

    @property
    def url(self) -> str:
        return f"amqp://{self.host}:{self.port}"
