"""An active and a standby broker over one data folder, the active one being killed: every message is there,
once for whoever filters by message id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from postroom.client import AcknowledgeMode, Message, TransactionRolledBackException
from postroom.client.aio import Connection, ConnectionFactory, MessageConsumer
from tests.client.breakable_connection import Watch
from tests.client.fake_broker import asynchronous
from tests.clients.broker import BrokerProcess

pytestmark = pytest.mark.sockets
CONFIG = """
[[listen]]
address = "{address}"
[ledger]
standby = true
[[queue]]
name = "q"
[[queue]]
name = "done"
"""


@contextmanager
def pair(folder: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """A broker that works, and one that waits for its folder."""
    active = BrokerProcess(folder / "data", CONFIG, "-active")
    standby = BrokerProcess(folder / "data", CONFIG, "-standby")
    with active:
        standby.launch()
        try:
            yield active, standby
        finally:
            standby.kill()


async def connect(watch: Watch, *brokers: BrokerProcess) -> Connection:
    urls = ",".join(broker.url for broker in brokers)
    return await ConnectionFactory(f"failover:({urls})", listener=watch).create_connection()


async def ids(consumer: MessageConsumer) -> list[object]:
    found: list[object] = []
    while (message := await consumer.receive_no_wait()) is not None:
        found.append(message.message_id)
    return found


def test_a_producer_goes_on_at_the_standby(tmp_path: Path) -> None:
    with pair(tmp_path) as (active, standby):

        @asynchronous
        async def act() -> None:
            watch = Watch()
            async with await connect(watch, active, standby) as connection:
                session = await connection.create_session()
                producer = await session.create_producer("q")
                names = [f"ID:{number}" for number in range(300)]
                for number, name in enumerate(names):
                    if number == 100:
                        active.kill()
                    await producer.send(Message(name, message_id=name))
                assert (watch.interruptions, watch.restorations) == (1, 1)
                found = await ids(await session.create_consumer("q"))
                assert list(dict.fromkeys(found)) == names
                assert len(found) <= len(names) + 1

        act()


def test_transactions_go_on_at_the_standby(tmp_path: Path) -> None:
    """From one queue to another, by ten in a transaction, over a kill in the middle of one: each message is
    moved once.
    """
    with pair(tmp_path) as (active, standby):

        @asynchronous
        async def act() -> None:
            names = [f"ID:{number}" for number in range(200)]
            watch = Watch()
            async with await connect(watch, active, standby) as connection:
                plain = await connection.create_session()
                await (await plain.create_producer("q")).send_all(Message(n, message_id=n) for n in names)
                session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
                consumer = await session.create_consumer("q", prefetch=30)
                producer = await session.create_producer("done")
                failed = 0
                for round_number in range(len(names)):
                    batch = 0
                    while batch < 10 and (message := await consumer.receive_no_wait()) is not None:
                        await producer.send(Message(message.body, message_id=message.message_id))
                        batch += 1
                        if (round_number, batch) == (5, 5):
                            active.kill()
                    try:
                        await session.commit()
                    except TransactionRolledBackException:
                        failed += 1
                        continue
                    if not batch:
                        break
                assert failed == 1
                assert watch.restorations == 1
                found = await ids(await plain.create_consumer("done"))
                assert sorted(map(str, found)) == sorted(names)

        act()


@pytest.mark.parametrize("end", [BrokerProcess.kill, BrokerProcess.stop])
def test_the_standby_may_take_its_time(tmp_path: Path, end: Callable[[BrokerProcess], None]) -> None:
    """A consumer that waits goes on waiting while nobody is there, and after a broker has come back, however
    it ended.
    """
    with BrokerProcess(tmp_path / "data", CONFIG) as broker:

        @asynchronous
        async def act() -> None:
            watch = Watch()
            async with await connect(watch, broker) as connection:
                session = await connection.create_session(AcknowledgeMode.INDIVIDUAL)
                consumer = await session.create_consumer("q", settle_second=True)
                producer = await session.create_producer("q")
                for number in range(2):
                    waiting = asyncio.ensure_future(consumer.receive())
                    await asyncio.to_thread(end, broker)
                    await watch.offline(number + 1)
                    sending = asyncio.ensure_future(producer.send(f"{number}"))
                    await asyncio.to_thread(broker.start)
                    await sending
                    message = await waiting
                    assert message is not None
                    assert message.body == f"{number}"
                    await consumer.accept(message)

        act()
