"""Dead-letter queue handlers inside the broker: what their rules do, and what the ledger tells of it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.amqp.encoding.types import Int
from postroom.cli import main
from postroom.client import AcknowledgeMode, ConnectionFactory, Message
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig
from postroom.server.configuration.dead_letter_handlers import DeadLetterHandlerConfig, load_handlers
from postroom.server.connection.broker import Broker
from tests.server.broker_process import Process, begin
from tests.server.client_messages import depth, send, taken
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

Q_FULL = 2053
UNKNOWN = 2085

TABLE = """\
* the handler of the tests
RETRYINT(0)
REASON(MQRC_Q_FULL) DESTQ('full') ACTION(RETRY) RETRY(2)
REASON(MQRC_Q_FULL) DESTQ('full') ACTION(FWD) FWDQ('last')
REASON(MQRC_Q_FULL) ACTION(RETRY)
REASON(MQRC_UNKNOWN_OBJECT_NAME) DESTQ('away') +
  ACTION(FWD) FWDQ(&DESTQ) FWDQM(&DESTQM) HEADER(NO)
REASON(MQRC_UNKNOWN_OBJECT_NAME) ACTION(DISCARD)
REASON(MQRC_NOT_AUTHORIZED) ACTION(IGNORE)
"""
RETRY_LINE, FULL_LINE, LAST_LINE, AWAY_LINE, DISCARD_LINE = 5, 3, 4, 6, 8


def dead_letter(
    body: str, destination: str = "target", reason: int = Q_FULL, manager: str = "HERE"
) -> Message:
    header = {"reason": Int(reason), "queue": destination, "queue-manager": manager}
    annotations = {"x-opt-dead-letter": header, "x-opt-own": "kept"}
    return Message(body, message_id=f"id-{body}", annotations=annotations, properties={"n": 7}, durable=True)


def config(folder: Path, table: str = TABLE, **changes: object):
    file = folder / "table.rul"
    file.write_text(table)
    settings: dict[str, object] = {
        "container_id": "HERE",
        "queue": [
            *(QueueConfig(name=name) for name in ("dead", "target", "last")),
            QueueConfig(name="full", max_messages=1),
            QueueConfig(name="THERE", usage="transmission"),
        ],
        "queue_manager": QueueManagerConfig(dead_letter_queue="dead"),
        "dead_letter_handler": [DeadLetterHandlerConfig(rules=str(file))],
    }
    return make_config(**(settings | changes))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(config(tmp_path), folder=tmp_path / "data") as running:
        yield running


def wait_for(broker: BrokerThread, **counts: int) -> None:
    broker.wait_until(lambda broker: dict(broker.dead_letters.running[0].counts) == counts)


def shown(broker: BrokerThread) -> list[dict[str, object]]:
    result = CliRunner().invoke(main, ["dlq", "handlers", "--url", broker.url, "--json"])
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_retry_puts_it_where_it_was_to_go(broker: BrokerThread) -> None:
    send(broker, "dead", dead_letter("a"))
    wait_for(broker, retried=1)
    message = taken(broker, "target")
    assert (message.body, message.message_id, dict(message.properties)) == ("a", "id-a", {"n": 7})
    assert dict(message.annotations) == {"x-opt-own": "kept"}
    assert (message.delivery_count, message.durable) == (0, True)
    assert depth(broker, "dead") == 0


def test_a_full_queue_is_tried_again_and_then_the_next_rule_comes(broker: BrokerThread) -> None:
    send(broker, "full", Message("there"))
    send(broker, "dead", dead_letter("a", "full"))
    wait_for(broker, failed=2, forwarded=1)
    assert "x-opt-dead-letter" in taken(broker, "last").annotations
    assert (depth(broker, "dead"), depth(broker, "full")) == (0, 1)
    (row,) = shown(broker)
    assert (row["state"], row["queue"], row["rules"], row["at_hand"]) == ("running", "dead", 6, 0)
    assert (row["failed"], row["forwarded"], row["error"]) == (2, 1, "")


def test_to_another_queue_manager(broker: BrokerThread) -> None:
    send(broker, "dead", dead_letter("a", "away", UNKNOWN, "THERE"))
    wait_for(broker, forwarded=1)
    (sections,) = broker.call(_bodies_on_transmission_queue)
    assert b"x-opt-transmission" in sections and b"x-opt-dead-letter" not in sections


def _bodies_on_transmission_queue(broker: Broker) -> list[bytes]:
    return [entry.body or b"" for band in broker.manager.queues["THERE"].bands for entry in band.waiting()]


def test_what_is_left_alone_stays_for_others(broker: BrokerThread) -> None:
    send(broker, "dead", dead_letter("a", reason=2035), Message("b"), dead_letter("c", reason=UNKNOWN))
    wait_for(broker, left=2, without_header=1, discarded=1)
    assert taken(broker, "dead").body == "a"
    assert depth(broker, "dead") == 1


def test_what_comes_back_unhandled_is_handled_then(broker: BrokerThread) -> None:
    """A message that somebody held when it came is noticed when it is available."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer("dead", prefetch=10)
        send(broker, "dead", dead_letter("a"))
        consumer.close()
    broker.wait_until(lambda broker: broker.dead_letters.running[0].counts["retried"] <= 1)
    send(broker, "dead", dead_letter("b"))
    broker.wait_until(lambda broker: int(broker.manager.queues["dead"].statistics.depth) == 0)


