"""The tests' side of the drivers: a client as a process that is asked in JSON lines (see README.md)."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ANSWER_S = 30.0
PROGRAM_S = 100.0

COMMANDS: dict[str, list[str]] = {
    "proton": [sys.executable, str(HERE / "proton_driver.py")],
    "rhea": ["node", str(HERE / "rhea" / "driver.js")],
    "qpid_jms": [
        "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
        f"{HERE}/qpid-jms/target/driver.jar:{HERE}/qpid-jms/target/lib/*", "postroom.driver.Driver",
    ],
    "postroom": [sys.executable, str(HERE / "postroom_driver.py")],
}  # fmt: skip
MADE_READY_BY_SCRIPT = ("rhea", "qpid_jms", "joram", "spring_boot", "go_amqp")


class ClientError(Exception):
    """What a driver answered instead of a result."""

    def __init__(self, client: str, error: dict[str, Any]) -> None:
        super().__init__(f"{client}: {error['type']}: {error['condition']}: {error['description']}")
        self.kind: str = error["type"]
        self.condition: str | None = error["condition"]
        self.description: str | None = error["description"]


class Client:
    """A running driver. Every command is a method call: ``client("send", address="q", messages=[…])``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            COMMANDS[name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path()},
        )
        self._unread = b""
        self.is_suspect = False
        """It failed a command: tests that share it had better start another."""

    def __call__(self, op: str, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        self.is_suspect = True
        answer: dict[str, Any] = json.loads(self._read_line())
        self.is_suspect = "error" in answer
        if self.is_suspect:
            raise ClientError(self.name, answer["error"])
        return answer

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(ANSWER_S):
                    raise TimeoutError(f"{self.name} gave no answer within {ANSWER_S} s")
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    raise EOFError(f"{self.name} ended with code {self._process.wait()}")
                self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def kill(self) -> None:
        """SIGKILL, as when a process crashes."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    # Short forms

    def send(self, address: str, *messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        """Send; the outcomes."""
        outcomes: list[dict[str, Any]] = self("send", address=address, messages=list(messages), **fields)[
            "outcomes"
        ]
        return outcomes

    def send_accepted(self, address: str, *messages: dict[str, Any]) -> None:
        """Send; every message must be accepted."""
        outcomes = self.send(address, *messages)
        assert [outcome["state"] for outcome in outcomes] == ["accepted"] * len(messages), outcomes

    def receive(self, address: str, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
        """Receive and (unless said otherwise) accept what the broker has now."""
        messages: list[dict[str, Any]] = self("receive", address=address, count=count, **fields)["messages"]
        return messages

    def browse(self, address: str) -> list[dict[str, Any]]:
        """All messages that wait."""
        messages: list[dict[str, Any]] = self("browse", address=address)["messages"]
        return messages


def python_path() -> str:
    """The source or build under test, as this process sees it, and this folder."""
    return os.pathsep.join([*(entry for entry in sys.path if entry.endswith(("src", "compiled"))), str(HERE)])


def jms_findings(program: str, address: str) -> dict[str, str]:
    """What a program of qpid-jms/ finds at the broker at ``address``, by the name of each trial."""
    make_ready("qpid_jms")
    done = subprocess.run(
        jms_command(program, address), capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def jms_command(program: str, *arguments: str) -> list[str]:
    """What runs a program of qpid-jms/."""
    return [*COMMANDS["qpid_jms"][:-1], f"postroom.driver.{program}", *arguments]


def make_ready(name: str) -> None:
    """Install or build what the client needs; RuntimeError says what is missing and how to get it."""
    if name not in MADE_READY_BY_SCRIPT:
        return
    script = ROOT / "tools" / "clients.sh"
    done = subprocess.run([str(script), name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script.name} {name} failed:\n{done.stdout}{done.stderr}")
