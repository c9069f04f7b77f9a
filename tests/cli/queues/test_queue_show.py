"""`postroom queue show`; and statistics that can be balanced from outside, over all that ends a message."""

from pathlib import Path

import pytest
from proton import Message as ProtonMessage
from proton import symbol
from proton.utils import BlockingConnection

from postroom.client import AcknowledgeMode, ConnectionFactory, Message
from postroom.model.codes import Outcome
from postroom.server.configuration.config import AutoCreateConfig, QueueConfig, QueueDefaultsConfig
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

OUTCOMES = [f"messages_{outcome.name.lower()}" for outcome in Outcome if outcome > 0]


def balanced(shell: Shell, *command: str) -> dict[str, int]:
    """The counters, when depth = depth then + in − out has been checked by hand, in messages and bytes."""
    (found,) = shell.json(*command)
    counters = {name: value for name, value in found.items() if isinstance(value, int)}
    assert counters["messages_ended"] == sum(counters[name] for name in OUTCOMES)
    for unit in ("messages", "bytes"):
        then = counters[f"{unit}_current_then"] + counters[f"{unit}_pending_then"]
        depth = counters[f"{unit}_current"] + counters[f"{unit}_pending"]
        assert then + counters[f"{unit}_received"] - counters[f"{unit}_ended"] == depth, (command, unit)
    assert counters["counting_since_us"] > 0
    return counters


def test_counters_balance_after_whatever_ends_a_message(tmp_path: Path) -> None:
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        dead = ("--set", "dead_letter_queue=dead", "--set", "redelivery_limit=0")
        shell.ok("queue", "create", "q", *dead)
        shell.ok("put", "q", "one", "two", "three", "four", "five", "six", "seven")
        shell.ok("put", "q", "lost at the restart", "--not-durable")
        shell.ok("put", "q", "soon over", "--ttl-ms", "1")
        shell.ok("put", "q", "later", "--delay-ms", "3600000")
        assert shell.ok("get", "q") == "one\n"
        with ConnectionFactory(broker.url).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
            session.create_producer("q").send(Message("rolled back"))
            consumer = session.create_consumer("q", prefetch=1)
            assert consumer.receive(20) is not None
            session.rollback()  # two is a dead letter now
            consumer.close()
            first, *_ = shell.json("message", "list", "q", "--state", "visible", "-n", "1")
            shell.ok("queue", "create", "elsewhere")
            shell.ok("message", "move", "q", "elsewhere", "--serial", str(first["serial"]))
            other, *_ = shell.json("message", "list", "q", "--state", "visible", "-n", "1")
            shell.ok("message", "delete", "q", "--serial", str(other["serial"]))
            broker.wait_until(
                lambda running: running.manager.queues["q"].statistics.ended[Outcome.EXPIRED] == 1
            )
            holding = connection.create_session(AcknowledgeMode.CLIENT)
            assert holding.create_consumer("q", prefetch=1).receive(20) is not None
            counters = balanced(shell, "queue", "stats", "q")
            ended = {name: counters[name] for name in OUTCOMES if counters[name]}
            assert ended == dict.fromkeys(
                (*("messages_consumed", "messages_expired", "messages_dead_lettered"),
                 *("messages_moved", "messages_deleted", "messages_rolled_back")), 1
            )  # fmt: skip
            assert counters["messages_current_then"] == counters["messages_pending_then"] == 0
            for name in ("dead", "elsewhere"):
                assert balanced(shell, "queue", "stats", name)["messages_received"] == 1
            balanced(shell, "broker", "stats")
            _check_reset(shell, counters)
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        again = balanced(shell, "queue", "stats", "q")
        balanced(shell, "broker", "stats")
        assert again["messages_lost"] == 1 and again["messages_received"] == 0
        assert again["counting_since_us"] > counters["counting_since_us"]
        then = again["messages_current_then"] + again["messages_pending_then"]
        assert then == again["messages_current"] + again["messages_pending"] + 1
        shell.ok("queue", "purge", "q")
        purged = balanced(shell, "queue", "stats", "q")
        assert purged["messages_purged"] == then - 1 and purged["bytes_current"] == 0


def _check_reset(shell: Shell, before: dict[str, int]) -> None:
    shell.ok("queue", "stats", "q", "--reset")
    after = balanced(shell, "queue", "stats", "q")
    for unit in ("messages", "bytes"):
        for what in ("current", "pending"):
            assert after[f"{unit}_{what}_then"] == before[f"{unit}_{what}"] > 0
    assert after["messages_received"] == after["bytes_ended"] == 0
    assert after["counting_since_us"] > before["counting_since_us"]
    balanced(shell, "broker", "stats")
    shell.ok("put", "q", "after the reset")
    assert balanced(shell, "queue", "stats", "q")["messages_received"] == 1
    balanced(shell, "broker", "stats", "--reset")
    assert balanced(shell, "broker", "stats")["messages_received"] >= 0


