"""Messages through the broker with Qpid Proton: modes, outcomes, browsing, large ones, relay."""

import pytest
from proton import Delivery, Endpoint, Message, symbol, ulong
from proton.reactor import AtLeastOnce, AtMostOnce, Copy, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached, SendException

from postroom.amqp.frames.termini import Source, Target
from postroom.server.configuration.config import LedgerConfig
from tests.server.client_messages import depth
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import EnginePeer

pytestmark = pytest.mark.sockets


class ReceiverSecond(LinkOption):
    """The receiver waits for the sender's answer to its outcome."""

    def apply(self, link: object) -> None:
        link.rcv_settle_mode = 1  # type: ignore[attr-defined]


def put(connection: BlockingConnection, queue: str, count: int, **fields: object) -> None:
    sender = connection.create_sender(queue)
    for number in range(count):
        sender.send(Message(body=number, durable=True, **fields))
    sender.close()


def take(receiver: BlockingReceiver) -> object:
    message = receiver.receive(timeout=15)
    receiver.accept()
    return message.body


def unsettled(broker: BrokerThread, queue: str) -> int:
    return broker.call(lambda b: int(b.manager.queues[queue].statistics.unacknowledged))


def test_messages_come_in_order_and_only_once(connection: BlockingConnection, queue: str) -> None:
    put(connection, queue, 20)
    receiver = connection.create_receiver(queue, credit=5)
    assert [take(receiver) for _ in range(20)] == list(range(20))
    receiver.close()
    again = connection.create_receiver(queue)
    with pytest.raises(Exception, match="timed out"):
        again.receive(timeout=0.05)


def test_an_expiry_too_far_away_for_a_header_is_left_to_the_properties(
    connection: BlockingConnection, queue: str
) -> None:
    """A header holds 2³² − 1 ms; the message's absolute expiry time says it all."""
    far_s = 4_000_000_000.0
    put(connection, queue, 1, expiry_time=far_s)
    receiver = connection.create_receiver(queue)
    got = receiver.receive(timeout=15)
    receiver.accept()
    assert (got.ttl, got.expiry_time) == (0.0, far_s)


