"""Processor time of a process: unlike a rate it hardly depends on what else the machine does."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12
"""Places of utime and stime in /proc/PID/stat, counted from behind the command's name."""


def seconds_of(pid: int) -> float:
    """User and system time that all threads of a process have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_A_SECOND
