"""What guessing and flooding cost others: how long a good sign-in takes, and another client's round trips.

``python -m bench.sign_ins`` with PYTHONPATH=build/compiled or src; ``--seconds`` for each part. A real broker
on loopback, with users; who floods is a process of its own on the same machine, and takes a part of its
processor, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tools.peers.ports import LOOPBACK
from tools.peers.postroom import COMPILED, Postroom

from postroom.amqp.frames.frames import SASL_HEADER
from postroom.client import ConnectionFactory
from postroom.client.exceptions import JMSException
from postroom.server.configuration.passwords import SCRAM_MECHANISMS, hash_password

PASSWORD: Final = "open sesame"
GUESSERS: Final = 100
OPENERS: Final = 20
"""Connections that a flood of openings has at a time."""
SIGN_INS: Final = 20
US_PER_S: Final = 1_000_000


def configuration() -> str:
    """Two users, who can sign in by SCRAM and by PLAIN."""
    kept = [hash_password(PASSWORD), *(hash_password(PASSWORD, each) for each in SCRAM_MECHANISMS)]
    return (
        f'[users]\nann = {kept}\nbob = {kept}\n\n[[role]]\nname = "administrator"\nmembers = ["ann", "bob"]\n'
    )


def url(port: int, user: str, password: str = PASSWORD, mechanism: str = "") -> str:
    options = f"?amqp.saslMechanisms={mechanism}" if mechanism else ""
    return f"amqp://{user}:{password.replace(' ', '%20')}@{LOOPBACK}:{port}{options}"


# Those who do harm, each in a process of its own.


def guess(port: int, user: str) -> None:
    """Try wrong passwords for ``user`` on many connections, without end."""

    def without_end() -> None:
        while True:
            with suppress(JMSException, OSError):
                ConnectionFactory(url(port, user, "wrong", "PLAIN")).create_connection()

    threads = [threading.Thread(target=without_end, daemon=True) for _ in range(GUESSERS)]
    for thread in threads:
        thread.start()
    threads[0].join()


def open_often(port: int) -> None:
    """Open connections as fast as it goes, say the header of SASL, read what is offered, and hang up."""

    def without_end() -> None:
        while True:
            with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=5) as opened:
                opened.sendall(SASL_HEADER)
                opened.recv(4096)

    threads = [threading.Thread(target=without_end, daemon=True) for _ in range(OPENERS)]
    for thread in threads:
        thread.start()
    threads[0].join()


@contextmanager
def beside(what: Callable[..., None], *arguments: object) -> Iterator[None]:
    """While that goes on in another process."""
    process = multiprocessing.get_context("spawn").Process(target=what, args=arguments, daemon=True)
    process.start()
    time.sleep(2)  # until it is at it
    try:
        yield
    finally:
        process.kill()
        process.join()


# What is measured.


def sign_in_s(port: int, user: str, mechanism: str) -> float:
    """The longest of some good sign-ins, one after the other."""
    took = []
    for _ in range(SIGN_INS):
        began = time.perf_counter()
        ConnectionFactory(url(port, user, mechanism=mechanism)).create_connection().close()
        took.append(time.perf_counter() - began)
    return max(took)


def round_trips_us(port: int, seconds: float) -> tuple[float, float]:
    """Median and 99th percentile of sends that wait for their confirmation, in µs."""
    took = []
    with ConnectionFactory(url(port, "bob")).create_connection() as connection:
        producer = connection.create_session().create_producer("round-trips")
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            producer.send("x" * 256)
            took.append(time.perf_counter() - began)
    found = statistics.quantiles(took, n=100)
    return found[49] * US_PER_S, found[98] * US_PER_S


def show(what: str, port: int, seconds: float) -> None:
    median_us, p99_us = round_trips_us(port, seconds)
    others = [sign_in_s(port, "bob", mechanism) for mechanism in ("SCRAM-SHA-256", "PLAIN")]
    figures = f"round trips p50 {median_us:6.0f} µs, p99 {p99_us:6.0f} µs"
    print(
        f"{what:34} {figures}; slowest sign-in SCRAM {others[0]:.3f} s, PLAIN {others[1]:.3f} s", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sign_ins", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="for the round trips of each part")
    seconds = parser.parse_args().seconds
    source = Path(os.environ.get("PYTHONPATH", str(COMPILED)).partition(":")[0])
    with tempfile.TemporaryDirectory() as folder:
        broker = Postroom(Path(folder), source)
        broker.configuration += configuration()
        with broker:
            show("nobody else", broker.port, seconds)
            with beside(guess, broker.port, "ann"):
                show(f"{GUESSERS} connections guess", broker.port, seconds)
            with beside(open_often, broker.port):
                show(f"{OPENERS} open and hang up", broker.port, seconds)


if __name__ == "__main__":
    main()
