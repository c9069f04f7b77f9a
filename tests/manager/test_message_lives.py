"""The life of a message as the ledger has it: `postroom trace`, `postroom ledger log`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.ledger.reading.message_log import LogRecord, as_defined
from postroom.ledger.reading.trace import MessageId, trace
from postroom.manager.administration.message_moves import Replay
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import ALL_STATES
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.options import QueueDefinition
from postroom.model.codes import IdType
from tests.manager.ledger_reading import events, logged, written
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, StoreFace


@pytest.fixture
def world() -> LedgerWorld:
    return LedgerWorld()


def put(world: LedgerWorld, queue: str, message_id: str, **definition: Any) -> None:
    StoreFace(world, queue, **definition).put(b"x", message_id=message_id, correlation_id="c")
    world.turn()


def a_dead_letter_replayed(world: LedgerWorld) -> None:
    world.queue("dead")
    put(world, "orders", "m1", dead_letter_queue="dead")
    put(world, "orders", "m2")
    orders, dead = world.manager.queue("orders"), world.manager.queue("dead")
    consumer = world.consumer(orders, 1, name="link", container="app", user="ann")
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "why", world.now_us)
    world.turn()
    world.manager.submit_request(Replay(dead, Recorder(), Wanted(ALL_STATES), "", False, False), world.now_us)
    world.turn()
    world.close(consumer)
    consumer = world.consumer(orders, 2, name="link2", container="app")
    world.turn()
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.turn()


def events_of(lines: Any) -> list[tuple[str, str, str, str]]:
    return [(line["queue"], line["event"], line["to"], line.get("outcome", "")) for line in lines]


def test_a_trace_follows_dead_letters_and_replays(world: LedgerWorld, tmp_path: Path) -> None:
    a_dead_letter_replayed(world)
    lines = list(trace(written(world, tmp_path), MessageId(b"m1", IdType.STRING)))
    assert events_of(lines) == [
        ("orders", "put", "available", ""),
        ("orders", "acquire", "get_unconfirmed", ""),
        ("dead", "dead_letter", "available", ""),
        ("orders", "dead_letter", "deleted", "dead_lettered"),
        ("orders", "move", "available", ""),
        ("dead", "move", "deleted", "moved"),
        ("orders", "acquire", "get_unconfirmed", ""),
        ("orders", "confirm", "deleted", "consumed"),
    ]
    assert (lines[1]["holder_name"], lines[1]["user"]) == ("app/link", "ann")
    assert lines[3]["detail"] == {"condition": "app:bad", "description": "why"}


def test_any_of_the_relations_gives_the_whole_trace(world: LedgerWorld, tmp_path: Path) -> None:
    a_dead_letter_replayed(world)
    folder = written(world, tmp_path)
    whole = list(trace(folder, MessageId(b"m1", IdType.STRING)))
    for serial in {line["serial"] for line in whole}:
        assert list(trace(folder, serial)) == whole
    assert list(trace(folder, MessageId(b"m3", IdType.STRING))) == []
    assert list(trace(folder, MessageId(b"m1", IdType.BINARY))) == []
    assert list(trace(folder, 10_000)) == []


def test_trace_on_the_command_line(world: LedgerWorld, tmp_path: Path) -> None:
    a_dead_letter_replayed(world)
    folder = str(written(world, tmp_path))
    run = CliRunner().invoke
    shown = run(main, ["trace", "m1", "--data", folder])
    assert shown.exit_code == 0 and len(shown.stdout.splitlines()) == 8
    assert "app/link as ann" in shown.stdout and "outcome consumed" in shown.stdout
    lines = [
        json.loads(line)
        for line in run(main, ["trace", "m2", "--data", folder, "--json"]).stdout.splitlines()
    ]
    assert [line["event"] for line in lines] == ["put", "acquire", "confirm"]
    by_serial = run(main, ["trace", "--serial", str(lines[0]["serial"]), "--data", folder, "--json"])
    assert len(by_serial.stdout.splitlines()) == 3
    missing = run(main, ["trace", "m9", "--data", folder])
    assert missing.exit_code == 4 and "no message m9" in missing.stderr
    assert run(main, ["trace", "x", "--serial", "--data", folder]).exit_code == 2
    nowhere = run(main, ["trace", "m1", "--data", str(tmp_path / "nowhere")])
    assert nowhere.exit_code == 1 and nowhere.stderr.count("\n") == 1


# -- the life-cycle log


def test_the_log_of_a_dead_letter(world: LedgerWorld, tmp_path: Path) -> None:
    a_dead_letter_replayed(world)
    records = logged(world, tmp_path)
    assert events(records) == [
        ("Produced", "orders", "m1"),
        ("Produced", "orders", "m2"),
        ("Consumer created", "orders", ""),
        ("Produced", "dead", "m1"),
        ("Removed", "orders", "m1"),
        ("Produced", "orders", "m1"),
        ("Removed", "dead", "m1"),
        ("Consumer destroyed", "orders", ""),
        ("Consumer created", "orders", ""),
        ("Consumed", "orders", "m2"),
        ("Consumed", "orders", "m1"),
    ]
    assert (records[2].user, records[2].consumer.split("#")[0]) == ("ann", "app/link")
    assert records[-1].correlation_id == "c"


def test_expired_over_the_limit_removed(world: LedgerWorld, tmp_path: Path) -> None:
    queue = world.queue("q", redelivery_limit=0)
    StoreFace(world, "q").put(b"x", message_id="limit")
    consumer = world.consumer(queue, 1)
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    world.close(consumer)
    StoreFace(world, "q").put(b"x", message_id="expires", ttl_ms=5)
    world.turn(2000)
    StoreFace(world, "q").put(b"x", message_id="purged")
    world.turn()
    world.manager.purge_queue("q", world.now_us)
    world.turn()
    found = [each for each in events(logged(world, tmp_path)) if "onsume" not in each[0]]
    assert found == [
        ("Produced", "q", "limit"),
        ("Retry exceeded", "q", "limit"),
        ("Produced", "q", "expires"),
        ("Expired", "q", "expires"),
        ("Produced", "q", "purged"),
        ("Removed", "q", "purged"),
    ]


def test_a_transacted_send_is_produced_by_its_commit(world: LedgerWorld, tmp_path: Path) -> None:
    queue = world.queue("q")
    for commits in (False, True):
        transaction = world.manager.begin(world.now_us)
        world.put(queue, transaction=transaction)
        (world.manager.commit if commits else world.manager.rollback)(transaction, world.now_us)
        world.turn()
    (record,) = logged(world, tmp_path)
    assert (record.event, bool(record.transaction)) == ("Produced", True)


def test_what_is_published_is_produced_and_expires_once(world: LedgerWorld, tmp_path: Path) -> None:
    world.manager.create_queue(QueueDefinition(name="news", kind="topic"), world.now_us)
    for name in ("s1", "s2"):
        wanted = Subscribing(topic="news", client="c", name=name, durable=True)
        world.manager.subscribe(wanted, world.now_us)
    world.put(world.manager.topic("news"), ttl_ms=5)
    world.turn()
    world.turn(5000)
    assert [each[:2] for each in events(logged(world, tmp_path))] == [
        ("Produced", "news"),
        ("Expired", "news"),
    ]


def test_what_the_definitions_ask_for(world: LedgerWorld, tmp_path: Path) -> None:
    world.queue("all", message_logging=True)
    world.queue("expired", expiration_policy="log")
    world.queue("none")
    for name in ("all", "expired", "none"):
        world.put(world.manager.queue(name), ttl_ms=5)
    world.turn(5000)
    assert [each[:2] for each in events(logged(world, tmp_path, as_defined))] == [
        ("Produced", "all"),
        ("Expired", "all"),
        ("Expired", "expired"),
    ]


def test_a_record_as_a_line() -> None:
    record = LogRecord(
        time_us=1_700_000_000_123_456,
        transaction="7",
        message_id="m>1",
        correlation_id="",
        destination="q",
        event="Consumed",
        user="ann",
        consumer="app/link#3",
        selector="a = 'x\n'",
    )
    assert record.text() == (
        "####<2023-11-14T22:13:20.123456Z> <7> <> <1700000000123> <456000> <m\\>1> <> <q> <Consumed> <ann> "
        "<app/link#3> <> <a = 'x\\n'>"
    )


def test_the_log_on_the_command_line(world: LedgerWorld, tmp_path: Path) -> None:
    a_dead_letter_replayed(world)
    folder = str(written(world, tmp_path))
    lines = CliRunner().invoke(main, ["ledger", "log", "--data", folder, "--queue", "dead"]).stdout
    assert lines.count("\n") == 2 and "<Produced>" in lines and "<Removed>" in lines
    shown = CliRunner().invoke(main, ["ledger", "log", "--data", folder, "--json", "--from", "1"]).stdout
    assert len(shown.splitlines()) == 11 and json.loads(shown.splitlines()[0])["event"] == "Produced"
