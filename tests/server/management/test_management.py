"""The management node over the wire: every operation, and every request that is refused."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection

from postroom.manager.destinations.tables import destinations_of
from postroom.manager.queues.queue import Queue
from postroom.server.configuration.config import AutoCreateConfig, LedgerConfig
from postroom.server.management.entities.queues import Queues
from postroom.server.management.request import Attributes
from tests.server.harness import BrokerThread, make_config
from tests.server.management_peer import QUEUE, Manager

pytestmark = pytest.mark.sockets

LEASE = "postroom.lease"


def test_a_queue_from_birth_to_end(manager: Manager, queue: str) -> None:
    created = manager.request("CREATE", {"max_messages": 5}, type=QUEUE, name=queue)
    assert created.properties["statusCode"] == 201
    assert created.body["max_messages"] == 5
    sender = manager.connection.create_sender(queue)
    sender.send(Message(body="x", durable=True))
    read = manager.request("READ", type=QUEUE, name=queue).body
    assert (read["messages_current"], read["messages_pending"], read["messages_received"]) == (1, 0, 1)
    updated = manager.request("UPDATE", {"redelivery_limit": 3}, type=QUEUE, name=queue).body
    assert (updated["redelivery_limit"], updated["max_messages"]) == (3, 5)
    assert manager.request("PURGE", type=QUEUE, name=queue).body == {"purged": 1}
    sender.close()
    assert manager.status("DELETE", type=QUEUE, name=queue) == 204
    assert manager.status("READ", type=QUEUE, name=queue) == 404


def test_query_names_its_columns(manager: Manager, queue: str) -> None:
    for number in range(3):
        manager.request("CREATE", type=QUEUE, name=f"{queue}-{number}")
    wanted = {"attributeNames": ["name", "max_messages", "nonsense"]}
    reply = manager.request("QUERY", wanted, entityType=QUEUE)
    assert reply.body["attributeNames"] == ["name", "max_messages", "nonsense"]
    assert [f"{queue}-0", -1, None] in reply.body["results"]
    assert reply.properties["count"] == len(reply.body["results"])
    page = manager.request("QUERY", wanted, entityType=QUEUE, offset=1, count=1)
    assert page.body["results"] == reply.body["results"][1:2]


def test_a_query_about_everything_turns_pages_over_all_types(manager: Manager, queue: str) -> None:
    manager.request("CREATE", type=QUEUE, name=queue)
    wanted = {"attributeNames": ["type", "name"]}
    everything = manager.request("QUERY", wanted).body["results"]
    assert ["postroom.broker", "broker"] in everything
    single = [manager.request("QUERY", wanted, offset=at, count=1) for at in range(len(everything) + 1)]
    assert [row for reply in single for row in reply.body["results"]] == everything
    assert single[-1].properties["count"] == 0
    assert manager.request("QUERY", wanted, count=0).body["results"] == []


def test_a_page_builds_no_more_rows_than_it_has(
    broker: BrokerThread, manager: Manager, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many queues there are: a row that isn't asked for is never built."""
    for number in range(3):
        manager.request("CREATE", type=QUEUE, name=f"{queue}-{number}")
    built: list[str] = []

    def shown(queues: Queues, of: Queue) -> Attributes:
        built.append(of.name)
        return {"name": of.name}

    monkeypatch.setattr(Queues, "shown", shown)
    at = broker.call(lambda b: list(b.manager.queues).index(f"{queue}-1"))
    page = manager.request("QUERY", {"attributeNames": ["name"]}, entityType=QUEUE, offset=at, count=1)
    assert page.body["results"] == [[f"{queue}-1"]]
    assert built == [f"{queue}-1"]


def test_connections_and_the_broker(broker: BrokerThread, manager: Manager) -> None:
    reply = manager.request("QUERY", entityType="postroom.connection")
    names = dict(zip(reply.body["attributeNames"], reply.body["results"][0], strict=True))
    assert names["container_id"] == manager.connection.conn.container
    assert manager.status("READ", type="postroom.connection", name=names["name"]) == 200
    described = manager.request("READ", type="postroom.broker", name="broker").body
    assert described["connections"] >= 1
    assert described["durable_through"] > 0


def test_what_it_can_do(manager: Manager) -> None:
    types = {QUEUE, "postroom.quota", "postroom.connection", "postroom.broker", LEASE}
    assert set(manager.request("GET-TYPES").body) >= types
    assert "PURGE" in manager.request("GET-OPERATIONS", entityType=QUEUE).body[QUEUE]
    assert "container_id" in manager.request("GET-ATTRIBUTES").body["postroom.connection"]
    assert manager.status("GET-MGMT-NODES") == 200


