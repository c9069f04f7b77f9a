"""Clients that send and receive all the time, whoever is active: with fail-over, or from connection to
connection where it has to be known exactly what was answered.
"""

from __future__ import annotations

import asyncio
import random
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from postroom.client import AcknowledgeMode, JMSException, Message, TransactionRolledBackException
from postroom.client.aio import Connection, ConnectionFactory, MessageConsumer, Session
from tests.replication.run.account import Account, Sent

PACE_S: Final = 0.03
"""Between two steps of a client: a run is about take-overs, not about rates."""
LARGE_EVERY: Final = 211
LARGE_BYTES: Final = 300_000
MOST_BYTES: Final = 2000
BATCH: Final = 3
ROLLED_BACK: Final = 0.1
"""Of the transactions, those that their client rolls back."""
HELD: Final = 0.02
"""Of the deliveries, those without an outcome: they come again at the next connection."""
WAIT_S: Final = 0.5
PATIENT: Final = "jms.connectTimeout=5000&jms.requestTimeout=600000&jms.sendTimeout=600000"
"""A member that is paused answers nothing; the others do."""


class Client(ABC):
    """One of them, in the loop of `Traffic`."""

    def __init__(self, name: str, urls: list[str]) -> None:
        self.name: Final = name
        self.urls: Final = urls
        self.steps = 0
        """Answered by a broker."""
        self.is_stopping = False
        """It comes to its end by itself."""

    @property
    def fail_over_url(self) -> str:
        """Any of the members."""
        return f"failover:({','.join(self.urls)})?{PATIENT}"

    @abstractmethod
    async def run(self) -> None:
        """Until it was stopped, and everything that it had begun is at its end."""

    async def connect_to_one(self) -> Connection | None:
        """Without fail-over, to the one that listens."""
        for url in self.urls:
            with suppress(JMSException):
                return await ConnectionFactory(f"{url}?{PATIENT}").create_connection()
        await asyncio.sleep(PACE_S)
        return None


def message_of(sent: Sent, chance: random.Random) -> Message:
    """A few are large."""
    size = LARGE_BYTES if sent.number % LARGE_EVERY == LARGE_EVERY - 1 else chance.randrange(MOST_BYTES)
    return Message(bytes(size), message_id=f"ID:{sent}", properties={"sent": str(sent)})


def sent_of(message: Message) -> Sent:
    """Which one came."""
    return Sent.parse(str(message.properties["sent"]))


async def next_of(consumer: MessageConsumer, is_last: bool) -> Message | None:
    """What comes soon; in the end what the broker has, or its word that there is nothing."""
    return await (consumer.receive_no_wait() if is_last else consumer.receive(WAIT_S))


class Sender(Client):
    """One message after the other; the queue has a window of duplicates, so that none is there twice."""

    def __init__(self, name: str, urls: list[str], account: Account, chance: random.Random) -> None:
        super().__init__(name, urls)
        self._account: Final = account
        self._chance: Final = chance

    async def run(self) -> None:
        async with await ConnectionFactory(self.fail_over_url).create_connection() as connection:
            producer = await (await connection.create_session()).create_producer(self._account.queue)
            number = 0
            while not self.is_stopping:
                sent = Sent(self.name, number)
                self._account.accepted.add(sent)  # it comes before its answer, and `send` ends with that
                await producer.send(message_of(sent, self._chance))
                number += 1
                self.steps += 1
                await asyncio.sleep(PACE_S)


