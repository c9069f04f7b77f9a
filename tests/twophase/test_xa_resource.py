"""The client's XA sessions, against a real broker: each verb, and what belongs to a branch."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from postroom.client import ConnectionFactory as SyncConnectionFactory
from postroom.client import TransactionManager as SyncTransactionManager
from postroom.client.aio import (
    Connection,
    ConnectionFactory,
    MessageConsumer,
    MessageProducer,
    TransactionManager,
    XAResource,
    XASession,
)
from postroom.client.exceptions import (
    IllegalStateException,
    TransactionInProgressException,
    TransactionRolledBackException,
    XAException,
)
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.client.fake_broker import asynchronous
from tests.clients.broker import BrokerProcess

pytestmark = pytest.mark.sockets
C = XaCode
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("xa") / "data") as process:
        yield process


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test, which may kill it."""
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def new_xid() -> Xid:
    return Xid(3, b"\xffglobal" + next(_numbers).to_bytes(2, "big"), b"branch")


class Party:
    """A connection with an XA session, and an ordinary one that looks at the queue."""

    def __init__(self, connection: Connection, session: XASession, queue: str) -> None:
        self.connection = connection
        self.session = session
        self.queue = queue

    @property
    def resource(self) -> XAResource:
        return self.session.xa_resource

    async def producer(self) -> MessageProducer:
        return await self.session.create_producer(self.queue)

    async def consumer(self, prefetch: int = 10) -> MessageConsumer:
        return await self.session.create_consumer(self.queue, prefetch=prefetch)

    async def put(self, *bodies: str) -> None:
        """As somebody else."""
        session = await self.connection.create_session()
        await (await session.create_producer(self.queue)).send_all(bodies)
        await session.close()

    async def waiting(self) -> list[object]:
        """The bodies that a browser sees."""
        session = await self.connection.create_session()
        browser = await session.create_browser(self.queue)
        found = [message.body async for message in browser]
        await session.close()
        return found

    async def sent(self, *bodies: str) -> Xid:
        """A branch that was ended after it has sent so much."""
        xid = new_xid()
        await self.resource.start(xid)
        await (await self.producer()).send_all(bodies)
        await self.resource.end(xid)
        return xid


@asynccontextmanager
async def at(broker: BrokerProcess, **options: Any) -> AsyncIterator[Party]:
    """A party with a queue of its own."""
    async with await ConnectionFactory(broker.url, **options).create_connection() as connection:
        queue = f"xa.q{next(_numbers)}"
        management = await connection.create_management()
        await management.create("postroom.queue", queue)
        yield Party(connection, await connection.create_xa_session(), queue)


async def received(consumer: MessageConsumer, count: int) -> list[object]:
    messages = [await consumer.receive(timeout_s=10) for _ in range(count)]
    return [message.body for message in messages if message is not None]