BAD_REQUESTS: dict[str, tuple[str, object, dict[str, object], int]] = {
    "no type": ("CREATE", {}, {"name": "q"}, 501),
    "an unknown type": ("CREATE", {}, {"type": "postroom.nothing", "name": "q"}, 501),
    "an unknown operation": ("EXPLODE", {}, {"type": QUEUE, "name": "q"}, 501),
    "an operation of another type": ("PURGE", {}, {"type": "postroom.broker"}, 501),
    "no operation": ("", {}, {"type": QUEUE}, 400),
    "no name": ("CREATE", {}, {"type": QUEUE}, 400),
    "no name to read": ("READ", {}, {"type": QUEUE}, 400),
    "a name too long": ("CREATE", {}, {"type": QUEUE, "name": "x" * 300}, 400),
    "a name with a line break": ("CREATE", {}, {"type": QUEUE, "name": "a\nb"}, 400),
    "a reserved name": ("CREATE", {}, {"type": QUEUE, "name": "$x"}, 403),
    "an unknown attribute": ("CREATE", {"colour": "red"}, {"type": QUEUE, "name": "q"}, 400),
    "an attribute of the wrong type": ("CREATE", {"max_messages": "5"}, {"type": QUEUE, "name": "q"}, 400),
    "a boolean for a number": ("CREATE", {"max_messages": True}, {"type": QUEUE, "name": "q"}, 400),
    "an attribute out of bounds": ("CREATE", {"max_messages": -9}, {"type": QUEUE, "name": "q"}, 400),
    "an access that is none": ("CREATE", {"access": "open"}, {"type": QUEUE, "name": "q"}, 400),
    "a body that is no map": ("CREATE", ["max_messages"], {"type": QUEUE, "name": "q"}, 400),
    "a queue that isn't there": ("DELETE", {}, {"type": QUEUE, "name": "no-such"}, 404),
    "a connection that isn't there": ("READ", {}, {"type": "postroom.connection", "name": "no-such"}, 404),
    "an entity type that is none": ("QUERY", {}, {"entityType": "postroom.nothing"}, 400),
    "attribute names that are no list": ("QUERY", {"attributeNames": 3}, {"entityType": QUEUE}, 400),
    "an offset below 0": ("QUERY", {}, {"offset": -1}, 400),
    "a count that is no number": ("QUERY", {}, {"count": "all"}, 400),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_gets_its_status(manager: Manager, case: str) -> None:
    operation, body, properties, status = BAD_REQUESTS[case]
    reply = manager.request(operation, body, **properties)
    assert reply.properties["statusCode"] == status
    assert reply.properties["statusDescription"]
    assert reply.properties["errorCondition"].startswith("amqp:")


def test_what_exists_is_not_created_again(manager: Manager, queue: str) -> None:
    assert manager.status("CREATE", type=QUEUE, name=queue) == 201
    assert manager.status("CREATE", type=QUEUE, name=queue) == 409


def test_conditions_of_delete(manager: Manager, queue: str) -> None:
    sender = manager.connection.create_sender(queue)
    sender.send(Message(body="x", durable=True))
    sender.close()
    consumer = manager.connection.create_receiver(queue, credit=0)
    assert manager.status("DELETE", type=QUEUE, name=queue, if_empty=True) == 409
    assert manager.status("DELETE", type=QUEUE, name=queue, if_unused=True) == 409
    consumer.close()
    assert manager.status("DELETE", type=QUEUE, name=queue, if_unused=True) == 204


def test_a_reply_may_go_to_a_queue(manager: Manager, queue: str) -> None:
    replies = manager.connection.create_receiver(queue)
    request = Message(id="m-2", reply_to=queue, properties={"operation": "GET-TYPES"})
    manager.requests.send(request)
    assert replies.receive(timeout=15).correlation_id == "m-2"
    replies.accept()


def test_a_reply_to_that_leads_nowhere_harms_nobody(manager: Manager) -> None:
    manager.requests.send(Message(reply_to="no-such-queue", properties={"operation": "GET-TYPES"}))
    assert manager.status("GET-TYPES") == 200


def test_a_request_too_large_is_rejected(manager: Manager) -> None:
    delivery = manager.requests.link.send(Message(body=bytes(2 << 20)))
    manager.connection.wait(lambda: delivery.settled, timeout=15)
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:link:message-size-exceeded"
    assert manager.status("GET-TYPES") == 200


@pytest.fixture
def narrow() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(auto_create=AutoCreateConfig(max_queues=2))) as running:
        yield running


def test_auto_created_queues_are_limited(narrow: BrokerThread) -> None:
    connection = BlockingConnection(narrow.url, timeout=15)
    connection.create_sender("one")
    connection.create_sender("two")
    with pytest.raises(Exception, match="amqp:resource-limit-exceeded"):
        connection.create_sender("three")
    connection.create_sender("two", name="another link")
    connection.close()


def test_a_lease_from_grant_to_release(broker: BrokerThread, manager: Manager) -> None:
    granted = manager.request("CREATE", {"owner": "audit", "duration_s": 60}, type=LEASE, name="reader")
    assert granted.properties["statusCode"] == 201
    lease = granted.body
    assert (lease["name"], lease["owner"], lease["state"], lease["bodies"]) == (
        "reader",
        "audit",
        "in force",
        False,
    )
    assert lease["expires_us"] == lease["granted_us"] + 60_000_000
    assert manager.request("READ", type="postroom.broker", name="broker").body["leases"] == 1
    ahead = manager.request("READ", type="postroom.broker", name="broker").body["next_position"]
    renewed = manager.request("UPDATE", {"position": ahead}, type=LEASE, name="reader").body
    assert renewed["position"] == ahead
    assert renewed["expires_us"] >= lease["expires_us"]
    listed = manager.request("QUERY", {"attributeNames": ["name", "position"]}, entityType=LEASE).body
    assert listed["results"] == [["reader", ahead]]
    assert manager.status("DELETE", type=LEASE, name="reader") == 204
    assert manager.status("READ", type=LEASE, name="reader") == 404


