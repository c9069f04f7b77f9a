"""Small and large messages: rates in, out and both at once, beside what disk and loopback allow.

The limits are of the same rounds: what a loop writes and syncs in blocks as large as the broker's, and what
one connection over loopback carries.
"""

from __future__ import annotations

from pathlib import Path

from tools.peers import Broker, RabbitMQ

from bench import floor, loadtool, loopback, rounds
from bench.contenders import Contender, beside_peers
from bench.traffic import RATES, Measured

MESSAGES = {12: 200_000, 100: 200_000, 10_000: 60_000, 1_000_000: 600, 100_000_000: 4}
"""In the timed run of each size of a body, in bytes."""
QUICK_SHARE = 2
WARM_UP_S = 2.0
WINDOW, WINDOW_BYTES = 1000, 64 << 20
"""Messages in flight, and of large ones as many as have so many bytes, but two."""
OVERHEAD_BYTES = 192
"""Of a message's sections and a ledger's record."""
BLOCK_BYTES = 4 << 20
"""What a broker writes at once, at most."""
LIMIT_BYTES = 128 << 20
DISK, LOOPBACK = "disk: write + fdatasync", "loopback: one connection"
CLIENT = "the client beside Postroom, % of a core"
RABBITMQ_LARGEST = str(128 << 20)
"""16 MiB by default."""
NATS_LARGEST = 1_000_000
"""A message may have 1 MiB by default, and never more than 64 MiB."""


def measure(
    contenders: list[Contender], count: int, quick: bool, results: dict[str, Measured], failures: list[str]
) -> None:
    """So many rounds; fills `results` by row label."""
    share = QUICK_SHARE if quick else 1
    rounds.run(
        "sizes",
        beside_peers(contenders),
        count,
        lambda contender, folder: _measure_contender(contender, folder, share, results),
        failures,
        lambda folder: _measure_limits(folder, results),
    )


def name_of(rate: str, size: int) -> str:
    """The measurement of a rate with bodies of so many bytes."""
    return f"{rate}_{size}"


def window_of(size: int) -> int:
    """How many such messages are in flight."""
    return max(2, min(WINDOW, WINDOW_BYTES // size))


def _measure_limits(folder: Path, results: dict[str, Measured]) -> None:
    disk, network = results.setdefault(DISK, Measured()), results.setdefault(LOOPBACK, Measured())
    for size in MESSAGES:
        in_flight = window_of(size) * (size + OVERHEAD_BYTES)
        block = min(BLOCK_BYTES, in_flight)
        written = floor.measure(folder, syncs=LIMIT_BYTES // block, record_bytes=block).rate * block
        carried = loopback.bytes_a_second(LIMIT_BYTES, min(loopback.READ_BYTES, in_flight))
        disk.add(name_of("enqueue", size), written / (size + OVERHEAD_BYTES))
        for rate, times in (("enqueue", 1), ("dequeue", 1), ("both", 2)):
            network.add(name_of(rate, size), carried / (size + OVERHEAD_BYTES) / times)


def _measure_contender(contender: Contender, folder: Path, share: int, results: dict[str, Measured]) -> None:
    broker = contender.start(folder)
    if isinstance(broker, RabbitMQ):
        broker.config = {**broker.config, "max_message_size": RABBITMQ_LARGEST}
    row = contender.rows[0]
    measured = results.setdefault(row.label, Measured(version=broker.version()))
    client = results.setdefault(CLIENT, Measured()) if contender.key == "postroom" else Measured()
    with broker:
        measured.settings = broker.settings()
        loadtool.run(broker, "both", row.queue, messages=0, seconds=WARM_UP_S)
        for size, messages in MESSAGES.items():
            if contender.key != "nats" or size <= NATS_LARGEST:
                count = max(2, messages // share // contender.share)
                _measure_size(broker, row.queue, size, count, measured, client)


def _measure_size(
    broker: Broker, queue: str, size: int, messages: int, measured: Measured, client: Measured
) -> None:
    window = window_of(size)
    for rate, mode in RATES:
        report = loadtool.run(
            broker, mode, queue, messages=messages, body_bytes=size, window=window, credit=window
        )
        measured.add(name_of(rate, size), report.rate)
        client.add(name_of(rate, size), 100 * report.cpu_seconds / report.seconds)
