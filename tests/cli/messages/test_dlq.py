"""`postroom dlq`: rules checked, dead letters listed and handled by rules, against a running broker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import Message
from tests.cli.messages.dead_letters import NUMBERS, Q_FULL, dead_letter
from tests.cli.shell import Shell
from tests.server.client_messages import send, taken
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

UNKNOWN = 2085


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(container_id="HERE")) as running:
        yield running


@pytest.fixture
def queue() -> str:
    """A name as short as MQ wants it, in letters that must be quoted."""
    return f"dead.{next(NUMBERS)}"


def created(shell: Shell, queue: str) -> str:
    """A queue, made before anything is forwarded to it."""
    shell.ok("queue", "create", queue)
    return queue


def bodies(shell: Shell, queue: str) -> list[object]:
    return [row["body"] for row in shell.json("message", "list", queue)]


@pytest.fixture
def rules(tmp_path: Path, queue: str):
    """Writes a table for the test's queue that ends when there is nothing left to do."""

    def write(*lines: str, control: str = "WAIT(NO) RETRYINT(0)") -> str:
        file = tmp_path / "table.rul"
        file.write_text("\n".join([f"{control} +", f"INPUTQ('{queue}')", *lines]))
        return str(file)

    return write


def handled(shell: Shell, file: str, *options: str) -> list[dict[str, object]]:
    events = shell.json("dlq", "handle", "--rules", file, *options)
    assert events[0]["event"] == "started" and events[-1]["event"] == "ended"
    return events[1:]


def handling(broker: BrokerThread, file: str) -> subprocess.Popen[str]:
    """A handler in a process of its own."""
    command = [sys.executable, "-m", "postroom.cli", "dlq", "handle", "--rules", file, "--json"]
    environment = os.environ | {"POSTROOM_URL": broker.url}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)


# check


