"""`postroom queue alter`: every setting of a queue that runs, at once, over restarts, and in the ledger."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from postroom.client import AcknowledgeMode, ConnectionFactory
from postroom.manager.kernel.options import IDENTITY_FIELDS, QueueDefinition
from postroom.server.connection.broker import Broker
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

OTHER = {
    "usage": "transmission",
    "access": "exclusive",
    "quota": "room",
    "delivery_schedule": "0 * * * * * *",
    "delivery_mode_override": "persistent",
    "quota_policy": "preemptive",
    "expiration_policy": "log",
    "dead_letter_queue": "dead",
    "expiry_queue": "old",
    "priority_override": 3,
    "redelivery_delay_multiplier_percent": 200,
    "production_paused_at_startup": "false",
    "insertion_paused_at_startup": "false",
    "consumption_paused_at_startup": "true",
}
"""A value that isn't the default, where the next number or the other flag won't do."""
TOGETHER = {
    "expiry_queue": {"expiration_policy": "redirect"},
    "messages_threshold_low": {"messages_threshold_high": 9},
    "bytes_threshold_low": {"bytes_threshold_high": 9},
    "messages_threshold_high": {"messages_threshold_low": 1},
    "bytes_threshold_high": {"bytes_threshold_low": 1},
}
"""Settings that need others."""
SETTINGS = [each.name for each in fields(QueueDefinition) if each.name not in IDENTITY_FIELDS]


def other_value(name: str) -> object:
    default = getattr(QueueDefinition(name="x"), name)
    if name in OTHER:
        return OTHER[name]
    return not default if isinstance(default, bool) else default + 6


def as_options(settings: dict[str, object]) -> list[str]:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return [part for key, text in texts.items() for part in ("--set", f"{key}={text}")]


@pytest.fixture
def plain(shell: Shell, queue: str) -> Iterator[str]:
    shell.ok("queue", "create", queue)
    yield queue


def test_every_setting_is_altered_and_stays_over_a_restart(tmp_path: Path) -> None:
    altered: dict[str, dict[str, object]] = {
        name: {name: other_value(name), **TOGETHER.get(name, {})} for name in SETTINGS
    }
    with BrokerThread(folder=tmp_path) as broker:
        shell = Shell(broker.url)
        shell.ok("quota", "create", "room")
        for name, settings in altered.items():
            shell.ok("queue", "create", f"q.{name}")
            (answer,) = shell.json("queue", "alter", f"q.{name}", *as_options(settings))
            assert {key: answer[key] for key in settings} == settings
            assert shell.ok("queue", "alter", f"q.{name}", *as_options(settings)).startswith(
                f"q.{name} is so already: "
            )
    with BrokerThread(folder=tmp_path) as broker:
        listed = {str(row["name"]): row for row in Shell(broker.url).json("queue", "list", "q.")}
        for name, settings in altered.items():
            assert {key: listed[f"q.{name}"][key] for key in settings} == settings
    dumped = Shell("").ok("ledger", "dump", "--data", str(tmp_path), "--json")
    defined = [json.loads(line) for line in dumped.splitlines() if '"queue_defined"' in line.lower()]
    mine = [record["detail"] for record in defined if "q.max_messages" in json.dumps(record)]
    assert [detail.get("max_messages", -1) for detail in mine] == [-1, 5]  # the same again writes nothing


REFUSED = {
    "name": "other",
    "kind": "topic",
    "auto_created": True,
    "temporary": True,
    "selector": "a = 1",
    "messages_current": 0,
    "nonsense": 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_altered_is_refused_by_name(shell: Shell, plain: str, name: str) -> None:
    (before,) = shell.json("queue", "list", plain)
    result = shell.run("queue", "alter", plain, *as_options({"max_messages": 5, name: REFUSED[name]}))
    assert (result.exit_code, result.stdout) == (3, "") and len(result.stderr.splitlines()) == 1
    assert name in result.stderr
    assert shell.json("queue", "list", plain) == [before]


BAD = [
    ("max_messages", "many"),
    ("max_messages", -2),
    ("access", "some"),
    ("expiration_policy", "redirect"),
    ("expiry_queue", "old"),
    ("quota", "none.such"),
    ("dead_letter_queue", "$x\n"),
    ("max_unsettled_per_consumer", 0),
    ("group_buckets", 1 << 20),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_as_at_creation(shell: Shell, plain: str, name: str, value: object) -> None:
    (before,) = shell.json("queue", "list", plain)
    result = shell.run("queue", "alter", plain, *as_options({"max_ttl_ms": 5, name: value}))
    created = shell.run("queue", "create", f"{plain}.new", *as_options({name: value}))
    assert result.exit_code == created.exit_code == 3
    output = result.stderr.partition(": ")[2].partition(": ")[2].replace(plain, "Q")
    assert output == created.stderr.partition(": ")[2].partition(": ")[2].replace(f"{plain}.new", "Q")
    assert shell.json("queue", "list", plain) == [before]


def test_nothing_to_change_and_nothing_to_change_it_of(shell: Shell, plain: str) -> None:
    assert shell.run("queue", "alter", plain).exit_code == 2
    missing = shell.run("queue", "alter", f"{plain}.x", "--set", "max_messages=1")
    assert missing.exit_code == 3 and f"did you mean '{plain}'" in missing.stderr


def test_a_raised_bound_of_unsettled_lets_deliveries_go(
    broker: BrokerThread, shell: Shell, queue: str
) -> None:
    shell.ok("queue", "create", queue, "--set", "max_unsettled_per_consumer=1")
    shell.ok("put", queue, "a", "b", "c")
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        session.create_consumer(queue, prefetch=10)
        broker.wait_until(lambda running: unacknowledged(running, queue) == 1)
        shell.ok("queue", "alter", queue, "--set", "max_unsettled_per_consumer=3")
        broker.wait_until(lambda running: unacknowledged(running, queue) == 3)


def unacknowledged(broker: Broker, queue: str) -> int:
    return int(broker.manager.queues[queue].statistics.unacknowledged)


def test_a_raised_quota_lets_in_a_send_that_waits(broker: BrokerThread, shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue, "--set", "max_messages=1")
    shell.ok("put", queue, "a")
    assert shell.run("put", queue, "b").exit_code == 3
    shell.ok("queue", "alter", queue, "--set", "max_messages=2")
    shell.ok("put", queue, "b")
    shell.ok("queue", "alter", queue, "--set", "max_messages=1")  # evicts nothing
    assert shell.run("put", queue, "c").exit_code == 3
    assert shell.ok("get", queue, "-n", "0") == "a\nb\n"


def test_a_new_limit_and_dead_letter_queue_hold_for_what_is_there(
    broker: BrokerThread, shell: Shell, plain: str
) -> None:
    shell.ok("put", plain, "poison")
    dead = f"{plain}.dead"
    shell.ok("queue", "alter", plain, *as_options({"redelivery_limit": 0, "dead_letter_queue": dead}))
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        assert session.create_consumer(plain).receive(20) is not None
        session.rollback()
    assert shell.ok("get", dead, "--wait-s", "20") == "poison\n"


def test_what_is_in_use_is_refused(broker: BrokerThread, shell: Shell, plain: str) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer(plain)
        refused = shell.run("queue", "alter", plain, "--set", "access=exclusive")
        assert refused.exit_code == 3 and "its access can't change now" in refused.stderr
        consumer.close()
    shell.ok("queue", "alter", plain, "--set", "access=exclusive")
    shell.ok("put", plain, "a")
    refused = shell.run("queue", "alter", plain, "--set", "unit_of_order=true")
    assert refused.exit_code == 3 and "not empty" in refused.stderr


def test_a_queue_made_by_attaching_stays_when_it_was_altered(
    broker: BrokerThread, shell: Shell, queue: str
) -> None:
    shell.ok("put", queue, "a")
    (made,) = shell.json("queue", "list", queue)
    (altered,) = shell.json("queue", "alter", queue, "--set", "max_messages=9")
    assert (made["auto_created"], altered["auto_created"]) == (True, False)


def test_topics_and_subscriptions_are_altered_too(shell: Shell, queue: str) -> None:
    shell.ok("topic", "create", queue)
    shell.ok("topic", "alter", queue, "--set", "max_messages=7")
    assert shell.run("get", queue, "--topic", "--subscription", "s").exit_code == 4
    (made,) = shell.json("subscription", "list", queue)
    assert made["max_messages"] == 7
    (altered,) = shell.json("subscription", "alter", str(made["name"]), "--set", "max_messages=8")
    assert altered["max_messages"] == 8
    refused = shell.run("subscription", "alter", str(made["name"]), "--set", "selector=a = 1")
    assert refused.exit_code == 3 and "selector can't be changed" in refused.stderr
