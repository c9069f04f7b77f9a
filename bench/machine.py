"""The machine that the figures come from."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import platform
from pathlib import Path
from typing import Final

TOUCHED_SHARE: Final = 0.9
"""Of the memory that is free."""
PIECE_BYTES: Final = 1 << 20


def touch_free_memory() -> None:
    """Have the host give a virtual machine its memory before anything is timed, not within.

    A page that the guest has never used costs the host a fault at its first use: 7 µs for 4 KiB were seen,
    where a page that has been used takes 1. Blocks of a journal go through so much of it that whoever is
    measured first pays for who comes later. In a process of its own, which the kernel ends first where
    memory is short after all.
    """
    toucher = multiprocessing.get_context("spawn").Process(target=_touch)
    toucher.start()
    toucher.join()


def _touch() -> None:
    Path("/proc/self/oom_score_adj").write_text("1000")
    free_bytes = int(_first_after("/proc/meminfo", "MemFree").split()[0]) << 10
    pieces = int(free_bytes * TOUCHED_SHARE) // PIECE_BYTES
    filled = b"\1" * PIECE_BYTES
    with mmap.mmap(-1, pieces * PIECE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for _ in range(pieces):
            memory.write(filled)


def describe() -> dict[str, str]:
    """Processor, cores, memory, kernel, file system of the temporary folder, and the load at first."""
    return {
        "processor": _first_after("/proc/cpuinfo", "model name"),
        "cores": str(os.cpu_count()),
        "memory": f"{int(_first_after('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "kernel": platform.release(),
        "file system": _file_system(Path(os.environ.get("TMPDIR", "/tmp"))),
        "load at start": f"{os.getloadavg()[0]:.2f}",
    }


def _first_after(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"


def _file_system(folder: Path) -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [mount for mount in mounts if folder.resolve().is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[1]))[2]
