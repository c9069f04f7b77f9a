"""Does what a page has, word by word: makes its files, runs its commands in order, compares what they print.

On a page, a block ``console`` has commands, each after "$ ", with what they print below; a block ``python``
is a program; a block ``toml`` is the file that the paragraph above it begins with. ``postroom serve`` goes on
running; the comment ``<!-- walk: kill -9 COMMAND -->``, which readers don't see, ends it.

Ports of the page are others here. In what is printed, "…" on the page stands for anything, times, ids and
serial numbers are anyone's, and the width of columns doesn't count. A command below which nothing is printed
may print what it likes. One that only looks (`LOOKING`) is run again until it prints what the page has.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 60
AGAIN_S: Final = 0.2
LOOKING: Final = ("postroom channel status", "postroom dlq list", "postroom browse", "postroom queue list")
BY_SPARK: Final = ("postroom pipeline", "postroom audit", "postroom report", "postroom state")
ELSEWHERE: Final = ("make ", "pip ")
"""Tried by `make` itself, and by tools/dist.sh in empty environments."""

_BLOCK: Final = re.compile(
    r"^```(?P<kind>console|python|toml)\n(?P<text>.*?)^```$|^<!-- walk: kill -9 (?P<killed>.*?) -->$",
    re.MULTILINE | re.DOTALL,
)
_FILE: Final = re.compile(r"^`(?P<name>[\w.-]+)`", re.MULTILINE)
_ADDRESS: Final = re.compile(r"(127\.0\.0\.1|\[::1\]):(?P<port>\d{4,5})")
MASKS: Final = (
    (r"…", r".*"),
    (r"ID:[\w-]+", r"ID:\\S+"),
    (r"\d{8} \d{8}", r"\\d{8} \\d{8}"),
    (r"\d+ (ms|s|min) ago", r"(?:\\d+ \\w+ ago|now)"),
    (r"\d+ short retries", r"\\d+ short retries"),
    (r"^\d+ ", r"\\d+ "),
)
"""What stands on the page, and what of its kind may be printed."""


@dataclass
class Step:
    """A command with what it prints, a program, a file, or a broker that is killed."""

    kind: str
    text: str
    printed: list[str] = field(default_factory=list)
    name: str = ""


def steps_of(page: str) -> Iterator[Step]:
    """In their order on the page."""
    for match in _BLOCK.finditer(page):
        if match["killed"]:
            yield Step("kill", match["killed"])
        elif match["kind"] == "console":
            yield from _commands(match["text"])
        else:
            above = page[: match.start()].rstrip().rpartition("\n\n")[2]
            named = _FILE.match(above)
            yield Step(match["kind"], match["text"], name=named["name"] if named else "")


def _commands(text: str) -> Iterator[Step]:
    step: Step | None = None
    for line in text.splitlines():
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step("command", re.sub(r"\s+# .*", "", line[2:]).removesuffix("&").strip())
        else:
            assert step is not None, f"{line!r} is printed by no command"
            step.printed.append(line)
    assert step is not None, "a block without a command"
    yield step


class Walk:
    """One page in a folder of its own; a context manager that ends its brokers."""

    def __init__(self, page: Path, folder: Path, spark: bool = False) -> None:
        """``spark``: run what needs it, too."""
        self._steps = list(steps_of(page.read_text()))
        self._folder = folder
        self._spark = spark
        self._ports: dict[str, str] = {}
        self._brokers: dict[str, subprocess.Popen[str]] = {}
        bin_folder = folder / ".bin"
        bin_folder.mkdir(parents=True)
        command = bin_folder / "postroom"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m postroom "$@"\n')
        command.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path),
            "POSTROOM_URL": self._here("amqp://127.0.0.1:5672"),
            "COLUMNS": "200",
        }

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self._brokers.values():
            broker.kill()
            broker.communicate(timeout=PATIENCE_S)

    def go(self) -> list[str]:
        """Returns the commands that were run."""
        done = []
        for step in self._steps:
            getattr(self, f"_{step.kind}")(step)
            done.append(step.text)
        return done

    def _here(self, text: str) -> str:
        """With ports that are free on this machine."""
        return _ADDRESS.sub(lambda match: f"{match[1]}:{self._port(match['port'])}", text)

    def _port(self, port: str) -> str:
        if port not in self._ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._ports[port] = str(free.getsockname()[1])
        return self._ports[port]

    def _toml(self, step: Step) -> None:
        assert step.name, f"no file is named above\n{step.text}"
        (self._folder / step.name).write_text(self._here(step.text))

    def _python(self, step: Step) -> None:
        self._run([sys.executable, "-c", self._here(step.text)])

    def _kill(self, step: Step) -> None:
        broker = self._brokers.pop(step.text)
        broker.send_signal(signal.SIGKILL)
        broker.communicate(timeout=PATIENCE_S)

    def _command(self, step: Step) -> None:
        if step.text.startswith("postroom serve"):
            self._serve(step)
        elif not step.text.startswith(ELSEWHERE) and (self._spark or not step.text.startswith(BY_SPARK)):
            self._compare(step)

    def _serve(self, step: Step) -> None:
        command = self._here(step.text)
        if "--config" not in command:
            command += f" --listen {self._here('127.0.0.1:5672')}"
        assert step.text not in self._brokers, f"{step.text} runs already: where is it killed?"
        with (self._folder / "log").open("a") as log:
            broker = subprocess.Popen(
                shlex.split(command), cwd=self._folder, env=self._environment, text=True,
                stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._brokers[step.text] = broker
        assert broker.stdout is not None
        output = [broker.stdout.readline().rstrip("\n") for _ in step.printed or [""]]
        assert output[0].startswith("listening on "), (self._folder / "log").read_text()
        assert self._is_as_printed(step, output), f"{step.text} printed {output}"

    def _compare(self, step: Step) -> None:
        until = time.monotonic() + PATIENCE_S
        output = self._output_of(step)
        while (
            not self._is_as_printed(step, output)
            and step.text.startswith(LOOKING)
            and time.monotonic() < until
        ):
            time.sleep(AGAIN_S)
            output = self._output_of(step)
        text = "\n".join(output)
        assert self._is_as_printed(step, output), f"$ {step.text}\nprinted\n{text}\ninstead of\n" + "\n".join(
            step.printed
        )

    def _output_of(self, step: Step) -> list[str]:
        return self._run(["bash", "-c", self._here(step.text)]).rstrip("\n").splitlines()

    def _run(self, command: list[str]) -> str:
        patience_s = PATIENCE_S * (10 if self._spark else 1)
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patience_s, check=False,
        )  # fmt: skip
        assert done.returncode in (0, NO_MESSAGE), f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _is_as_printed(self, step: Step, output: list[str]) -> bool:
        if not step.printed:
            return True
        wanted = [self._here(line) for line in step.printed]
        return len(wanted) == len(output) and all(
            re.fullmatch(pattern_of(line), _plain(other)) for line, other in zip(wanted, output, strict=True)
        )


NO_MESSAGE: Final = 4
"""How `postroom get` ends where there is none."""


def _plain(line: str) -> str:
    """Without the width of columns."""
    return re.sub(r"[\s━─]+", " ", line).strip()


def pattern_of(line: str) -> str:
    """What may be printed where the page has this line."""
    pattern = re.escape(_plain(line)).replace(r"\ ", " ").replace(r"\-", "-").replace(r"\:", ":")
    for shown, meant in MASKS:
        pattern = re.sub(shown, meant, pattern)
    return pattern
