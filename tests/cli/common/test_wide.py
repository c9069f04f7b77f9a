"""`--wide`, and `show` of each kind of thing: what is known of it, short and in full."""

import pytest

from postroom.client import ConnectionFactory
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


@pytest.fixture
def filled(shell: Shell, queue: str) -> Shell:
    shell.ok(
        "queue", "create", queue, "--set", f"dead_letter_queue={queue}.dead", "--set", "access=exclusive"
    )
    shell.ok("put", queue, "a", "b")
    return shell


def test_a_wide_list_has_more_columns(filled: Shell, queue: str) -> None:
    short, wide = filled.ok("queue", "list", queue), filled.ok("queue", "list", queue, "--wide")
    heads = short.splitlines()[0].split()
    assert wide.splitlines()[0].split()[: len(heads)] == heads
    assert "dead-letter queue" in wide and f"{queue}.dead" in wide.split() and "exclusive" in wide.split()
    assert f"{queue}.dead" not in short.split()


def test_dynamic_queues_are_one_line_in_a_wide_list_too(broker: BrokerThread, filled: Shell) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        connection.create_session().create_temporary_queue()
        assert "1 dynamic queues (--all)" in filled.ok("queue", "list", "--wide")


def test_show_is_short_and_wide(filled: Shell, queue: str) -> None:
    short, wide = filled.ok("queue", "show", queue), filled.ok("queue", "show", queue, "--wide")
    assert "redelivery_limit" not in short and "messages_expired" not in short
    assert "  redelivery_limit: -1\n" in wide and "  messages_expired: 0\n" in wide
    assert "  messages_received: 2\n" in wide and "paused: nothing\n" in wide
    assert '  access: "exclusive"  (default: "shared"; by management)' in wide


def test_topics_and_their_subscriptions(shell: Shell, queue: str) -> None:
    shell.ok("topic", "create", queue, "--set", "max_messages=5")
    shell.run("get", queue, "--topic", "--subscription", "kept")
    shell.ok("put", queue, "x", "--topic")
    shown = shell.ok("topic", "show", queue)
    assert "  max_messages: 5  (default: -1; by the configuration or management)" in shown
    assert f"{queue}::kept" in shown and "nobody holds" not in shown
    (found,) = shell.json("topic", "show", queue)
    assert found["not_default"] == ["max_messages"] and isinstance(found["subscribed"], list)
    assert [row["name"] for row in found["subscribed"]] == [f"{queue}::kept"]
    assert "selector" in shell.ok("subscription", "list", queue, "--wide").splitlines()[0]
    assert "to nobody" in shell.ok("topic", "list", "--wide").splitlines()[0]


def test_quotas_users_roles_and_connections(shell: Shell, queue: str) -> None:
    shell.ok("quota", "create", queue, "--set", "messages_maximum=7")
    assert "messages_maximum: 7\n" in shell.ok("quota", "show", queue)
    assert "name: administrator\n" in shell.ok("role", "show", "administrator")
    assert shell.run("user", "show", "nobody").exit_code == 3
    assert shell.run("connection", "show", "127.0.0.1:1").exit_code == 3
