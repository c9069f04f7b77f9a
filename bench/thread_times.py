"""Processor time of a broker's threads, by what they do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOP, COMMIT, OTHERS = "event loop", "commit thread", "maintenance and others"
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_USER, _KERNEL, _NICE = 11, 12, 16
"""Places of utime, stime and nice in /proc/PID/task/TID/stat, counted from behind the command's name."""
SHORT_SLICE_NS: Final = 100_000
"""What the loop and the commit thread ask Linux for."""


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
    fields = _fields(stat)
    return Times(int(fields[_USER]) / _TICKS_A_SECOND, int(fields[_KERNEL]) / _TICKS_A_SECOND)


def role_of(is_main: bool, stat: str, sched: str) -> str:
    """The commit thread is the one beside the loop that is to run soon after each wait: it asks for short
    slices, and for a nice value below 0 where it may. Python's threads do neither."""
    if is_main:
        return LOOP
    slices = [line.split()[-1] for line in sched.splitlines() if line.startswith("se.slice")]
    prompt = bool(slices) and int(slices[0]) <= SHORT_SLICE_NS
    return COMMIT if prompt or int(_fields(stat)[_NICE]) < 0 else OTHERS


def by_role(pid: int) -> dict[str, Times]:
    """Of a process' threads that there are now."""
    found = dict.fromkeys((LOOP, COMMIT, OTHERS), Times())
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat, sched = (task / "stat").read_text(), (task / "sched").read_text()
        except OSError:
            continue  # it has just ended
        role = role_of(task.name == str(pid), stat, sched)
        found[role] += times_of(stat)
    return found


def _fields(stat: str) -> list[str]:
    return stat.rpartition(")")[2].split()
