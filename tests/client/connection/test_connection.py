"""Connecting, signing in, closing, and being cut off."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.extensions import ESTABLISHMENT_FAILED
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.client import (
    AcknowledgeMode,
    ConnectionLostException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    ResourceAllocationException,
    sync,
)
from postroom.client.aio import ConnectionFactory
from postroom.client.exceptions import ConnectionRedirectedException
from tests.certificates import Certificate
from tests.client.fake_broker import FakeBroker, asynchronous, tls_broker


@asynchronous
async def test_a_connection_knows_both_ends() -> None:
    async with FakeBroker() as broker, await broker.connect(client_id="me") as connection:
        assert (connection.client_id, connection.broker_container_id) == ("me", "fake")
        assert broker.opened[0].open.container_id == "me"


@asynchronous
async def test_without_a_client_id_one_is_made() -> None:
    async with FakeBroker() as broker, await broker.connect() as first, await broker.connect() as second:
        assert first.client_id != second.client_id


@asynchronous
async def test_signing_in_with_a_password() -> None:
    async with FakeBroker() as broker:
        broker.users = {"ann": "s@fe"}
        url = broker.url.replace("amqp://", "amqp://ann:s%40fe@")
        async with await ConnectionFactory(url).create_connection() as connection:
            assert connection.broker_container_id == "fake"


@pytest.mark.parametrize("user", ["", "ann:wrong@", "bob:x@"])
@asynchronous
async def test_a_wrong_password_is_a_security_exception(user: str) -> None:
    async with FakeBroker() as broker:
        broker.users = {"ann": "right"}
        with pytest.raises(JMSSecurityException) as raised:
            await ConnectionFactory(broker.url.replace("amqp://", f"amqp://{user}")).create_connection()
        assert "wrong" not in str(raised.value)


@asynchronous
async def test_tls_with_a_certificate_that_is_trusted(certificate: Certificate) -> None:
    async with tls_broker(certificate) as broker:
        trusting = ssl.create_default_context(cafile=certificate.certificate)
        connection = await broker.connect(tls=trusting)
        await (await (await connection.create_session()).create_producer("q")).send("a")
        assert len(broker.received) == 1


@asynchronous
async def test_tls_with_a_certificate_that_is_not_trusted(certificate: Certificate) -> None:
    async with tls_broker(certificate) as broker:
        with pytest.raises(JMSSecurityException, match="certificate"):
            await broker.connect()
        assert broker.opened == []


@asynchronous
async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionLostException, match=f"amqp://127.0.0.1:{port}"):
        await ConnectionFactory(f"amqp://127.0.0.1:{port}").create_connection()


@asynchronous
async def test_a_server_that_never_answers_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        factory = ConnectionFactory(f"amqp://127.0.0.1:{port}", connect_timeout_s=0.05)
        with pytest.raises(JMSTimeoutException):
            await factory.create_connection()


class Greeter(asyncio.Protocol):
    """Speaks first, and something else."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        transport.close()


@asynchronous
async def test_a_server_that_speaks_something_else_is_told_apart() -> None:
    server = await asyncio.get_running_loop().create_server(Greeter, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionLostException):
            await ConnectionFactory(f"amqp://127.0.0.1:{port}").create_connection()


@asynchronous
async def test_a_container_id_in_use_is_an_invalid_client_id() -> None:
    async with FakeBroker() as broker:
        broker.refuse_open = Error("amqp:invalid-field", "in use", {"invalid-field": "container-id"})
        with pytest.raises(InvalidClientIDException):
            await broker.connect(client_id="taken")


@asynchronous
async def test_a_user_isn_t_let_in_as_nobody() -> None:
    """Where ANONYMOUS is all that is offered: but for a broker that sends it elsewhere."""
    async with FakeBroker() as broker:
        broker.mechanisms = [ANONYMOUS]
        url = broker.url.replace("//", "//ann:secret@")
        with pytest.raises(JMSSecurityException, match="leave the user out"):
            await ConnectionFactory(url).create_connection()
        broker.open_properties = {Symbol(ESTABLISHMENT_FAILED): True}
        broker.refuse_open = Error("amqp:connection:redirect", "elsewhere", {"port": 5})
        with pytest.raises(ConnectionRedirectedException, match="elsewhere"):
            await ConnectionFactory(url).create_connection()
        with pytest.raises(JMSSecurityException, match="allowed here: PLAIN"):
            await ConnectionFactory(url + "?amqp.saslMechanisms=PLAIN").create_connection()


