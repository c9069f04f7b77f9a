"""The floor: what the disk allows a loop that appends one record and calls fdatasync, and nothing else."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

LABEL = "append + fdatasync"
RECORD_BYTES = 1024 + 192
"""A message of 1 KiB with its sections and a ledger's arrival record."""


@dataclass(frozen=True)
class Floor:
    """Latencies of write + fdatasync in µs, and the rate that one record a sync gives."""

    p50_us: float
    p99_us: float
    rate: float
    syncs: int


def measure(folder: Path, syncs: int = 2000, record_bytes: int = RECORD_BYTES, batch: int = 1) -> Floor:
    """Appends `batch` records a write to a growing file in `folder` and syncs after each write."""
    record = os.urandom(record_bytes) * batch
    path = folder / "floor"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        spent_us = [_append_and_sync(descriptor, record) for _ in range(syncs)]
    finally:
        os.close(descriptor)
        path.unlink()
    cuts = statistics.quantiles(spent_us, n=100)
    return Floor(statistics.median(spent_us), cuts[98], batch * syncs / (sum(spent_us) * 1e-6), syncs)


def _append_and_sync(descriptor: int, record: bytes) -> float:
    begun = time.perf_counter()
    os.write(descriptor, record)
    os.fdatasync(descriptor)
    return (time.perf_counter() - begun) * 1e6
