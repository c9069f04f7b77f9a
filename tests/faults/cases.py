"""The six cases of a break, as an application lives through them, and what must be true afterwards.

Each case runs against a real broker behind the proxy. Whatever the cut: no call raises but a commit, and
that only TransactionRolledBackException; nothing is lost; what comes twice has the same message id; a
transaction is there whole or not at all.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from postroom.client import AcknowledgeMode, Message, TransactionRolledBackException
from postroom.client.aio import Connection, ConnectionFactory, MessageConsumer, MessageProducer, Session
from tests.faults.proxy import CutPoint, FaultyProxy

CASE_S: Final = 30.0
IDS: Final = tuple(f"ID:{number}" for number in range(6))
BATCH: Final = 3
ATTEMPTS: Final = 4
_names = itertools.count()


class Scene:
    """One run of a case: queues of its own, and the broker behind a proxy."""

    def __init__(self, proxy: FaultyProxy, broker_url: str) -> None:
        self.proxy = proxy
        self.broker_url = broker_url
        self.queue = f"from-{next(_names)}"
        self.target = f"to-{self.queue}"
        self.cuts = 0
        self.in_flight: set[object] = set()
        """Commits that failed when their discharge had gone to the broker: it may have done them."""
        self._discharges_cut = 0
        """Discharges that were the last frame of their connection."""
        proxy.on_cut = self._on_cut

    async def commit(self, session: Session, what: object) -> None:
        """Commit; ``what`` names it."""
        connection = self.proxy.connections - 1
        before = self._discharges_passed(connection)
        try:
            await session.commit()
        except TransactionRolledBackException:
            # Asked only now: frames that were under way may pass after a cut in the other direction.
            if self._discharges_passed(connection) > before:
                self.in_flight.add(what)
            raise

    def _discharges_passed(self, connection: int) -> int:
        passed = [p for p in self.proxy.seen if p.frame == "discharge" and p.after]
        return sum(p.connection == connection for p in passed) + self._discharges_cut

    def _on_cut(self, cut: CutPoint) -> None:
        self.cuts += 1
        self._discharges_cut += cut.frame == "discharge" and cut.after

    async def connect(self) -> Connection:
        """As the application does: with fail-over, through the proxy."""
        self._connection = await ConnectionFactory(f"failover:({self.proxy.url})").create_connection()
        return self._connection

    async def pause(self) -> None:
        """The application does something else, in the middle of a transaction: a round trip, so that what it
        has sent is answered, and what has broken is known.
        """
        await (await self._connection.create_session()).close()

    @asynccontextmanager
    async def directly(self) -> AsyncIterator[Connection]:
        """Past the proxy."""
        async with await ConnectionFactory(self.broker_url).create_connection() as connection:
            yield connection

    async def prepare(self) -> None:
        async with self.directly() as connection:
            management = await connection.create_management()
            for name in (self.queue, self.target):
                await management.create("postroom.queue", name)

    async def fill(self) -> None:
        async with self.directly() as connection:
            producer = await (await connection.create_session()).create_producer(self.queue)
            await producer.send_all(message_of(name) for name in IDS)

    async def left(self, queue: str) -> list[str]:
        """The ids of what is in a queue; it is empty then."""
        async with self.directly() as connection:
            consumer = await (await connection.create_session()).create_consumer(queue)
            found = []
            while (message := await consumer.receive_no_wait()) is not None:
                found.append(id_of(message))
            return found


Case = Callable[[Scene], Awaitable[None]]


def message_of(name: str) -> Message:
    return Message(name, message_id=name)


def id_of(message: Message) -> str:
    assert message.body == message.message_id
    return str(message.message_id)


def without_duplicates(ids: list[str]) -> list[str]:
    """What an application has that filters by message id."""
    return list(dict.fromkeys(ids))


def check_sent(scene: Scene, found: list[str]) -> None:
    """Nothing is missing; after a cut it goes on with what has come already or comes next."""
    places = [IDS.index(name) for name in found]
    steps = [after - before for before, after in itertools.pairwise([-1, *places])]
    assert places[-1] == len(IDS) - 1
    assert all(step <= 1 for step in steps), f"{found}: something is missing, or came before its turn"
    assert sum(step < 1 for step in steps) <= scene.cuts, f"{found} after {scene.cuts} cuts"


async def non_transacted_producer(scene: Scene) -> None:
    """Case 1: what was in flight is sent again."""
    connection = await scene.connect()
    producer = await (await connection.create_session()).create_producer(scene.queue)
    for name in IDS:
        await producer.send(message_of(name))
    await connection.close()
    found = await scene.left(scene.queue)
    check_sent(scene, found)
    assert len(found) <= len(IDS) + scene.cuts, "one is in flight at a time"


async def non_transacted_bulk(scene: Scene) -> None:
    """Case 1 with many in flight: they are sent again in order."""
    connection = await scene.connect()
    producer = await (await connection.create_session()).create_producer(scene.queue)
    assert await producer.send_all(message_of(name) for name in IDS) == len(IDS)
    await connection.close()
    check_sent(scene, await scene.left(scene.queue))


async def transacted_producer(scene: Scene) -> None:
    """Cases 2 and 3: uncommitted, and with a pending commit."""
    connection = await scene.connect()
    session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
    producer = await session.create_producer(scene.queue)
    committed = [await send_until_committed(scene, session, producer, number) for number in range(2)]
    await connection.close()
    found = await scene.left(scene.queue)
    for number, attempt in enumerate(committed):
        for each in range(attempt + 1):
            whole = batch_ids(number, each)
            here = [name for name in found if name in whole]
            is_open = each < attempt and (number, each) in scene.in_flight
            assert here == (whole if each == attempt else []) or (is_open and here == whole), (
                f"{here} of {whole}, {'in flight' if is_open else 'decided'}"
            )


def batch_ids(number: int, attempt: int) -> list[str]:
    return [f"{number}/{attempt}/{place}" for place in range(BATCH)]


async def send_until_committed(scene: Scene, session: Session, producer: MessageProducer, number: int) -> int:
    """What the seed asks of the user: resend the messages of a failed transaction."""
    for attempt in range(ATTEMPTS):
        for name in batch_ids(number, attempt):
            await producer.send(message_of(name))
            await scene.pause()
        try:
            await scene.commit(session, (number, attempt))
        except TransactionRolledBackException:
            continue
        return attempt
    raise AssertionError("the transaction was never committed")


async def non_transacted_consumer(scene: Scene) -> None:
    """Case 4: acknowledging what came before the break does nothing; it may come again."""
    await scene.fill()
    connection = await scene.connect()
    session = await connection.create_session(AcknowledgeMode.CLIENT)
    consumer = await session.create_consumer(scene.queue, prefetch=4)
    seen: list[str] = []
    while len(set(seen)) < len(IDS):
        message = await consumer.receive()
        assert message is not None
        seen.append(id_of(message))
        if len(seen) % BATCH == 0:
            await session.acknowledge()
    await session.acknowledge()
    await connection.close()
    assert without_duplicates(seen) == list(IDS), f"nothing is lost, in order: {seen}"
    left = await scene.left(scene.queue)
    assert set(left) <= set(IDS)
    assert not left or scene.cuts
    assert len(seen) == len(IDS) or scene.cuts


async def transacted_consumer(scene: Scene) -> None:
    """Cases 5 and 6: uncommitted, and with a pending commit."""
    await scene.fill()
    connection = await scene.connect()
    session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
    consumer = await session.create_consumer(scene.queue, prefetch=4)
    committed = await consume_all(scene, session, consumer, None)
    await connection.close()
    left = await scene.left(scene.queue)
    check_consumed(scene, committed, left)


async def consumer_and_producer(scene: Scene) -> None:
    """Cases 2, 3, 5 and 6 in one transaction: from one queue to another."""
    await scene.fill()
    connection = await scene.connect()
    session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
    consumer = await session.create_consumer(scene.queue, prefetch=4)
    producer = await session.create_producer(scene.target)
    committed = await consume_all(scene, session, consumer, producer)
    await connection.close()
    left, moved = await scene.left(scene.queue), await scene.left(scene.target)
    check_consumed(scene, committed, left)
    assert sorted(moved + left) == sorted(IDS), "each message is in one of the queues, once"
    assert all(name in moved for batch in committed for name in batch)


async def consume_all(
    scene: Scene, session: Session, consumer: MessageConsumer, producer: MessageProducer | None
) -> list[tuple[str, ...]]:
    """Until the broker says that there is no more: the batches committed."""
    committed: list[tuple[str, ...]] = []
    while True:
        batch: list[str] = []
        while len(batch) < BATCH and (message := await consumer.receive_no_wait()) is not None:
            batch.append(id_of(message))
            if producer is not None:
                await producer.send(message_of(id_of(message)))
            await scene.pause()
        try:
            await scene.commit(session, tuple(batch))
        except TransactionRolledBackException:
            assert scene.cuts
            continue
        if not batch:
            return committed
        committed.append(tuple(batch))


def check_consumed(scene: Scene, committed: list[tuple[str, ...]], left: list[str]) -> None:
    """Each message was consumed by one transaction, whole: committed, or in flight when it raised."""
    done = [name for batch in committed for name in batch]
    assert len(done) == len(set(done)), f"a committed message came again: {done}"
    assert left == [], "everything was consumed"
    missing = set(IDS) - set(done)
    for batch in scene.in_flight:
        assert isinstance(batch, tuple)
        if missing.issuperset(batch):
            missing.difference_update(batch)
    assert not missing, f"{missing} were consumed by a transaction that was rolled back"


CASES: Final[tuple[Case, ...]] = (
    non_transacted_producer,
    non_transacted_bulk,
    transacted_producer,
    non_transacted_consumer,
    transacted_consumer,
    consumer_and_producer,
)


async def play(case: Case, broker_url: str, *cuts: CutPoint) -> list[CutPoint]:
    """Run a case; returns the places that it went by without a cut."""
    host, _, port = broker_url.removeprefix("amqp://").rpartition(":")
    async with asyncio.timeout(CASE_S), FaultyProxy(host, int(port), *cuts) as proxy:
        scene = Scene(proxy, broker_url)
        await scene.prepare()
        await case(scene)
        return proxy.seen


async def cut_points(case: Case, broker_url: str) -> list[CutPoint]:
    """Every place at which the connection can break in this case."""
    return list(dict.fromkeys(await play(case, broker_url)))
