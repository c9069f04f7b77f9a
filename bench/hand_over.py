"""What it costs to hand decoded messages to another process: processor time on each side, and the wake-up.

``python -m bench.hand_over`` with PYTHONPATH=build/compiled. Two processes: one has decoded messages of 1 KB
and writes them in batches to a ring in shared memory (`bench.ring`), the other makes of them what the queue
manager's put takes, and answers each batch as a range. Sockets, AMQP and the put itself are not in the
figures: they cost on either side what they cost today. Both sleep when there is nothing to do and are woken
through an eventfd, one system call a batch on either side.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, Final

from librt.strings import BytesWriter
from tools.peers.broker import ROOT

from bench.parts import payload
from postroom.amqp.message.message_head import scan_head

BATCHES: Final = (1, 10, 100, 1000)
SLOTS: Final = 4
MESSAGES: Final = 200_000
"""Of one measurement; with batches of one a tenth."""
REPETITIONS: Final = 3
WAKES: Final = 5_000
SPARE_BYTES: Final = 200
"""In a slot, for each message: its id and what stands before it."""
COMPILED: Final = ROOT / "build/ring"
FORK: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class HandOver:
    """µs of processor time a message, on the side that writes and on the side that takes."""

    batch: int
    writer_us: float
    taker_us: float


@cache
def compiled_ring() -> ModuleType:
    """`bench.ring` compiled with mypyc, as the broker's hot modules are; made anew when it has changed."""
    source = ROOT / "bench/ring.py"
    COMPILED.mkdir(parents=True, exist_ok=True)
    copy = COMPILED / "compiled_ring.py"
    if not copy.exists() or copy.read_text() != source.read_text() or not _built():
        copy.write_text(source.read_text())
        environment = {**os.environ, "MYPYC_OPT_LEVEL": "3"}
        command = [sys.executable, "-m", "mypyc", "--follow-imports=silent", copy.name]
        done = subprocess.run(command, cwd=COMPILED, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"hand_over: mypyc failed: {(done.stdout + done.stderr)[-2000:]}")
    specification = importlib.util.spec_from_file_location("compiled_ring", _built()[0])
    assert specification is not None
    assert specification.loader is not None
    sys.path.insert(0, str(COMPILED))
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _built() -> list[Path]:
    return list(COMPILED.glob("compiled_ring.*.so"))


@contextmanager
def _memory(size: int) -> Iterator[SharedMemory]:
    memory = SharedMemory(create=True, size=size)
    try:
        yield memory
    finally:
        memory.close()
        memory.unlink()


def _take(ring: Any, fds: tuple[int, int], batches: int, result: Connection) -> None:
    """The process that takes: an answer for each wake-up says how many batches were read."""
    messages_in, answers_out = fds
    read_messages = compiled_ring().read_messages
    taken, begun = 0, time.process_time_ns()
    while taken < batches:
        there = os.eventfd_read(messages_in)
        for _ in range(there):
            read_messages(ring.read())
        os.eventfd_write(answers_out, there)
        taken += there
    result.send(time.process_time_ns() - begun)


def _write(ring: Any, fds: tuple[int, int], batches: int, batch: int) -> int:
    """The process that writes; ns of its processor time."""
    messages_out, answers_in = fds
    write_message = compiled_ring().write_message
    message = payload()
    head = scan_head(message)
    decoded = compiled_ring().DecodedMessage(0, head.message_id, message[head.bare_offset :])
    free, begun = SLOTS, time.process_time_ns()
    for _ in range(batches):
        while free == 0:
            free += os.eventfd_read(answers_in)
        writer = BytesWriter()
        for _ in range(batch):
            write_message(writer, decoded)
        ring.write(writer.getvalue())
        os.eventfd_write(messages_out, 1)
        free -= 1
    while free < SLOTS:
        free += os.eventfd_read(answers_in)
    return time.process_time_ns() - begun


def measure_batch(batch: int) -> HandOver:
    """The best of some repetitions."""
    batches = MESSAGES // batch // (10 if batch == 1 else 1)
    slot = batch * (len(payload()) + SPARE_BYTES)
    found = []
    for _ in range(REPETITIONS):
        with _memory(SLOTS * slot) as memory:
            assert memory.buf is not None
            view = memory.buf[: SLOTS * slot]
            writer_ns, taker_ns = _run(view, batches, batch)
            view.release()
        found.append((writer_ns / batches / batch / 1000, taker_ns / batches / batch / 1000))
    return HandOver(batch, min(each[0] for each in found), min(each[1] for each in found))


def _run(view: memoryview, batches: int, batch: int) -> tuple[int, int]:
    there, back = os.eventfd(0), os.eventfd(0)
    ours, theirs = multiprocessing.Pipe()
    try:
        rings = compiled_ring().Ring(view, SLOTS), compiled_ring().Ring(view, SLOTS)
        taker = FORK.Process(target=_take, args=(rings[0], (there, back), batches, theirs))
        taker.start()
        writer_ns = _write(rings[1], (there, back), batches, batch)
        taker_ns: int = ours.recv()
        taker.join()
    finally:
        os.close(there)
        os.close(back)
    del rings
    return writer_ns, taker_ns


def wake_up_us() -> float:
    """From a write to an eventfd to the return of the read in another process: half of the way there and
    back, the median."""
    there, back = os.eventfd(0), os.eventfd(0)
    echo = FORK.Process(target=_echo, args=(there, back))
    echo.start()
    took = []
    for _ in range(WAKES):
        begun = time.perf_counter_ns()
        os.eventfd_write(there, 1)
        os.eventfd_read(back)
        took.append((time.perf_counter_ns() - begun) / 2000)
    echo.join()
    os.close(there)
    os.close(back)
    return median(took)


def _echo(there: int, back: int) -> None:
    for _ in range(WAKES):
        os.eventfd_write(back, os.eventfd_read(there))


def measure() -> list[HandOver]:
    """Each size of batch."""
    return [measure_batch(batch) for batch in BATCHES]


def main() -> None:
    """Measures and prints; the last line is JSON."""
    print(f"woken after {wake_up_us():.1f} µs")
    found = measure()
    for each in found:
        print(f"batches of {each.batch:5}: {each.writer_us:6.2f} and {each.taker_us:6.2f} µs a message")
    print(json.dumps([vars(each) for each in found]))


if __name__ == "__main__":
    main()
