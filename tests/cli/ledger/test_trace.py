"""`postroom trace` over the network: what the broker answers, part by part, and what it says of ids that are
wrong, unknown or of the past.
"""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from postroom.cli import main
from postroom.client import Connection, ConnectionFactory, ManagementException, Message
from postroom.ledger.reading.reader import LedgerReader
from postroom.model.entity_types import LEDGER_TYPE
from postroom.server.configuration.config import LedgerConfig
from postroom.server.connection.broker import Broker
from postroom.server.management import ledger_queries
from postroom.server.management.entities import ledgers
from tests.server.harness import BrokerThread, make_config
from tests.spark.real_ledgers import FORGETFUL, Writer

pytestmark = pytest.mark.sockets


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(make_config(("orders", "late", "dead")), folder=tmp_path / "ledger") as running:
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def ok(broker: BrokerThread, *arguments: str) -> list[str]:
    result = run(*arguments, "--url", broker.url)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.splitlines()


def refused(broker: BrokerThread, code: int, *arguments: str) -> str:
    result = run("trace", *arguments, "--url", broker.url)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    return result.stderr.splitlines()[-1]


def moved_twice(broker: BrokerThread, message_id: object, others: int) -> str:
    """A message among ``others`` that is moved twice and consumed at last; its serial."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer("orders")
        producer.disable_message_id = True
        for number in range(others):
            producer.send(Message(f"other {number}"))
        producer.send(Message("x", message_id=message_id))
    serial = str(json.loads(ok(broker, "message", "list", "orders", "--json")[-1])["serial"])
    ok(broker, "message", "move", "orders", "late", "--serial", serial)
    ok(broker, "message", "move", "late", "dead", "--all")
    ok(broker, "get", "dead")
    return serial


def of_files(folder: Path, *arguments: str) -> list[str]:
    result = run("trace", *arguments, "--data", str(folder))
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.splitlines()


def test_a_trace_over_the_network_is_that_of_the_files(broker: BrokerThread, tmp_path: Path) -> None:
    moved_twice(broker, "m-1", others=5)
    over_network = ok(broker, "trace", "m-1", "--json")
    events = [(each["queue"], each["event"], each["to"]) for each in map(json.loads, over_network)]
    assert events[0] == ("orders", "put", "available")
    assert events[-1] == ("dead", "confirm", "deleted")
    assert {queue for queue, _, _ in events} == {"orders", "late", "dead"}
    broker.call(lambda each: each.ledger.mark_idle())
    assert of_files(tmp_path / "ledger", "m-1", "--json") == over_network
    for serial in {json.loads(line)["serial"] for line in over_network}:
        assert ok(broker, "trace", "--serial", str(serial), "--json") == over_network
    assert "orders/" in ok(broker, "trace", "m-1")[0]


@pytest.mark.parametrize(("records", "lines"), [(7, 1000), (10, 2), (1 << 20, 1)])
def test_a_trace_in_parts_is_whole(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, records: int, lines: int
) -> None:
    moved_twice(broker, "m-1", others=5)
    whole = ok(broker, "trace", "m-1", "--json")
    monkeypatch.setattr(ledger_queries, "MAX_SEARCHED_RECORDS", records)
    monkeypatch.setattr(ledger_queries, "MAX_ANSWERED_LINES", lines)
    assert ok(broker, "trace", "m-1", "--json") == whole
    monkeypatch.setattr(ledger_queries, "MAX_ANSWERED_BYTES", 1)
    assert ok(broker, "trace", "m-1", "--json") == whole


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_position_of_many_lines_is_told_in_parts(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        run("get", "news", "--topic", "--subscription", name, "--url", broker.url)
    ok(broker, "put", "news", "x", "--topic")
    ok(broker, "get", "news::b")
    (kept,) = map(json.loads, ok(broker, "message", "list", "news::a", "--json"))
    text = ("trace", "--serial", str(kept["serial"]), "--json")
    whole = ok(broker, *text)
    positions = [json.loads(line)["position"] for line in whole]
    assert positions.count(positions[0]) == 5
    monkeypatch.setattr(ledger_queries, "MAX_ANSWERED_LINES", lines)
    assert ok(broker, *text) == whole


@pytest.mark.parametrize(
    ("message_id", "written"),
    [
        (UUID(int=5), f"ID:AMQP_UUID:{UUID(int=5)}"),
        (b"\x00\xff", "ID:AMQP_BINARY:00FF"),
        (7, "ID:AMQP_ULONG:7"),
    ],
)
def test_ids_of_every_type(broker: BrokerThread, message_id: object, written: str) -> None:
    serial = moved_twice(broker, message_id, others=1)
    assert ok(broker, "trace", written) == ok(broker, "trace", "--serial", serial)


def test_ids_that_are_wrong(broker: BrokerThread) -> None:
    assert "'ID:AMQP_UUID:7' is no message id" in refused(broker, 2, "ID:AMQP_UUID:7")
    assert "it is a number from 0 to 2^64 - 1" in refused(broker, 2, "ID:AMQP_ULONG:-1")
    assert "is no message id" in refused(broker, 2, "ID:AMQP_BINARY:xyz")
    for serial in ("x", "0", "1.5", "1" * 30, "²"):
        assert "is no serial" in refused(broker, 2, "--serial", serial)


def test_ids_that_nothing_has(broker: BrokerThread) -> None:
    moved_twice(broker, "m-1", others=1)
    assert refused(broker, 4, "m-2").startswith("no message m-2 in the ledger, from position 1 to ")
    assert refused(broker, 4, "ID:AMQP_ULONG:18446744073709551615").startswith("no message ")
    assert refused(broker, 4, "--serial", "999").startswith(
        "there is no message 999 yet: the ledger ends at "
    )
    other = refused(broker, 4, "--serial", "1")
    assert other == "position 1 is no message: the record there is of another kind"


def test_messages_of_the_past(tmp_path: Path) -> None:
    writer = Writer(tmp_path, FORGETFUL)
    for _ in range(4):
        writer.write(300)
    writer.close()
    forgetful = LedgerConfig(journal_file_bytes=1 << 20, retention_bytes=0)
    with BrokerThread(make_config(ledger=forgetful), folder=tmp_path) as running:
        first = LedgerReader(tmp_path).first_position
        assert first > 100
        for arguments in (("id-000001",), ("--serial", "5")):
            line = refused(running, 4, *arguments)
            dropped = re.fullmatch(
                rf"no message {arguments[-1]} in the ledger, from position (\d+) to \d+; "
                "retention has dropped the history before",
                line,
            )
            assert dropped is not None and int(dropped[1]) >= first, line  # it goes on dropping
        ok(running, "put", "orders", "x")
        newest = json.loads(ok(running, "message", "list", "orders", "--json")[-1])
        assert ok(running, "trace", "--serial", str(newest["serial"]))


def waiting(broker: Broker) -> int:
    ledger = broker.management._entity_types[LEDGER_TYPE]
    assert isinstance(ledger, ledgers.LedgerEntities)
    return len(ledger._waiting)


def send_query(connection: Connection) -> None:
    """Request a lookup, and don't wait for the answer."""
    properties = {"operation": "FIND-MESSAGES", "type": LEDGER_TYPE}
    producer = connection.create_session().create_producer("$management")
    producer.send(Message({"serial": 1}, properties=properties, reply_to="$management"))


