"""Definitions go out as a file and in again: over real sockets, with restarts, and for whatever there is."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.cli.definitions.application import DONE, carry_out
from postroom.cli.definitions.file_format import Source, Tree, as_json, as_toml, check_tree
from postroom.cli.definitions.kinds import (
    CHANNEL,
    QUEUE,
    QUOTA,
    REMOTE_QUEUE,
    ROLE,
    SUBSCRIPTION,
    TOPIC,
    USER,
)
from postroom.cli.definitions.plan import make_plan
from postroom.cli.definitions.present import exported, read_present
from postroom.cli.definitions.wanted import Wanted
from postroom.client import Connection, ConnectionFactory, ManagementClient
from postroom.manager.kernel.destination_checks import POLICIES
from postroom.manager.kernel.options import QUEUE_BOUNDS
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from tests.cli.shell import Shell
from tests.sampling import examples
from tests.server.harness import BrokerThread, make_config
from tests.server.memory_ledger import MemoryLedger

pytestmark = pytest.mark.sockets

ADMINISTRATORS: Final = [RoleConfig(name="administrator", members=["root", "anonymous"])]
ROOT: Final = {"root": hash_password("root", iterations=MIN_ITERATIONS)}

EVERYTHING: Final = """\
[[quota]]
name = "small"
messages_maximum = 10

[[queue]]
name = "TO.THERE"
usage = "transmission"

[[queue]]
name = "orders"
max_consumers = 3
quota = "small"
dead_letter_queue = "orders.dead"

[[queue]]
name = "plain"

[[topic]]
name = "prices.eu"
max_messages = 100

[[subscription]]
name = "mine"
topic = "prices.*"
client = "c/1"
selector = "a > 1 AND b = 'x\\"y'"
redelivery_limit = 4

[[subscription]]
name = "shared"
topic = "prices.eu"
shared = true

[[remote_queue]]
name = "far"
remote_queue = "orders"
remote_queue_manager = "THERE"
transmission_queue = "TO.THERE"

[[channel]]
name = "HERE.TO.THERE"
type = "sender"
connection = "amqp://127.0.0.1:1"
transmission_queue = "TO.THERE"
triggered = false

[[role]]
name = "administrator"
members = ["ann"]

[[role]]
name = "clerks"
members = ["anonymous", "seniors"]
grants = ["inquire on queue manager", "get, put on orders.#"]

[[role]]
name = "seniors"
members = ["ann"]
grants = ["all on prices.#"]
description = "of long standing"

[[user]]
name = "ann"

