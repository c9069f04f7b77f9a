"""Quotas and blocked sends as clients meet them: Proton's, our own, and one with full control of the wire."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from proton import Delivery, Message, symbol
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, BlockingSender, SendException

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.events import LinkAttached, LinkDetached
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import ACCEPTED, Discharge, Rejected, TransactionalState
from postroom.amqp.frames.termini import EXPIRY_NEVER, Source, Target
from postroom.amqp.frames.transfers import RCV_SECOND
from postroom.client.exceptions import ResourceAllocationException
from postroom.client.sync import Connection, ConnectionFactory
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.server.configuration.config import FlowControlConfig, SendingConfig
from postroom.server.connection.broker import Broker
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import REJECTABLE, Controller, value

pytestmark = pytest.mark.sockets

WAIT_S = 15
LONG_MS = 60_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    sending = SendingConfig(max_blocked_bytes_per_link=4000)
    with BrokerThread(make_config(sending=sending, flow_control=FlowControlConfig(maximum=100))) as running:
        yield running


class SendTimeout(LinkOption):
    """Link property: how long sends of the link wait for room."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms

    def apply(self, link: Any) -> None:
        link.properties = {Symbol("x-opt-send-timeout"): self.timeout_ms}


def create(broker: BrokerThread, name: str, **settings: Any) -> None:
    from postroom.manager.kernel.options import QueueDefinition

    broker.turn(lambda b, now_us: b.manager.create_queue(QueueDefinition(name=name, **settings), now_us))


def blocked(broker: Broker, name: str) -> int:
    return int(broker.manager.queue(name).statistics.blocked)


def sender_of(connection: BlockingConnection, queue: str | None, timeout_ms: int = LONG_MS) -> BlockingSender:
    """A sender with a link of its own: Proton would call them all the same."""
    return connection.create_sender(queue, name=str(uuid.uuid4()), options=SendTimeout(timeout_ms))


def take(connection: BlockingConnection, queue: str) -> object:
    receiver = connection.create_receiver(queue, credit=1, name=str(uuid.uuid4()))
    message = receiver.receive(timeout=WAIT_S)
    body = bytes(message.body) if isinstance(message.body, memoryview) else message.body
    receiver.accept()
    receiver.close()
    return body


def settled(connection: BlockingConnection, *deliveries: Delivery) -> None:
    connection.wait(lambda: all(delivery.settled for delivery in deliveries), timeout=WAIT_S)


