"""TCP ports on loopback for servers that are told theirs before they start, or come back to the same one.

A port that was free a moment ago can be given to two who want one at the same time, and two sockets can be
bound to it as long as neither listens. So each is held by a lock, over all processes of a user, until
the process that it was given to ends; and none is of those that the system gives to others.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below those that Linux takes for the near end of a connection."""

_held: list[int] = []
"""Descriptors of the locks."""


def free_port() -> int:
    """One that nobody else is given as long as this process lives."""
    for port in random.sample(PORTS, len(PORTS)):
        if _hold(port):
            return port
    raise OSError(f"no port of {PORTS.start} to {PORTS.stop - 1} is free on {LOOPBACK}")


def free_ports(count: int) -> list[int]:
    """So many, each another."""
    return [free_port() for _ in range(count)]


def _hold(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / f"postroom-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind((LOOPBACK, port))
    except OSError:
        os.close(lock)
        return False
    _held.append(lock)
    return True
