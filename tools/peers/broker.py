"""What every broker under test has in common: a process, a port, a data folder, and an orderly end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.peers.ports import LOOPBACK, free_port

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
DEBIAN_ROOT = TOOLS / "debian/root"

START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
POLL_S = 0.02


class BrokerFailed(Exception):
    """A broker did not start or stop as it should; the message holds the end of its log."""


def find_installed(pattern: str) -> Path:
    """The newest path matching `pattern`, which is relative to a root: below .tools/ or of the system."""
    for root in (DEBIAN_ROOT, Path("/")):
        found = sorted(root.glob(pattern))
        if found:
            return found[-1]
    raise BrokerFailed(f"{pattern} is not installed; run: tools/peers/install.sh")


class Broker(ABC):
    """One broker process. Use as a context manager; `start` and `stop` may also be called again and again."""

    name: str
    """How tables call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / f"{self.name.replace(' ', '-')}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start_limit_s = START_LIMIT_S
        self.prefix: list[str] = []
        """Put before the command, e.g. strace and its options."""
        self._helpers: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that runs the broker in the foreground."""

    @abstractmethod
    def version(self) -> str:
        """The broker's version, for the tables."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """What was set apart from defaults, for the tables."""

    def environment(self) -> dict[str, str]:
        """Variables added to ours."""
        return {}

    def prepare(self) -> None:  # noqa: B027 – most brokers have something to write, not all
        """Writes configuration files before each start."""

    def helpers(self) -> list[subprocess.Popen[bytes]]:
        """Processes that must run before the broker and end after it."""
        return []

    def send_address(self, queue: str) -> str:
        """How a sender's target names a queue."""
        return queue

    def receive_address(self, queue: str) -> str:
        """How a receiver's source names a queue."""
        return queue

    def add_queues(self, names: list[str]) -> None:  # noqa: B027 – some make queues when somebody attaches
        """Queues that are to be there from the start, of the kind that keeps what it has accepted."""

    def subscription_address(self, topic: str, client: str, name: str) -> str:
        """How a receiver's source names a client's durable subscription, as a queue."""
        raise BrokerFailed(f"{self.name}: no address of subscription {name!r} to {topic!r} of {client!r}")

    @property
    def session(self) -> int:
        """The session that the broker and all that it starts belong to."""
        if self.process is None:
            raise BrokerFailed(f"{self.name} is not running")
        return self.process.pid

    @property
    def pid(self) -> int:
        """Process id of the running broker: behind a prefix, of the process that the prefix has started."""
        if self.process is None:
            raise BrokerFailed(f"{self.name} is not running")
        if not self.prefix:
            return self.process.pid
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return int(children[0]) if children else own

    def start(self, wait: bool = True) -> None:
        """Starts the broker and, unless told otherwise, waits until its port takes connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        self._helpers = self.helpers()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *self.command()],
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Waits for the port; raises BrokerFailed when the process ends first or the limit passes."""
        deadline = time.monotonic() + self.start_limit_s
        while not self.accepts_connections():
            if self.process is None or self.process.poll() is not None:
                self.kill()
                raise BrokerFailed(f"{self.name} ended while starting; its log says:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(
                    f"{self.name} did not listen after {self.start_limit_s:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(POLL_S)

    def accepts_connections(self) -> bool:
        """Whether the AMQP port takes a connection now."""
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Asks the broker to end (SIGTERM) and returns its exit code; past the limit kills it and raises."""
        process = self.process
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(
                f"{self.name} ignored SIGTERM for {limit_s:.0f} s:\n{self.log_tail()}"
            ) from None
        self._finish()
        return code

    def kill(self) -> None:
        """SIGKILL to the broker and whatever it has started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._finish()

    def _finish(self) -> None:
        self.process = None
        for helper in self._helpers:
            helper.terminate()
            helper.wait()
        self._helpers = []

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of what the broker printed."""
        if not self.log.exists():
            return "(nothing)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
