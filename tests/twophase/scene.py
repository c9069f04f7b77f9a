"""Consume, write a row, produce: in one transaction, of which any party may be killed at any step.

The invariant: every number that was put into the queue "in" is either still there, once, and nowhere else; or
it has a row, and is in the queue "out" once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from postroom.client.aio import Connection, ConnectionFactory, TransactionManager, XASession
from postroom.client.aio.postgresql import PostgreSQLResource
from postroom.client.exceptions import JMSException
from postroom.client.sync import ConnectionFactory as SyncConnectionFactory
from postroom.client.sync import TransactionManager as SyncTransactionManager
from postroom.client.sync.postgresql import PostgreSQLResource as SyncPostgreSQLResource
from postroom.client.transactions.two_phase import Recovery, Step
from tests.clients.broker import BrokerProcess
from tests.twophase.postgres import PostgreSQL

IN, OUT = "twophase.in", "twophase.out"
NUMBERS = 120
RECEIVE_S = 30
POLL_S = 0.01
PROCESS_S = 60
BROKER, DATABASE = "amqp", "postgresql"
BODY = ("received", "inserted", "sent")
"""Steps of the application between start and end."""

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Life:
    """What a transaction manager needs to know, in this process or in one of its own."""

    url: str
    dsn: str
    folder: str
    broker_first: bool
    kill_at: str = ""
    """The step at which it kills itself."""
    sync: bool = False


def steps(broker_first: bool = True) -> list[str]:
    """Of a transaction that goes well."""
    both = (BROKER, DATABASE) if broker_first else (DATABASE, BROKER)
    return [
        *(f"{step.value} {name}" for name in both for step in (Step.STARTING, Step.STARTED)),
        *BODY,
        *(f"{step.value} {name}" for name in both for step in (Step.ENDING, Step.ENDED)),
        *(f"{step.value} {name}" for name in both for step in (Step.PREPARING, Step.PREPARED)),
        *(Step.DECIDING.value, Step.DECIDED.value),
        *(f"{step.value} {name}" for name in both for step in (Step.COMMITTING, Step.COMMITTED)),
        Step.FINISHED.value,
    ]


def name_of(step: Step, resource: str) -> str:
    """As steps are called here: with the resource manager's kind."""
    return f"{step.value} {resource.split(':')[0]}".strip()


@asynccontextmanager
async def resources(life: Life) -> AsyncIterator[tuple[XASession, PostgreSQLResource, list[Any]]]:
    """A session with each resource manager, and the resources in their order."""
    connection = await ConnectionFactory(life.url).create_connection()
    database = await psycopg.AsyncConnection.connect(life.dsn)
    try:
        session = await connection.create_xa_session()
        rows = PostgreSQLResource(database)
        ordered: list[Any] = [session.xa_resource, rows]
        yield session, rows, ordered if life.broker_first else ordered[::-1]
    finally:
        await database.close()
        await close_if_possible(connection)


async def close_if_possible(connection: Connection) -> None:
    """The broker may be dead."""
    with suppress(JMSException):
        await connection.close()


class Application:
    """Consumes, writes a row, produces."""

    def __init__(self, session: XASession, rows: PostgreSQLResource, ordered: list[Any]) -> None:
        self._session = session
        self._rows = rows
        self._ordered = ordered

    async def open(self) -> None:
        self._consumer = await self._session.create_consumer(IN)
        self._producer = await self._session.create_producer(OUT)

    async def transact(self, manager: TransactionManager, notify: Notify) -> None:
        """One transaction."""
        async with manager.transaction(*self._ordered):
            message = await self._consumer.receive(timeout_s=RECEIVE_S)
            assert message is not None
            notify("received")
            await self._rows._connection.execute("INSERT INTO orders VALUES (%s)", [message.body])
            notify("inserted")
            await self._producer.send(str(message.body))
            notify("sent")


async def transact(life: Life, manager: TransactionManager, notify: Notify) -> None:
    """One transaction over connections of its own."""
    async with resources(life) as parts:
        application = Application(*parts)
        await application.open()
        await application.transact(manager, notify)


def transact_sync(life: Life, manager: SyncTransactionManager, notify: Notify) -> None:
    """The same, blocking."""
    with (
        SyncConnectionFactory(life.url).create_connection() as connection,
        psycopg.connect(life.dsn) as database,
        connection.create_xa_session() as session,
    ):
        ordered: list[Any] = [session.xa_resource, SyncPostgreSQLResource(database)]
        consumer, producer = session.create_consumer(IN), session.create_producer(OUT)
        with manager.transaction(*(ordered if life.broker_first else ordered[::-1])):
            message = consumer.receive(timeout_s=RECEIVE_S)
            assert message is not None
            notify("received")
            database.execute("INSERT INTO orders VALUES (%s)", [message.body])
            notify("inserted")
            producer.send(str(message.body))
            notify("sent")


def live(life: Life) -> None:
    """A transaction manager in a process of its own: one transaction, unless it kills itself before."""

    def notify(what: str) -> None:
        if what == life.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_step(step: Step, resource: str) -> None:
        notify(name_of(step, resource))

    if life.sync:
        with SyncTransactionManager(life.folder, on_step=on_step) as blocking:
            transact_sync(life, blocking, notify)
        return

    async def run() -> None:
        async with TransactionManager(life.folder, on_step=on_step) as manager:
            await transact(life, manager, notify)

    asyncio.run(run())


