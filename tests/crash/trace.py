"""Attaches strace to a running broker, and lets go of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from tests.crash.strace_log import OPTIONS, Call, read_calls

END_LIMIT_S = 30.0


class Trace:
    """Traces a process and its threads from entering to the process' end, or to leaving."""

    def __init__(self, pid: int, file: Path) -> None:
        self.pid = pid
        self.file = file

    def __enter__(self) -> Trace:
        command = ["strace", *OPTIONS, "-p", str(self.pid), "-o", str(self.file)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        if "attached" not in line:
            raise RuntimeError(f"strace can't attach: {line}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.communicate(timeout=END_LIMIT_S)

    def calls(self) -> list[Call]:
        """What was traced."""
        with self.file.open() as lines:
            return list(read_calls(lines))