def test_one_look_at_a_time_and_few_that_wait(broker: BrokerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go on meanwhile, and whoever goes away gives up its place."""
    begun, end = threading.Event(), threading.Event()

    def slow(wanted: object, first: int, history: ledger_queries.WatchedHistory) -> ledger_queries.Answer:
        begun.set()
        assert end.wait(20)
        return {"first_position": 1, "durable_through": 1, "serials": [], "next": 0}

    monkeypatch.setattr(ledgers, "found", slow)
    monkeypatch.setattr(ledgers, "MAX_WAITING_QUERIES", 2)
    asking = threading.Thread(target=run, args=("trace", "m", "--url", broker.url))
    asking.start()
    assert begun.wait(20)
    with ConnectionFactory(broker.url).create_connection() as connection:
        management = connection.create_management()
        send_query(connection)
        broker.wait_until(lambda each: waiting(each) == 2)
        assert "2 looks into the ledger wait already" in refused(broker, 3, "m")
        ok(broker, "put", "orders", "x")
        assert ok(broker, "get", "orders") == ["x"]
        assert management.query(LEDGER_TYPE) == []
    broker.wait_until(lambda each: waiting(each) == 1)
    end.set()
    asking.join()
    assert refused(broker, 4, "m")


def test_undecided_is_about_files(broker: BrokerThread) -> None:
    assert "--undecided is about files" in refused(broker, 2, "m-1", "--undecided")


def test_requests_that_can_not_be(broker: BrokerThread) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        management = connection.create_management()

        def answer(operation: str, **body: object) -> str:
            with pytest.raises(ManagementException) as failed:
                management.request(operation, kind=LEDGER_TYPE, body=body)
            return str(failed.value)

        assert "say which message" in answer("FIND-MESSAGES")
        assert "say which message" in answer("FIND-MESSAGES", serial=1, message_id="x")
        assert "message_id is 1.5" in answer("FIND-MESSAGES", message_id=1.5)
        assert "first is -1" in answer("FIND-MESSAGES", serial=1, first=-1)
        for wrong in ([], ["1"], [0], [True], [-1]):
            assert "serials must be" in answer("FOLLOW-MESSAGES", serials=wrong)
        assert "serials is 1" in answer("FOLLOW-MESSAGES", serials=1)
        assert "no operation 'READ'" in answer("READ")
        far = {"serials": [1], "first": (1 << 63) - 1}
        assert management.request("FOLLOW-MESSAGES", kind=LEDGER_TYPE, body=far).attributes()["lines"] == []
