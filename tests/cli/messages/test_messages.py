"""`postroom message`, `postroom dlq`, and pausing, resuming and counters, against a running broker."""

import json
from pathlib import Path

import pytest

from postroom.client import AcknowledgeMode, ConnectionFactory, Message
from tests.cli.shell import Shell
from tests.server.client_messages import send
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


def numbered(broker: BrokerThread, queue: str, count: int) -> None:
    send(
        broker,
        queue,
        *(Message(f"body {n}", message_id=f"m{n}", properties={"n": n}) for n in range(count)),
    )


def bodies(shell: Shell, queue: str, *options: str) -> list[object]:
    return [row["body"] for row in shell.json("message", "list", queue, *options)]


def reject_all(broker: BrokerThread, queue: str, count: int) -> None:
    with (
        ConnectionFactory(broker.url).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        consumer = session.create_consumer(queue)
        for _ in range(count):
            message = consumer.receive(10)
            assert message is not None
            consumer.reject(message)


def test_messages_are_listed_whatever_their_state(broker: BrokerThread, shell: Shell, queue: str) -> None:
    numbered(broker, queue, 3)
    send(broker, queue, Message("unborn", delivery_delay_ms=60_000))
    assert bodies(shell, queue) == ["body 0", "body 1", "body 2", "unborn"]
    assert bodies(shell, queue, "--selector", "n >= 1") == ["body 1", "body 2"]
    assert bodies(shell, queue, "--state", "delayed") == ["unborn"]
    assert bodies(shell, queue, "--count", "2") == ["body 0", "body 1"]
    assert "visible" in shell.ok("message", "list", queue)


def test_one_message_is_shown(broker: BrokerThread, shell: Shell, queue: str) -> None:
    numbered(broker, queue, 2)
    (row,) = shell.json("message", "show", queue, "--id", "m1")
    assert (row["body"], row["message_id"], row["states"]) == ("body 1", "m1", ["visible"])
    assert "body: body 1" in shell.ok("message", "show", queue, "--serial", str(row["serial"]))
    missing = shell.run("message", "show", queue, "--id", "m9")
    assert missing.exit_code == 3 and "no such message" in missing.stderr
    assert shell.run("message", "show", queue).exit_code == 2


def test_messages_are_deleted(broker: BrokerThread, shell: Shell, queue: str) -> None:
    numbered(broker, queue, 4)
    assert shell.ok("message", "delete", queue, "--selector", "n < 2").startswith("deleted 2 messages")
    assert shell.json("message", "delete", queue, "--id", "m3") == [{"deleted": 1}]
    assert bodies(shell, queue) == ["body 2"]
    refused = shell.run("message", "delete", queue, "--all", "--if-paused")
    assert refused.exit_code == 3 and "not paused" in refused.stderr
    shell.ok("queue", "pause", queue)
    shell.ok("message", "delete", queue, "--all", "--if-paused")
    assert bodies(shell, queue) == []
    assert shell.run("message", "delete", queue).exit_code == 2


def test_messages_are_moved(broker: BrokerThread, shell: Shell, queue: str) -> None:
    target = f"{queue}.target"
    shell.ok("queue", "create", target)
    numbered(broker, queue, 4)
    told = shell.ok("message", "move", queue, target, "--selector", "n > 1")
    assert told == f"moved 2 messages from {queue} to {target}\n"
    (row, _) = shell.json("message", "list", target)
    assert (row["message_id"], row["origin_queue"]) == ("m2", queue)
    shell.ok("queue", "pause", target, "production")
    refused = shell.run("message", "move", queue, target, "--all")
    assert refused.exit_code == 3 and "production is paused" in refused.stderr
    nowhere = shell.run("message", "move", queue, "nowhere.at.all", "--all")
    assert nowhere.exit_code == 3


def test_a_bad_selector_is_one_line(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    result = shell.run("message", "list", queue, "--selector", "n >")
    assert result.exit_code == 3
    assert "character" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("form", ["jsonl", "amqp"])
def test_messages_are_exported_and_imported(
    broker: BrokerThread, shell: Shell, queue: str, tmp_path: Path, form: str
) -> None:
    shell.ok("queue", "create", queue)
    numbered(broker, queue, 3)
    send(broker, queue, Message(b"\xff\x00", ttl_ms=600_000, priority=8, message_id="bytes"))
    file = tmp_path / "messages"
    shell.ok("message", "export", queue, str(file), "--format", form)
    before = shell.json("message", "list", queue)
    target = f"{queue}.copy"
    shell.ok("queue", "create", target, "--set", "priority_override=2")
    assert "imported 4 messages" in shell.ok("message", "import", target, str(file))
    after = shell.json("message", "list", target)
    same = ("message_id", "priority", "body", "body_base64", "expires_us", "properties", "durable")
    assert [[row.get(name) for name in same] for row in after] == [
        [row.get(name) for name in same] for row in before
    ]
    (counted,) = shell.json("message", "import", target, str(file), "--overrides")
    assert counted == {"created": 0, "replaced": 4}
    assert {row["priority"] for row in shell.json("message", "list", target)} == {2}


def test_lines_without_amqp_bytes_are_imported(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    lines = [{"body": "by hand", "priority": 7, "properties": {"n": 1}}, {"body_base64": "/wA="}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    shell.ok("message", "import", queue, "-", stdin=text)
    assert [(row.get("body"), row.get("priority")) for row in shell.json("message", "list", queue)] == [
        ("by hand", 7),
        (None, 4),
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"body": 1}\nnonsense\n', "line 2"),
        (b"postroom messages 1\n\0\0\0\x09abc", "message 1: the file breaks off"),
        (b'{"amqp": "AAAA"}\n', "messages[0]"),
        (b"[]\n", "line 1: not a JSON object"),
    ],
)
def test_what_is_no_export_is_one_line(
    shell: Shell, queue: str, tmp_path: Path, content: bytes, text: str
) -> None:
    shell.ok("queue", "create", queue)
    (tmp_path / "file").write_bytes(content)
    result = shell.run("message", "import", queue, str(tmp_path / "file"))
    assert result.exit_code == 3 and text in result.stderr and result.stderr.count("\n") == 1


def test_messages_before_a_bad_one_are_imported_and_large_ones_are_refused(
    shell: Shell, queue: str, tmp_path: Path
) -> None:
    shell.ok("queue", "create", queue)
    lines = [{"body": f"{n}" * 200_000, "message_id": f"m{n}"} for n in range(5)]
    lines.append({"body": "x" * 1_100_000, "message_id": "large"})
    (tmp_path / "file").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = shell.run("message", "import", queue, str(tmp_path / "file"))
    assert result.exit_code == 3 and "message 6 of 1100" in result.stderr
    ids = [row["message_id"] for row in shell.json("message", "list", queue)]
    assert ids == [f"m{n}" for n in range(5)]


def test_dead_letters_are_replayed(broker: BrokerThread, shell: Shell, queue: str) -> None:
    dead = f"{queue}.dead"
    shell.ok("queue", "create", dead)
    shell.ok("queue", "create", queue, "--set", f"dead_letter_queue={dead}")
    numbered(broker, queue, 4)
    reject_all(broker, queue, 4)
    assert len(bodies(shell, dead)) == 4
    assert shell.ok("dlq", "replay", dead, "--id", "m2") == f"replayed 1 messages from {dead}\n"
    assert bodies(shell, queue) == ["body 2"]
    shell.ok("dlq", "replay", dead, "--selector", "n = 0")
    send(broker, dead, Message("put here"))
    result = shell.run("dlq", "replay", dead, "--all")
    assert "replayed 2 messages" in result.stdout and "1 were put on" in result.stderr
    assert sorted(map(str, bodies(shell, queue))) == ["body 0", "body 1", "body 2", "body 3"]
    assert shell.json("dlq", "replay", dead, "--all", "--to", queue) == [{"replayed": 1, "without_origin": 0}]


def test_a_replay_to_an_origin_that_is_gone(broker: BrokerThread, shell: Shell, queue: str) -> None:
    dead = f"{queue}.dead"
    shell.ok("queue", "create", dead)
    shell.ok("queue", "create", queue, "--set", f"dead_letter_queue={dead}")
    numbered(broker, queue, 1)
    reject_all(broker, queue, 1)
    shell.ok("queue", "delete", queue)
    result = shell.run("dlq", "replay", dead, "--all")
    assert result.exit_code == 3 and "deleted" in result.stderr
    assert bodies(shell, dead) == ["body 0"]


def test_queues_are_paused_and_resumed(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "a")
    assert shell.ok("queue", "pause", queue, "consumption") == f"paused consumption of {queue}\n"
    assert shell.run("get", queue).exit_code == 4
    assert "consumption is paused" in shell.ok("queue", "stats", queue)
    shell.ok("queue", "resume", queue, "consumption")
    assert shell.ok("get", queue) == "a\n"
    assert shell.run("queue", "pause", queue, "everything").exit_code == 2


def test_topics_are_paused(shell: Shell, queue: str) -> None:
    topic = f"topic.{queue}"
    shell.ok("topic", "create", topic)
    (switches,) = shell.json("topic", "pause", topic, "production")
    assert switches["production_paused"] is True
    assert shell.json("topic", "stats", topic)[0]["messages_received"] == 0


def test_counters_are_shown_and_reset(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "a", "b")
    shell.ok("get", queue)
    shown = shell.ok("queue", "stats", queue, "--reset")
    assert "received" in shown and "messages consumed: 1" in shown
    (counters,) = shell.json("queue", "stats", queue)
    assert (counters["messages_received"], counters["messages_high"], counters["messages_current"]) == (
        0,
        1,
        1,
    )


def test_counters_of_the_broker_and_its_connections(broker: BrokerThread, shell: Shell, queue: str) -> None:
    (before,) = shell.json("broker", "stats", "--reset")
    shell.ok("put", queue, "a", "b")
    shell.ok("get", queue)
    (counters,) = shell.json("broker", "stats")
    answers = int(str(counters["messages_received"])) - 2  # those of the management node, on reply queues
    assert 0 <= answers <= 4 and counters["messages_consumed"] == answers + 1
    assert int(str(counters["messages_current"])) == int(str(before["messages_current"])) + 1
    shell.ok("queue", "delete", queue)
    (counters,) = shell.json("broker", "stats")
    assert counters["messages_deleted"] == 1
    assert counters["messages_current"] == before["messages_current"]
    assert "received" in shell.ok("broker", "stats")


def test_counters_of_a_connection(broker: BrokerThread, shell: Shell, queue: str) -> None:
    with (
        ConnectionFactory(broker.url).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        producer = session.create_producer(queue)
        for _ in range(3):
            producer.send(Message("x" * 1000))
        consumer = session.create_consumer(queue)
        assert consumer.receive(10) is not None
        own = next(each for each in shell.json("connection", "list") if each["messages_in"] == 3)
        assert own["messages_out"] == own["unsettled"] == 3
        assert int(str(own["bytes_in"])) > 3000 and int(str(own["bytes_out"])) > 3000
        shell.ok("connection", "reset", str(own["name"]))
        again = next(each for each in shell.json("connection", "list") if each["name"] == own["name"])
        assert (again["messages_in"], again["unsettled"]) == (0, 3)
        assert str(own["name"]) in shell.ok("connection", "list")
