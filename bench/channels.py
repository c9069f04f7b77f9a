"""From one broker to another: channels by batch size, a plain client that gets and puts, RabbitMQ's shovel.

Messages wait at the source; then the mover starts, and the load client receives at the destination. A rate
counts from the first arrival there to the last, so that nobody's start is in it. A round starts each pair of
brokers anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tools.peers import Broker, BrokerFailed, Postroom, RabbitMQ
from tools.peers.ports import LOOPBACK
from tools.peers.rabbitmq import CLASSIC, QUORUM, SHOVEL

from bench import loadtool
from bench.loadtool import LoadFailed
from bench.progress import show_progress
from bench.traffic import Measured

MESSAGES = {1: 3_000, 50: 50_000, 500: 100_000}
"""In the timed run of each batch size, window or prefetch."""
QUICK_SHARE = 4
ID_BYTES = 36
"""Message ids are strings: a shovel between two nodes crashes over a ulong."""
CHANNELS, CLIENT = "Postroom, channel", "Postroom, plain client gets and puts"
HERE, THERE = "HERE", "THERE"
QUEUE = "bench"


class Pair(ABC):
    """Two brokers, or two parts of one, and a way to move messages from one to the other."""

    label: str
    queue: str
    source: Broker
    destination: Broker
    arriving: dict[str, object]
    """Options of the load client at the destination."""

    def __init__(self) -> None:
        self.arriving = {}

    @property
    def departing(self) -> str:
        """Where messages are put at the source."""
        return self.queue

    @abstractmethod
    def brokers(self) -> list[Broker]:
        """Those to start, in this order."""

    @contextmanager
    @abstractmethod
    def moving(self, size: int, messages: int) -> Iterator[None]:
        """Moves messages, `size` of them at a time."""

    def measure(self, size: int, messages: int) -> float:
        """Messages a second from the source to the destination."""
        loadtool.run(self.source, "send", self.departing, messages=messages, id_bytes=ID_BYTES)
        receiver = loadtool.start(self.destination, "receive", self.queue, messages=messages, **self.arriving)
        try:
            with self.moving(size, messages):
                return loadtool.read_report(*receiver.communicate()).arrival_rate
        finally:
            receiver.kill()


class Shovel(Pair):
    """RabbitMQ's shovel, acknowledging at the source what the destination has confirmed."""

    def __init__(self, folder: Path, kind: str, nodes: bool) -> None:
        super().__init__()
        self.queue = kind
        self.label = f"RabbitMQ {kind}, shovel between two {'nodes' if nodes else 'virtual hosts'}"
        hosts = ("/",) if nodes else ("/", "there")
        self.node = RabbitMQ(folder / "here", plugins=(SHOVEL,), virtual_hosts=hosts)
        self.source, self.destination = self.node, RabbitMQ(folder / "there") if nodes else self.node
        self.arriving = {} if nodes else {"virtual_host": "vhost:there"}
        self.to = f"amqp://guest:guest@{LOOPBACK}:{self.destination.port}" if nodes else "amqp:///there"

    def brokers(self) -> list[Broker]:
        return [self.source] if self.source is self.destination else [self.source, self.destination]

    @contextmanager
    def moving(self, size: int, messages: int) -> Iterator[None]:
        shovel = {
            "src-protocol": "amqp091",
            "src-uri": "amqp://",
            "src-queue": self.queue,
            "src-prefetch-count": size,
            "dest-protocol": "amqp091",
            "dest-uri": self.to,
            "dest-queue": self.queue,
            "ack-mode": "on-confirm",
        }
        self.node.control("set_parameter", "shovel", "bench", json.dumps(shovel))
        yield
        self.node.control("clear_parameter", "shovel", "bench")


