"""Every operation of the management node: without its right refused, nothing changed, and recorded; with it
carried out. An operation that isn't known here fails the test."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from proton.utils import BlockingConnection

from postroom.amqp.errors import UNAUTHORIZED_ACCESS
from postroom.ledger.reading.acts import read_acts
from postroom.model.entity_types import (
    BRANCH_TYPE,
    BROKER_TYPE,
    CHANNEL_TYPE,
    CONNECTION_TYPE,
    LEASE_TYPE,
    MESSAGE_TYPE,
    QUEUE_TYPE,
    QUOTA_TYPE,
    REMOTE_QUEUE_TYPE,
    ROLE_TYPE,
    SINK_TYPE,
    SPARK_SUBSCRIPTION_TYPE,
    STORE_HOLDER_TYPE,
    SUBSCRIPTION_TYPE,
    TOPIC_TYPE,
    USER_TYPE,
)
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from postroom.server.connection.broker import Broker
from postroom.server.management.authorization import RULES
from tests.server.harness import BrokerThread, make_config
from tests.server.management_peer import Manager

pytestmark = pytest.mark.sockets

FORBIDDEN = 403
OPEN_TO_ALL = {
    (BRANCH_TYPE, "END"),
    (BRANCH_TYPE, "RECOVER"),
}
"""About the session that they are said on; of branches only one's own are told."""
NOT_THERE = {
    *((BRANCH_TYPE, each) for each in ("READ", "PREPARE", "COMMIT", "ROLLBACK", "FORGET")),
    *((SINK_TYPE, each) for each in ("READ", "BEGIN", "SEAL", "ROLLBACK", "COMMIT", "DELETE")),
}
"""For whoever began what they are about: of what isn't there nothing is refused but that."""

BODIES: dict[tuple[str, str], Any] = {
    (CHANNEL_TYPE, "CREATE"): {"channel_type": "receiver"},
    (CHANNEL_TYPE, "RESOLVE"): {"action": "commit"},
    (MESSAGE_TYPE, "MOVE-MESSAGES"): {"to": "elsewhere"},
    (MESSAGE_TYPE, "REPLAY"): {"to": "elsewhere"},
    (QUEUE_TYPE, "CREATE"): {"dead_letter_queue": "elsewhere"},
    (QUEUE_TYPE, "UPDATE"): {"dead_letter_queue": "elsewhere"},
    (REMOTE_QUEUE_TYPE, "CREATE"): {"remote_queue": "q", "remote_queue_manager": "THERE"},
    (REMOTE_QUEUE_TYPE, "UPDATE"): {"remote_queue": "q", "remote_queue_manager": "THERE"},
    (SPARK_SUBSCRIPTION_TYPE, "CREATE"): {"queue": "orders"},
    (SUBSCRIPTION_TYPE, "CREATE"): {"topic": "news", "subscription": "more", "shared": True},
    (USER_TYPE, "GRANT"): {"rights": ["put"], "on": "x"},
    (USER_TYPE, "REVOKE"): {"rights": ["put"], "on": "x"},
    (ROLE_TYPE, "GRANT"): {"rights": ["put"], "on": "x"},
    (ROLE_TYPE, "REVOKE"): {"rights": ["put"], "on": "x"},
}
NAMES = {
    (QUEUE_TYPE, "CREATE"): "new",
    (TOPIC_TYPE, "CREATE"): "new-topic",
    (SUBSCRIPTION_TYPE, "CREATE"): "news::more",
    TOPIC_TYPE: "news",
    SUBSCRIPTION_TYPE: "news::mine",
    BROKER_TYPE: "broker",
    CONNECTION_TYPE: "127.0.0.1:1",
    STORE_HOLDER_TYPE: "1",
    USER_TYPE: "root",
    ROLE_TYPE: "other",
    BRANCH_TYPE: "1:61:62",
    QUOTA_TYPE: "quota",
    CHANNEL_TYPE: "CHANNEL",
    LEASE_TYPE: "lease",
}

