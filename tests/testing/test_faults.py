"""Crashes, cuts and a full disk: what was acknowledged is there afterwards."""

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection, SendException

from postroom import testing
from postroom.client import ConnectionFactory, TextMessage
from postroom.testing import Broker

pytestmark = pytest.mark.sockets


def connect(broker: Broker, name: str | None = None) -> BlockingConnection:
    return BlockingConnection(broker.url, timeout=20, **({"container_id": name} if name else {}))


def test_a_crash_keeps_what_was_acknowledged_and_loses_what_was_not_persistent(
    postroom_broker: Broker,
) -> None:
    queue = postroom_broker.create_queue("orders", redelivery_limit=5)
    sender = connect(postroom_broker).create_sender("orders")
    for number in range(3):
        sender.send(Message(body=number, id=f"m-{number}", durable=True))
    sender.send(Message(body="volatile", id="volatile"))
    consumer = connect(postroom_broker).create_receiver("orders", credit=2)
    assert consumer.receive().body == 0
    before, port = postroom_broker.now, postroom_broker.amqp_port
    postroom_broker.crash()
    assert (postroom_broker.now, postroom_broker.amqp_port) == (before, port)
    assert [message.body for message in queue.messages] == [0, 1, 2]
    assert postroom_broker.history("volatile")[-1].outcome == "lost"
    again = connect(postroom_broker)
    receiver = again.create_receiver("orders", credit=3)
    assert [receiver.receive().body for _ in range(3)] == [0, 1, 2]
    for _ in range(3):
        receiver.accept()
    again.close()
    postroom_broker.crash()
    assert queue.depth == 0


def test_a_crash_forgets_what_was_being_sent(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    with ConnectionFactory(postroom_broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer("orders")
        producer.send(TextMessage("whole"))
    for _ in range(5):
        postroom_broker.crash()
    assert [message.body for message in queue.messages] == ["whole"]
    assert [event.event for event in postroom_broker.history(queue.messages[0].message_id or "")] == ["put"]


def test_our_client_comes_back_after_a_crash(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    factory = ConnectionFactory(f"failover:({postroom_broker.url})")
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer("orders")
        producer.send(TextMessage("before"))
        postroom_broker.crash()
        producer.send(TextMessage("after"))
    assert [message.body for message in queue.messages] == ["before", "after"]


def test_a_restart_gives_back_what_was_held(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    connection = connect(postroom_broker)
    connection.create_sender("orders").send(Message(body="one", durable=True))
    connection.create_receiver("orders").receive()
    assert (queue.current, queue.pending) == (0, 1)
    postroom_broker.restart()
    assert (queue.current, queue.pending, postroom_broker.connections) == (1, 0, [])
    connect(postroom_broker).close()


def test_a_cut_connection_gives_back_what_it_held(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    worker, other = connect(postroom_broker, "worker"), connect(postroom_broker, "other")
    other.create_sender("orders").send(Message(body="one", durable=True))
    worker.create_receiver("orders").receive()
    assert (queue.pending, postroom_broker.connections) == (1, ["other", "worker"])
    with pytest.raises(testing.UnknownConnection, match="did you mean 'worker'"):
        postroom_broker.cut("workr")
    assert postroom_broker.cut("worker") == 1
    assert (queue.current, queue.pending, postroom_broker.connections) == (1, 0, ["other"])
    assert other.create_receiver("orders").receive().body == "one"
    assert postroom_broker.cut() == 1
    assert (queue.current, postroom_broker.connections, postroom_broker.cut()) == (1, [], 0)


def send(connection: BlockingConnection, name: str) -> Delivery:
    sender = connection.create_sender("orders", name=name)
    delivery = sender.link.send(Message(body=name, durable=True))
    connection.wait(lambda: delivery.settled or delivery.remote_state)
    return delivery


def test_a_full_disk_refuses_what_is_sent_until_there_is_room(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    connection = connect(postroom_broker)
    assert send(connection, "before").remote_state == Delivery.ACCEPTED
    with postroom_broker.full():
        refused = send(connection, "within")
        assert refused.remote_state == Delivery.REJECTED
        assert refused.remote.condition.name == "amqp:resource-limit-exceeded"
        receiver = connection.create_receiver("orders")
        assert receiver.receive().body == "before"
        receiver.accept()
        receiver.close()
        assert (queue.depth, queue.consumed) == (0, 1)
    assert send(connection, "afterwards").remote_state == Delivery.ACCEPTED
    assert [message.body for message in queue.messages] == ["afterwards"]


def test_a_full_disk_heals_also_where_the_test_fails(postroom_broker: Broker) -> None:
    postroom_broker.create_queue("orders")
    connection = connect(postroom_broker)
    with pytest.raises(SendException), postroom_broker.full():
        connection.create_sender("orders", name="within").send(Message(body="one", durable=True))
    assert send(connection, "afterwards").remote_state == Delivery.ACCEPTED


def test_a_crash_on_a_full_disk_is_survived(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    assert send(connect(postroom_broker), "before").remote_state == Delivery.ACCEPTED
    with postroom_broker.full():
        postroom_broker.crash()
        assert [message.body for message in queue.messages] == ["before"]
        assert send(connect(postroom_broker), "within").remote_state == Delivery.REJECTED
    assert send(connect(postroom_broker), "afterwards").remote_state == Delivery.ACCEPTED


def test_what_expired_while_it_was_down_expires_then(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    connect(postroom_broker).create_sender("orders").send(Message(body="one", durable=True, ttl=60))
    postroom_broker.crash()
    postroom_broker.advance(seconds=59)
    assert queue.current == 1
    postroom_broker.advance(seconds=1)
    assert (queue.current, queue.expired) == (0, 1)
