"""How often a broker syncs: a short run of its own under strace, which stops it only for these calls."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from pathlib import Path

from bench import loadtool
from bench.contenders import Contender

SYNC_CALLS = "fdatasync,fsync,msync,sync_file_range"
TIMESTAMP = re.compile(r"^\d+\s+(\d+\.\d+) (?!<\.\.\.|[+-]{3})")


def available() -> bool:
    """Whether strace is installed."""
    return shutil.which("strace") is not None


def messages_per_sync(contender: Contender, messages: int) -> dict[str, float]:
    """Messages enqueued for each sync call, by row label; infinite where there was none."""
    messages //= contender.share
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        trace = folder / "syncs.trace"
        broker = contender.start(folder)
        broker.prefix = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-ttt",
            "-e",
            f"trace={SYNC_CALLS}",
            "-o",
            str(trace),
        ]
        spans = {}
        with broker:
            for row in contender.rows:
                loadtool.run(broker, "both", row.queue, messages=messages)
                begun = time.time()
                loadtool.run(broker, "send", row.queue, messages=messages)
                spans[row.label] = (begun, time.time())
        times = [float(found[1]) for found in map(TIMESTAMP.match, trace.read_text().splitlines()) if found]
    counts = {label: sum(begin <= at <= end for at in times) for label, (begin, end) in spans.items()}
    return {label: messages / count if count else float("inf") for label, count in counts.items()}