def test_a_good_table_is_good(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "good.rul"
    file.write_text("inputq(dlq)\nreason(mqrc_q_full) action(retry)\n")
    assert shell.ok("dlq", "check", str(file)) == ""
    printed = shell.ok("dlq", "check", str(file), "--print")
    assert "REASON(MQRC_Q_FULL) ACTION(RETRY) PUTAUT(DEF) RETRY(1)" in printed
    assert shell.ok("dlq", "check", "-", "--print", stdin=printed) == printed


def test_every_fault_is_told_with_its_place(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "bad.rul"
    file.write_text("WAIT(X)\nACTION(GO) +\n   REASON(MQRC_Q_FUL)\nACTION(DISCARD) HEADER(NO)\n")
    result = shell.run("dlq", "check", str(file))
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        f"{file}:{place}:" for place in ("1:6", "2:8", "3:11", "4:17")
    ]
    assert "error: REASON knows no value 'MQRC_Q_FUL'; is MQRC_Q_FULL meant?" in lines[2]
    assert "warning: HEADER means nothing" in lines[3]


def test_a_file_that_is_no_table(shell: Shell, tmp_path: Path) -> None:
    missing = shell.run("dlq", "check", str(tmp_path / "missing"))
    assert missing.exit_code == 1 and "can't be read" in missing.stderr
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert shell.run("dlq", "check", str(binary)).exit_code == 1


def test_a_bad_table_handles_nothing(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    send(broker, queue, dead_letter("a"))
    result = shell.run("dlq", "handle", "--rules", rules("ACTION(NOTHING)"))
    assert result.exit_code == 1 and ":3:8: error: ACTION takes" in result.stderr
    assert bodies(shell, queue) == ["a"]


# handle


def test_retry_puts_it_where_it_was_to_go_without_its_header(
    broker: BrokerThread, shell: Shell, queue: str, rules
) -> None:
    target = created(shell, f"{queue}.target")
    send(broker, queue, dead_letter("a", target, priority=8, correlation_id="c", reply_to="r"))
    events = handled(shell, rules("REASON(MQRC_Q_FULL) ACTION(RETRY)"))
    assert events[0] == {"event": "retried", "message_id": "id-a", "line": 3, "to": target}
    assert events[1] == {"event": "ended", "retried": 1}
    assert bodies(shell, queue) == []
    message = taken(broker, target)
    assert dict(message.annotations) == {"x-opt-own": "kept"}
    assert (message.body, message.message_id, message.correlation_id) == ("a", "id-a", "c")
    assert (message.priority, message.durable, dict(message.properties)) == (8, True, {"n": 7})
    assert message.delivery_count == 0


@pytest.mark.parametrize(("header", "kept"), [("", True), ("HEADER(YES)", True), ("HEADER(NO)", False)])
def test_forward_keeps_the_header_unless_it_is_told(
    broker: BrokerThread, shell: Shell, queue: str, rules, header: str, kept: bool
) -> None:
    other = created(shell, f"{queue}.other")
    send(broker, queue, dead_letter("a"))
    handled(shell, rules(f"ACTION(FWD) FWDQ('{other}') {header}"))
    assert ("x-opt-dead-letter" in taken(broker, f"{queue}.other").annotations) == kept


def test_forward_to_where_replies_go(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    replies = created(shell, f"{queue}.replies")
    send(broker, queue, dead_letter("a", reply_to=f"{replies}@HERE"), dead_letter("b", reply_to=replies))
    send(broker, queue, dead_letter("c"))
    events = handled(shell, rules("REPLYQ(?*) +", " ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM)"))
    assert sorted((each["event"], each["message_id"]) for each in events[:3]) == [
        *(("forwarded", "id-a"), ("forwarded", "id-b"), ("left", "id-c")),
    ]
    assert bodies(shell, replies) == ["a", "b"]
    assert bodies(shell, queue) == ["c"]


def test_discard_ignore_and_what_has_no_header(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    send(
        broker,
        queue,
        dead_letter("a"),
        dead_letter("b", reason=UNKNOWN),
        Message("c", message_id="id-c"),
        dead_letter("d"),
    )
    file = rules("REASON(2085) ACTION(IGNORE)", "ACTION(DISCARD)")
    events = handled(shell, file)
    assert {each["message_id"]: (each["event"], each.get("why")) for each in events[:4]} == {
        "id-a": ("discarded", None),
        "id-b": ("left", "a rule says that it stays"),
        "id-c": ("left", "it has no dead-letter header"),
        "id-d": ("discarded", None),
    }
    assert events[4] == {"event": "ended", "discarded": 2, "left": 2, "without_header": 1}
    assert bodies(shell, queue) == ["b", "c"]
    assert [each["event"] for each in handled(shell, file)] == ["left", "left", "ended"]  # a run begins anew
    (row, _) = shell.json("message", "list", queue)
    assert row["states"] == ["visible"]


def test_tries_fail_and_the_next_rule_comes(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    full = f"{queue}.full"
    shell.ok("queue", "create", full, "--set", "max_messages=1")
    send(broker, full, Message("there"))
    created(shell, f"{queue}.last")
    send(broker, queue, dead_letter("a", full), dead_letter("b", full))
    events = handled(
        shell,
        rules("ACTION(RETRY) RETRY(2)", "DESTQ(NO) ACTION(DISCARD)", f"ACTION(FWD) FWDQ('{queue}.last')"),
    )
    of_a = [each for each in events if each.get("message_id") == "id-a"]
    assert [(each["event"], each["line"], each.get("attempt")) for each in of_a] == [
        ("failed", 3, 1),
        ("failed", 3, 2),
        ("forwarded", 5, None),
    ]
    assert "resource-limit-exceeded" in str(of_a[0]["why"]) or "room" in str(of_a[0]["why"])
    assert sorted(map(str, bodies(shell, f"{queue}.last"))) == ["a", "b"]
    assert bodies(shell, full) == ["there"]


@pytest.mark.parametrize("action", ["FWD", "RETRY"])
def test_a_queue_that_is_not_there_is_not_created(
    broker: BrokerThread, shell: Shell, queue: str, rules, action: str
) -> None:
    nowhere = f"{queue}.nowhere"
    send(broker, queue, dead_letter("a", nowhere))
    to = f" FWDQ('{nowhere}')" if action == "FWD" else ""
    events = handled(shell, rules(f"ACTION({action}){to} RETRY(2)"))
    assert [each["event"] for each in events] == ["failed", "failed", "left", "ended"]
    assert events[0]["why"] == f"there is no queue '{nowhere}' at queue manager 'HERE'"
    assert nowhere not in [row["name"] for row in shell.json("queue", "list")]
    assert bodies(shell, queue) == ["a"]


def test_forward_by_a_remote_queue(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    shell.ok("queue", "create", f"{queue}.way", "--set", "usage=transmission")
    settings = ("remote_queue=IN", "remote_queue_manager=FAR", f"transmission_queue={queue}.way")
    options = [word for setting in settings for word in ("--set", setting)]
    shell.ok("remote-queue", "define", f"{queue}.far", *options)
    send(broker, queue, dead_letter("a"))
    assert handled(shell, rules(f"ACTION(FWD) FWDQ('{queue}.far')"))[0]["event"] == "forwarded"
    assert bodies(shell, f"{queue}.way") == ["a"]


def test_all_fail_and_it_stays(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    send(broker, queue, dead_letter("a", "X", manager="NOWHERE"))
    events = handled(shell, rules("ACTION(RETRY)"))
    assert [each["event"] for each in events] == ["failed", "left", "ended"]
    assert events[1]["why"] == "every rule that matches it has failed"
    assert bodies(shell, queue) == ["a"]


def test_a_queue_that_remembers_ids_gets_nothing(
    broker: BrokerThread, shell: Shell, queue: str, rules
) -> None:
    target = f"{queue}.target"
    shell.ok("queue", "create", target, "--set", "duplicate_window=10")
    send(broker, queue, dead_letter("a", target))
    events = handled(shell, rules("ACTION(RETRY)"))
    assert events[0]["event"] == "failed" and "duplicate_window" in str(events[0]["why"])
    assert bodies(shell, queue) == ["a"]


def test_options_beat_the_table(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    send(broker, queue, dead_letter("a"))
    file = rules("ACTION(DISCARD)", control="INPUTQM(THERE) WAIT(NO)")
    refused = shell.run("dlq", "handle", "--rules", file)
    assert refused.exit_code == 2 and "'THERE'" in refused.stderr
    shell.ok("queue", "create", f"{queue}.other")
    events = handled(shell, file, "--inputqm", "HERE", "--inputq", f"{queue}.other")
    assert events == [{"event": "ended"}]
    assert handled(shell, file, "--inputqm", "HERE")[0]["event"] == "discarded"


def test_without_a_queue_it_is_the_queue_managers(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "table.rul"
    file.write_text("WAIT(NO)\nACTION(DISCARD)\n")
    result = shell.run("dlq", "handle", "--rules", str(file))
    assert result.exit_code == 2 and "dead_letter_queue" in result.stderr


def test_sentences_for_people(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    created(shell, f"{queue}.x")
    send(broker, queue, dead_letter("a"), Message("b", message_id="id-b"))
    told = shell.ok("dlq", "handle", "--rules", rules(f"ACTION(FWD) FWDQ('{queue}.x')"))
    first, *between, last = told.splitlines()
    assert first == f"handling {queue} by 1 rules"
    assert sorted(between) == [
        f"id-a: forwarded to {queue}.x (rule at line 3)",
        "id-b: left where it is: it has no dead-letter header",
    ]
    assert sorted(last.removeprefix("ended: ").split(", ")) == ["1 forwarded", "1 left", "1 without header"]


# list and show


def test_dead_letters_are_listed_and_shown(broker: BrokerThread, shell: Shell, queue: str) -> None:
    send(broker, queue, dead_letter("a", "ORDERS", manager="PARIS"), Message("b"))
    first, second = shell.json("dlq", "list", queue)
    assert first["dead_letter"] == {
        "reason": "MQRC_Q_FULL",
        "reason_code": Q_FULL,
        "queue": "ORDERS",
        "queue-manager": "PARIS",
        "format": "MQSTR",
        "encoding": 273,
        "ccsid": 1208,
        "put-appl-type": 0,
        "put-appl-name": "",
        "put-date": "20261122",
        "put-time": "01020304",
    }
    assert second["dead_letter"] is None
    told = shell.ok("dlq", "list", queue)
    assert "MQRC_Q_FULL" in told and "ORDERS@PARIS" in told
    shown = shell.ok("dlq", "show", queue, "--serial", str(first["serial"]))
    assert "MQRC_Q_FULL" in shown and "body: a" in shown
    assert shell.run("dlq", "show", "--serial", "1").exit_code == 2


# until it is told to stop


def test_it_waits_for_more_and_gives_back_what_it_has(
    broker: BrokerThread, shell: Shell, queue: str, rules
) -> None:
    full = f"{queue}.full"
    shell.ok("queue", "create", queue)
    shell.ok("queue", "create", full, "--set", "max_messages=0")
    created(shell, f"{queue}.target")
    file = rules("DESTQ('*.full') ACTION(RETRY) RETRY(9)", "ACTION(RETRY)", control="RETRYINT(600)")
    with handling(broker, file) as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline())["event"]]
        for body, destination in (("a", f"{queue}.target"), ("b", full), ("c", f"{queue}.target")):
            send(broker, queue, dead_letter(body, destination))
            told.append(json.loads(process.stdout.readline())["event"])
        process.send_signal(signal.SIGTERM)
        told += [json.loads(line)["event"] for line in process.stdout.read().splitlines()]
        assert process.wait(20) == 0
    assert told == ["started", "retried", "failed", "retried", "ended"]
    (row,) = shell.json("message", "list", queue)
    assert (row["body"], row["states"], row["delivery_count"]) == ("b", ["visible"], 0)


def test_it_ends_when_its_queue_goes(broker: BrokerThread, shell: Shell, queue: str, rules) -> None:
    shell.ok("queue", "create", queue)
    with handling(broker, rules("ACTION(RETRY)", control="WAIT(YES)")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        broker.wait_until(lambda broker: len(broker.manager.queues[queue].attached.consumers) == 1)
        shell.ok("queue", "delete", queue)
        assert process.wait(20) == 3


# killed


def test_killed_at_any_moment_nothing_is_lost_or_twice(
    broker: BrokerThread, shell: Shell, queue: str, rules
) -> None:
    count = 300
    target = created(shell, f"{queue}.target")
    send(broker, queue, *(dead_letter(f"{number}", target) for number in range(count)))
    file = rules("ACTION(RETRY)")
    for done in (1, 7, 40, 3, 90):
        with handling(broker, file) as process:
            assert process.stdout is not None
            for _ in range(done + 1):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            told = process.stdout.read().splitlines()
            assert not any(json.loads(line)["event"] == "ended" for line in told if line.endswith("}"))
        broker.wait_until(lambda broker: len(broker.connections) == 0)
    handled(shell, file)
    assert bodies(shell, queue) == []
    assert bodies(shell, target) == [f"{number}" for number in range(count)]
