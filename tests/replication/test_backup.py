"""Backups of a replicated queue manager: a member made of one, and one in another region, with an engine of
its own that has nothing of the log."""

from pathlib import Path

import pytest
from tools.peers.nats import NatsCluster

from postroom.client import ConnectionFactory, Message
from tests.clients.broker import BrokerProcess
from tests.replication.members import member, members
from tests.replication.test_take_over import TIMEOUT_S, assert_whole, run, wait_for_members

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(400)]  # NATS takes up to 10 s to elect a leader


def send(broker: BrokerProcess, numbers: range) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer("q")
        for number in numbers:
            producer.send(Message(str(number)))


def received(broker: BrokerProcess, count: int) -> list[int]:
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer("q")
        found = [consumer.receive(TIMEOUT_S) for _ in range(count)]
        assert consumer.receive(0.5) is None
    return [int(message.body) for message in found if message is not None]


def test_a_member_is_made_of_a_backup(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """It goes on in the log from where the backup was made."""
    with members(tmp_path, nats, stream, "a") as (first,):
        send(first, range(50))
        run("ledger", "backup", "--data", str(first.folder), "--to", str(tmp_path / "store"))
        send(first, range(50, 100))
        second = member(tmp_path, "b", nats, stream)
        run(
            *("ledger", "restore", "--keep-place"),
            *("--from", str(tmp_path / "store"), "--data", str(second.folder)),
        )
        second.launch()
        try:
            wait_for_members(first, {"a": "active", "b": "follower"})
            first.kill()
            second.wait_until_ready()
            assert received(second, 100) == list(range(100))
            second.stop()
        finally:
            second.kill()
        assert_whole(second.folder)


def test_a_queue_manager_goes_on_in_another_region(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """From the backup alone, on a stream that is made anew. With its place in the log that was it is
    refused there."""
    with members(tmp_path, nats, stream, "a") as (first,):
        send(first, range(50))
        run("ledger", "backup", "--data", str(first.folder), "--to", str(tmp_path / "store"))
    store = ("ledger", "restore", "--from", str(tmp_path / "store"), "--data")
    there, follower, wrong = (member(tmp_path / "there", name, nats, f"{stream}-there") for name in "abw")
    for each in (there, follower):
        run(*store, str(each.folder))
    run(*store, str(wrong.folder), "--keep-place")
    with there:
        follower.launch()
        try:
            wait_for_members(there, {"a": "active", "b": "follower"})
            wrong.launch()
            assert wrong.wait_for_exit() != 0
            assert "has followed another log" in wrong.log_text
            send(there, range(50, 60))
            there.kill()
            follower.wait_until_ready()
            assert received(follower, 60) == list(range(60))
            follower.stop()
        finally:
            follower.kill()
            wrong.kill()
        assert_whole(there.folder, follower.folder)
