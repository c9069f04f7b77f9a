"""Local transactions over the wire: declare, post, retire, discharge, and everything that rolls back."""

import pytest

from postroom.amqp.engine.events import DispositionReceived, LinkDetached
from postroom.amqp.frames.outcomes import ACCEPTED, Accepted, Declare, Discharge, Rejected, TransactionalState
from postroom.amqp.frames.termini import Source
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, durable, value

pytestmark = pytest.mark.sockets


def test_a_commit_makes_messages_visible(controller: Controller) -> None:
    txn_id = controller.declare()
    state = controller.send("x", txn_id)
    assert isinstance(state, TransactionalState) and isinstance(state.outcome, Accepted)
    assert state.txn_id == txn_id
    assert controller.depth() == (0, 1)
    assert isinstance(controller.send_control(Discharge(txn_id, False)), Accepted)
    assert controller.depth() == (1, 1)


def test_sends_that_follow_one_another_in_a_transaction_have_one_answer(controller: Controller) -> None:
    first, second = controller.declare(), controller.declare()
    states = [TransactionalState(txn_id) for txn_id in (first, first, first, second, second)]
    controller.peer.forget()
    sent = [controller.sender.send(durable("x"), controller.tag(), False, state=state) for state in states]
    controller.peer.pump(lambda: all(delivery.settled for delivery in sent))
    answers = [(len(event.deliveries), event.state) for event in controller.peer.of(DispositionReceived)]
    assert answers == [
        (3, TransactionalState(first, ACCEPTED)),
        (2, TransactionalState(second, ACCEPTED)),
    ]


def test_a_send_outside_of_transactions_is_answered_apart(controller: Controller) -> None:
    txn_id = controller.declare()
    states = [TransactionalState(txn_id), None, TransactionalState(txn_id)]
    sent = [controller.sender.send(durable("x"), controller.tag(), False, state=state) for state in states]
    controller.peer.pump(lambda: all(delivery.settled for delivery in sent))
    accepted = TransactionalState(txn_id, ACCEPTED)
    assert [delivery.state for delivery in sent] == [accepted, ACCEPTED, accepted]


def test_a_rollback_leaves_nothing(controller: Controller) -> None:
    txn_id = controller.declare()
    controller.send("x", txn_id)
    assert isinstance(controller.send_control(Discharge(txn_id, True)), Accepted)
    assert controller.depth() == (0, 0)


def test_an_accepted_message_is_gone_with_the_commit(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert isinstance(controller.send_control(Discharge(txn_id, False)), Accepted)
    assert controller.depth() == (0, 0)


def test_an_accepted_message_comes_back_with_the_rollback(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert isinstance(controller.send_control(Discharge(txn_id, True)), Accepted)
    assert controller.depth() == (1, 1)
    assert controller.receive().payload.endswith(b"x")


def test_discharge_of_an_unknown_transaction_is_rejected(controller: Controller) -> None:
    state = controller.send_control(Discharge(b"nothing", False))
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
        controller = Controller(broker, peer, queue)
        controller.send("x", controller.declare())
    broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth == 0)


def test_two_transactions_at_once(controller: Controller) -> None:
    first, second = controller.declare(), controller.declare()
    controller.send("a", first)
    controller.send("b", second)
    controller.send_control(Discharge(second, False))
    assert controller.depth() == (1, 2)
    controller.send_control(Discharge(first, True))
    assert controller.receive().payload.endswith(b"b")


def test_a_forgotten_outcome_is_not_seen_twice(controller: Controller) -> None:
    """Receiving, then rolling back without settling: the delivery stays with its receiver."""
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.send_control(Discharge(txn_id, True))
    assert controller.depth() == (0, 1)
    controller.peer.forget()
    controller.receiver.settle(delivery_id, delivery_id, ACCEPTED)
    controller.peer.round_trip()
    controller.broker.wait_until(lambda b: b.manager.queues[controller.queue].statistics.depth == 0)
    assert not controller.peer.of(DispositionReceived)
