"""The sync face: it is what the generator writes, and it works beside threads."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.amqp.frames.performatives import Error
from postroom.client import (
    AcknowledgeMode,
    ConnectionFactory,
    IllegalStateException,
    InvalidDestinationException,
    Message,
    aio,
    sync,
)
from tests.client.fake_broker import FakeBroker
from tests.client.fake_sessions import texts

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """A fake broker in a thread of its own."""
    loop = asyncio.new_event_loop()
    fake = FakeBroker()
    started = threading.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(fake.__aenter__())
        loop.call_soon(started.set)
        loop.run_forever()
        loop.run_until_complete(fake.__aexit__())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    yield fake
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_the_sync_face_is_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "async_to_sync.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(set(aio.__all__) - {"AcknowledgeMode", "Opening"}))
def test_both_faces_have_the_same_methods(name: str) -> None:
    def public(kind: type) -> dict[str, object]:
        found = inspect.getmembers(
            kind, lambda member: inspect.isfunction(member) or isinstance(member, property)
        )
        return {key: member for key, member in found if not key.startswith("_")}

    asynchronous, plain = public(getattr(aio, name)), public(getattr(sync, name))
    assert asynchronous.keys() == plain.keys()
    for key, member in plain.items():
        assert not inspect.iscoroutinefunction(member)
        if inspect.isfunction(member):
            twin = asynchronous[key]
            assert inspect.isfunction(twin)
            assert inspect.signature(member).parameters.keys() == inspect.signature(twin).parameters.keys()


def test_send_browse_receive_and_settle(broker: FakeBroker) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer("q").send(Message("hello"))
        broker.messages["q"] = deque(texts("a", "b"))
        assert [message.body for message in session.create_browser("q")] == ["a", "b"]
    assert len(broker.received) == 1


def test_errors_cross_over(broker: FakeBroker) -> None:
    broker.refused["q"] = Error("amqp:not-found", "no queue q")
    with (
        ConnectionFactory(broker.url).create_connection() as connection,
        connection.create_session() as session,
        pytest.raises(InvalidDestinationException, match="no queue q"),
    ):
        session.create_consumer("q")


def test_closing_ends_the_thread_and_what_comes_after_is_refused(broker: FakeBroker) -> None:
    before = threading.active_count()
    connection = ConnectionFactory(broker.url).create_connection()
    assert threading.active_count() == before + 1
    session = connection.create_session()
    connection.close()
    assert threading.active_count() == before
    with pytest.raises(IllegalStateException):
        session.create_producer("q")
    session.close()
    connection.close()
