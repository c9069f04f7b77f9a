"""What a test asks its broker and tells it, and what is wrong with what it says."""

import socket
import threading
from pathlib import Path

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection

from postroom import testing
from postroom.client import ConnectionFactory, JMSException, TextMessage
from postroom.ledger.reading.reader import LedgerReader
from postroom.server.exits import StartError
from postroom.testing import Broker
from tests.clients.driver import Client, make_ready

pytestmark = pytest.mark.sockets


def test_any_client_connects(postroom_broker: Broker, proton: BlockingConnection) -> None:
    queue = postroom_broker.create_queue("orders")
    proton.create_sender("orders").send(Message(body="of Proton", durable=True))
    with ConnectionFactory(postroom_broker.url).create_connection() as connection:
        session = connection.create_session()
        session.create_producer("orders").send(TextMessage("of our own"))
        assert session.create_consumer("orders").receive_body(str, timeout_s=20) == "of Proton"
    assert (queue.current, queue.pending, queue.received, queue.consumed) == (1, 0, 2, 1)


@pytest.mark.peer
def test_rhea_connects(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    make_ready("rhea")
    with Client("rhea") as rhea:
        rhea("connect", host="127.0.0.1", port=postroom_broker.amqp_port)
        rhea.send_accepted("orders", {"body": {"value": {"string": "of rhea"}}, "durable": True})
        assert [message.body for message in queue.messages] == ["of rhea"]
        assert len(rhea.receive("orders")) == 1
        queue.wait_for(current=0, pending=0, consumed=1)


def test_messages_tell_what_an_assertion_needs(postroom_broker: Broker, proton: BlockingConnection) -> None:
    queue = postroom_broker.create_queue("orders")
    sender = proton.create_sender("orders")
    sender.send(
        Message(
            body={"lines": [1, 2]},
            id="m-1",
            correlation_id="c-1",
            subject="order",
            properties={"customer": "acme"},
            durable=True,
            priority=7,
        )
    )
    sender.send(Message(body=b"bytes", inferred=True))
    sender.send(Message(body=[1, "two"], inferred=True))
    first, second, third = queue.messages
    assert (first.body, first.properties, first.subject) == ({"lines": [1, 2]}, {"customer": "acme"}, "order")
    assert (first.message_id, first.correlation_id, first.priority, first.durable) == ("m-1", "c-1", 7, True)
    assert (first.states, first.delivery_count, first.expires) == (("visible",), 0, None)
    assert (second.body, second.durable, third.body) == (b"bytes", False, [1, "two"])
    receiver = proton.create_receiver("orders")
    receiver.receive()
    assert [message.states for message in queue.messages] == [("visible",), ("visible",), ("receive",)]


def test_many_and_large_messages_are_all_told(postroom_broker: Broker, proton: BlockingConnection) -> None:
    queue = postroom_broker.create_queue("orders")
    with ConnectionFactory(postroom_broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer("orders")
        producer.send_all([str(number) for number in range(1500)])
        producer.send_all([bytes(3 << 20), bytes(3 << 20)])
    bodies = [message.body for message in queue.messages]
    assert bodies == [*map(str, range(1500)), bytes(3 << 20), bytes(3 << 20)]


def test_history_is_what_the_ledger_tells(postroom_broker: Broker, proton: BlockingConnection) -> None:
    postroom_broker.create_queue("orders", dead_letter_queue="dead")
    proton.create_sender("orders").send(Message(body="bad", id="m-1", durable=True))
    proton.create_sender("orders", name="second").send(Message(body="good", id=7, durable=True))
    receiver = proton.create_receiver("orders")
    receiver.receive()
    receiver.reject()
    receiver.receive()
    receiver.accept()
    receiver.close()
    events = [(event.queue, event.event, event.outcome) for event in postroom_broker.history("m-1")]
    assert events[0] == ("orders", "put", "")
    assert ("orders", "dead_letter", "dead_lettered") in events
    assert "dead" in [queue for queue, _, _ in events]
    assert postroom_broker.history(7)[-1].outcome == "consumed"
    assert str(postroom_broker.history(7)[0]).endswith("put: start → available")
    with pytest.raises(testing.UnknownMessage, match="no message with the id 'm-2'"):
        postroom_broker.history("m-2")
    with pytest.raises(ValueError, match="is no message id"):
        postroom_broker.history("ID:AMQP_UUID:nonsense")
    with pytest.raises(TypeError, match="not float"):
        postroom_broker.history(1.5)  # type: ignore[arg-type]


def test_a_history_by_the_id_that_jms_has(postroom_broker: Broker) -> None:
    postroom_broker.create_queue("orders")
    with ConnectionFactory(postroom_broker.url).create_connection() as connection:
        message = TextMessage("one")
        connection.create_session().create_producer("orders").send(message)
    assert message.message_id is not None
    assert [event.event for event in postroom_broker.history(message.message_id)] == ["put"]


def test_the_ledger_can_be_saved(postroom_broker: Broker, proton: BlockingConnection, tmp_path: Path) -> None:
    postroom_broker.create_queue("orders")
    proton.create_sender("orders").send(Message(body="one", durable=True))
    postroom_broker.save_ledger(tmp_path / "data")
    arrivals = [chunk.arrivals for _, _, chunk in LedgerReader(tmp_path / "data", True).chunks()]
    assert sum(map(len, arrivals)) == 1
    with pytest.raises(ValueError, match="is not empty"):
        postroom_broker.save_ledger(tmp_path / "data")


def test_an_unknown_queue_is_named_with_those_that_are_like_it(postroom_broker: Broker) -> None:
    postroom_broker.create_queue("orders")
    postroom_broker.create_queue("invoices")
    with pytest.raises(KeyError) as caught:
        postroom_broker.queue("order")
    assert str(caught.value) == "the broker has no queue 'order'; did you mean 'orders'?"
    with pytest.raises(testing.UnknownQueue, match="there is 'invoices' and 'orders'"):
        postroom_broker.queue("xyz")
    assert postroom_broker.queues == ["invoices", "orders", "postroom.dead"]


def test_wait_for_waits_for_what_another_thread_does(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")

    def work() -> None:
        with ConnectionFactory(postroom_broker.url).create_connection() as connection:
            session = connection.create_session()
            session.create_producer("orders").send(TextMessage("one"))
            session.create_consumer("orders").receive(timeout_s=20)

    worker = threading.Thread(target=work)
    worker.start()
    queue.wait_for(timeout_s=20, consumed=1, current=0, messages_pending=0)
    worker.join()
    with pytest.raises(AssertionError, match=r"queue 'orders' after 0.01 s: messages_current is 0, not 3"):
        queue.wait_for(timeout_s=0.01, current=3, consumed=1)
    with pytest.raises(ValueError, match=r"no counter 'consumd'; did you mean 'consumed'"):
        queue.wait_for(consumd=1)
    with pytest.raises(ValueError, match="say which counters"):
        queue.wait_for()
    with pytest.raises(ValueError, match="timeout_s is -1"):
        queue.wait_for(timeout_s=-1, current=0)


def test_users_must_log_in(postroom_broker_factory: type[Broker]) -> None:
    broker = postroom_broker_factory(users={"alice": "secret"})
    address = broker.url.removeprefix("amqp://")
    connection = BlockingConnection(f"amqp://alice:secret@{address}", timeout=20, allowed_mechs="PLAIN")
    connection.close()
    for wrong in (f"amqp://alice:wrong@{address}", f"amqp://bob:secret@{address}"):
        with pytest.raises(ConnectionException):
            BlockingConnection(wrong, timeout=20, allowed_mechs="PLAIN")
    with pytest.raises(JMSException):
        ConnectionFactory(broker.url).create_connection()


def test_a_port_of_ones_own(postroom_broker_factory: type[Broker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"can't listen on 127.0.0.1:{port}"):
            postroom_broker_factory(port=port)
    assert postroom_broker_factory(port=port).url == f"amqp://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"config": {"queu": []}}, "unknown field `queu`"),
        ({"config": {"limits": {"max_links": 0}}}, r"\$\.limits\.max_links"),
        ({"config": {"limits": 3}}, r"\$\.limits"),
        ({"config": {"data": "/tmp"}}, "data can't be set .* in memory"),
        ({"config": {"queue": [{"name": "q", "max_messages": -2}]}}, r"\$\.queue\[0\]\.max_messages"),
        ({"users": {"alice": 3}}, "password of 'alice' is no str"),
        ({"port": 70_000}, "port is 70000"),
        ({"port": "5672"}, "port is '5672'"),
        ({"clock": "broken"}, "clock is 'broken'"),
    ],
)
def test_what_cannot_be_configured_is_told(
    postroom_broker_factory: type[Broker], arguments: dict[str, object], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        postroom_broker_factory(**arguments)  # type: ignore[arg-type]


def test_the_configuration_is_that_of_the_file(postroom_broker_factory: type[Broker]) -> None:
    broker = postroom_broker_factory(
        config={
            "container_id": "QM1",
            "auto_create": {"enabled": False},
            "queue": [{"name": "orders", "redelivery_limit": 3}],
        }
    )
    assert broker.queues == ["orders", "postroom.dead"]
    broker.restart()
    assert broker.queues == ["orders", "postroom.dead"]


def test_a_queue_is_created_with_its_settings_or_refused(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders", max_messages=3)
    assert (queue.name, repr(queue)) == ("orders", "<queue 'orders'>")
    postroom_broker.create_queue("orders", max_messages=3)
    with pytest.raises(testing.NotAllowed, match="orders"):
        postroom_broker.create_queue("orders", max_messages=4)
    with pytest.raises(testing.ConfigInvalid, match="unknown field `max_mesages`"):
        postroom_broker.create_queue("others", max_mesages=3)
    with pytest.raises(testing.ConfigInvalid, match="reserved"):
        postroom_broker.create_queue("$others")


def test_brokers_do_not_know_of_each_other(postroom_broker_factory: type[Broker]) -> None:
    one, other = postroom_broker_factory(), postroom_broker_factory()
    one.create_queue("orders")
    one.advance(days=1)
    assert (one.queues, other.queues) == (["orders", "postroom.dead"], ["postroom.dead"])
    assert (one.now - other.now).days >= 0
    assert one.url != other.url


def test_a_closed_broker_says_so() -> None:
    with Broker() as broker:
        queue = broker.create_queue("orders")
        assert broker.describe() == "orders: 0 current, 0 pending\npostroom.dead: 0 current, 0 pending"
    broker.close()
    for question in (lambda: queue.current, broker.crash, broker.restart, lambda: broker.queue("orders")):
        with pytest.raises(testing.BrokerFailed, match="the broker is closed"):
            question()
    assert broker.describe() == "the broker is closed"
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", broker.amqp_port), timeout=20):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "postroom-testing"]


def test_a_broker_that_fails_says_why(postroom_broker: Broker) -> None:
    postroom_broker.create_queue("orders")
    postroom_broker._disk.cut_power()
    with pytest.raises(testing.BrokerFailed, match="power of the disk in memory is cut"):
        postroom_broker.create_queue("others")
    assert "power of the disk" in postroom_broker.describe()


def test_the_package_names_what_it_has() -> None:
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Brokr'"):
        testing.Brokr  # type: ignore[attr-defined]  # noqa: B018


def test_a_configuration_that_only_the_start_refuses_leaves_nothing_behind(
    postroom_broker_factory: type[Broker],
) -> None:
    before = threading.active_count()
    with pytest.raises(StartError, match="'orders'"):
        postroom_broker_factory(config={"queue": [{"name": "orders"}], "topic": [{"name": "orders"}]})
    assert threading.active_count() == before