class PlainClient(Pair):
    """A client that gets from one Postroom, puts to the other, and accepts what was accepted there."""

    label = CLIENT
    queue = QUEUE

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.source, self.destination = Postroom(folder / "here"), Postroom(folder / "there")

    def brokers(self) -> list[Broker]:
        return [self.source, self.destination]

    @contextmanager
    def moving(self, size: int, messages: int) -> Iterator[None]:
        options = {"messages": messages, "credit": size, "send_port": self.destination.port}
        client = loadtool.start(self.source, "relay", self.queue, **options)
        try:
            yield
            loadtool.read_report(*client.communicate())
        finally:
            client.kill()


class Channel(Pair):
    """A channel from one Postroom to the other, of which each batch size has its own."""

    label = CHANNELS
    queue = QUEUE

    def __init__(self, folder: Path) -> None:
        super().__init__()
        here, there = Postroom(folder / "here"), Postroom(folder / "there")
        here.configuration = _sending_end(there.port)
        there.configuration = _RECEIVING_END + "".join(_channel(size, "receiver", "") for size in MESSAGES)
        self.source, self.destination = here, there

    @property
    def departing(self) -> str:
        return f"{QUEUE}@{THERE}"

    def brokers(self) -> list[Broker]:
        return [self.destination, self.source]

    @contextmanager
    def moving(self, size: int, messages: int) -> Iterator[None]:
        self._control("start", size)
        yield
        self._control("stop", size, "--status", "inactive")  # STOPPED would shut the queue for the others

    def _control(self, verb: str, size: int, *options: str) -> None:
        url = f"amqp://{LOOPBACK}:{self.source.port}"
        command = [sys.executable, "-m", "postroom.cli", "channel", verb, _name(size), "--url", url, *options]
        done = subprocess.run(
            command, env={**self.source.environment()}, capture_output=True, text=True, timeout=30
        )
        if done.returncode != 0:
            raise BrokerFailed(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


_RECEIVING_END = f"""
container_id = "{THERE}"

[[queue]]
name = "{QUEUE}"
"""


def _name(size: int) -> str:
    return f"{HERE}.{THERE}.{size}"


def _channel(size: int, kind: str, more: str) -> str:
    return f'\n[[channel]]\nname = "{_name(size)}"\ntype = "{kind}"\nbatch_size = {size}\n{more}'


def _sending_end(port: int) -> str:
    more = f'transmission_queue = "{THERE}"\nconnection = "amqp://{LOOPBACK}:{port}"\ntriggered = false\n'
    queue = f'\n[[queue]]\nname = "{THERE}"\nusage = "transmission"\n'
    channels = "".join(_channel(size, "sender", more) for size in MESSAGES)
    return f'container_id = "{HERE}"\n{queue}{channels}'


PAIRS: tuple[Callable[[Path], Pair], ...] = (
    Channel,
    PlainClient,
    *(partial(Shovel, kind=kind, nodes=nodes) for kind in (QUORUM, CLASSIC) for nodes in (True, False)),
)


def measure(rounds: int, quick: bool, results: dict[str, Measured], failures: list[str]) -> None:
    """All rounds; fills `results` by row label. A pair that fails is named, and left out from then."""
    left = list(PAIRS)
    for number in range(1, rounds + 1):
        for make in left[:]:
            with tempfile.TemporaryDirectory(prefix="bench-") as name:
                pair = make(Path(name))
                show_progress(f"channels, round {number} of {rounds}: {pair.label}")
                try:
                    _measure_pair(pair, quick, results)
                except (LoadFailed, BrokerFailed, subprocess.TimeoutExpired) as failed:
                    show_progress(f"failed: {failed}")
                    failures.append(f"{pair.label}: {failed}")
                    left.remove(make)


def _measure_pair(pair: Pair, quick: bool, results: dict[str, Measured]) -> None:
    with ExitStack() as running:
        for broker in pair.brokers():
            running.enter_context(broker)
        measured = results.setdefault(
            pair.label, Measured(version=pair.source.version(), settings=pair.source.settings())
        )
        pair.measure(max(MESSAGES), max(MESSAGES.values()) // QUICK_SHARE)  # warms up all that is in the way
        for size, messages in MESSAGES.items():
            measured.add(f"moved_{size}", pair.measure(size, messages // QUICK_SHARE if quick else messages))
