"""Processor time of a broker: unlike a rate it hardly depends on what else the machine does."""

from __future__ import annotations

import os
from pathlib import Path

from tools.peers import Broker

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_SESSION, _USER, _SYSTEM = 3, 11, 12
"""Places of session, utime and stime in /proc/PID/stat, counted from behind the command's name."""


def seconds_of(broker: Broker) -> float:
    """User and system time used so far by the broker's processes: start scripts have it as their child."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[_SESSION]) == broker.session:
            ticks += int(fields[_USER]) + int(fields[_SYSTEM])
    return ticks / _TICKS_A_SECOND