ALL_BUT = {
    name: hash_password(name, iterations=MIN_ITERATIONS) for name in ("root", "nobody", "everything-else")
}
OPERATIONS = sorted((type, operation) for type, operations in RULES.items() for operation in operations)


def config() -> Any:
    roles = [
        RoleConfig(name="administrator", members=["root"]),
        RoleConfig(name="other", grants=["get on x"]),
    ]
    return make_config(("orders", "elsewhere"), users=ALL_BUT, role=roles)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix") / "data"


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[BrokerThread]:
    with BrokerThread(config(), folder=folder) as running:
        yield running


def signed_in(broker: BrokerThread, user: str) -> BlockingConnection:
    return BlockingConnection(broker.url, timeout=15, user=user, password=user, allowed_mechs="PLAIN")


@pytest.fixture(scope="module")
def nobody(guarded: BrokerThread) -> Iterator[Manager]:
    with closing(signed_in(guarded, "nobody")) as connection:
        yield Manager(connection)


@pytest.fixture(scope="module")
def root(guarded: BrokerThread) -> Iterator[Manager]:
    with closing(signed_in(guarded, "root")) as connection:
        yield Manager(connection)


def send(manager: Manager, type: str, operation: str) -> Any:
    name = NAMES.get((type, operation)) or NAMES.get(type, "orders")  # type: ignore[call-overload]
    body = BODIES.get((type, operation), {})
    return manager.request(operation, body, type=type, name=name, xid="1:61:62", switch="production")


def shape(broker: Broker) -> object:
    """What operations change."""
    manager, principals = broker.manager, broker.manager.security.principals
    return (
        {name: (queue.definition, queue.statistics.depth) for name, queue in manager.queues.items()},
        {name: topic.definition for name, topic in manager.topics.items()},
        sorted(manager.quotas),
        sorted(manager.names.definitions),
        [each.definition for each in broker.channels.all()],
        principals.all(),
        [lease.name for lease in broker.ledger.leases.all()],
    )


def test_the_table_knows_every_operation(guarded: BrokerThread) -> None:
    there = guarded.call(lambda b: {each.type: set(each.operations) for each in b.management.entity_types})
    assert {type: set(operations) for type, operations in RULES.items()} == there
    assert sum(map(len, RULES.values())) == len(OPERATIONS)


@pytest.mark.parametrize(
    ("type", "operation"), [each for each in OPERATIONS if each not in OPEN_TO_ALL | NOT_THERE]
)
def test_without_the_right_it_is_refused_and_recorded(
    type: str, operation: str, guarded: BrokerThread, nobody: Manager, folder: Path
) -> None:
    before = guarded.call(shape)
    answer = send(nobody, type, operation)
    assert answer.properties["statusCode"] == FORBIDDEN, answer.properties
    assert answer.properties["errorCondition"] == UNAUTHORIZED_ACCESS
    assert "'nobody' has no right" in answer.properties["statusDescription"]
    assert guarded.call(shape) == before
    wanted = {"user": "nobody", "type": type, "operation": operation, "status": FORBIDDEN}
    guarded.wait_until(lambda _: any(wanted.items() <= act.items() for act in read_acts(folder)))


@pytest.mark.parametrize(("type", "operation"), OPERATIONS)
def test_with_the_right_it_is_taken_up(type: str, operation: str, root: Manager) -> None:
    assert send(root, type, operation).properties["statusCode"] != FORBIDDEN


def test_a_query_shows_what_may_be_seen(guarded: BrokerThread, nobody: Manager, root: Manager) -> None:
    everything = root.request("QUERY", {"attributeNames": ["type", "name"]}).body["results"]
    assert [QUEUE_TYPE, "elsewhere"] in everything
    assert [USER_TYPE, "root"] in everything
    assert nobody.request("QUERY", {"attributeNames": ["type", "name"]}).body["results"] == []
