"""A connection with fail-over that a test can break where it wants to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from postroom.client import JMSException, Message
from postroom.client.aio import Connection, ConnectionFactory, MessageConsumer, Session
from postroom.client.aio.local_transaction import TransactionContext
from postroom.client.connection.provider import ConnectionListener
from tests.faults.proxy import BROKER, CLIENT, CutPoint, FaultyProxy
from tests.server.harness import BrokerThread


class Watch(ConnectionListener):
    """Counts what a connection tells."""

    def __init__(self) -> None:
        self.interruptions = 0
        self.restorations = 0
        self.failures: list[JMSException] = []
        self._changed = asyncio.Event()

    def on_interrupted(self, broker: str) -> None:
        self.interruptions += 1
        self._changed.set()

    def on_restored(self, broker: str) -> None:
        self.restorations += 1
        self._changed.set()

    def on_failure(self, failure: JMSException) -> None:
        self.failures.append(failure)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def offline(self, count: int = 1) -> None:
        """The client has noticed the ``count``-th break."""
        await self.until(lambda: self.interruptions >= count)

    async def online(self, count: int = 1) -> None:
        """It has recovered from it."""
        await self.until(lambda: self.restorations >= count)


@dataclass
class Line:
    """A connection with fail-over through a proxy."""

    proxy: FaultyProxy
    connection: Connection
    watch: Watch

    async def go_offline(self) -> None:
        """Break, and let no new connection through."""
        self.proxy.hold()
        self.proxy.break_now()
        await self.watch.offline(self.watch.interruptions + 1)

    async def break_and_recover(self) -> None:
        count = self.watch.restorations + 1
        self.proxy.break_now()
        await self.watch.online(count)


@asynccontextmanager
async def broken(broker: BrokerThread, *cuts: CutPoint, **options: Any) -> AsyncIterator[Line]:
    """A connection with fail-over through a proxy that cuts it there."""
    watch = Watch()
    async with asyncio.timeout(30), FaultyProxy("127.0.0.1", broker.port, *cuts) as proxy:
        factory = ConnectionFactory(f"failover:({proxy.url})", listener=watch, **options)
        async with await factory.create_connection() as connection:
            yield Line(proxy, connection, watch)


def context(session: Session) -> TransactionContext:
    """The transactions of a session."""
    found = session._transaction
    assert isinstance(found, TransactionContext)
    return found


async def outcomes(session: Session) -> None:
    """The broker has answered everything that was sent."""
    waiting = list(context(session)._outcomes)
    if waiting:
        await asyncio.wait(waiting)


async def texts(broker: BrokerThread, queue: str) -> list[tuple[object, object]]:
    """Bodies and message ids of what is in a queue, for another client; it is empty then."""
    async with await ConnectionFactory(broker.url).create_connection() as connection:
        consumer = await (await connection.create_session()).create_consumer(queue)
        found: list[tuple[object, object]] = []
        while (message := await consumer.receive_no_wait()) is not None:
            found.append((message.body, message.message_id))
        return found


async def fill(broker: BrokerThread, queue: str, *given: str) -> None:
    async with await ConnectionFactory(broker.url).create_connection() as connection:
        await (await (await connection.create_session()).create_producer(queue)).send_all(given)


def named(text: str) -> Message:
    return Message(text, message_id=f"ID:{text}")


async def bodies(consumer: MessageConsumer, count: int) -> list[object]:
    return [(await received(consumer)).body for _ in range(count)]


async def received(consumer: MessageConsumer) -> Message:
    message = await consumer.receive()
    assert message is not None
    return message


def nth_send(number: int, after: bool) -> CutPoint:
    return CutPoint(CLIENT, "transfer", number, after)


def discharge(after: bool) -> CutPoint:
    """At the first commit or rollback."""
    return CutPoint(CLIENT, "discharge", 0, after)


def next_disposition(proxy: FaultyProxy) -> CutPoint:
    """Before the broker's next one."""
    count = sum(
        place.sender == BROKER and place.frame == "disposition" and place.after for place in proxy.seen
    )
    return CutPoint(BROKER, "disposition", count, False)
