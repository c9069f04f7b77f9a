"""Members that follow send clients on to the active one, where they are set to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import time
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from proton.utils import BlockingConnection
from tools.peers.nats import NatsCluster
from tools.peers.ports import free_port

from postroom.client import Message
from postroom.client.aio import ConnectionFactory
from postroom.client.exceptions import ConnectionRedirectedException, JMSException
from postroom.server.configuration.passwords import hash_password
from tests.client.fake_broker import asynchronous
from tests.clients.broker import BrokerProcess
from tests.clients.driver import jms_command, make_ready
from tests.replication.members import member, members, wait_until_following
from tests.server.http_client import Answered, get

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(400)]  # NATS takes up to 10 s to elect a leader
TIMEOUT_S = 60
REDIRECT = "redirect = true"
PATIENT = "failover.reconnectDelay=50&failover.useReconnectBackOff=false"


def one_user() -> str:
    """Tables of a configuration with the user ann, who may do everything."""
    return f'''
[users]
ann = "{hash_password("secret")}"
[[role]]
name = "administrator"
members = ["ann"]
'''


async def exchange(url: str, names: list[str]) -> list[object]:
    """What one client sends and takes."""
    async with await ConnectionFactory(url).create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer("q")
        for name in names:
            await producer.send(Message(name, message_id=name))
        consumer = await session.create_consumer("q")
        taken = [await consumer.receive(TIMEOUT_S * 1000) for _ in names]
        return [message and message.message_id for message in taken]


async def redirected(follower: BrokerProcess) -> ConnectionRedirectedException:
    """What a client without fail-over hears of a follower, as soon as that follows."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        try:
            await ConnectionFactory(follower.url).create_connection()
        except ConnectionRedirectedException as error:
            return error
        except JMSException:
            assert time.monotonic() < end, follower.log_text
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("a follower let a client in")


def test_one_member_s_address_is_enough(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """A client that knows a follower alone gets to the active one, and to it itself once it is that."""
    with members(tmp_path, nats, stream, more=REDIRECT) as (first, second):
        url = f"failover:({second.url})?{PATIENT}"

        @asynchronous
        async def act() -> None:
            assert await exchange(url, ["ID:1"]) == ["ID:1"]
            error = await redirected(second)
            assert error.condition == "amqp:connection:redirect"
            where = {"hostname": "127.0.0.1", "network-host": "127.0.0.1", "port": first.port}
            assert error.info == where
            assert str(first.port) in str(error)
            await asyncio.to_thread(second.kill)
            await asyncio.to_thread(second.launch)  # the claim lies before what it reads from now on
            assert (await redirected(second)).info == where
            await asyncio.to_thread(first.kill)
            assert await exchange(url, ["ID:2"]) == ["ID:2"]
            await asyncio.to_thread(first.launch)
            assert (await redirected(first)).info == where | {"port": second.port}

        act()


def problem_of(url: str) -> dict[str, Any]:
    """What the API of a member says as soon as that follows, and knows who is active."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        with contextlib.suppress(OSError):
            found: dict[str, Any] = get(url, "/api/v1/broker").json()
            if found.get("active_member"):
                return found
        assert time.monotonic() < end
        time.sleep(0.05)


def served(url: str, path: str) -> Answered:
    """What a browser is shown there, once it isn't to come again."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        found = get(url, path, accept="text/html")
        if found.status != HTTPStatus.SERVICE_UNAVAILABLE:
            return found
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_browser_is_led_to_the_active_member_s_console(
    tmp_path: Path, nats: NatsCluster, stream: str
) -> None:
    urls = [f"http://127.0.0.1:{free_port()}" for _ in "ab"]
    with ExitStack() as stack:
        first, second = (
            member(tmp_path, name, nats, stream, f'[http]\naddress = "{url.removeprefix("http://")}"\n')
            for name, url in zip("ab", urls, strict=True)
        )
        for each in (first, second):
            stack.callback(each.kill)
        first.start()
        second.launch()
        problem = problem_of(urls[1])
        assert (problem["status"], problem["active_member"], problem["active_url"]) == (503, "a", urls[0])
        page = get(urls[1], "/queues", accept="text/html").body.decode()
        assert f'a: <a href="{urls[0]}">' in page and "It is following" in page
        first.kill()
        second.wait_until_ready()
        assert served(urls[1], "/queues").status == 200
        first.launch()
        assert problem_of(urls[0])["active_url"] == urls[1]


def test_nobody_signs_in_at_a_follower(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """A client with a password is sent on, and signs in there; a wrong one is refused there."""
    with members(tmp_path, nats, stream, more=f"{REDIRECT}\n{one_user()}") as (_, second):
        right = second.url.replace("//", "//ann:secret@")

        @asynchronous
        async def act() -> None:
            assert await exchange(f"failover:({right})?{PATIENT}", ["ID:1"]) == ["ID:1"]

        act()
        assert "login" not in second.log_text


@pytest.mark.peer
def test_qpid_jms_goes_where_it_is_sent(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    make_ready("qpid_jms")
    with members(tmp_path, nats, stream, more=f"{REDIRECT}\n{one_user()}") as (_, second):
        url = f"failover:({second.url})?jms.username=ann&jms.password=secret"
        command = jms_command("FailOver", url, "20")
        found = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert found.stdout.endswith("received 20 different in order\n"), found.stderr


@pytest.mark.peer
def test_others_end_with_the_error(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """As the documents say of clients that know no redirect; and they aren't let in."""
    with members(tmp_path, nats, stream, more=REDIRECT) as (_, second):
        asynchronous(lambda: redirected(second))()
        with pytest.raises(Exception, match="amqp:connection:redirect"):
            BlockingConnection(second.url, timeout=TIMEOUT_S)


def ended(connection: socket.socket) -> bool:
    """Whether the other end closes or cuts it without a word."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def test_silence_and_nonsense_are_cut_off(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    limits = "[limits]\nopen_timeout_ms = 300\nmax_connections = 3\n"
    with members(tmp_path, nats, stream, more=f"{REDIRECT}\n{limits}") as (_, second):
        asynchronous(lambda: redirected(second))()
        place = (second.host, second.port)
        with ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(place, TIMEOUT_S)) for _ in range(3)]
            with socket.create_connection(place, TIMEOUT_S) as one_more:
                assert ended(one_more)
            assert all(map(ended, silent))
        with socket.create_connection(place, TIMEOUT_S) as other:
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert other.recv(8).startswith(b"AMQP")
            while other.recv(4096):
                pass


def test_a_follower_without_it_refuses_connections(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    with members(tmp_path, nats, stream) as (_, second):
        wait_until_following(second)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((second.host, second.port), TIMEOUT_S)