[[user]]
name = "anonymous"
grants = ["browse on plain"]
locked = true
"""


def config(**changes: Any) -> Any:
    return make_config(users=ROOT, role=[RoleConfig(name="administrator", members=["root"])], **changes)


def shell_of(broker: BrokerThread) -> Shell:
    return Shell(f"amqp://root:root@{broker.address}")


def test_everything_goes_in_and_comes_out_the_same_also_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "definitions.toml"
    file.write_text(EVERYTHING)
    with BrokerThread(config(), folder=tmp_path / "data") as broker:
        shell = shell_of(broker)
        assert shell.run("definitions", "diff", str(file)).exit_code == 5
        dry = shell.ok("definitions", "apply", "--dry-run", str(file))
        assert '+ queue orders: max_consumers 3, quota "small"' in dry and "13 to create" in dry
        assert shell.json("queue", "list") == []
        applied = shell.ok("definitions", "apply", str(file))
        assert 'created user ann: roles ["administrator", "seniors"] (without a password: ' in applied
        assert applied.endswith("13 created\n")
        first = shell.ok("definitions", "export")
        check_same(shell, file)
    with BrokerThread(config(), folder=tmp_path / "data") as broker:
        shell = shell_of(broker)
        check_same(shell, file)
        assert shell.ok("definitions", "export") == first
        again = tomllib.loads(first)
        assert {table: rows for table, rows in again.items() if rows} == tomllib.loads(normal(EVERYTHING))
        assert json.loads(shell.ok("definitions", "export", "--format", "json")) == again
    moved = tmp_path / "moved.json"
    moved.write_text(json.dumps(again))
    with BrokerThread(config(), folder=tmp_path / "other") as broker:
        shell = shell_of(broker)
        assert shell.ok("definitions", "apply", str(moved)).endswith("13 created\n")
        assert shell.ok("definitions", "export") == first


def normal(text: str) -> str:
    """As the broker has it: the rights of a grant, and grants, in order."""
    grants = '["inquire on queue manager", "get, put on orders.#"]'
    return text.replace(grants, '["get, put on orders.#", "inquire on queue manager"]')


def check_same(shell: Shell, file: Path) -> None:
    assert shell.ok("definitions", "diff", str(file)) == "no differences\n"
    assert shell.ok("definitions", "apply", str(file)) == "nothing to do\n"
    assert shell.ok("definitions", "diff", str(file), "--json") == ""


def test_an_export_of_everything_says_every_setting(tmp_path: Path) -> None:
    with BrokerThread(config(), folder=tmp_path / "data") as broker:
        shell = shell_of(broker)
        shell.ok("queue", "create", "orders")
        (orders,) = tomllib.loads(shell.ok("definitions", "export", "--all"))["queue"]
        assert orders["name"] == "orders" and set(QUEUE.keys) <= set(orders)


# Whatever there is.

NAMES: Final = st.text(st.sampled_from("abAB.é☃ -_/'\"\\"), min_size=1, max_size=8).map(
    lambda text: f"n{text}"
)
NUMBERS: Final = {
    key: allowed
    for key, allowed in QUEUE_BOUNDS.items()
    if key not in ("usage", "max_unsettled_per_consumer", "quota_policy")
    and not key.endswith(("_high", "_low"))
}


def of_bounds(bounds: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(bounds.choices) if bounds.choices else st.integers(bounds.least, bounds.most)


FREE: Final = ("respect_ttl", "standby", "lost_link_counts", "undo_counts", "message_logging")
SETTINGS: Final = st.fixed_dictionaries(
    {},
    optional={
        **{
            key: of_bounds(NUMBERS[key])
            for key in ("max_consumers", "max_ttl_ms", "access", "redelivery_limit")
        },
        **{
            key: of_bounds(NUMBERS[key])
            for key in ("group_buckets", "body_retention_s", "delivery_mode_override")
        },
        **{key: st.booleans() for key in FREE},
        "dead_letter_queue": NAMES,
    },
)


def named(rows: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.dictionaries(NAMES, rows, max_size=3).map(
        lambda found: [{"name": name, **row} for name, row in sorted(found.items())]
    )


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Definitions that can be, as they are exported."""
    topics = draw(named(SETTINGS))
    patterns = [*(row["name"] for row in topics), "p.*", "#"]
    subscriptions: dict[tuple[str, str], dict[str, Any]] = {}
    for name in draw(st.lists(NAMES, max_size=3)):
        client = draw(st.sampled_from(["", "c"]))
        row = {"name": name, "topic": draw(st.sampled_from(patterns)), "client": client}
        subscriptions[client, name] = {
            **row,
            "shared": True,
            "selector": draw(st.sampled_from(["", "a = 1"])),
        }
    quotas = draw(named(st.fixed_dictionaries({}, optional={"policy": st.sampled_from(POLICIES)})))
    queues = draw(named(SETTINGS))
    taken = {row["name"] for row in topics}
    members = st.lists(st.sampled_from(["u1", "u2"]), unique=True).map(sorted)
    grants = st.lists(st.sampled_from(["put on a", "get on a.#"]), unique=True)
    return {
        QUOTA.table: quotas,
        QUEUE.table: [row for row in queues if row["name"] not in taken],
        TOPIC.table: topics,
        SUBSCRIPTION.table: list(subscriptions.values()),
        REMOTE_QUEUE.table: draw(st.sampled_from([[], [{"name": "r", "remote_queue_manager": "M"}]])),
        CHANNEL.table: draw(st.sampled_from([[], [{"name": "R", "type": "receiver", "batch_size": 7}]])),
        ROLE.table: [{"name": "r1", "members": draw(members), "grants": draw(grants)}],
        USER.table: [{"name": "u1", "locked": draw(st.booleans())}, {"name": "u2"}],
    }


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with (
        BrokerThread(config(), MemoryLedger()) as running,
        ConnectionFactory(f"amqp://root:root@{running.address}").create_connection() as opened,
    ):
        yield opened


def plan_of(connection: Connection, tree: Tree, prune: bool = False) -> Any:
    text = as_toml(tree)
    source = Source("file", text)
    return make_plan(Wanted(source, check_tree(source, source.tree()), read_present(connection)), prune)


@settings(
    max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trees(), trees())
def test_apply_makes_it_so_and_again_changes_nothing(
    connection: Connection, first: Tree, second: Tree
) -> None:
    """From nothing to one, to another, and back to nothing, with what isn't in the file deleted."""
    with closing(connection.create_management()) as management:
        check_both(connection, management, first, second)


def check_both(connection: Connection, management: ManagementClient, first: Tree, second: Tree) -> None:
    for tree in (first, second):
        plan = plan_of(connection, tree, prune=True)
        results = list(carry_out(management, plan, False, False))
        assert blocked(plan) or all(each.state == DONE for each in results), results
        if not blocked(plan):
            assert plan_of(connection, tree, prune=True).steps == ()
    found = exported(read_present(connection), False, False)
    assert plan_of(connection, found, prune=True).steps == ()
    source = Source("json", as_json(found))
    assert check_tree(source, source.tree()) == found
    nothing: Tree = {table: [] for table in first}
    results = list(carry_out(management, plan_of(connection, nothing, prune=True), False, False))
    assert all(each.state == DONE for each in results), results
    emptied = exported(read_present(connection), False, False)
    assert not any(emptied.values())
    assert all(each.state == DONE for each in carry_out(management, plan_of(connection, found), False, False))
    assert exported(read_present(connection), False, False) == found
    list(carry_out(management, plan_of(connection, nothing, prune=True), False, False))


def blocked(plan: Any) -> bool:
    """A subscription of the same name with another selector can't be changed."""
    return any(step.action == "blocked" for step in plan.steps)
