"""Members as processes with Apache Kafka between them: who takes over has everything that was accepted."""

import asyncio
import signal
from pathlib import Path

import pytest
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection
from tools.peers.kafka import KafkaCluster

from postroom.client import Message
from postroom.client.aio import ConnectionFactory
from postroom.ledger.verification.verification import Severity, verify
from postroom.server.exits import Exit
from tests.client.breakable_connection import Watch
from tests.client.fake_broker import asynchronous
from tests.replication.members import members

pytestmark = [pytest.mark.sockets, pytest.mark.peer, pytest.mark.timeout(600)]
TIMEOUT_S = 60
PATIENT = "stop_after_ms = 120000"


def test_a_producer_goes_on_at_another_member(tmp_path: Path, kafka: KafkaCluster, stream: str) -> None:
    with members(tmp_path, kafka, stream, more=PATIENT) as (first, second):

        @asynchronous
        async def act() -> None:
            watch = Watch()
            url = f"failover:({first.url},{second.url})"
            async with await ConnectionFactory(url, listener=watch).create_connection() as connection:
                session = await connection.create_session()
                producer = await session.create_producer("q")
                names = [f"ID:{number}" for number in range(120)]
                for number, name in enumerate(names):
                    if number == 60:
                        await asyncio.to_thread(first.kill)
                    await producer.send(Message(name, message_id=name))
                assert watch.restorations == 1
                consumer, found = await session.create_consumer("q"), []
                while (message := await consumer.receive_no_wait()) is not None:
                    found.append(message.message_id)
                assert list(dict.fromkeys(found)) == names
                assert len(found) <= len(names) + 1  # whose answer was lost with the member

        act()
        second.stop()
        found = verify(second.folder, bodies=True)
        assert found.of(Severity.ERROR) == []
        assert found.records


def test_who_was_paused_is_fenced(tmp_path: Path, kafka: KafkaCluster, stream: str) -> None:
    """Kafka takes what it appends; it sees where that lies, and nothing of it is accepted."""
    with members(tmp_path, kafka, stream, more=PATIENT) as (first, second):
        stale = BlockingConnection(first.url, timeout=TIMEOUT_S)
        sender = stale.create_sender("q")
        sender.send(ProtonMessage(body="one", durable=True))
        first.send_signal(signal.SIGSTOP)
        second.wait_until_ready()
        transfer = sender.link.send(ProtonMessage(body="stale", durable=True))
        first.send_signal(signal.SIGCONT)
        assert first.wait_for_exit() == Exit.NOT_ACTIVE
        with pytest.raises(Exception, match=r"(?i)disconnected|closed|reset"):
            stale.wait(lambda: transfer.settled or transfer.remote_state, timeout=TIMEOUT_S)
        assert not transfer.remote_state, "it was told that its message is accepted"
        assert "member 'b' has claimed the log" in first.log_text
        with_second = BlockingConnection(second.url, timeout=TIMEOUT_S)
        with_second.create_sender("q").send(ProtonMessage(body="two", durable=True))
        receiver = with_second.create_receiver("q", credit=10)
        bodies = []
        for _ in range(2):
            bodies.append(receiver.receive(timeout=TIMEOUT_S).body)
            receiver.accept()
        assert bodies == ["one", "two"]
        with_second.close()
        second.stop()
        found = verify(second.folder, bodies=True)
        assert found.of(Severity.ERROR) == []
