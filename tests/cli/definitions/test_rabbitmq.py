"""RabbitMQ's definitions: what is taken, and a line for what isn't."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.cli.definitions.bindings import _matches
from postroom.cli.definitions.file_format import DefinitionsError, Source, as_json, check_tree
from postroom.cli.definitions.rabbitmq import from_rabbitmq, is_rabbitmq
from postroom.client import ConnectionFactory, Message, Topic
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

OF_RABBITMQ: Final[dict[str, Any]] = {
    "rabbit_version": "4.1.4",
    "rabbitmq_version": "4.1.4",
    "product_name": "RabbitMQ",
    "users": [
        {
            "name": "shop",
            "password_hash": "2xB5",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management"],
        }
    ],
    "vhosts": [{"name": "/"}],
    "permissions": [{"user": "shop", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [],
    "parameters": [{"component": "shovel", "name": "there", "vhost": "/", "value": {}}],
    "global_parameters": [{"name": "internal_cluster_id", "value": "x"}],
    "policies": [
        {
            "vhost": "/",
            "name": "limits",
            "pattern": "^orders",
            "apply-to": "quorum_queues",
            "definition": {"max-length": 500, "message-ttl": 60_000, "dead-letter-exchange": "dlx"},
            "priority": 1,
        },
        {"vhost": "/", "name": "all", "pattern": "", "apply-to": "all", "definition": {"expires": 9}},
        {"vhost": "/", "name": "broken", "pattern": "(", "apply-to": "all", "definition": {}},
    ],
    "queues": [
        {
            "name": "orders",
            "vhost": "/",
            "durable": True,
            "auto_delete": False,
            "arguments": {
                "x-queue-type": "quorum",
                "x-max-length": 1000,
                "x-delivery-limit": 5,
                "x-overflow": "reject-publish",
                "x-single-active-consumer": True,
                "x-max-priority": 200,
                "x-quorum-initial-group-size": 3,
            },
        },
        {"name": "orders.dead", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
        {
            "name": "short",
            "vhost": "/",
            "durable": False,
            "auto_delete": True,
            "arguments": {
                "x-max-length-bytes": 10_000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders.dead",
            },
        },
        {"name": "log", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "stream"}},
        {"name": "elsewhere", "vhost": "other", "durable": True, "arguments": {}},
    ],
    "exchanges": [
        {"name": "dlx", "vhost": "/", "type": "fanout", "durable": True, "arguments": {}},
        {"name": "prices", "vhost": "/", "type": "topic", "durable": True, "arguments": {}},
        {"name": "heads", "vhost": "/", "type": "headers", "durable": True, "arguments": {}},
    ],
    "bindings": [
        {"source": "dlx", "destination": "orders.dead", "destination_type": "queue", "routing_key": "x"},
        {"source": "prices", "destination": "short", "destination_type": "queue", "routing_key": "*.gold"},
        {"source": "prices", "destination": "orders", "destination_type": "queue", "routing_key": "#.x"},
        {"source": "prices", "destination": "dlx", "destination_type": "exchange", "routing_key": ""},
        {"source": "heads", "destination": "short", "destination_type": "queue", "routing_key": ""},
    ],
}

SHORT: Final = {
    "max_bytes": 10_000,
    "persistent": False,
    "allow_persistent_downgrade": True,
    "dead_letter_queue": "orders.dead",
}


def test_what_has_a_meaning_here_is_taken() -> None:
    found, _ = from_rabbitmq(OF_RABBITMQ, "/")
    assert found["queue"] == [
        {
            "name": "orders",
            "max_ttl_ms": 60_000,
            "max_messages": 500,
            "redelivery_limit": 5,
            "access": "exclusive",
            "dead_letter_queue": "orders.dead",
        },
        {"name": "orders.dead"},
        {"name": "short", **SHORT},
    ]
    assert found["topic"] == [{"name": "dlx"}]
    assert found["subscription"] == [
        {"name": "orders.dead", "topic": "dlx", "shared": True},
        {"name": "short", "topic": "prices.*.gold", "shared": True, **SHORT},
    ]
    assert found["user"] == [{"name": "shop"}]


@pytest.mark.parametrize(
    "wanted",
    [
        "queue orders: max-priority 200: every queue has priorities 0 to 9",
        "queue orders: quorum-initial-group-size 3: the whole broker is replicated",
        "queue short: durable false: its messages are not stored",
        "queue short: auto_delete: queues that somebody has defined stay",
        "queue short: overflow drop-head: a full queue drops nothing",
        "queue short: expires 9: queues that somebody has defined stay",
        "queue log: type stream: only queues are taken",
        "virtual host other: names would meet",
        "policy broken: its pattern can't be read",
        "exchange heads: of type headers: use subscriptions with selectors",
        "binding of dlx to prices (no key): exchanges aren't bound to exchanges here",
        "binding of orders to prices (#.x): # in #.x isn't the last level",
        "binding of short to heads (no key): no fanout, topic or direct exchange is called heads",
        "binding of short to prices: copies; consumers receive from prices.*.gold::short, not short",
        "user shop: password: hashes of RabbitMQ prove nothing here; `postroom user password shop`",
        "user shop: tag management: give it a role instead",
        "permission shop: grant rights with `postroom grant`",
        "parameter shovel there: shovels and federation are channels here",
        "global parameter internal_cluster_id: is RabbitMQ's own",
    ],
)
def test_what_has_none_is_told(wanted: str) -> None:
    _, remarks = from_rabbitmq(OF_RABBITMQ, "/")
    assert any(each.startswith(wanted) for each in remarks), remarks


def test_all_that_was_not_taken_is_told_once() -> None:
    _, remarks = from_rabbitmq(OF_RABBITMQ, "/")
    assert len(remarks) == len(set(remarks)) == 21, remarks


def test_another_virtual_host() -> None:
    found, remarks = from_rabbitmq(OF_RABBITMQ, "other")
    assert found["queue"] == [{"name": "elsewhere"}]
    assert any(each.startswith("virtual host /: ") for each in remarks)


@pytest.mark.parametrize(
    ("argument", "policy", "record"),
    [(5, 7, 5), (7, 5, 5), (-1, 5, 5), (5, -1, 5), (None, 5, 5), (5, None, 5)],
)
def test_of_argument_and_policy_the_smaller_number_counts(
    argument: int | None, policy: int | None, record: int
) -> None:
    arguments = {} if argument is None else {"x-delivery-limit": argument}
    definition = {} if policy is None else {"delivery-limit": policy}
    tree = {
        "queues": [{"name": "q", "arguments": arguments}],
        "policies": [{"name": "p", "pattern": "q", "definition": definition}],
    }
    assert from_rabbitmq(tree, "/")[0]["queue"] == [{"name": "q", "redelivery_limit": record}]


@pytest.mark.parametrize(
    ("kind", "bound", "key", "wanted"),
    [
        ("direct", ["k"], "k", "to0"),
        ("direct", ["k"], "other", ""),
        ("direct", ["k"], None, ""),
        ("direct", ["k", "k"], "k", ""),
        ("topic", ["a.#", "b"], "a.c.d", "to0"),
        ("topic", ["#"], None, "to0"),
        ("fanout", ["", ""], None, ""),
    ],
)
def test_dead_letters_go_where_one_queue_is(
    kind: str, bound: list[str], key: str | None, wanted: str
) -> None:
    arguments = {"x-dead-letter-exchange": "x", **({"x-dead-letter-routing-key": key} if key else {})}
    bindings = [
        {"source": "x", "destination": f"to{number}", "destination_type": "queue", "routing_key": each}
        for number, each in enumerate(bound)
    ]
    tree = {
        "queues": [{"name": "q", "arguments": arguments}],
        "exchanges": [{"name": "x", "type": kind}],
        "bindings": bindings,
    }
    found, remarks = from_rabbitmq(tree, "/")
    assert found["queue"][0].get("dead_letter_queue", "") == wanted
    assert any("name a dead_letter_queue" in each for each in remarks) == (not wanted)


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.#", "a", True),
        ("#.b", "a.c.b", True),
        ("#.b", "b.c", False),
        ("a.#.b.*", "a.x.y.b.c", True),
        ("a.#.b.*", "a.b", False),
    ],
)
def test_keys_match_as_at_rabbitmq(pattern: str, key: str, matches: bool) -> None:
    assert _matches(pattern.split("."), key.split(".")) is matches


def test_it_is_applied_and_messages_go_where_they_went(
    broker: BrokerThread, shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "rabbitmq.json"
    file.write_text(json.dumps({**OF_RABBITMQ, "users": []}))
    done = shell.run("definitions", "apply", str(file))
    assert done.exit_code == 0, done.stderr
    assert "not taken: queue log: type stream" in done.stderr
    assert shell.ok("definitions", "diff", str(file)).startswith("no differences")
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        session.create_producer(Topic("prices.eu.gold")).send(Message("dear"))
        message = session.create_consumer("prices.*.gold::short").receive(20)
        assert message is not None and message.body == "dear"
    made = tmp_path / "made.toml"
    made.write_text(shell.ok("definitions", "convert", str(file)))
    assert shell.ok("definitions", "diff", str(made)).startswith("no differences")


VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ROWS: Final = st.lists(
    st.dictionaries(
        st.sampled_from(
            [
                *("name", "vhost", "type", "arguments", "durable", "source", "destination", "routing_key"),
                *("destination_type", "pattern", "definition", "apply-to", "priority", "auto_delete", "tags"),
            ]
        ),
        VALUES,
        max_size=5,
    ),
    max_size=3,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["queues", "exchanges", "bindings", "policies", "users", "parameters", "permissions"]
        ),
        ROWS | VALUES,
        min_size=1,
    )
)
def test_whatever_the_file_holds_is_read_or_refused(tree: dict[str, Any]) -> None:
    try:
        found, _ = from_rabbitmq(tree, "/")
        check_tree(source := Source("f", as_json(found)), source.tree())
    except DefinitionsError as error:
        assert error.message
    assert not is_rabbitmq({"queue": []}) and not is_rabbitmq([])