def test_what_was_there_before_the_start_is_handled(tmp_path: Path) -> None:
    idle = config(tmp_path, dead_letter_handler=[])
    with BrokerThread(idle, folder=tmp_path / "data") as first:
        send(first, "dead", *(dead_letter(f"{number}") for number in range(250)))
    with BrokerThread(config(tmp_path), folder=tmp_path / "data") as second:
        wait_for(second, retried=250)
        assert depth(second, "dead") == 0
        assert taken(second, "target").body == "0"


REJECTED = "REASON(MQRC_UNEXPECTED_ERROR) DESTQ('target') ACTION(RETRY)\n"
REJECTING = [QueueConfig(name="dead"), QueueConfig(name="target", dead_letter_queue="dead")]


def reject_all(broker: BrokerThread, count: int) -> None:
    with (
        ConnectionFactory(broker.url).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        consumer = session.create_consumer("target", prefetch=0)
        for _ in range(count):
            message = consumer.receive(5)
            assert message is not None
            consumer.reject(message, "app:bad", "no such order")


def test_rejected_messages_have_the_header_too(tmp_path: Path) -> None:
    with BrokerThread(config(tmp_path, REJECTED, queue=REJECTING), folder=tmp_path / "data") as running:
        send(running, "target", Message("a", message_id="id-a"))
        reject_all(running, 1)
        wait_for(running, retried=1)
        again = taken(running, "target")
        assert (again.body, again.message_id) == ("a", "id-a")
        assert not [key for key in again.annotations if str(key).startswith("x-opt-dead-letter")]


def test_and_have_it_after_a_restart(tmp_path: Path) -> None:
    idle = config(tmp_path, REJECTED, queue=REJECTING, dead_letter_handler=[])
    with BrokerThread(idle, folder=tmp_path / "data") as first:
        send(first, "target", *(Message(f"{number}", message_id=f"id-{number}") for number in range(30)))
        reject_all(first, 30)
        first.wait_until(lambda broker: int(broker.manager.queues["dead"].statistics.depth) == 30)
    with BrokerThread(config(tmp_path, REJECTED, queue=REJECTING), folder=tmp_path / "data") as second:
        wait_for(second, retried=30)
        assert taken(second, "target").body == "0"


def test_the_ledger_tells_which_rule_it_was(tmp_path: Path) -> None:
    with BrokerThread(config(tmp_path), folder=tmp_path / "data") as running:
        send(running, "full", Message("there"))
        send(running, "dead", dead_letter("a"), dead_letter("b", "full"), dead_letter("c", reason=UNKNOWN))
        wait_for(running, retried=1, failed=2, forwarded=1, discarded=1)
    dumped = CliRunner().invoke(main, ["ledger", "dump", "--data", str(tmp_path / "data"), "--json"])
    lines = [json.loads(line) for line in dumped.stdout.splitlines()]
    details = [line["detail"] for line in lines if isinstance(line.get("detail"), dict)]
    told = {each["rule"]: each for each in details if each.get("condition") == "postroom:dead-letter-rule"}
    assert told[RETRY_LINE] == {
        "condition": "postroom:dead-letter-rule",
        "handler": "dead",
        "rule": RETRY_LINE,
        "action": "RETRY",
        "attempt": 1,
        "reason": Q_FULL,
        "to": "target@HERE",
    }
    assert (told[LAST_LINE]["action"], told[LAST_LINE]["to"]) == ("FWD", "last")
    assert (told[DISCARD_LINE]["action"], told[DISCARD_LINE].get("to")) == ("DISCARD", None)


def test_the_broker_killed_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    count = 400
    table = tmp_path / "table.rul"
    table.write_text("ACTION(RETRY)\n")
    file = tmp_path / "broker.toml"
    queues = "".join(f'[[queue]]\nname = "{name}"\n' for name in ("dead", "target"))
    listen = '[[listen]]\naddress = "127.0.0.1:0"\n'
    file.write_text(f'container_id = "HERE"\n{listen}{queues}')
    handled = tmp_path / "handled.toml"
    handled.write_text(f'{file.read_text()}[[dead_letter_handler]]\nrules = "{table}"\nqueue = "dead"\n')
    started: list[Process] = []
    try:
        url = begin(started, tmp_path, "--config", str(file)).ready()
        with ConnectionFactory(url).create_connection() as connection:
            producer = connection.create_session().create_producer("dead")
            for number in range(count):
                producer.send(dead_letter(f"{number}"))
        started.pop().end(signal.SIGKILL)
        for _ in range(4):
            begin(started, tmp_path, "--config", str(handled)).ready()  # it works already
            started.pop().end(signal.SIGKILL)
        url = begin(started, tmp_path, "--config", str(handled)).ready()
        bodies = []
        with ConnectionFactory(url).create_connection() as connection:
            consumer = connection.create_session().create_consumer("target")
            while (message := consumer.receive(2)) is not None:
                bodies.append(message.body)
        assert bodies == [f"{number}" for number in range(count)]
    finally:
        for process in started:
            process.end(signal.SIGKILL)


def test_a_bad_table_stops_its_handler_and_nothing_else(tmp_path: Path) -> None:
    bad = config(tmp_path, "ACTION(NOTHING)\nREASON(X) ACTION(RETRY)\n")
    with BrokerThread(bad, folder=tmp_path / "data") as running:
        refused = running.call(lambda broker: broker.dead_letters.refused)
        assert [each.error.split("table.rul:")[1][:10] for each in refused] == ["1:8: error"]
        assert "(and 1 more)" in refused[0].error
        send(running, "dead", dead_letter("a"))
        assert taken(running, "dead").body == "a"
        (row,) = shown(running)
        assert (row["state"], row["queue"], row["rules"], row["retried"]) == ("not-started", "", 0, 0)
        assert "table.rul:1:8: error: ACTION takes" in str(row["error"])


def test_handlers_that_cannot_be_begun(tmp_path: Path) -> None:
    table = tmp_path / "for.there"
    table.write_text("INPUTQM(THERE)\nACTION(RETRY)\n")
    good = str(tmp_path / "table.rul")
    handlers = [
        DeadLetterHandlerConfig(rules=str(tmp_path / "missing")),
        DeadLetterHandlerConfig(rules=str(table)),
        DeadLetterHandlerConfig(rules=good, queue="other"),
        DeadLetterHandlerConfig(rules=good),
        DeadLetterHandlerConfig(rules=good, queue="other"),
    ]
    without = QueueManagerConfig(dead_letter_queue="")
    loaded = load_handlers(config(tmp_path, dead_letter_handler=handlers, queue_manager=without))
    assert [each.error.split(": ", 1)[-1][:30] for each in loaded if each.error] == [
        "can't be read: [Errno 2] No su",
        "its rules are for queue manage",
        "no queue is named: set queue, ",
        "queue 'other' has a handler al",
    ]
    assert [each.queue for each in loaded if not each.error] == ["other"]