class Scene:
    """The three parties, and what they have in the end."""

    def __init__(self, folder: Path, broker: BrokerProcess, postgres: PostgreSQL) -> None:
        self.broker = broker
        self.postgres = postgres
        self.folder = folder
        self.rows = -1
        """How many there were when they were last counted."""
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["tests.twophase.scene"])
        postgres.execute("DROP TABLE IF EXISTS orders")
        postgres.execute("CREATE TABLE orders (id text PRIMARY KEY)")
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with await ConnectionFactory(self.broker.url).create_connection() as connection:
            management = await connection.create_management()
            for queue in (IN, OUT):
                await management.create("postroom.queue", queue)
            producer = await (await connection.create_session()).create_producer(IN)
            await producer.send_all(f"{number}" for number in range(NUMBERS))

    def life(self, **more: Any) -> Life:
        """What a transaction manager needs to know."""
        usual = {"url": self.broker.url, "broker_first": True}
        return Life(dsn=self.postgres.dsn, folder=str(self.folder), **{**usual, **more})

    def dry_run(self, broker_first: bool = True) -> list[str]:
        """The steps of a transaction in which nobody is killed."""
        return self.run(self.life(broker_first=broker_first), "", lambda: None)

    def run(self, life: Life, kill_at: str, kill: Callable[[], None]) -> list[str]:
        """A transaction in this process, in which ``kill`` is called at a step; the steps it came to. The
        same transaction manager recovers afterwards.
        """
        steps: list[str] = []

        def notify(what: str) -> None:
            steps.append(what)
            if what == kill_at:
                kill()

        asyncio.run(self._run(life, notify))
        return steps

    async def _run(self, life: Life, notify: Notify) -> None:
        is_over = False

        def on_step(step: Step, resource: str) -> None:
            if not is_over:
                notify(name_of(step, resource))

        async with TransactionManager(life.folder, on_step=on_step) as manager:
            with suppress(JMSException, psycopg.Error):
                await transact(life, manager, notify)
            is_over = True
            await self._come_back()
            await self._recover(life, manager)

    def go_on(self, kill_at: str) -> list[str]:
        """A transaction in which the broker is killed and started again at a step, over a connection with
        fail-over, and another one over the same session; the steps of the first.
        """
        steps: list[str] = []
        asyncio.run(self._go_on(steps, kill_at))
        return steps

    async def _go_on(self, steps: list[str], kill_at: str) -> None:
        is_over = False

        def notify(what: str) -> None:
            if is_over:
                return
            steps.append(what)
            if what == kill_at:
                self.broker.restart_after_kill()

        def on_step(step: Step, resource: str) -> None:
            notify(name_of(step, resource))

        life = self.life(url=f"failover:({self.broker.url})")
        async with TransactionManager(life.folder, on_step=on_step) as manager, resources(life) as parts:
            application = Application(*parts)
            await application.open()
            with suppress(JMSException):
                await application.transact(manager, notify)
            is_over = True
            await application.transact(manager, notify)
            assert manager.unfinished() == []

    async def _come_back(self) -> None:
        """Who was killed is started again."""
        if not self.broker.is_running:
            self.broker.start()
        if not self.postgres.is_running:
            self.postgres.start()

    def run_apart(self, life: Life) -> list[str]:
        """A transaction in a process that kills itself at a step; another transaction manager recovers.
        Returns the steps it came to.
        """
        process = self._processes.Process(target=live, args=(life,))
        process.start()
        process.join(PROCESS_S)
        assert process.exitcode == (-signal.SIGKILL if life.kill_at else 0), process.exitcode
        asyncio.run(self._recover_apart(life))
        known = steps(life.broker_first)
        return known[: known.index(life.kill_at) + 1] if life.kill_at else known

    async def _recover_apart(self, life: Life) -> None:
        async with TransactionManager(life.folder) as manager:
            await self._recover(life, manager)

    async def _recover(self, life: Life, manager: TransactionManager) -> None:
        """Recover until nobody works any more on what the dead have asked for."""
        self.postgres.kill_backends()
        async with resources(life) as (session, _, ordered):
            await self._others_gone(session)
            report = await manager.recover(*ordered)
            assert (report.unreachable, report.heuristics) == ([], []), report
            assert manager.unfinished() == []
            assert manager.heuristics() == []
            again = await manager.recover(*ordered)
            assert again == Recovery()
            assert await session.xa_resource.recover() == []
        assert self.postgres.execute("SELECT gid FROM pg_prepared_xacts") == []

    async def _others_gone(self, session: XASession) -> None:
        """Wait until the broker has seen the end of all connections but this one."""
        requests = session._requests
        assert requests is not None
        while len(await requests.query("postroom.connection", ["name"])) > 1:
            await asyncio.sleep(POLL_S)

    # --- what is there in the end

    def judge(self, run: Callable[[], list[str]], more: int = 0) -> None:
        """What was decided in ``run`` has happened, whole; what wasn't has not; and so many transactions
        besides.
        """
        before = self.rows if self.rows >= 0 else self.check()
        came_to = run()
        assert self.check() == before + (Step.DECIDED.value in came_to) + more

    def check(self) -> int:
        """That every number is where it belongs; how many have a row."""
        rows = Counter(str(row[0]) for row in self.postgres.execute("SELECT id FROM orders"))
        waiting, produced = asyncio.run(self._queues())
        assert produced == rows
        assert max((waiting + rows).values()) == 1, (waiting + rows).most_common(3)
        assert set(waiting) | set(rows) == {f"{number}" for number in range(NUMBERS)}
        self.rows = rows.total()
        return self.rows

    async def _queues(self) -> tuple[Counter[str], Counter[str]]:
        async with await ConnectionFactory(self.broker.url).create_connection() as connection:
            session = await connection.create_session()
            found = []
            for queue in (IN, OUT):
                browser = await session.create_browser(queue)
                found.append(Counter([str(message.body) async for message in browser]))
        return found[0], found[1]
