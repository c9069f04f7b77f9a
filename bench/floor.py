"""The floor: what the disk allows a loop that appends one record and calls fdatasync, and nothing else; and
what the machine allows two processes, one of which does that for the other over loopback."""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from tools.peers.ports import LOOPBACK

LABEL = "append + fdatasync"
ANSWERED = "the same, requested and answered over loopback"
ANSWER = b"\0" * 32
"""As long as a disposition."""
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


def measure_answered(folder: Path, requests: int = 2000) -> Floor:
    """The same with one record a sync, of what another process has sent over loopback, until that has its
    answer. Neither does anything else with the bytes."""
    record = os.urandom(RECORD_BYTES)
    with socket.create_server((LOOPBACK, 0)) as listener:
        server = multiprocessing.get_context("fork").Process(target=_answer_all, args=(listener, folder))
        server.start()
        with socket.create_connection(listener.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            spent_us = [_request(connection, record) for _ in range(requests)]
        server.join()
    cuts = statistics.quantiles(spent_us, n=100)
    return Floor(statistics.median(spent_us), cuts[98], requests / (sum(spent_us) * 1e-6), requests)


def _request(connection: socket.socket, record: bytes) -> float:
    begun = time.perf_counter()
    connection.sendall(record)
    if len(connection.recv(len(ANSWER), socket.MSG_WAITALL)) < len(ANSWER):
        raise ConnectionError("the process that answers has ended")
    return (time.perf_counter() - begun) * 1e6


def _answer_all(listener: socket.socket, folder: Path) -> None:
    """Until the other has gone."""
    path = folder / "answered"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while record := connection.recv(RECORD_BYTES, socket.MSG_WAITALL):
            _append_and_sync(descriptor, record)
            connection.sendall(ANSWER)
    os.close(descriptor)
    path.unlink()


def _append_and_sync(descriptor: int, record: bytes) -> float:
    begun = time.perf_counter()
    os.write(descriptor, record)
    os.fdatasync(descriptor)
    return (time.perf_counter() - begun) * 1e6