@asynchronous
async def test_everything_after_close_is_an_illegal_state() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        session = await connection.create_session()
        producer = await session.create_producer("q")
        await connection.close()
        await connection.close()
        with pytest.raises(IllegalStateException):
            await connection.create_session()
        with pytest.raises(IllegalStateException):
            await session.create_consumer("q")
        with pytest.raises(IllegalStateException):
            await producer.send("late")


@asynchronous
async def test_a_broken_connection_fails_those_who_wait() -> None:
    async with FakeBroker() as broker:
        broker.outcome = None
        connection = await broker.connect()
        session = await connection.create_session()
        producer = await session.create_producer("q")
        consumer = await session.create_consumer("other")
        waiting = [asyncio.ensure_future(producer.send("a")), asyncio.ensure_future(consumer.receive())]
        await broker.until(lambda: len(broker.received) == 1)
        broker.connections[0].drop()
        for ended in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(ended, ConnectionLostException)
        with pytest.raises(ConnectionLostException):
            await connection.create_session()
        await connection.close()


@asynchronous
async def test_a_close_by_the_broker_gives_its_reason() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        consumer = await (await connection.create_session()).create_consumer("q")
        waiting = asyncio.ensure_future(consumer.receive())
        await broker.until(lambda: bool(broker.credits))
        broker.connections[0].engine.close(Error("amqp:connection:forced", "going down"))
        broker.connections[0].flush()
        with pytest.raises(ConnectionLostException, match="going down"):
            await waiting
        await connection.close()


@asynchronous
async def test_an_idle_client_sends_heartbeats() -> None:
    async with FakeBroker() as broker:
        broker.idle_timeout_ms = 200
        async with await broker.connect():
            await broker.until(lambda: broker.heartbeats >= 3)


@asynchronous
async def test_a_silent_broker_is_given_up() -> None:
    """The fake broker sends no heartbeats."""
    async with FakeBroker() as broker:
        connection = await broker.connect(idle_timeout_ms=100)
        consumer = await (await connection.create_session()).create_consumer("q")
        with pytest.raises(ConnectionLostException, match="nothing came"):
            await consumer.receive()


@asynchronous
async def test_a_broker_that_breaks_the_protocol_is_given_up() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        consumer = await (await connection.create_session()).create_consumer("q")
        waiting = asyncio.ensure_future(consumer.receive())
        await broker.until(lambda: bool(broker.credits))
        socket_of_broker = broker.connections[0].socket
        assert socket_of_broker is not None
        socket_of_broker.write(b"\0\0\0\x04 not a frame")
        with pytest.raises(ConnectionLostException, match="the connection failed"):
            await waiting


@asynchronous
async def test_a_session_that_the_broker_ends_is_of_no_more_use() -> None:
    async with FakeBroker() as broker:
        session = await (await broker.connect()).create_session()
        consumer = await session.create_consumer("q")
        waiting = asyncio.ensure_future(consumer.receive())
        await broker.until(lambda: bool(broker.credits))
        broker.attached[0].link.session.end(Error("amqp:not-allowed", "too long"))
        broker.connections[0].flush()
        with pytest.raises(JMSException):
            await waiting
        with pytest.raises(IllegalStateException):
            await session.create_producer("q")
        await session.close()


@asynchronous
async def test_more_sessions_than_the_broker_allows() -> None:
    async with FakeBroker() as broker:
        broker.max_sessions = 2
        connection = await broker.connect()
        sessions = [await connection.create_session() for _ in range(2)]
        with pytest.raises(ResourceAllocationException):
            await connection.create_session()
        await sessions[0].close()


@asynchronous
async def test_an_unknown_session_mode_is_refused() -> None:
    async with FakeBroker() as broker, await broker.connect() as connection:
        with pytest.raises(JMSException, match="invalid session mode"):
            await connection.create_session(7)  # type: ignore[arg-type]
        assert (await connection.create_session()).acknowledge_mode is AcknowledgeMode.AUTO


def test_a_failed_connect_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ConnectionLostException):
        sync.ConnectionFactory("amqp://127.0.0.1:1").create_connection()
    assert threading.active_count() == before
