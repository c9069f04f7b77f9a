"""PostgreSQL's verbs of XA, against a real server."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from postroom.client.aio import TransactionManager
from postroom.client.aio.postgresql import MAX_PART_BYTES, PostgreSQLResource
from postroom.client.exceptions import (
    IllegalStateException,
    JMSException,
    TransactionRolledBackException,
    XAException,
)
from postroom.client.sync import TransactionManager as SyncTransactionManager
from postroom.client.sync.postgresql import PostgreSQLResource as SyncPostgreSQLResource
from postroom.client.transactions.two_phase import Step
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.client.fake_broker import asynchronous
from tests.twophase.postgres import PostgreSQL

pytestmark = pytest.mark.peer
C = XaCode
_numbers = itertools.count(1)


def new_xid() -> Xid:
    return Xid(5, b"\xfftransaction" + bytes([next(_numbers)]), b"branch")


@pytest.fixture
def server(postgres: PostgreSQL) -> PostgreSQL:
    """The server with an empty table of its own, and nothing prepared."""
    postgres.kill_backends()
    for (gid,) in postgres.execute("SELECT gid FROM pg_prepared_xacts"):
        postgres.execute(f"ROLLBACK PREPARED '{gid}'")
    postgres.execute("DROP TABLE IF EXISTS orders")
    postgres.execute("CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
    return postgres


def connected(server: PostgreSQL, **options: Any) -> AbstractAsyncContextManager[PostgreSQLResource]:
    """A resource over a connection of its own."""
    return connected_to(server.dsn, **options)


@asynccontextmanager
async def connected_to(dsn: str, **options: Any) -> AsyncIterator[PostgreSQLResource]:
    connection = await psycopg.AsyncConnection.connect(dsn, **options)
    try:
        yield PostgreSQLResource(connection)
    finally:
        await connection.close()


async def worked(resource: PostgreSQLResource, *ids: int) -> Xid:
    """A branch that was ended after it has put so many rows in."""
    xid = new_xid()
    await resource.start(xid)
    for number in ids:
        await resource._connection.execute("INSERT INTO orders VALUES (%s)", [number])
    await resource.end(xid)
    return xid


def rows(server: PostgreSQL) -> list[int]:
    return [row[0] for row in server.execute("SELECT id FROM orders ORDER BY id")]


def prepared(server: PostgreSQL) -> int:
    return len(server.execute("SELECT gid FROM pg_prepared_xacts"))


@asynchronous
async def test_a_prepared_branch_is_committed_or_rolled_back(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        for number, decide in ((1, resource.commit), (2, resource.rollback)):
            xid = await worked(resource, number)
            assert await resource.prepare(xid) == C.XA_OK
            assert prepared(server) == 1
            await decide(xid)
            assert prepared(server) == 0
    assert rows(server) == [1]


@asynchronous
async def test_one_phase(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        await resource.commit(await worked(resource, 1), one_phase=True)
        await resource.rollback(await worked(resource, 2))
        xid = await worked(resource, 1)
        with pytest.raises(XAException) as refused:
            await resource.commit(xid, one_phase=True)
        assert refused.value.error_code == C.XA_RBINTEGRITY
        await resource.commit(await worked(resource, 3), one_phase=True)
    assert rows(server) == [1, 3]


@asynchronous
async def test_a_branch_that_wrote_nothing_is_read_only(server: PostgreSQL) -> None:
    async with connected(server, row_factory=dict_row) as resource:
        xid = new_xid()
        await resource.start(xid)
        await resource._connection.execute("SELECT count(*) FROM orders")
        await resource.end(xid)
        assert await resource.prepare(xid) == C.XA_RDONLY
        await resource.start(new_xid())
    assert prepared(server) == 0


@asynchronous
async def test_another_connection_recovers_and_decides(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        first, second = await worked(resource, 1), new_xid()
        await resource.prepare(first)
        await resource._connection.close()
    server.restart_after_kill()
    async with connected(server) as resource:
        second = await worked(resource, 2)
        await resource.prepare(second)
        assert set(await resource.recover()) == {first, second}
        assert await resource.recover(XaFlag.TMENDRSCAN) == []
        await resource.commit(second)
        await resource.commit(first)
        assert await resource.recover() == []
        for decide in (resource.commit, resource.rollback):
            with pytest.raises(XAException) as unknown:
                await decide(first)
            assert unknown.value.error_code == C.XAER_NOTA
    assert rows(server) == [1, 2]


@asynchronous
async def test_what_others_have_prepared_is_not_found(server: PostgreSQL) -> None:
    server.execute("DROP DATABASE IF EXISTS elsewhere")
    server.execute("CREATE DATABASE elsewhere")
    for number, gid in enumerate(("by hand", "7_b3RoZXI=_dGV4dA==", "7__")):
        server.execute(f"BEGIN; INSERT INTO orders VALUES ({number}); PREPARE TRANSACTION '{gid}'")
    other = server.dsn.replace("dbname=postgres", "dbname=elsewhere")
    async with connected_to(other) as elsewhere:
        await elsewhere._connection.execute("CREATE TABLE orders (id int)")
        await elsewhere._connection.commit()
        xid = await worked(elsewhere, 9)
        await elsewhere.prepare(xid)
        async with connected(server) as resource:
            assert await resource.recover() == []
            assert not await resource.is_same_rm(elsewhere)
            assert await resource.is_same_rm(PostgreSQLResource(resource._connection))
            assert not await resource.set_transaction_timeout(5)
        assert await elsewhere.recover() == [xid]
        await elsewhere.rollback(xid)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("INSERT INTO orders VALUES (1), (1)", C.XA_RBINTEGRITY),
        ("CREATE TEMPORARY TABLE mine (id int)", C.XA_RBOTHER),
        ("INSERT INTO orders VALUES (1); NOTIFY somebody", C.XA_RBOTHER),
    ],
)
@asynchronous
async def test_a_refused_prepare_is_rolled_back(server: PostgreSQL, statement: str, code: XaCode) -> None:
    async with connected(server) as resource:
        xid = new_xid()
        await resource.start(xid)
        await resource._connection.execute(statement)
        await resource.end(xid)
        with pytest.raises(XAException) as refused:
            await resource.prepare(xid)
        assert refused.value.error_code == code
        with contextlib.suppress(XAException):
            await resource.rollback(xid)
        await resource.commit(await worked(resource, 7), one_phase=True)
    assert (rows(server), prepared(server)) == ([7], 0)


@asynchronous
async def test_a_connection_goes_on_after_a_constraint_that_was_deferred(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        xid = await worked(resource, 1, 1)
        with pytest.raises(XAException):
            await resource.prepare(xid)
        await resource.rollback(xid)
        await resource.commit(await worked(resource, 2), one_phase=True)
    assert rows(server) == [2]


@asynchronous
async def test_a_failed_statement_that_was_passed_over_rolls_back(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        xid = new_xid()
        await resource.start(xid)
        await resource._connection.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(psycopg.errors.UndefinedTable):
            await resource._connection.execute("SELECT * FROM nothing")
        with pytest.raises(XAException) as refused:
            await resource.end(xid)
        assert refused.value.error_code == C.XA_RBROLLBACK
        await resource.rollback(xid)
        await resource.commit(await worked(resource, 2), one_phase=True)
    assert rows(server) == [2]


@asynchronous
async def test_the_connection_belongs_to_the_branch(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        await resource.start(new_xid())
        for forbidden in (resource._connection.commit, resource._connection.rollback):
            with pytest.raises(psycopg.ProgrammingError, match="two-phase"):
                await forbidden()


@pytest.mark.parametrize("how", ["kill_backends", "kill"])
@asynchronous
async def test_a_server_that_is_gone_is_unreachable(server: PostgreSQL, how: str) -> None:
    async with connected(server) as resource, connected(server) as another:
        xid = await worked(resource, 1)
        promised = await worked(another, 2)
        await another.prepare(promised)
        getattr(server, how)()
        for verb in (resource.prepare(xid), resource.rollback(xid), another.commit(promised)):
            with pytest.raises(XAException) as gone:
                await verb
            assert gone.value.error_code == C.XAER_RMFAIL
        with pytest.raises(XAException) as gone:
            await resource.recover()
        assert gone.value.error_code == C.XAER_RMFAIL
    if how == "kill":
        server.start()
    async with connected(server) as resource:
        assert await resource.recover() == [promised]
        await resource.commit(promised)
    assert rows(server) == [2]


async def _refused(resource: PostgreSQLResource, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> JMSException:
    with pytest.raises(JMSException) as refused:
        await resource.start(xid, flags)
    return refused.value


@asynchronous
async def test_a_start_that_cannot_be(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        joining = await _refused(resource, new_xid(), XaFlag.TMJOIN)
        assert isinstance(joining, XAException) and joining.error_code == C.XAER_INVAL
        too_long = await _refused(resource, Xid(1, bytes(MAX_PART_BYTES + 1), b"b"))
        assert isinstance(too_long, XAException) and too_long.error_code == C.XAER_INVAL
        negative = await _refused(resource, Xid(-2, b"g", b"b"))
        assert isinstance(negative, XAException) and negative.error_code == C.XAER_INVAL
        await resource.start(new_xid())
        busy = await _refused(resource, new_xid())
        assert isinstance(busy, XAException) and busy.error_code == C.XAER_PROTO
    async with connected(server) as resource:
        await resource._connection.execute("SELECT 1")
        outside = await _refused(resource, new_xid())
        assert isinstance(outside, XAException) and outside.error_code == C.XAER_OUTSIDE
    async with connected(server) as resource:
        await resource.resource_name()
        await resource._connection.close()
        gone = await _refused(resource, new_xid())
        assert isinstance(gone, XAException) and gone.error_code == C.XAER_RMFAIL
    async with connected(server, autocommit=True) as resource:
        assert isinstance(await _refused(resource, new_xid()), IllegalStateException)


@asynchronous
async def test_verbs_for_no_branch_of_this_connection(server: PostgreSQL) -> None:
    async with connected(server) as resource:
        for verb in (resource.end, resource.prepare, resource.forget):
            with pytest.raises(XAException) as unknown:
                await verb(new_xid())
            assert unknown.value.error_code == C.XAER_NOTA
        xid = await worked(resource, 1)
        with pytest.raises(XAException) as suspended:
            await resource.end(xid, XaFlag.TMSUSPEND)
        assert suspended.value.error_code == C.XAER_INVAL
        await resource.prepare(xid)
        with pytest.raises(XAException) as again:
            await resource.prepare(xid)
        assert again.value.error_code == C.XAER_NOTA
        await resource.rollback(xid)


@asynchronous
async def test_a_server_that_prepares_nothing_says_what_to_set() -> None:
    with PostgreSQL(max_prepared_transactions="0") as server:
        async with connected(server) as resource:
            refused = await _refused(resource, new_xid())
        assert isinstance(refused, XAException) and refused.error_code == C.XAER_RMERR
        assert "set max_prepared_transactions" in str(refused)


@asynchronous
async def test_more_prepared_than_the_server_has_room_for(server: PostgreSQL) -> None:
    (row,) = server.execute("SHOW max_prepared_transactions")
    for number in range(int(row[0])):
        async with connected(server) as resource:
            await resource.prepare(await worked(resource, number))
    async with connected(server) as resource:
        xid = await worked(resource, 1000)
        with pytest.raises(XAException, match="max_prepared_transactions") as refused:
            await resource.prepare(xid)
        assert refused.value.error_code == C.XA_RBOTHER
    async with connected(server) as resource:
        for xid in await resource.recover():
            await resource.rollback(xid)
    assert rows(server) == []


@asynchronous
async def test_a_transaction_over_two_connections(server: PostgreSQL, tmp_path: Path) -> None:
    """Both branches are in one database: the decision log tells them apart."""
    async with TransactionManager(tmp_path) as manager, connected(server) as one, connected(server) as two:
        async with manager.transaction(one, two):
            await one._connection.execute("INSERT INTO orders VALUES (1)")
            await two._connection.execute("INSERT INTO orders VALUES (2)")
        with pytest.raises(TransactionRolledBackException, match="orders_pkey"):
            async with manager.transaction(one, two):
                await one._connection.execute("INSERT INTO orders VALUES (3)")
                await two._connection.execute("INSERT INTO orders VALUES (2)")
    assert rows(server) == [1, 2]


@asynchronous
async def test_an_administrator_who_decides_in_between_is_reported(
    server: PostgreSQL, tmp_path: Path
) -> None:
    def meddle(step: Step, name: str) -> None:
        if step is Step.DECIDED:
            (gid, *_) = (row[0] for row in server.execute("SELECT gid FROM pg_prepared_xacts"))
            server.execute(f"ROLLBACK PREPARED '{gid}'")

    async with (
        TransactionManager(tmp_path, on_step=meddle) as manager,
        connected(server) as one,
        connected(server) as two,
    ):
        with pytest.raises(JMSException, match="decided otherwise"):
            async with manager.transaction(one, two):
                await one._connection.execute("INSERT INTO orders VALUES (1)")
                await two._connection.execute("INSERT INTO orders VALUES (2)")
        (outcome,) = manager.heuristics()
        assert outcome.code == C.XA_HEURHAZ
        assert outcome.branch.resource.endswith("/postgres")
    assert len(rows(server)) == 1


def test_the_sync_face(server: PostgreSQL, tmp_path: Path) -> None:
    with (
        SyncTransactionManager(tmp_path) as manager,
        psycopg.connect(server.dsn) as one,
        psycopg.connect(server.dsn) as two,
    ):
        resources = SyncPostgreSQLResource(one), SyncPostgreSQLResource(two)
        with manager.transaction(*resources):
            one.execute("INSERT INTO orders VALUES (1)")
            two.execute("INSERT INTO orders VALUES (2)")
        with pytest.raises(ZeroDivisionError), manager.transaction(*resources):
            one.execute("INSERT INTO orders VALUES (3)")
            raise ZeroDivisionError
        report = manager.recover(*resources)
        assert (report.committed, report.rolled_back) == ([], [])
    assert rows(server) == [1, 2]
