"""Processor time of a broker's threads, by what they do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOP, COMMIT, OTHERS = "event loop", "commit thread", "maintenance and others"
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_USER, _KERNEL = 11, 12
"""Places of utime and stime in /proc/PID/task/TID/stat, counted from behind the thread's name."""
COMMIT_NAME: Final = "ledger-writer"
"""As the C writer calls its thread."""


@dataclass(frozen=True)
class Times:
    """Processor time, in seconds."""

    user_s: float = 0.0
    kernel_s: float = 0.0

    @property
    def both_s(self) -> float:
        return self.user_s + self.kernel_s

    def __add__(self, other: Times) -> Times:
        return Times(self.user_s + other.user_s, self.kernel_s + other.kernel_s)

    def __sub__(self, other: Times) -> Times:
        return Times(self.user_s - other.user_s, self.kernel_s - other.kernel_s)


def times_of(stat: str) -> Times:
    """From a line of /proc/PID/task/TID/stat."""
    fields = stat.rpartition(")")[2].split()
    return Times(int(fields[_USER]) / _TICKS_A_SECOND, int(fields[_KERNEL]) / _TICKS_A_SECOND)


def role_of(is_main: bool, stat: str) -> str:
    """By a line of /proc/PID/task/TID/stat, which has the thread's name in brackets."""
    if is_main:
        return LOOP
    return COMMIT if stat.partition("(")[2].rpartition(")")[0] == COMMIT_NAME else OTHERS


def by_role(pid: int) -> dict[str, Times]:
    """Of a process' threads that there are now."""
    found = dict.fromkeys((LOOP, COMMIT, OTHERS), Times())
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except OSError:
            continue  # it has just ended
        found[role_of(task.name == str(pid), stat)] += times_of(stat)
    return found
