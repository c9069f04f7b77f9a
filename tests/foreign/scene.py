"""A Postroom with one channel to a foreign broker, and programs that talk to either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from proton import Message
from proton.utils import BlockingConnection, BlockingReceiver
from tools.peers import Broker

from postroom.model.channel_states import ChannelState
from postroom.server.channels.instance import StopMode
from postroom.server.configuration.channels import ChannelConfig, CredentialsConfig
from postroom.server.configuration.config import Config, QueueConfig, QueueManagerConfig
from tests.faults.proxy import CutPoint, FaultyProxy
from tests.server.harness import BrokerThread, make_config

PATIENCE_S = 30
CREDIT = 100
CHANNEL, TRANSMISSION, QUEUE, DEAD = "CHANNEL", "THERE", "arrived", "dead"


class Partner:
    """One address of a foreign broker."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.url = f"amqp://127.0.0.1:{broker.port}"

    @property
    def target(self) -> str:
        """Of what is sent to it."""
        return self.broker.send_address(self.name)

    @property
    def source(self) -> str:
        """Of what is received from it."""
        return self.broker.receive_address(self.name)

    def send(self, messages: list[Message]) -> None:
        send(self.url, self.target, messages)

    def receive(self, enough: Callable[[list[Message]], bool]) -> list[Message]:
        """Accepts one after the other until there are enough."""
        return receive(self.url, self.source, enough)


def numbered(count: int, **fields: object) -> list[Message]:
    """Durable messages with ids and numbers as their bodies."""
    return [Message(id=f"id-{n}", body=n, durable=True, **fields) for n in range(count)]


def send(url: str, address: str, messages: list[Message]) -> None:
    """Send, and wait until each is accepted."""
    with connected(url) as connection:
        sender = connection.create_sender(address)
        for message in messages:
            sender.send(message)


def receive(url: str, address: str, enough: Callable[[list[Message]], bool]) -> list[Message]:
    """Accept one after the other until there are enough."""
    found: list[Message] = []
    with connected(url) as connection:
        receiver: BlockingReceiver = connection.create_receiver(address, credit=CREDIT)
        while not enough(found):
            found.append(receiver.receive(timeout=PATIENCE_S))
            receiver.accept()
    return found


@contextmanager
def connected(url: str) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(url, timeout=PATIENCE_S, allowed_mechs="ANONYMOUS")
    try:
        yield connection
    finally:
        connection.close()


def count_of(count: int) -> Callable[[list[Message]], bool]:
    return lambda found: len(found) >= count


def all_of(count: int) -> Callable[[list[Message]], bool]:
    """Every number below ``count``, whatever comes twice."""
    return lambda found: len({message.body for message in found}) >= count


def sending(url: str, partner: Partner, **settings: object) -> ChannelConfig:
    return channel("sender", url, transmission_queue=TRANSMISSION, remote_address=partner.target, **settings)


def receiving(url: str, partner: Partner, **settings: object) -> ChannelConfig:
    return channel("receiver", url, local_queue=QUEUE, remote_address=partner.source, **settings)


def channel(kind: str, url: str, **settings: object) -> ChannelConfig:
    usual: dict[str, object] = {
        "short_retry_count": 1000,
        "short_retry_interval_s": 1,
        "message_retry_interval_ms": 100,
    }
    return ChannelConfig(CHANNEL, kind, "amqp", url, **{**usual, **settings})  # type: ignore[arg-type]


def config(
    one: ChannelConfig,
    dead_letters: bool = True,
    credentials: dict[str, CredentialsConfig] | None = None,
    **queue: object,
) -> Config:
    """A queue manager with this channel, and the queue that things arrive on."""
    return make_config(
        queue=[
            QueueConfig(name=TRANSMISSION, usage="transmission"),
            QueueConfig(name=QUEUE, **queue),  # type: ignore[arg-type]
            QueueConfig(name=DEAD),
        ],
        channel=[one],
        credentials=credentials or {},
        queue_manager=QueueManagerConfig(dead_letter_queue=DEAD if dead_letters else ""),
    )


def state_of(broker: BrokerThread) -> ChannelState:
    return broker.call(lambda one: one.channels.find(CHANNEL).state)


def wait_for_state(broker: BrokerThread, *states: ChannelState) -> None:
    broker.wait_until(lambda one: one.channels.find(CHANNEL).state in states)


def stop(broker: BrokerThread) -> None:
    """Have the channel finish its batch."""
    broker.turn(lambda one, now_us: one.channels.find(CHANNEL).stop(StopMode.QUIESCE, False, now_us))
    wait_for_state(broker, ChannelState.STOPPED)


def waits_on(broker: BrokerThread, queue: str) -> int:
    """Messages there that nobody has in hand."""
    return broker.call(lambda one: sum(band.live_count() for band in one.manager.queues[queue].bands))


class ProxyThread:
    """A `FaultyProxy` on a loop of its own."""

    def __init__(self, port: int, *cuts: CutPoint) -> None:
        self._proxy = FaultyProxy("127.0.0.1", port, *cuts)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    @property
    def cuts_left(self) -> int:
        return len(self._proxy.cuts)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result(PATIENCE_S)
        self.url = self._proxy.url
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(*error), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
