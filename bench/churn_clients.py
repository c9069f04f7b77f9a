"""What comes and goes at a broker, each kind of it a step that can be done again and again.

A step leaves nothing behind: what it has sent has been received, has expired or become a dead letter that was
taken, what it has made is gone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from tools.peers.ports import LOOPBACK

from postroom.client import AcknowledgeMode, Message, Topic
from postroom.client.aio import Connection, MessageConsumer, MessageProducer, Session, connect
from postroom.client.aio.management_client import ManagementClient

KIND: Final = "postroom.queue"
BODY: Final = bytes(200)
BATCH: Final = 10
FLOOD: Final = 200
TTL_MS: Final = 20
PATIENCE_S: Final = 20.0
DEAD: Final = "churn.dead"
COLORS: Final = 50


class Churn:
    """One connection that stays, and the names that its steps use."""

    def __init__(self, port: int, number: int) -> None:
        self._url = f"amqp://{LOOPBACK}:{port}"
        self._number = number
        self._made = 0
        self.kinds: dict[str, Callable[[], Awaitable[int]]] = {
            "connections": self._connection,
            "attaches": self._attach,
            "queues": self._queue,
            "transactions": self._transaction,
            "rollbacks": self._rollback,
            "selectors": self._selector,
            "expiries": self._expiry,
            "dead letters": self._dead_letter,
            "subscriptions": self._subscription,
            "floods": self._flood,
        }
        """By name; each returns for how many it counts."""

    async def run(self, over: asyncio.Event, counts: dict[str, int]) -> None:
        """All kinds at once until it is ``over``; each counts what it has done."""
        async with connect(self._url) as self._connection_kept:
            self._management: ManagementClient = await self._connection_kept.create_management()
            await self._prepare()
            await asyncio.gather(*(self._repeat(name, over, counts) for name in self.kinds))

    async def _prepare(self) -> None:
        connection = self._connection_kept
        self._flooding = await self._ends(await connection.create_session(), self._name("flood"))
        self._dying = await self._ends(
            await connection.create_session(AcknowledgeMode.INDIVIDUAL), self._name("dying")
        )
        self._buried = await (await connection.create_session()).create_consumer(
            f"{DEAD}.{self._number}", create=True
        )

    async def _repeat(self, name: str, over: asyncio.Event, counts: dict[str, int]) -> None:
        step = self.kinds[name]
        while not over.is_set():
            counts[name] += await step()

    def _name(self, kind: str) -> str:
        return f"churn.{kind}.{self._number}"

    async def _ends(self, session: Session, queue: str) -> tuple[MessageProducer, MessageConsumer]:
        """Both ends of a queue."""
        producer = await session.create_producer(queue)
        return producer, await session.create_consumer(queue)

    async def _connection(self) -> int:
        """A client that comes, sends, receives and goes."""
        async with connect(self._url) as connection:
            await self._there_and_back(connection, self._name("connection"))
        return 1

    async def _there_and_back(self, connection: Connection, queue: str) -> None:
        async with connection.producer(queue) as producer:
            await producer.send(Message(BODY))
        async with connection.consumer(queue) as consumer:
            message = await _received(consumer)
            await message.acknowledge()

    async def _attach(self) -> int:
        """Links of a connection that stays, to one of some queues."""
        await self._there_and_back(self._connection_kept, f"{self._name('attach')}.{random.randrange(20)}")
        return 1

    async def _queue(self) -> int:
        """A queue that is made, used and deleted."""
        self._made += 1
        name = f"{self._name('queue')}.{self._made}"
        await self._management.create(KIND, name, {"max_messages": BATCH})
        await self._there_and_back(self._connection_kept, name)
        await self._management.delete(KIND, name)
        return 1

    async def _transaction(self) -> int:
        """Some in, committed; as many out, committed."""
        queue = self._name("transaction")
        async with self._connection_kept.transaction() as session, session.producer(queue) as producer:
            for _ in range(BATCH):
                await producer.send(Message(BODY))
        async with self._connection_kept.transaction() as session, session.consumer(queue) as consumer:
            for _ in range(BATCH):
                await _received(consumer)
        return 1

    async def _rollback(self) -> int:
        """Sends and receipts that are taken back; then they are received."""
        queue = self._name("rollback")
        async with self._connection_kept.producer(queue) as producer:
            await producer.send(Message(BODY))
        session = await self._connection_kept.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        consumer = await session.create_consumer(queue)
        sender = await session.create_producer(queue)
        await _received(consumer)
        await sender.send(Message(BODY))
        await session.rollback()
        await _received(consumer)
        await session.commit()
        await session.close()
        return 1

    async def _selector(self) -> int:
        """A consumer with a selector that nobody has had before, which finds one of some."""
        queue = self._name("selector")
        self._made += 1
        wanted = self._made
        async with self._connection_kept.producer(queue) as producer:
            for color in range(BATCH):
                properties: dict[str, object] = {"number": wanted, "color": f"c{color}"}
                await producer.send(Message(BODY, properties=properties))
        selector = f"number = {wanted} AND color = 'c{random.randrange(BATCH)}'"
        async with self._connection_kept.consumer(queue, selector) as consumer:
            await (await _received(consumer)).acknowledge()
        async with self._connection_kept.consumer(queue, f"number = {wanted}") as consumer:
            for _ in range(BATCH - 1):
                await (await _received(consumer)).acknowledge()
        return 1

    async def _expiry(self) -> int:
        """Messages that nobody wants in time."""
        queue = f"{self._name('expiry')}.{random.randrange(20)}"
        async with self._connection_kept.producer(queue) as producer:
            for _ in range(BATCH):
                await producer.send(Message(BODY), ttl_ms=TTL_MS)
        await asyncio.sleep(TTL_MS / 1000)
        async with self._connection_kept.consumer(queue) as consumer:
            while (message := await consumer.receive_no_wait()) is not None:
                await message.acknowledge()
        return 1

    async def _dead_letter(self) -> int:
        """Messages that are given up, and taken from where they went."""
        producer, consumer = self._dying
        await producer.send_all(Message(BODY) for _ in range(BATCH))
        for _ in range(BATCH):
            (await _received(consumer)).dead_letter("churn")
        for _ in range(BATCH):
            await _received(self._buried)
        return 1

    async def _subscription(self) -> int:
        """A durable subscription that comes, gets something, and ends."""
        self._made += 1
        topic, name = Topic(self._name("topic")), f"{self._name('subscription')}.{self._made}"
        connection = self._connection_kept
        async with connection.consumer(topic, subscription=name, durable=True, shared=True) as consumer:
            async with connection.producer(topic) as producer:
                await producer.send(Message(BODY))
            await (await _received(consumer)).acknowledge()
        await connection.unsubscribe(name)
        return 1

    async def _flood(self) -> int:
        """Plain traffic."""
        producer, consumer = self._flooding
        await producer.send_all(Message(BODY) for _ in range(FLOOD))
        for _ in range(FLOOD):
            await _received(consumer)
        return 1


async def _received(consumer: MessageConsumer) -> Message:
    """The next; raises TimeoutError where none comes."""
    message = await consumer.receive(PATIENCE_S)
    if message is None:
        raise TimeoutError(f"nothing came from {consumer.address} within {PATIENCE_S:.0f} s")
    return message