def test_a_blocked_send_is_accepted_when_a_message_is_consumed(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    sender = sender_of(connection, queue)
    sender.send(Message(body="first", durable=True))
    second = sender.link.send(Message(body="second", durable=True))
    connection.wait(lambda: broker.call(lambda b: blocked(b, queue)) == 1, timeout=WAIT_S)
    assert not second.settled
    other = BlockingConnection(broker.url, timeout=WAIT_S)
    assert take(other, queue) == "first"
    settled(connection, second)
    assert second.remote_state == Delivery.ACCEPTED
    assert take(other, queue) == "second"
    other.close()


def test_the_send_time_out_rejects_with_resource_limit_exceeded(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    default = connection.create_sender(queue)
    default.send(Message(body="first", durable=True))
    with pytest.raises(SendException):  # after the broker's default, 10 ms
        default.send(Message(body="over", durable=True))
    sender = sender_of(connection, queue, 1)
    delivery = sender.link.send(Message(body="over", durable=True))
    settled(connection, delivery)
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"
    assert "the send time-out" in delivery.remote.condition.description


@pytest.mark.parametrize(("policy", "order"), [("fifo", ["big", "small"]), ("preemptive", ["small", "big"])])
def test_who_goes_first_is_the_policy_s(
    broker: BrokerThread, connection: BlockingConnection, queue: str, policy: str, order: list[str]
) -> None:
    create(broker, queue, max_bytes=1000, quota_policy=policy)
    sender = connection.create_sender(queue)
    sender.send(Message(body=bytes(500), durable=True))
    sender.send(Message(body=bytes(400), durable=True))
    waiting = []
    for count, body in ((1, "big" + " " * 700), (2, "small")):
        link = sender_of(connection, queue).link
        waiting.append(link.send(Message(body=body, durable=True)))
        if policy == "fifo" or count == 1:
            connection.wait(lambda n=count: broker.call(lambda b: blocked(b, queue)) == n, timeout=WAIT_S)
        else:
            settled(connection, waiting[-1])
    other = BlockingConnection(broker.url, timeout=WAIT_S)
    bodies = [str(take(other, queue)).strip() for _ in range(2)]
    settled(connection, *waiting)
    bodies += [str(take(other, queue)).strip() for _ in range(2)]
    assert bodies[2:] == order
    other.close()


class Producer:
    """A link of the engine whose credit and outcomes can be looked at."""

    def __init__(self, peer: EnginePeer, address: str | None, timeout_ms: int = LONG_MS) -> None:
        self.peer = peer
        self.link: SenderLink = peer.session().attach_sender(
            f"to-{address}",
            Source(),
            Target(address=address),
            properties={Symbol("x-opt-send-timeout"): timeout_ms},
        )
        peer.pump(lambda: self.link.attached and self.link.credit > 0)
        self.sent = 0

    def send(self, body: bytes, settled: bool = False, txn_id: bytes | None = None) -> WireDelivery:
        self.sent += 1
        state = None if txn_id is None else TransactionalState(txn_id)
        delivery = self.link.send(_encoded(body), self.sent.to_bytes(4, "big"), settled, state=state)
        self.peer.flush()
        return delivery


def _encoded(body: bytes) -> bytes:
    from postroom.client.messages.message import Message as Ours
    from postroom.client.messages.message import encode_message

    return encode_message(Ours(body), None)


def test_a_link_has_no_credit_while_a_send_of_it_is_blocked(broker: BrokerThread, queue: str) -> None:
    create(broker, queue, max_messages=1)
    with EnginePeer(broker.port) as peer:
        producer = Producer(peer, queue)
        producer.send(b"one")
        second = producer.send(b"two")
        peer.pump(lambda: producer.link.credit == 0)
        peer.round_trip()
        assert broker.call(lambda b: blocked(b, queue)) == 1
        connection = BlockingConnection(broker.url, timeout=WAIT_S)
        take(connection, queue)
        peer.pump(lambda: second.settled and producer.link.credit > 0)
        connection.close()


def test_blocked_bytes_of_a_link_are_bounded(broker: BrokerThread, queue: str) -> None:
    create(broker, queue, max_messages=1)
    with EnginePeer(broker.port) as peer:
        producer = Producer(peer, queue)
        last = [producer.send(bytes(1500)) for _ in range(4)][-1]
        peer.pump(lambda: last.settled)
        refused = last.state
        assert isinstance(refused, Rejected) and refused.error is not None
        assert refused.error.condition == "amqp:resource-limit-exceeded"
        assert "max_blocked_bytes_per_link" in (refused.error.description or "")
        assert broker.call(lambda b: blocked(b, queue)) == 2


def test_blocked_sends_of_a_lost_link_vanish(broker: BrokerThread, queue: str) -> None:
    create(broker, queue, max_messages=1)
    with EnginePeer(broker.port) as peer:
        producer = Producer(peer, queue)
        for body in (b"kept", b"gone", b"gone too"):
            producer.send(body)
        broker.wait_until(lambda b: blocked(b, queue) == 2)
    broker.wait_until(lambda b: blocked(b, queue) == 0)
    assert broker.call(
        lambda b: (blocked_sends_of(b.manager.core).bytes, blocked_sends_of(b.manager.core).count)
    ) == (0, 0)
    assert broker.call(lambda b: b.manager.queue(queue).statistics.depth) == 1


def test_a_sender_that_comes_back_finds_that_its_blocked_send_never_came(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    lasting = Target(address=queue, expiry_policy=EXPIRY_NEVER, timeout=60)
    wishes = {"rcv_settle_mode": RCV_SECOND, "properties": {Symbol("x-opt-send-timeout"): LONG_MS}}
    with EnginePeer(broker.port, container_id=queue) as first:
        link = first.open().session().attach_sender("s", Source(), lasting, **wishes)  # type: ignore[arg-type]
        first.pump(lambda: link.attached and link.credit > 0)
        one = link.send(_encoded(b"one"), b"tag-1", False)
        link.send(_encoded(b"two"), b"tag-2", False)
        first.pump(lambda: one.state is not None)
        broker.wait_until(lambda b: blocked(b, queue) == 1)
    broker.wait_until(lambda b: blocked(b, queue) == 0)
    take(connection, queue)
    with EnginePeer(broker.port, container_id=queue) as second:
        unsettled = {b"tag-1": None, b"tag-2": None}
        session = second.open().session()
        session.attach_sender("s", Source(), lasting, unsettled=unsettled, **wishes)  # type: ignore[arg-type]
        attach = second.wait_for(LinkAttached).attach
        assert attach.unsettled == {b"tag-1": ACCEPTED}


def test_a_presettled_send_waits_too(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    with EnginePeer(broker.port) as peer:
        producer = Producer(peer, queue)
        producer.send(b"one", True)
        producer.send(b"two", True)
        broker.wait_until(lambda b: blocked(b, queue) == 1)
        take(connection, queue)
        broker.wait_until(lambda b: blocked(b, queue) == 0)
        peer.pump(lambda: producer.link.credit > 0)
    take(connection, queue)


def test_a_body_in_chunks_waits_for_room(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    with BrokerThread(make_config()) as roomy:
        create(roomy, queue, max_messages=1)
        other = BlockingConnection(roomy.url, timeout=WAIT_S)
        sender = sender_of(other, queue)
        sender.send(Message(body="first", durable=True))
        delivery = sender.link.send(Message(body=bytes(600_000), durable=True))
        other.wait(lambda: roomy.call(lambda b: blocked(b, queue)) == 1, timeout=WAIT_S)
        take(other, queue)
        settled(other, delivery)
        assert delivery.remote_state == Delivery.ACCEPTED
        assert len(take(other, queue)) == 600_000  # type: ignore[arg-type]
        other.close()


def test_sends_to_the_anonymous_terminus_block_their_link(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    create(broker, queue + "-free")
    relay = sender_of(connection, None)
    relay.send(Message(address=queue, body=1, durable=True))
    full = relay.link.send(Message(address=queue, body=2, durable=True))
    free = relay.link.send(Message(address=queue + "-free", body=3, durable=True))
    connection.wait(lambda: broker.call(lambda b: blocked(b, queue)) == 1, timeout=WAIT_S)
    assert not (full.settled or free.settled)
    take(connection, queue)
    settled(connection, full, free)
    assert (full.remote_state, free.remote_state) == (Delivery.ACCEPTED, Delivery.ACCEPTED)


def test_a_commit_waits_for_the_blocked_sends_of_its_transaction(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    connection.create_sender(queue).send(Message(body="there", durable=True))
    with EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, queue + "-other", REJECTABLE)
        txn_id = controller.declare()
        producer = Producer(peer, queue)
        producer.send(b"in it", txn_id=txn_id)
        broker.wait_until(lambda b: blocked(b, queue) == 1)
        answer = controller.control.send(value(Discharge(txn_id, False)), b"discharge", False)
        peer.round_trip()
        assert not answer.settled
        take(connection, queue)
        peer.pump(lambda: answer.settled)
        assert answer.state == ACCEPTED
    assert take(connection, queue) == b"in it"


def test_a_commit_fails_when_a_send_that_it_waited_for_is_refused(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, max_messages=1)
    connection.create_sender(queue).send(Message(body="there", durable=True))
    with EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, queue + "-other", REJECTABLE)
        txn_id = controller.declare()
        controller.send("with it", txn_id)
        refused = Producer(peer, queue, 300).send(b"in it", txn_id=txn_id)
        answer = controller.control.send(value(Discharge(txn_id, False)), b"discharge", False)
        peer.pump(lambda: answer.settled and refused.settled)
        assert isinstance(answer.state, Rejected) and answer.state.error is not None
        assert answer.state.error.condition == "amqp:transaction:rollback"
        assert controller.depth() == (0, 0)


def test_the_client_raises_resource_allocation_exception(broker: BrokerThread, queue: str) -> None:
    create(broker, queue, max_messages=1)
    with ConnectionFactory(broker.url).create_connection() as ours, ours.create_session() as session:
        patient = session.create_producer(queue, send_timeout_ms=20)
        patient.send("one")
        with pytest.raises(ResourceAllocationException, match="send time-out"):
            patient.send("two")
        hasty = session.create_producer(queue, send_timeout_ms=0)
        with pytest.raises(ResourceAllocationException, match="has no room for"):
            hasty.send("two")


def test_a_bad_send_time_out_refuses_the_link(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port) as peer:
        peer.session().attach_sender(
            "bad", Source(), Target(address=queue), properties={Symbol("x-opt-send-timeout"): "soon"}
        )
        detached = peer.wait_for(LinkDetached)
        assert detached.error is not None and "x-opt-send-timeout" in (detached.error.description or "")


def test_senders_above_a_threshold_are_given_little_credit(broker: BrokerThread, queue: str) -> None:
    create(broker, queue, messages_threshold_high=3, messages_threshold_low=1)
    with EnginePeer(broker.port) as peer:
        producer = Producer(peer, queue)
        assert producer.link.credit > 100
        for _ in range(5):
            producer.send(b"x")
        peer.pump(lambda: producer.link.credit <= 10)
        assert broker.call(lambda b: b.manager.queue(queue).statistics.meter.armed)  # type: ignore[union-attr]
        broker.turn(lambda b, now_us: b.manager.purge_queue(queue, now_us))
        peer.pump(lambda: producer.link.credit > 100)  # at the maximum, and disarmed: free


def test_overrides_reach_the_receiver(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    create(broker, queue, time_to_deliver_ms=1, priority_override=9, delivery_mode_override="non-persistent")
    annotations = {symbol("x-opt-delivery-time"): 4_000_000_000_000, symbol("x-opt-other"): "stays"}
    connection.create_sender(queue).send(Message(body="x", durable=True, annotations=annotations))
    received = connection.create_receiver(queue, credit=1).receive(timeout=WAIT_S)
    assert (received.priority, received.durable) == (9, False)
    assert received.annotations[symbol("x-opt-delivery-time")] < 4_000_000_000_000
    assert received.annotations[symbol("x-opt-other")] == "stays"


def test_quotas_are_managed_on_the_wire(broker: BrokerThread, queue: str) -> None:
    with ConnectionFactory(broker.url).create_connection() as ours:
        _manage(ours, queue)


def _manage(ours: Connection, name: str) -> None:
    management = ours.create_management()
    created = management.create("postroom.quota", name, {"messages_maximum": 2, "policy": "preemptive"})
    assert (created["messages_maximum"], created["bytes_maximum"], created["shared"]) == (2, -1, True)
    management.create("postroom.queue", name + "-q", {"quota": name})
    with ours.create_session() as session:
        session.create_producer(name + "-q").send("x")
    read = management.read("postroom.quota", name)
    assert (read["destinations"], read["messages_used"], read["blocked_sends"]) == (1, 1, 0)
    updated = management.update("postroom.quota", name, {"messages_maximum": 0})
    assert (updated["messages_maximum"], updated["policy"]) == (0, "preemptive")
    assert name in [row["name"] for row in management.query("postroom.quota")]
    with pytest.raises(Exception, match="is named by 1 destinations"):
        management.delete("postroom.quota", name)
    with pytest.raises(Exception, match="messages_maximum is -5"):
        management.update("postroom.quota", name, {"messages_maximum": -5})
    management.delete("postroom.queue", name + "-q")
    management.delete("postroom.quota", name)
    with pytest.raises(Exception, match="there is no quota"):
        management.read("postroom.quota", name)
