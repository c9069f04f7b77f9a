"""What the machine allows whatever a broker does: copies in memory, syncs, loopback."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import floor, loopback

COPIED: Final = 64 << 20
"""Larger than the caches."""
COPY_SECONDS: Final = 1.0
BLOCK_RECORDS: Final = 860
"""In a block of a MiB."""
ROUNDS: Final = 5
"""Of syncs; a limit is the best of them, since others may use the disk."""


@dataclass(frozen=True)
class MachineLimits:
    """Bytes a second; the syncs in µs (p50)."""

    copied_by_one: float
    copied_by_all: float
    loopback: float
    sync_us: float
    synced: float
    """Appended in blocks of a MiB."""


def _copy(_: object = None) -> float:
    source, target = (
        memoryview(bytearray(os.urandom(1 << 20) * (COPIED >> 20))),
        memoryview(bytearray(COPIED)),
    )
    target[:] = source  # its pages are there from now on
    copies, begun = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begun) < COPY_SECONDS:
        target[:] = source
        copies += 1
    return copies * COPIED / seconds


def measure(folder: Path) -> MachineLimits:
    """A few seconds."""
    alone = _copy()
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        together = sum(pool.map(_copy, range(os.cpu_count() or 1), chunksize=1))
    one = [floor.measure(folder, syncs=300) for _ in range(ROUNDS)]
    blocks = [floor.measure(folder, syncs=100, batch=BLOCK_RECORDS) for _ in range(ROUNDS)]
    return MachineLimits(
        copied_by_one=alone,
        copied_by_all=max(alone, together),
        loopback=loopback.bytes_a_second(1 << 30, 1 << 18),
        sync_us=min(each.p50_us for each in one),
        synced=max(each.rate for each in blocks) * floor.RECORD_BYTES,
    )