def test_header_and_properties_survive(connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(queue)
    sent = Message(
        id="m-1",
        body={"a": [1, "two", None]},
        durable=True,
        priority=7,
        ttl=60.0,
        subject="s",
        reply_to="r",
        correlation_id="c",
        content_type="text/x",
        group_id="g",
        group_sequence=3,
        properties={"k": "v", "n": 5},
        annotations={"x-opt-note": "hello"},
    )
    sender.send(sent)
    receiver = connection.create_receiver(queue)
    got = receiver.receive(timeout=15)
    receiver.accept()
    assert (got.id, got.body, got.durable, got.priority) == ("m-1", sent.body, True, 7)
    assert (got.subject, got.reply_to, got.correlation_id) == ("s", "r", "c")
    assert (got.content_type, got.group_id, got.group_sequence) == ("text/x", "g", 3)
    assert got.properties == {"k": "v", "n": 5}
    assert got.annotations == {"x-opt-note": "hello"}
    assert got.delivery_count == 0
    assert 0 < got.ttl <= 60.0


def test_higher_priority_first(connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(queue)
    for priority in (1, 9, 4, 9):
        sender.send(Message(body=priority, priority=priority, durable=True))
    receiver = connection.create_receiver(queue)
    assert [take(receiver) for _ in range(4)] == [9, 9, 4, 1]


def test_released_goes_back_to_its_place_uncounted(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    put(connection, queue, 2)
    receiver = connection.create_receiver(queue)
    assert receiver.receive(timeout=15).body == 0
    receiver.settle(Delivery.RELEASED)
    connection.wait(lambda: unsettled(broker, queue) == 0, timeout=15)
    message = receiver.receive(timeout=15)
    receiver.accept()
    assert (message.body, message.delivery_count) == (0, 0)
    assert take(receiver) == 1


def test_modified_failed_is_counted(connection: BlockingConnection, queue: str) -> None:
    put(connection, queue, 1)
    receiver = connection.create_receiver(queue)
    receiver.receive(timeout=15)
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.failed = True
    delivery.update(Delivery.MODIFIED)
    delivery.settle()
    message = receiver.receive(timeout=15)
    receiver.accept()
    assert message.delivery_count == 1


def test_undeliverable_here_goes_to_another_link(connection: BlockingConnection, queue: str) -> None:
    put(connection, queue, 1)
    receiver = connection.create_receiver(queue, name="first")
    receiver.receive(timeout=15)
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.undeliverable = True
    delivery.local.annotations = {"x-opt-why": "not mine"}
    delivery.update(Delivery.MODIFIED)
    delivery.settle()
    other = connection.create_receiver(queue, name="second")
    message = other.receive(timeout=15)
    other.accept()
    assert message.annotations == {"x-opt-why": "not mine"}
    assert not receiver.fetcher.has_message


def test_rejected_goes_to_the_dead_letter_queue(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    management(connection, "CREATE", queue, {"dead_letter_queue": queue + "-dead"})
    put(connection, queue, 1)
    receiver = connection.create_receiver(queue)
    receiver.receive(timeout=15)
    receiver.reject()
    dead = connection.create_receiver(queue + "-dead")
    assert take(dead) == 0
    assert depth(broker, queue) == 0


def test_presettled_both_ways(broker: BrokerThread, connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(queue, options=AtMostOnce())
    for number in range(3):
        sender.link.send(Message(body=number))
    receiver = connection.create_receiver(queue, options=AtMostOnce(), credit=10)
    assert [receiver.receive(timeout=15).body for _ in range(3)] == [0, 1, 2]
    receiver.close()
    assert depth(broker, queue) == 0


def test_receiver_second_is_answered_when_the_message_is_gone(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    put(connection, queue, 1)
    receiver = connection.create_receiver(queue, options=[AtLeastOnce(), ReceiverSecond()])
    receiver.receive(timeout=15)
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.update(Delivery.ACCEPTED)
    connection.wait(lambda: delivery.settled, timeout=15)
    assert depth(broker, queue) == 0


def test_sender_with_receiver_second(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    sender = connection.create_sender(queue, options=ReceiverSecond())
    delivery = sender.link.send(Message(body="x", durable=True))
    connection.wait(lambda: delivery.remote_state == Delivery.ACCEPTED, timeout=15)
    assert not delivery.settled
    delivery.settle()
    assert depth(broker, queue) == 1


def test_browsing_leaves_everything_where_it_is(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    put(connection, queue, 5)
    browser = connection.create_receiver(queue, options=Copy(), credit=10)
    assert [browser.receive(timeout=15).body for _ in range(5)] == [0, 1, 2, 3, 4]
    browser.close()
    assert depth(broker, queue) == 5


def test_a_closed_consumer_gives_back_what_it_held(connection: BlockingConnection, queue: str) -> None:
    put(connection, queue, 3)
    receiver = connection.create_receiver(queue, credit=10)
    assert receiver.receive(timeout=15).body == 0
    receiver.close()
    other = connection.create_receiver(queue)
    assert [take(other) for _ in range(3)] == [0, 1, 2]


def test_a_lost_connection_gives_back_what_it_held_as_redelivered(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    put(connection, queue, 1)
    doomed = BlockingConnection(broker.url, timeout=15)
    receiver = doomed.create_receiver(queue, credit=1)
    assert receiver.receive(timeout=15).body == 0
    doomed.conn.transport.close_tail()
    doomed.conn.transport.close_head()
    doomed.container.process()
    other = connection.create_receiver(queue)
    message = other.receive(timeout=15)
    other.accept()
    assert message.delivery_count == 1


@pytest.mark.parametrize("size_bytes", [0, 1, 65_000, 300_000, 5_000_000])
def test_bodies_of_any_size(connection: BlockingConnection, queue: str, size_bytes: int) -> None:
    body = bytes(number % 251 for number in range(min(size_bytes, 1000))) * max(1, size_bytes // 1000)
    sender = connection.create_sender(queue)
    sender.send(Message(body=body, durable=True, properties={"size": len(body)}))
    receiver = connection.create_receiver(queue)
    message = receiver.receive(timeout=15)
    receiver.accept()
    assert message.properties == {"size": len(body)}
    assert message.body == body


def test_dynamic_node_and_anonymous_terminus(broker: BrokerThread, connection: BlockingConnection) -> None:
    replies = connection.create_receiver(None, dynamic=True)
    address = replies.link.remote_source.address
    assert address.startswith("postroom.dynamic.")
    relay = connection.create_sender(None)
    relay.send(Message(address=address, body="for you"))
    assert take(replies) == "for you"
    replies.close()
    assert address not in broker.call(lambda b: list(b.manager.queues))


def test_anonymous_terminus_rejects_what_has_nowhere_to_go(connection: BlockingConnection) -> None:
    relay = connection.create_sender(None)
    for message, condition in (
        (Message(address="no-such-queue", body="x"), "amqp:not-found"),
        (Message(body="x"), "amqp:invalid-field"),
    ):
        delivery = relay.link.send(message)
        connection.wait(lambda delivery=delivery: delivery.settled, timeout=15)
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == condition


def test_a_full_queue_rejects(connection: BlockingConnection, queue: str) -> None:
    management(connection, "CREATE", queue, {"max_messages": 1})
    sender = connection.create_sender(queue)
    sender.send(Message(body=1, durable=True))
    with pytest.raises(SendException):
        sender.send(Message(body=2, durable=True))


@pytest.mark.parametrize(
    ("address", "condition"), [("$nothing", "amqp:not-found"), ("postroom.x", "amqp:not-found")]
)
def test_reserved_names_are_not_created(connection: BlockingConnection, address: str, condition: str) -> None:
    with pytest.raises(LinkDetached, match=condition):
        connection.create_sender(address)
    with pytest.raises(LinkDetached, match=condition):
        connection.create_receiver(address)


def test_delayed_delivery(broker: BrokerThread, connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(queue)
    far = Message(body="far", durable=True, annotations={symbol("x-opt-delivery-delay"): ulong(3_600_000)})
    near = Message(body="near", durable=True, annotations={symbol("x-opt-delivery-delay"): ulong(1)})
    sender.send(far)
    sender.send(near)
    assert take(connection.create_receiver(queue)) == "near"
    connection.wait(lambda: depth(broker, queue) == 1, timeout=15)


def test_a_large_message_over_the_limit_detaches_its_link_only(queue: str) -> None:
    from postroom.server.configuration.config import LimitsConfig
    from tests.server.harness import make_config

    with BrokerThread(make_config(limits=LimitsConfig(max_message_bytes=100_000))) as small:
        connection = BlockingConnection(small.url, timeout=15)
        sender = connection.create_sender(queue)
        with pytest.raises(LinkDetached, match="amqp:link:message-size-exceeded"):
            sender.send(Message(body=bytes(200_000), durable=True))
        put(connection, queue, 1)
        assert sender.link.state & Endpoint.REMOTE_CLOSED
        connection.close()


def test_a_consumer_that_does_not_read_is_given_little_and_harms_nobody(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    sender = connection.create_sender(queue)
    for _ in range(60):
        sender.send(Message(body=bytes(500_000), durable=True))
    with EnginePeer(broker.port) as lazy:
        session = lazy.open().session()
        link = session.attach_receiver("lazy", Source(address=queue), Target(), snd_settle_mode=1)
        lazy.pump(lambda: link.attached)
        link.flow(1_000_000)
        lazy.flush()
        broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth < 60)
        put(connection, queue + "-other", 50)
        receiver = connection.create_receiver(queue + "-other")
        assert [take(receiver) for _ in range(50)] == list(range(50))
        assert depth(broker, queue) > 20


def management(connection: BlockingConnection, operation: str, name: str, body: dict[str, object]) -> Message:
    replies = connection.create_receiver("$management", name=f"replies-{name}")
    sender = connection.create_sender("$management")
    properties = {"operation": operation, "type": "postroom.queue", "name": name}
    sender.send(Message(id="1", reply_to="$management", properties=properties, body=body))
    reply = replies.receive(timeout=15)
    replies.accept()
    replies.close()
    sender.close()
    return reply


def test_a_message_larger_than_what_a_small_reserve_lets_wait_for_the_disk_is_taken() -> None:
    config = make_config(("q",), ledger=LedgerConfig(reserve_bytes=1 << 20))
    with BrokerThread(config) as broker:
        connection = BlockingConnection(broker.url, timeout=20)
        connection.create_sender("q").send(Message(body=bytes(3 << 20), durable=True))
        connection.close()
        assert depth(broker, "q") == 1
