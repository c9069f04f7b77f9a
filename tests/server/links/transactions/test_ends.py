"""What ends local transactions: discharge, closed and lost links, time-outs, limits."""

from collections.abc import Iterator

import pytest

from postroom.amqp.engine.events import LinkDetached, SessionEnded
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Declare,
    TransactionalState,
)
from postroom.server.configuration.config import TransactionsConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import (
    ROLLBACK,
    TIMEOUT,
    UNKNOWN,
    Controller,
    commit,
    refused_with,
    roll_back,
)

pytestmark = pytest.mark.sockets


# What ends transactions.


def test_the_end_of_the_session_of_the_control_link_rolls_back(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        one, two = Controller(broker, peer, queue), Controller(broker, peer, queue)
        two.send("x", one.declare())
        one.session.end()
        peer.wait_for(SessionEnded)
        assert two.depth() == (0, 0)


def test_an_orderly_close_rolls_back(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("x", controller.declare())
        peer.engine.close()
        peer.flush()
        broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth == 0)


def test_a_suspending_detach_of_the_control_link_rolls_back_too(controller: Controller) -> None:
    """It can't be resumed."""
    controller.send("x", controller.declare())
    controller.control.detach(closed=False)
    controller.peer.wait_for(LinkDetached)
    assert controller.depth() == (0, 0)


def test_what_was_retired_in_a_transaction_of_a_closed_control_link_is_its_receivers_again(
    controller: Controller,
) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.control.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.depth() == (0, 1)
    controller.dispose(delivery_id, RELEASED, False)
    controller.peer.pump(lambda: controller.receiver.unsettled_count == 0)
    assert controller.depth() == (1, 1)


def test_a_discharge_is_of_the_link_that_has_declared(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        one, two = Controller(broker, peer, queue), Controller(broker, peer, queue)
        txn_id = one.declare()
        two.send("x", txn_id)  # any session of the connection may work in it
        assert refused_with(commit(two, txn_id)) == UNKNOWN
        assert isinstance(commit(one, txn_id), Accepted)


def test_transactions_are_of_their_connection(controller: Controller, second: Controller) -> None:
    assert refused_with(second.send("x", controller.declare())) == UNKNOWN


def test_a_transaction_is_discharged_once(controller: Controller) -> None:
    txn_id = controller.declare()
    commit(controller, txn_id)
    assert refused_with(commit(controller, txn_id)) == UNKNOWN
    assert refused_with(controller.send("x", txn_id)) == UNKNOWN


# Time-outs and limits.


def open_with(settings: TransactionsConfig, queue: str) -> Iterator[Controller]:
    config = make_config((queue,), transactions=settings)
    with BrokerThread(config) as broker, EnginePeer(broker.port) as peer:
        yield Controller(broker, peer, queue)


@pytest.fixture
def hasty(queue: str) -> Iterator[Controller]:
    yield from open_with(TransactionsConfig(timeout_ms=1), queue)


@pytest.fixture
def narrow(queue: str) -> Iterator[Controller]:
    yield from open_with(TransactionsConfig(max_open=2, max_messages=2), queue)


def none_open(controller: Controller) -> None:
    controller.broker.wait_until(lambda b: not b.manager.core.transactions.local)


def test_a_transaction_that_is_open_too_long_is_rolled_back(hasty: Controller) -> None:
    hasty.send("x")
    txn_id = hasty.declare()
    none_open(hasty)
    assert refused_with(hasty.send("y", txn_id)) == TIMEOUT
    assert refused_with(commit(hasty, txn_id)) == TIMEOUT
    assert hasty.depth() == (1, 1)


def test_the_rollback_of_a_transaction_that_has_timed_out_succeeds(hasty: Controller) -> None:
    txn_id = hasty.declare()
    none_open(hasty)
    roll_back(hasty, txn_id)


def test_an_outcome_in_a_transaction_that_has_timed_out_returns_the_delivery(hasty: Controller) -> None:
    hasty.send("x")
    delivery_id = hasty.receive().delivery_id
    txn_id = hasty.declare()
    none_open(hasty)
    hasty.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert hasty.receive_text() == "x"


def test_after_a_time_out_an_unsettled_delivery_is_answered_as_ever(hasty: Controller) -> None:
    hasty.send("x")
    delivery_id = hasty.receive().delivery_id
    txn_id = hasty.declare()
    hasty.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    hasty.peer.round_trip()
    none_open(hasty)
    hasty.dispose(delivery_id, ACCEPTED, False)
    hasty.peer.pump(lambda: hasty.receiver.unsettled_count == 0)
    assert hasty.depth() == (0, 0)


def test_more_transactions_than_allowed_are_refused(narrow: Controller) -> None:
    narrow.declare()
    narrow.declare()
    assert refused_with(narrow.send_control(Declare())) == "amqp:resource-limit-exceeded"


def test_transactions_that_have_timed_out_count_until_they_are_discharged(queue: str) -> None:
    for controller in open_with(TransactionsConfig(max_open=2, timeout_ms=1), queue):
        first = controller.declare()
        controller.declare()
        none_open(controller)
        assert refused_with(controller.send_control(Declare())) == "amqp:resource-limit-exceeded"
        roll_back(controller, first)
        controller.declare()


def test_one_message_too_many_leaves_nothing_but_rollback(narrow: Controller) -> None:
    txn_id = narrow.declare()
    narrow.send("1", txn_id)
    narrow.send("2", txn_id)
    state = narrow.send("3", txn_id)
    assert isinstance(state, TransactionalState)
    assert refused_with(state.outcome) == "amqp:resource-limit-exceeded"
    assert refused_with(commit(narrow, txn_id)) == ROLLBACK
    assert narrow.depth() == (0, 0)


def test_one_acknowledgement_too_many_goes_back_when_it_was_settled(narrow: Controller) -> None:
    for text in "abc":
        narrow.send(text)
    txn_id = narrow.declare()
    for _ in "abc":
        narrow.dispose(narrow.receive().delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert refused_with(commit(narrow, txn_id)) == ROLLBACK
    assert narrow.depth() == (3, 3)
    assert [narrow.receive_text() for _ in "abc"] == ["a", "b", "c"]