class TransactedSender(Client):
    """A few messages in each local transaction."""

    def __init__(self, name: str, urls: list[str], to: str, account: Account, chance: random.Random) -> None:
        """`to`: the queue they are sent to; `account`: of the queue in which they come out."""
        super().__init__(name, urls)
        self._to: Final = to
        self._account: Final = account
        self._chance: Final = chance

    async def run(self) -> None:
        async with await ConnectionFactory(self.fail_over_url).create_connection() as connection:
            session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
            producer = await session.create_producer(self._to)
            number = 0
            while not self.is_stopping:
                batch = {Sent(self.name, number + at) for at in range(BATCH)}
                number += BATCH
                for sent in sorted(batch):
                    await producer.send(message_of(sent, self._chance))
                await self._end(session, batch)
                self.steps += 1
                await asyncio.sleep(PACE_S)

    async def _end(self, session: Session, batch: set[Sent]) -> None:
        if self._chance.random() < ROLLED_BACK:
            self._account.undone |= batch
            await session.rollback()
            return
        self._account.in_doubt.append(batch)
        try:
            await session.commit()
        except TransactionRolledBackException:
            return  # done or not: the account says whether it was torn
        self._account.in_doubt.remove(batch)
        self._account.accepted |= batch


class Mover(Client):
    """From one queue to another, in local transactions: whatever becomes of a commit, each message comes out
    once.
    """

    def __init__(self, name: str, urls: list[str], source: str, target: str) -> None:
        super().__init__(name, urls)
        self._source: Final = source
        self._target: Final = target
        self.failed = 0
        """Commits that were rolled back, or had no answer."""

    async def run(self) -> None:
        async with await ConnectionFactory(self.fail_over_url).create_connection() as connection:
            session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
            consumer = await session.create_consumer(self._source, prefetch=20)
            producer = await session.create_producer(self._target)
            while True:
                is_last, moved = self.is_stopping, 0
                while moved < BATCH and (message := await next_of(consumer, is_last)) is not None:
                    await producer.send(Message(message.body, properties=dict(message.properties)))
                    moved += 1
                try:
                    await session.commit()
                except TransactionRolledBackException:
                    self.failed += 1
                    continue
                self.steps += 1
                if not moved and is_last:
                    return
                await asyncio.sleep(PACE_S)


class Receiver(Client):
    """Takes what comes and waits for each answer; without fail-over, so that it knows which it had."""

    def __init__(self, name: str, urls: list[str], account: Account, chance: random.Random) -> None:
        super().__init__(name, urls)
        self._account: Final = account
        self._chance: Final = chance
        self._life = 0
        self._is_last = False

    async def run(self) -> None:
        while not (self._is_last and self._account.is_drained()):
            connection = await self.connect_to_one()
            if connection is None:
                continue
            self._life += 1
            self._is_last = self.is_stopping
            with suppress(JMSException):
                async with connection:
                    session = await connection.create_session(AcknowledgeMode.INDIVIDUAL)
                    await self._live(await session.create_consumer(self._account.queue, settle_second=True))

    async def _live(self, consumer: MessageConsumer) -> None:
        """Until the connection breaks, or the last messages have to come, those that were held included."""
        while self._is_last == self.is_stopping:
            message = await next_of(consumer, self._is_last)
            if message is None:
                if self._is_last:
                    return
                continue
            sent = sent_of(message)
            self._account.saw(sent, message.redelivered, self._life)
            if not self._is_last and self._chance.random() < HELD:
                continue
            self._account.took(sent)
            await message.acknowledge()
            self._account.saw_answer(sent)
            self.steps += 1


class Traffic:
    """Clients in a loop of their own thread."""

    def __init__(self, clients: list[Client], problems: list[str]) -> None:
        self.clients: Final = clients
        self._problems: Final = problems
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="clients")
        self._thread.start()
        self._futures: Final = {client.name: self._start(self._guarded(client)) for client in clients}

    def _start(self, work: Coroutine[Any, Any, None]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _guarded(self, client: Client) -> None:
        try:
            await client.run()
        except Exception:
            self._problems.append(f"client {client.name} failed: {traceback.format_exc()}")

    def stop(self, *kinds: type[Client]) -> None:
        """Those come to their end."""
        for client in self.clients:
            if isinstance(client, kinds):
                client.is_stopping = True

    def has_ended(self, *kinds: type[Client]) -> bool:
        """Whether they have."""
        return all(self._futures[client.name].done() for client in self.clients if isinstance(client, kinds))

    def __enter__(self) -> Traffic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start(_cancel_others()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