@asynchronous
async def test_what_is_sent_shows_with_the_commit(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        xid = await party.sent("a", "b")
        assert await party.waiting() == []
        assert await party.resource.prepare(xid) == C.XA_OK
        assert await party.waiting() == []
        await party.resource.commit(xid)
        assert await party.waiting() == ["a", "b"]
        await party.resource.commit(await party.sent("c"), one_phase=True)
        await party.resource.rollback(await party.sent("d"))
        assert await party.waiting() == ["a", "b", "c"]


@asynchronous
async def test_what_was_received_is_gone_with_the_commit_and_nothing_else(broker: BrokerProcess) -> None:
    """Of what was sent ahead, only what the application has seen is in the branch."""
    async with at(broker) as party:
        await party.put("a", "b", "c")
        consumer = await party.consumer()
        xid = new_xid()
        await party.resource.start(xid)
        assert await received(consumer, 2) == ["a", "b"]
        await party.resource.end(xid)
        await party.resource.prepare(xid)
        await party.resource.commit(xid)
        await party.session.close()
        assert await party.waiting() == ["c"]


@pytest.mark.parametrize("prepared", [True, False])
@asynchronous
async def test_what_was_received_comes_again_in_order_after_a_rollback(
    broker: BrokerProcess, prepared: bool
) -> None:
    async with at(broker) as party:
        await party.put("a", "b", "c")
        consumer = await party.consumer()
        xid = new_xid()
        await party.resource.start(xid)
        assert await received(consumer, 2) == ["a", "b"]
        await party.resource.end(xid)
        if prepared:
            await party.resource.prepare(xid)
        await party.resource.rollback(xid)
        again = new_xid()
        await party.resource.start(again)
        messages = [await consumer.receive(timeout_s=10) for _ in range(3)]
        assert [(message.body, message.redelivered) for message in messages if message is not None] == [
            ("a", True),
            ("b", True),
            ("c", False),
        ]
        await party.resource.end(again)
        await party.resource.commit(again, one_phase=True)
        assert await party.waiting() == []


@asynchronous
async def test_a_branch_that_fails_gives_back_in_order(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        await party.put("a", "b")
        consumer = await party.consumer()
        xid, again = new_xid(), new_xid()
        await party.resource.start(xid)
        assert await received(consumer, 1) == ["a"]
        await party.resource.end(xid, XaFlag.TMFAIL)
        await party.resource.rollback(xid)
        await party.resource.start(again)
        assert await received(consumer, 2) == ["a", "b"]
        await party.resource.end(again)
        await party.resource.rollback(again)


@asynchronous
async def test_nothing_is_received_outside_a_branch(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        await party.put("a")
        consumer = await party.consumer()
        for receive in (consumer.receive, consumer.receive_no_wait):
            with pytest.raises(IllegalStateException, match="in a transaction branch only"):
                await receive()
        xid = new_xid()
        await party.resource.start(xid)
        assert await received(consumer, 1) == ["a"]
        await party.resource.end(xid)
        with pytest.raises(IllegalStateException):
            await consumer.receive(timeout_s=1)
        await party.resource.rollback(xid)


@asynchronous
async def test_nobody_listens_in_an_xa_session(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        consumer = await party.consumer()
        with pytest.raises(IllegalStateException, match="no message listeners"):
            await consumer.set_message_listener(lambda message: None)
        await consumer.set_message_listener(None)


@asynchronous
async def test_what_is_sent_before_the_start_is_an_ordinary_message(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        producer = await party.producer()
        await producer.send("before")
        xid = new_xid()
        await party.resource.start(xid)
        await producer.send("inside")
        await party.resource.end(xid)
        await producer.send("after")
        await party.resource.rollback(xid)
        assert await party.waiting() == ["before", "after"]


@asynchronous
async def test_acknowledge_has_no_effect(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        await party.put("a")
        consumer = await party.consumer()
        xid = new_xid()
        await party.resource.start(xid)
        message = await consumer.receive(timeout_s=10)
        assert message is not None
        await message.acknowledge()
        await party.resource.end(xid)
        await party.resource.rollback(xid)
        await party.session.close()
        assert await party.waiting() == ["a"]


@asynchronous
async def test_a_consumer_that_is_closed_leaves_what_it_received_in_the_branch(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        await party.put("a", "b")
        consumer = await party.consumer()
        xid = new_xid()
        await party.resource.start(xid)
        assert await received(consumer, 1) == ["a"]
        await consumer.close()
        await party.resource.end(xid)
        await party.resource.commit(xid, one_phase=True)
        assert await party.waiting() == ["b"]


@asynchronous
async def test_suspend_resume_and_join(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        xid = new_xid()
        producer = await party.producer()
        await party.resource.start(xid)
        await producer.send("a")
        await party.resource.end(xid, XaFlag.TMSUSPEND)
        await producer.send("ordinary")
        await party.resource.start(xid, XaFlag.TMRESUME)
        await producer.send("b")
        await party.resource.end(xid)
        other = await party.connection.create_xa_session()
        await other.xa_resource.start(xid, XaFlag.TMJOIN)
        await (await other.create_producer(party.queue)).send("c")
        await other.xa_resource.end(xid)
        assert await party.waiting() == ["ordinary"]
        await other.xa_resource.commit(xid, one_phase=True)
        assert sorted(map(str, await party.waiting())) == ["a", "b", "c", "ordinary"]


@asynchronous
async def test_a_branch_that_did_nothing_is_read_only(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        assert await party.resource.prepare(await party.sent()) == C.XA_RDONLY


@asynchronous
async def test_prepared_branches_are_found_by_any_session(broker: BrokerProcess) -> None:
    async with at(broker) as party, at(broker) as other:
        first, second = await party.sent("a"), await party.sent("b")
        for xid in (first, second):
            await party.resource.prepare(xid)
        await party.session.close()
        found = await other.resource.recover()
        assert {first, second} <= set(found)
        assert await other.resource.recover(XaFlag.TMSTARTRSCAN) == found
        assert await other.resource.recover(XaFlag.TMENDRSCAN) == []
        await other.resource.commit(first)
        await other.resource.rollback(second)
        assert await party.waiting() == ["a"]
        assert not {first, second} & set(await other.resource.recover())
        assert await other.resource.is_same_rm(party.resource)


@asynchronous
async def test_a_branch_is_prepared_within_the_timeout_of_its_resource(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        resource = party.resource
        assert await resource.get_transaction_timeout() == 0
        assert await resource.set_transaction_timeout(1)
        assert await resource.get_transaction_timeout() == 1
        late = await party.sent("late")
        assert await resource.set_transaction_timeout(0)
        in_time = await party.sent("in time")
        await rolled_back(party, late)
        assert await code_of(resource.prepare(late)) == C.XA_RBTIMEOUT
        assert await resource.prepare(in_time) == C.XA_OK
        await resource.commit(in_time)
        assert await party.waiting() == ["in time"]


async def rolled_back(party: Party, xid: Xid) -> None:
    """Wait until the broker has rolled the branch back."""
    management = await party.connection.create_management()
    async with asyncio.timeout(20):
        while (await management.read("postroom.xa-branch", str(xid)))["state"] != "rollback-only":
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seconds", [-1, 1 << 31, True, 1.5, "1", None], ids=repr)
@asynchronous
async def test_a_timeout_that_is_no_number_of_seconds(broker: BrokerProcess, seconds: Any) -> None:
    async with at(broker) as party:
        assert await party.resource.set_transaction_timeout(7)
        assert await code_of(party.resource.set_transaction_timeout(seconds)) == C.XAER_INVAL
        assert await party.resource.get_transaction_timeout() == 7


async def code_of(verb: object) -> XaCode:
    with pytest.raises(XAException) as refused:
        await verb  # type: ignore[misc]
    return refused.value.error_code


@asynchronous
async def test_refusals_are_xa_exceptions_with_their_codes(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        unknown, known = new_xid(), await party.sent("a")
        resource = party.resource
        assert await code_of(resource.prepare(unknown)) == C.XAER_NOTA
        assert await code_of(resource.commit(unknown)) == C.XAER_NOTA
        assert await code_of(resource.rollback(unknown)) == C.XAER_NOTA
        assert await code_of(resource.forget(unknown)) == C.XAER_NOTA
        assert await code_of(resource.end(unknown)) == C.XAER_NOTA
        assert await code_of(resource.start(known)) == C.XAER_DUPID
        assert await code_of(resource.start(unknown, XaFlag.TMJOIN)) == C.XAER_NOTA
        assert await code_of(resource.commit(known)) == C.XAER_PROTO
        assert await code_of(resource.recover(XaFlag.TMNOFLAGS)) == C.XAER_INVAL
        await resource.start(unknown)
        assert await code_of(resource.start(new_xid())) == C.XAER_PROTO
        assert await code_of(resource.end(unknown, XaFlag.TMNOFLAGS)) == C.XAER_INVAL
        await resource.end(unknown, XaFlag.TMFAIL)
        assert await code_of(resource.prepare(unknown)) == C.XA_RBROLLBACK


@asynchronous
async def test_an_administrator_decides(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        management = await party.connection.create_management()
        for verb, code in (("HEURISTIC-COMMIT", C.XA_HEURCOM), ("HEURISTIC-ROLLBACK", C.XA_HEURRB)):
            xid = await party.sent(verb)
            await party.resource.prepare(xid)
            await management.request(verb, kind="postroom.xa-branch", name=str(xid))
            assert xid in await party.resource.recover()
            assert await code_of(party.resource.commit(xid)) == code
            await party.resource.forget(xid)
            assert xid not in await party.resource.recover()
        assert await party.waiting() == ["HEURISTIC-COMMIT"]


@asynchronous
async def test_a_refused_send_is_told_at_the_end(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        management = await party.connection.create_management()
        await management.update("postroom.queue", party.queue, {"max_messages": 1})
        xid = new_xid()
        await party.resource.start(xid)
        producer = await party.session.create_producer(party.queue, send_timeout_ms=0)
        await producer.send("fits")
        await producer.send("doesn't")
        assert await code_of(party.resource.end(xid)) == C.XA_RBOTHER
        await party.resource.rollback(xid)
        assert await party.waiting() == []


@asynchronous
async def test_a_send_that_waits_for_room_too_long_ends_the_branch(broker: BrokerProcess) -> None:
    async with at(broker, request_timeout_s=1) as party:
        management = await party.connection.create_management()
        await management.update("postroom.queue", party.queue, {"max_messages": 1})
        xid = new_xid()
        await party.resource.start(xid)
        producer = await party.session.create_producer(party.queue, send_timeout_ms=60_000)
        await producer.send_all(["fits", "waits"])
        assert await code_of(party.resource.end(xid)) == C.XAER_RMFAIL
        await party.resource.rollback(xid)
        await party.resource.commit(await party.sent("another"), one_phase=True)
        assert await party.waiting() == ["another"]


@asynchronous
async def test_more_messages_than_a_branch_may_have_roll_it_back(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        xid = new_xid()
        await party.resource.start(xid)
        producer = await party.producer()
        for number in range(257):
            await producer.send(f"{number}")
        assert await code_of(party.resource.end(xid)) in (C.XA_RBOTHER, C.XA_RBROLLBACK)
        await party.resource.rollback(xid)
        assert await party.waiting() == []


@asynchronous
async def test_commit_and_rollback_are_the_transaction_managers(broker: BrokerProcess) -> None:
    async with at(broker) as party:
        assert party.session.is_transacted
        for forbidden in (party.session.commit, party.session.rollback):
            with pytest.raises(TransactionInProgressException, match="transaction manager"):
                await forbidden()


@asynchronous
async def test_a_broker_that_is_gone_is_unreachable_and_keeps_what_was_prepared(
    own_broker: BrokerProcess,
) -> None:
    async with at(own_broker) as party:
        resource, queue = party.resource, party.queue
        promised = await party.sent("promised")
        await resource.prepare(promised)
        active = new_xid()
        await resource.start(active)
        producer = await party.producer()
        await producer.send("lost")
        own_broker.kill()
        with pytest.raises(XAException, match="recover tells") as gone:
            await resource.commit(promised)
        assert gone.value.error_code == C.XAER_RMFAIL
        assert await code_of(resource.end(active)) in (C.XAER_RMFAIL, C.XA_RBCOMMFAIL)
        for verb in (resource.prepare(active), resource.rollback(active), resource.recover()):
            assert await code_of(verb) == C.XAER_RMFAIL
        assert await code_of(resource.start(new_xid())) == C.XAER_RMFAIL
    own_broker.start()
    async with at(own_broker) as party:
        party.queue = queue
        assert await party.resource.recover() == [promised]
        await party.resource.commit(promised)
        assert await party.waiting() == ["promised"]


@asynchronous
async def test_under_fail_over_a_break_rolls_the_branch_back(own_broker: BrokerProcess) -> None:
    url = f"failover:({own_broker.url})"
    async with await ConnectionFactory(url).create_connection() as connection:
        session = await connection.create_xa_session()
        producer = await session.create_producer("orders")
        xid = new_xid()
        await session.xa_resource.start(xid)
        await producer.send("lost")
        own_broker.restart_after_kill()
        await connection.create_session()  # which waits until the connection is restored
        with pytest.raises(XAException) as broken:
            await session.xa_resource.end(xid)
        assert broken.value.error_code == C.XA_RBCOMMFAIL
        again = new_xid()
        await session.xa_resource.start(again)
        await producer.send("kept")
        await session.xa_resource.end(again)
        await session.xa_resource.commit(again, one_phase=True)
        consumer = await (await connection.create_session()).create_consumer("orders")
        assert await received(consumer, 1) == ["kept"]


@asynchronous
async def test_a_timeout_is_the_resource_s_over_a_fail_over_too(own_broker: BrokerProcess) -> None:
    async with await ConnectionFactory(f"failover:({own_broker.url})").create_connection() as connection:
        party = Party(connection, await connection.create_xa_session(), "orders")
        await party.resource.set_transaction_timeout(1)
        await party.producer()
        own_broker.restart_after_kill()
        await connection.create_session()  # which waits until the connection is restored
        assert await party.resource.get_transaction_timeout() == 1
        late = await party.sent("late")
        await rolled_back(party, late)
        assert await code_of(party.resource.prepare(late)) == C.XA_RBTIMEOUT
        assert await party.waiting() == []


@asynchronous
async def test_a_transaction_manager_over_two_sessions(broker: BrokerProcess, tmp_path: Path) -> None:
    async with at(broker) as party, TransactionManager(tmp_path) as manager:
        other = await party.connection.create_xa_session()
        first, second = await party.producer(), await other.create_producer(party.queue)
        async with manager.transaction(party.resource, other.xa_resource):
            await first.send("a")
            await second.send("b")
        with pytest.raises(ZeroDivisionError):
            async with manager.transaction(party.resource, other.xa_resource):
                await first.send("c")
                raise ZeroDivisionError
        assert sorted(map(str, await party.waiting())) == ["a", "b"]


@asynchronous
async def test_a_transaction_with_a_refused_send_is_rolled_back(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    async with at(broker) as party, TransactionManager(tmp_path) as manager:
        management = await party.connection.create_management()
        await management.update("postroom.queue", party.queue, {"max_messages": 1})
        producer = await party.session.create_producer(party.queue, send_timeout_ms=0)
        with pytest.raises(TransactionRolledBackException, match="was refused"):
            async with manager.transaction(party.resource):
                await producer.send("fits")
                await producer.send("doesn't")
        assert await party.waiting() == []


def test_the_sync_face(broker: BrokerProcess, tmp_path: Path) -> None:
    queue = f"xa.q{next(_numbers)}"
    with (
        SyncTransactionManager(tmp_path) as manager,
        SyncConnectionFactory(broker.url).create_connection() as connection,
        connection.create_xa_session() as session,
    ):
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        with manager.transaction(session.xa_resource):
            producer.send("a")
        with manager.transaction(session.xa_resource):
            message = consumer.receive(timeout_s=10)
            assert message is not None and message.body == "a"
        report = manager.recover(session.xa_resource)
        assert (report.committed, report.rolled_back) == ([], [])
        with pytest.raises(IllegalStateException):
            consumer.receive(timeout_s=1)
        assert session.xa_resource.is_same_rm(session.xa_resource)