def test_a_lease_that_names_queues_has_their_bodies_stored_until_it_ends(
    broker: BrokerThread, manager: Manager
) -> None:
    granted = manager.request("CREATE", {"queues": ["two", "one"]}, type=LEASE, name="tap").body
    assert (granted["bodies"], granted["queues"]) == (True, ["one", "two"])
    assert broker.call(lambda b: destinations_of(b.manager.core).leased_names) == {"one", "two"}
    assert manager.status("DELETE", type=LEASE, name="tap") == 204
    assert broker.call(lambda b: destinations_of(b.manager.core).leased_names) == frozenset()


BAD_LEASES: dict[str, tuple[str, object, str, int]] = {
    "no name": ("CREATE", {}, "", 400),
    "in force already": ("CREATE", {}, "held", 409),
    "too long a time": ("CREATE", {"duration_s": 1 << 40}, "new", 400),
    "no time": ("CREATE", {"duration_s": 0}, "new", 400),
    "too many bytes": ("CREATE", {"max_bytes": 1 << 60}, "new", 400),
    "a position that isn't there yet": ("CREATE", {"position": 1 << 50}, "new", 400),
    "a position of the wrong type": ("CREATE", {"position": "first"}, "new", 400),
    "a boolean for a position": ("CREATE", {"position": True}, "new", 400),
    "queues that are no names": ("CREATE", {"queues": [1]}, "new", 400),
    "a queue without a name": ("CREATE", {"queues": [""]}, "new", 400),
    "queues of the wrong type": ("CREATE", {"queues": "orders"}, "new", 400),
    "an attribute that it hasn't": ("CREATE", {"colour": "red"}, "new", 400),
    "another owner": ("UPDATE", {"owner": "eve"}, "held", 400),
    "backwards": ("UPDATE", {"position": 0}, "held", 400),
    "not there, renewed": ("UPDATE", {}, "new", 404),
    "not there, released": ("DELETE", {}, "new", 404),
    "an operation that it hasn't": ("PURGE", {}, "held", 501),
}


@pytest.fixture
def held_lease(manager: Manager) -> Iterator[None]:
    manager.request("CREATE", type=LEASE, name="held")
    yield
    manager.request("DELETE", type=LEASE, name="held")


@pytest.mark.parametrize("case", BAD_LEASES)
def test_a_bad_lease_gets_its_status(manager: Manager, held_lease: None, case: str) -> None:
    operation, body, name, status = BAD_LEASES[case]
    reply = manager.request(operation, body, type=LEASE, name=name)
    assert reply.properties["statusCode"] == status
    assert reply.properties["errorCondition"].startswith("amqp:")
    assert manager.status("READ", type=LEASE, name="new") == 404


def test_the_number_of_leases_is_limited() -> None:
    with BrokerThread(make_config(ledger=LedgerConfig(max_leases=1))) as running:
        manager = Manager(BlockingConnection(running.url, timeout=15))
        assert manager.status("CREATE", type=LEASE, name="one") == 201
        assert manager.status("CREATE", type=LEASE, name="two") == 429
        manager.connection.close()


def test_a_lease_lasts_over_a_restart_and_breaks_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody asks the broker anything, and still the alarm comes when its time is over."""
    with BrokerThread(folder=tmp_path) as running:
        manager = Manager(BlockingConnection(running.url, timeout=15))
        short = {"duration_s": 2, "owner": "audit", "queues": ["orders"]}
        manager.request("CREATE", short, type=LEASE, name="short")
        manager.request("CREATE", {"duration_s": 1000}, type=LEASE, name="long")
        manager.connection.close()
    with BrokerThread(folder=tmp_path) as running, caplog.at_level(logging.ERROR):
        assert running.call(lambda b: b.ledger.leases.queues) <= {"orders"}
        running.wait_until(lambda b: not b.ledger.leases.get("short").in_force)
        running.wait_until(lambda b: not destinations_of(b.manager.core).leased_names)
        assert running.call(lambda b: b.ledger.leases.get("long").in_force)
        running.wait_until(lambda b: not b.ledger.leases.waits)
    assert "lease-broken" in caplog.text
    with BrokerThread(folder=tmp_path) as running:
        manager = Manager(BlockingConnection(running.url, timeout=15))
        broken = manager.request("READ", type=LEASE, name="short").body
        assert (broken["state"], broken["reason"]) == ("broken", "time")
        assert broken["broken_us"] >= broken["expires_us"]
        assert manager.request("READ", type="postroom.broker", name="broker").body["leases_broken"] == 1
        manager.connection.close()
