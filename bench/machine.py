"""The machine that the figures come from."""

from __future__ import annotations

import os
import platform
from pathlib import Path


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