def test_a_queue_is_shown_with_what_differs_and_who_holds(
    broker: BrokerThread, shell: Shell, queue: str
) -> None:
    shell.ok("queue", "create", queue, "--set", "max_messages=100")
    assert "nobody holds or consumes anything" in shell.ok("queue", "show", queue)
    shell.ok("queue", "pause", queue, "insertion")
    shell.ok("queue", "resume", queue, "insertion")
    shell.ok("put", queue, "a", "b", "c", "d")
    shell.ok("queue", "pause", queue, "production")
    shell.ok("store", "get", queue, "--confirm-id", "77")
    factory = ConnectionFactory(f"{broker.url}?jms.clientID=holder.of.one")
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        assert session.create_consumer(queue, prefetch=1).receive(20) is not None
        (found,) = shell.json("queue", "show", queue)
        assert (found["not_default"], found["paused"]) == (["max_messages"], ["production"])
        settings, holders = found["settings"], found["holders"]
        assert isinstance(settings, dict) and isinstance(holders, list) and len(settings) > 40
        of_consumer, of_store = holders
        assert of_consumer["container_id"] == "holder.of.one" and of_consumer["messages"] >= 1
        assert (of_store["held_by"], of_store["confirm_id"], of_store["messages"]) == ("confirm_id", 77, 1)
        output = shell.ok("queue", "show", queue)
    assert (
        "  max_messages: 100  (default: -1; by management)\n" in output and "redelivery_limit" not in output
    )
    assert "counting since 20" in output and "when there were 0 current and 0 pending (0 bytes)" in output
    assert "production is paused" in output and "holder.of.one" in output and "confirm 77" in output
    assert "  redelivery_limit: -1\n" in shell.ok("queue", "show", queue, "--wide")


def test_transactions_that_hold_are_named(broker: BrokerThread, shell: Shell, queue: str) -> None:
    factory = ConnectionFactory(f"{broker.url}?jms.clientID=in.a.transaction")
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        session.create_producer(queue).send(Message("a"))
        (found,) = shell.json("queue", "show", queue)
        (holder,) = found["holders"] if isinstance(found["holders"], list) else ()
        assert (holder["held_by"], holder["container_id"]) == ("local_transaction", "in.a.transaction")
        assert holder["messages"] == 1 and holder["since_us"] > 0


def send_members(broker: BrokerThread) -> None:
    """Four of a unit, of which the first is unborn, and one of none."""
    connection = BlockingConnection(broker.address, timeout=20)
    sender = connection.create_sender("q")
    for number in range(5):
        message = ProtonMessage(body=number, durable=True)
        if number < 4:
            message.properties = {"JMS_BEA_UnitOfOrder": "u"}
        if number == 0:
            message.annotations = {symbol("x-opt-delivery-delay"): 3_600_000}
        sender.send(message)
    connection.close()


def test_who_waits_behind_an_unborn_member_is_counted_so_though_nobody_receives(tmp_path: Path) -> None:
    with BrokerThread(folder=tmp_path) as broker:
        Shell(broker.url).ok("queue", "create", "q", "--set", "unit_of_order=true")
        send_members(broker)
        check_waiting(Shell(broker.url))
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        check_waiting(shell)
        (unborn,) = shell.json("message", "list", "q", "--state", "delayed")
        shell.ok("message", "delete", "q", "--serial", str(unborn["serial"]))
        broker.wait_until(lambda running: running.manager.queues["q"].statistics.current == 2)
        counters = balanced(shell, "queue", "stats", "q")
        assert (counters["messages_ordered"], counters["messages_pending"]) == (2, 2)


def check_waiting(shell: Shell) -> None:
    counters = balanced(shell, "queue", "stats", "q")
    assert counters["messages_current"] == counters["messages_unborn"] == 1
    assert counters["messages_ordered"] == 3 and counters["messages_pending"] == 4
    assert len(shell.json("message", "list", "q", "--state", "ordered")) == 3


def test_who_has_said_what_is_not_the_default(tmp_path: Path) -> None:
    configured = QueueConfig(name="configured", max_messages=10, redelivery_limit=3)
    changes = {"auto_create": AutoCreateConfig(), "queue_defaults": QueueDefaultsConfig()}
    config = make_config(queue=[configured], **changes)
    with BrokerThread(config, folder=tmp_path) as broker:
        shell = Shell(broker.url)
        shell.ok("queue", "create", "made", "--set", "max_messages=20")
        shell.ok("put", "attached", "x")
        altered = shell.run("queue", "alter", "configured", "--set", "max_messages=11")
        assert altered.stdout == "altered configured: max_messages 10 → 11\n"
        again = "configured is in the configuration, too: the next start takes what stands there\n"
        assert altered.stderr == again
        assert shell.run("queue", "alter", "made", "--set", "max_bytes=99").stderr == ""
        output = shell.ok("queue", "show", "configured")
        assert "redelivery_limit: 3  (default: 10; by the configuration)" in output
        assert "max_messages: 11  (default: -1; by management, until the next start)" in output
        assert "max_messages: 20  (default: -1; by management)" in shell.ok("queue", "show", "made")
        (shown,) = shell.json("queue", "show", "configured")
        assert shown["sources"] == {
            "max_messages": "by management, until the next start",
            "redelivery_limit": "by the configuration",
        }
    with BrokerThread(config, folder=tmp_path) as broker:
        shell = Shell(broker.url)
        output = shell.ok("queue", "show", "configured")
        assert "max_messages: 10  (default: -1; by the configuration)" in output
        assert "max_messages: 20  (default: -1; by management)" in shell.ok("queue", "show", "made")
    later = make_config(
        queue=[configured], **changes | {"queue_defaults": QueueDefaultsConfig(redelivery_limit=7)}
    )
    with BrokerThread(later, folder=tmp_path) as broker:
        attached = Shell(broker.url).ok("queue", "show", "attached")
        assert "auto created" in attached
        assert "redelivery_limit: 10  (default: 7; as when it was made by attaching)" in attached
