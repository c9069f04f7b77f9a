"""Where the event loop's processor time goes, by room of the house: samples of its thread, taken by perf."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

KERNEL, LOOP, AMQP, SERVER = "kernel", "uvloop", "amqp", "server"
MANAGER, LEDGER, PYTHON, SHARED = "manager", "ledger", "Python", "copies and memory"
MOVABLE: Final = (KERNEL, LOOP, AMQP)
"""Rooms whose work a process of connections could do: sockets, frames, heads, sessions and links of AMQP. Of
what all share (copies, objects, calls), the same part."""
STAYING: Final = (SERVER, MANAGER, LEDGER)
HERTZ: Final = 1999
START_S: Final = 0.5
"""perf doesn't say when it has begun."""
_SAMPLE: Final = re.compile(r"^\s*[0-9a-f]+\s+(?P<symbol>.+?) \((?P<object>[^()]*)\)$")
_BINARIES: Final = {
    "uvloop": LOOP,
    "postroom_wire": AMQP,
    "postroom_core": MANAGER,
    "postroom_edge": SERVER,
    "isal": LEDGER,
    "_writer": LEDGER,
    "libpython": PYTHON,
}
"""By a part of the name; a compiled group has mypyc's own functions, too."""
_COMPILED: Final = re.compile(r"postroom___([a-z]+)___")


def available() -> bool:
    """Whether perf is installed."""
    return shutil.which("perf") is not None


def room_of(symbol: str, binary: str) -> str:
    """Of one sample: the package of a compiled function, else what its binary is for."""
    if found := _COMPILED.search(symbol):
        package = found[1]
        return {"model": AMQP, "channel": SERVER}.get(package, package)
    if binary.startswith(("[kernel", "[unknown", "[guest")):
        return KERNEL
    return next((room for part, room in _BINARIES.items() if part in binary), SHARED)


def shares(samples: str) -> dict[str, float]:
    """Of all samples, by room; from the lines of ``perf script -F ip,sym,dso``."""
    counted = Counter(
        room_of(found["symbol"], found["object"])
        for found in map(_SAMPLE.match, samples.splitlines())
        if found
    )
    total = counted.total()
    return {room: count / total for room, count in sorted(counted.items())} if total else {}


def movable(found: dict[str, float]) -> float:
    """The share that a process of connections could take."""
    of_rooms = sum(found.get(room, 0.0) for room in MOVABLE)
    stays = sum(found.get(room, 0.0) for room in STAYING)
    return of_rooms / (of_rooms + stays) if of_rooms + stays else 0.0


@contextmanager
def sampled(pid: int, folder: Path) -> Iterator[Path]:
    """The main thread of a process, for as long as this lasts; the file is complete afterwards."""
    file = folder / "loop.perf"
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-t", str(pid), "-o", str(file)]
    perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(START_S)
    try:
        yield file
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


def read(file: Path) -> dict[str, float]:
    """The shares by room of what `sampled` has written; empty where perf may not sample."""
    if not file.exists():
        return {}
    command = ["perf", "script", "-i", str(file), "-F", "ip,sym,dso"]
    return shares(subprocess.run(command, capture_output=True, text=True).stdout)
