"""Local transactions over the wire: declare, post, retire, discharge, and everything that rolls back."""

from collections.abc import Iterator

import pytest

from postroom.amqp.codec import encode
from postroom.amqp.events import DispositionReceived, LinkDetached, TransferReceived
from postroom.amqp.outcomes import (
    ACCEPTED,
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Rejected,
    TransactionalState,
)
from postroom.amqp.performatives import Coordinator, Source, Target
from postroom.amqp.receiver import ReceiverLink
from postroom.amqp.sections import Data, Header, Message
from postroom.amqp.sender import SenderLink
from postroom.amqp.types import Described, ULong
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer

pytestmark = pytest.mark.sockets

REJECTABLE = Source(outcomes=["amqp:accepted:list", "amqp:rejected:list"])


def value(body: Declare | Discharge) -> bytes:
    if isinstance(body, Declare):
        described = Described(ULong(0x31), [] if body.global_id is None else [body.global_id])
    else:
        described = Described(ULong(0x32), [body.txn_id, body.fail])
    return encode(Described(ULong(0x77), described))


class Controller:
    """A peer with a control link, and one link each way to a queue."""

    def __init__(self, broker: BrokerThread, peer: EnginePeer, queue: str, source: Source) -> None:
        self.broker = broker
        self.peer = peer
        self.queue = queue
        session = peer.open().session()
        self.control: SenderLink = session.attach_sender("control", source, Coordinator())
        self.sender: SenderLink = session.attach_sender("s", Source(), Target(address=queue))
        self.receiver: ReceiverLink = session.attach_receiver("r", Source(address=queue), Target())
        peer.pump(lambda: self.receiver.attached and min(self.sender.credit, self.control.credit) > 0)
        self._tags = iter(range(1000))

    def ask(self, body: Declare | Discharge) -> DeliveryState | None:
        delivery = self.control.send(value(body), self._tag(), False)
        self.peer.pump(lambda: delivery.settled)
        return delivery.state

    def declare(self) -> bytes:
        state = self.ask(Declare())
        assert isinstance(state, Declared)
        return bytes(state.txn_id)

    def send(self, text: str, txn_id: bytes | None = None) -> DeliveryState | None:
        payload = Message(header=Header(durable=True), body=Data([text.encode()])).encode()
        state = None if txn_id is None else TransactionalState(txn_id)
        delivery = self.sender.send(payload, self._tag(), False, state=state)
        self.peer.pump(lambda: delivery.settled)
        return delivery.state

    def receive(self) -> TransferReceived:
        self.peer.forget()
        self.receiver.flow(1)
        return self.peer.wait_for(TransferReceived)

    def depth(self) -> tuple[int, int]:
        """(messages that can be received, all that are held)"""
        return self.broker.call(
            lambda b: (
                int(b.manager.queues[self.queue].statistics.current),
                int(b.manager.queues[self.queue].statistics.depth),
            )
        )

    def _tag(self) -> bytes:
        return next(self._tags).to_bytes(2, "big")


@pytest.fixture
def controller(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    with EnginePeer(broker.port, container_id=queue) as peer:
        yield Controller(broker, peer, queue, REJECTABLE)


def test_a_commit_makes_messages_visible(controller: Controller) -> None:
    txn_id = controller.declare()
    state = controller.send("x", txn_id)
    assert isinstance(state, TransactionalState) and isinstance(state.outcome, Accepted)
    assert state.txn_id == txn_id
    assert controller.depth() == (0, 1)
    assert isinstance(controller.ask(Discharge(txn_id, False)), Accepted)
    assert controller.depth() == (1, 1)


def test_a_rollback_leaves_nothing(controller: Controller) -> None:
    txn_id = controller.declare()
    controller.send("x", txn_id)
    assert isinstance(controller.ask(Discharge(txn_id, True)), Accepted)
    assert controller.depth() == (0, 0)


def test_an_accepted_message_is_gone_with_the_commit(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert isinstance(controller.ask(Discharge(txn_id, False)), Accepted)
    assert controller.depth() == (0, 0)


def test_an_accepted_message_comes_back_with_the_rollback(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert isinstance(controller.ask(Discharge(txn_id, True)), Accepted)
    assert controller.depth() == (1, 1)
    assert controller.receive().payload.endswith(b"x")


def test_discharge_of_an_unknown_transaction_is_rejected(controller: Controller) -> None:
    state = controller.ask(Discharge(b"nothing", False))
    assert isinstance(state, Rejected) and state.error is not None
    assert state.error.condition == "amqp:transaction:unknown-id"


def test_a_message_in_an_unknown_transaction_is_rejected(controller: Controller) -> None:
    state = controller.send("x", b"nothing")
    assert isinstance(state, Rejected) and state.error is not None
    assert state.error.condition == "amqp:transaction:unknown-id"
    assert controller.depth() == (0, 0)


def test_an_outcome_in_an_unknown_transaction_ends_its_link(controller: Controller) -> None:
    controller.send("x")
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(b"nothing", ACCEPTED))
    event = controller.peer.wait_for(LinkDetached)
    assert event.error is not None and event.error.condition == "amqp:transaction:unknown-id"
    assert controller.depth() == (1, 1)


def test_a_presettled_declare_ends_the_control_link(controller: Controller) -> None:
    controller.control.send(value(Declare()), b"p", True)
    assert controller.peer.wait_for(LinkDetached).error is not None


def test_what_is_no_request_is_rejected(controller: Controller) -> None:
    delivery = controller.control.send(b"\x00\x53\x77\xa1\x02hi", b"t", False)
    controller.peer.pump(lambda: delivery.settled)
    assert isinstance(delivery.state, Rejected)


def test_without_the_rejected_outcome_the_control_link_is_detached(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        source = Source(outcomes=["amqp:accepted:list"])
        controller = Controller(broker, peer, queue, source)
        controller.control.send(value(Discharge(b"nothing", False)), b"t", False)
        event = peer.wait_for(LinkDetached)
        assert event.error is not None and event.error.condition == "amqp:transaction:unknown-id"


def test_closing_the_control_link_rolls_back(controller: Controller) -> None:
    txn_id = controller.declare()
    controller.send("x", txn_id)
    controller.control.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.depth() == (0, 0)


def test_a_lost_connection_rolls_back(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue, REJECTABLE)
        controller.send("x", controller.declare())
    broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth == 0)


def test_two_transactions_at_once(controller: Controller) -> None:
    first, second = controller.declare(), controller.declare()
    controller.send("a", first)
    controller.send("b", second)
    controller.ask(Discharge(second, False))
    assert controller.depth() == (1, 2)
    controller.ask(Discharge(first, True))
    assert controller.receive().payload.endswith(b"b")


def test_a_forgotten_outcome_is_not_seen_twice(controller: Controller) -> None:
    """Receiving, then rolling back without settling: the delivery stays with its receiver."""
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.ask(Discharge(txn_id, True))
    assert controller.depth() == (0, 1)
    controller.peer.forget()
    controller.receiver.settle(delivery_id, delivery_id, ACCEPTED)
    controller.peer.round_trip()
    controller.broker.wait_until(lambda b: b.manager.queues[controller.queue].statistics.depth == 0)
    assert not controller.peer.of(DispositionReceived)
