"""Durable subscriptions that no client has made: created by request, found by whom they are for."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from proton.utils import BlockingConnection

from postroom.client import ConnectionFactory, Message, Topic
from postroom.model.entity_types import SUBSCRIPTION_TYPE, TOPIC_TYPE
from tests.server.harness import BrokerThread
from tests.server.management_peer import Manager

pytestmark = pytest.mark.sockets


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with (
        BrokerThread(folder=tmp_path) as running,
        closing(BlockingConnection(running.url, timeout=15)) as connection,
    ):
        yield Manager(connection)


def create(manager: Manager, name: str, **body: Any) -> Any:
    return manager.request("CREATE", body, type=SUBSCRIPTION_TYPE, name=name)


def test_a_client_finds_what_was_made_for_it_also_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(folder=tmp_path) as broker:
        with closing(BlockingConnection(broker.url, timeout=15)) as connection:
            manager = Manager(connection)
            manager.request("CREATE", {"max_messages": 7}, type=TOPIC_TYPE, name="news")
            body = {"topic": "news", "client": "c", "subscription": "mine", "selector": "a = 1"}
            answer = create(manager, "news::c/mine", **body, redelivery_limit=3)
            assert answer.properties["statusCode"] == 201
            wanted = {**body, "durable": True, "shared": False, "max_messages": 7, "redelivery_limit": 3}
            assert wanted.items() <= answer.body.items()
            assert create(manager, "news::c/mine", **body).properties["statusCode"] == 409
        with ConnectionFactory(broker.url).create_connection() as connection:
            producer = connection.create_session().create_producer(Topic("news"))
            producer.send(Message("wanted", properties={"a": 1}))
            producer.send(Message("unwanted", properties={"a": 2}))
    with (
        BrokerThread(folder=tmp_path) as broker,
        ConnectionFactory(f"{broker.url}?jms.clientID=c").create_connection() as connection,
    ):
        consumer = connection.create_session().create_durable_consumer(Topic("news"), "mine", "a = 1")
        message = consumer.receive(20)
        assert message is not None and message.body == "wanted"
        assert consumer.receive_no_wait() is None


@pytest.mark.parametrize(
    ("name", "body", "wanted"),
    [
        ("news::x", {"topic": "news"}, "needs a `topic`, and its name"),
        ("other::x", {"topic": "news", "subscription": "x", "shared": True}, "the name must be 'news::x'"),
        ("news::x", {"topic": "news", "subscription": "x"}, "without a `client` a subscription is `shared`"),
        (
            "news::x",
            {"topic": "news", "subscription": "x", "shared": True, "no_local": True},
            "has no `no_local`",
        ),
        ("news::x", {"topic": "news", "subscription": "x", "shared": 1}, "shared is 1, must be of type bool"),
        (
            "news::x",
            {"topic": "news", "subscription": "x", "shared": True, "selector": "a ="},
            "selector: ",
        ),
        (
            "news::x",
            {"topic": "news", "subscription": "x", "shared": True, "duplicate_window": 5},
            "its topic looks for duplicates",
        ),
        ("news::x", {"topic": "news", "subscription": "x", "shared": True, "quota": "no"}, "no quota 'no'"),
        ("news::x", {"topic": "news", "subscription": "x", "shared": True, "topics": "y"}, "no attribute"),
        ("$a::x", {"topic": "$a", "subscription": "x", "shared": True}, "reserved for the broker"),
        ("a.#.b::x", {"topic": "a.#.b", "subscription": "x", "shared": True}, "stands for all levels"),
    ],
)
def test_what_can_not_be_is_refused_and_makes_nothing(
    manager: Manager, name: str, body: dict[str, Any], wanted: str
) -> None:
    answer = create(manager, name, **body)
    assert (
        answer.properties["statusCode"] in (400, 403, 404)
        and wanted in answer.properties["statusDescription"]
    )
    rows = manager.request("QUERY", {"attributeNames": ["name"]}, entityType=SUBSCRIPTION_TYPE).body[
        "results"
    ]
    assert rows == []


def test_a_pattern_needs_no_topic(manager: Manager) -> None:
    body = {"topic": "news.*", "subscription": "all", "shared": True}
    assert create(manager, "news.*::all", **body).properties["statusCode"] == 201
    assert manager.request("QUERY", {"attributeNames": ["name"]}, entityType=TOPIC_TYPE).body["results"] == []
