"""What a prepared branch has received may be deleted by an administrator: its commit survives that, and only
its rollback shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.client import ConnectionFactory, Message, XAException
from postroom.ledger.reading.trace import MessageId, trace
from postroom.model.codes import IdType
from postroom.model.xa import XaFlag, Xid
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

XID = Xid(1, b"deleted", b"1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(folder: Path) -> Iterator[BrokerThread]:
    with BrokerThread(make_config(("q", "other")), folder=folder) as running:
        yield running


def prepare(broker: BrokerThread, *ids: str, durable: bool = True) -> None:
    """A branch that has received these."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        connection.create_session().create_producer("q").send_all(
            [Message(id, message_id=id, durable=durable) for id in ids]
        )
        session = connection.create_xa_session()
        consumer = session.create_consumer("q", prefetch=0)
        resource = session.xa_resource
        resource.start(XID)
        for _ in ids:
            assert consumer.receive(10) is not None
        resource.end(XID, XaFlag.TMSUCCESS)
        resource.prepare(XID)


def decide(broker: BrokerThread, commits: bool) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        resource = connection.create_xa_session().xa_resource
        if commits:
            resource.commit(XID, False)
        else:
            resource.rollback(XID)


def shell(broker: BrokerThread, *arguments: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(main, [*arguments, "--url", broker.url, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def delete(broker: BrokerThread, *which: str) -> int:
    (record,) = shell(broker, "message", "delete", "q", *which)
    return int(str(record["deleted"]))


def left(broker: BrokerThread) -> list[object]:
    return [row["message_id"] for row in shell(broker, "message", "list", "q")]


def ended(broker: BrokerThread) -> tuple[int, int]:
    """How many were consumed, and deleted."""
    shown = broker.call(lambda broker: broker.manager.queues["q"].statistics.snapshot())
    return shown["messages_consumed"], shown["messages_deleted"]


@pytest.mark.parametrize("durable", [True, False])
def test_the_commit_survives_it(broker: BrokerThread, durable: bool) -> None:
    prepare(broker, "a", "b", durable=durable)
    assert delete(broker, "--id", "a") == 1
    assert left(broker) == ["a", "b"], "it is held until the branch is decided"
    decide(broker, True)
    assert left(broker) == []
    assert ended(broker) == (2, 0)


def test_a_rollback_ends_it(broker: BrokerThread, folder: Path) -> None:
    prepare(broker, "a", "b")
    assert delete(broker, "--id", "a") == 1
    decide(broker, False)
    assert left(broker) == ["b"]
    assert ended(broker) == (0, 1)


@pytest.mark.parametrize("commits", [True, False])
def test_after_a_restart(folder: Path, commits: bool) -> None:
    with BrokerThread(make_config(("q",)), folder=folder) as broker:
        prepare(broker, "a", "b")
        assert delete(broker, "--id", "a") == 1
    for _ in range(2):
        with BrokerThread(make_config(("q",)), folder=folder) as broker:
            (row,) = shell(broker, "message", "show", "q", "--id", "a")
            assert (row["held_by"], row["deleted_on_return"]) == ("xa_prepared", True)
            assert delete(broker, "--id", "a") == 0
    with BrokerThread(make_config(("q",)), folder=folder) as broker:
        decide(broker, commits)
        assert left(broker) == ([] if commits else ["b"])
    with BrokerThread(make_config(("q",)), folder=folder) as broker:
        assert left(broker) == ([] if commits else ["b"])
    wanted = MessageId(b"a", IdType.STRING)
    lives = [(line["event"], line.get("outcome")) for line in trace(folder, wanted) if "event" in line]
    assert lives[-1] == ("confirm", "consumed") if commits else lives[-1] == ("delete", "deleted")
    assert sum(event == "delete" for event, _ in lives) == (1 if commits else 2)


def test_an_administrator_that_decides_it_ends_it_as_well(broker: BrokerThread) -> None:
    prepare(broker, "a")
    delete(broker, "--id", "a")
    result = CliRunner().invoke(main, ["transaction", "rollback", str(XID), "--url", broker.url])
    assert result.exit_code == 0, result.output
    assert left(broker) == []
    assert ended(broker) == (0, 1)


def test_only_what_is_named_or_asked_for_by_its_state(broker: BrokerThread) -> None:
    prepare(broker, "a", "b")
    assert delete(broker, "--all") == 0
    assert delete(broker, "--selector", "JMSMessageID = 'ID:a'") == 0
    (row,) = shell(broker, "message", "show", "q", "--id", "b")
    assert "deleted_on_return" not in row
    assert delete(broker, "--serial", str(row["serial"])) == 1
    assert delete(broker, "--serial", str(row["serial"])) == 0
    decide(broker, False)
    assert left(broker) == ["a"]


def test_by_its_state(broker: BrokerThread) -> None:
    prepare(broker, "a", "b")
    with ConnectionFactory(broker.url).create_connection() as connection:
        management = connection.create_management()
        fields = {"states": ["transaction"]}
        reply = management.request("DELETE-MESSAGES", kind="postroom.message", name="q", body=fields)
        assert reply.attributes()["count"] == 2
    decide(broker, False)
    assert left(broker) == []


def test_what_others_hold_stays_as_it_is(broker: BrokerThread) -> None:
    """A consumer, a local transaction, a branch that is not prepared."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        connection.create_session().create_producer("q").send_all(
            [Message("a", message_id="a", durable=True)]
        )
        session = connection.create_xa_session()
        consumer = session.create_consumer("q", prefetch=0)
        session.xa_resource.start(XID)
        assert consumer.receive(10) is not None
        assert delete(broker, "--id", "a") == 0
        session.xa_resource.end(XID, XaFlag.TMSUCCESS)
        assert delete(broker, "--id", "a") == 0
        session.xa_resource.rollback(XID)
        assert left(broker) == ["a"]
        with pytest.raises(XAException):
            session.xa_resource.commit(XID, False)


def test_it_is_not_moved(broker: BrokerThread) -> None:
    prepare(broker, "a")
    (record,) = shell(broker, "message", "move", "q", "other", "--id", "a")
    assert record["moved"] == 0
