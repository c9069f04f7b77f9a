"""Local transactions by the letter of part 4: what is in one unit of work, what is an error."""

from collections.abc import Callable, Iterator

import pytest
from librt.strings import BytesWriter

from postroom.amqp.engine.events import LinkDetached, TransferReceived
from postroom.amqp.frames.frames import write_frame
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Declare,
    Declared,
    Discharge,
    Modified,
    TransactionalState,
)
from postroom.amqp.frames.performatives import Attach, Begin, Detach
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import RCV_SECOND, RECEIVER, SENDER, Disposition, Flow, Transfer
from tests.server.harness import BrokerThread
from tests.server.peers import OPENING, EnginePeer, RawPeer, frames
from tests.server.transaction_peer import (
    ROLLBACK,
    Controller,
    commit,
    durable,
    refused_with,
    roll_back,
    value,
)

pytestmark = pytest.mark.sockets


# What is in one unit of work.


def test_many_links_sends_and_acknowledgements_in_one_unit(broker: BrokerThread, queue: str) -> None:
    """Two sessions, two queues in, two queues out."""
    with EnginePeer(broker.port, container_id=queue) as peer:
        one, two = Controller(broker, peer, queue), Controller(broker, peer, queue + ".2")
        one.send("in-1")
        two.send("in-2")
        txn_id = one.declare()
        for each in (one, two):
            each.dispose(each.receive().delivery_id, TransactionalState(txn_id, ACCEPTED))
            each.send("out", txn_id)
        assert (one.depth(), two.depth()) == ((0, 2), (0, 2))
        assert isinstance(commit(one, txn_id), Accepted)
        assert (one.depth(), two.depth()) == ((1, 1), (1, 1))
        assert (one.receive_text(), two.receive_text()) == ("out", "out")


def test_a_rollback_undoes_all_of_it(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        one, two = Controller(broker, peer, queue), Controller(broker, peer, queue + ".2")
        one.send("in-1")
        txn_id = one.declare()
        one.dispose(one.receive().delivery_id, TransactionalState(txn_id, ACCEPTED))
        two.send("out", txn_id)
        roll_back(one, txn_id)
        assert (one.depth(), two.depth()) == ((1, 1), (0, 0))


def test_rolled_back_deliveries_come_back_in_their_order_with_their_count(controller: Controller) -> None:
    for text in "abc":
        controller.send(text)
    txn_id = controller.declare()
    ids = [controller.receive().delivery_id for _ in "abc"]
    for delivery_id in reversed(ids):
        controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED))
    roll_back(controller, txn_id)
    assert [controller.receive_text() for _ in "abc"] == ["a", "b", "c"]
    assert counts(controller, 3) == [1, 1, 1]


def counts(controller: Controller, length: int) -> list[int]:
    """Delivery counts of what the controller's receiver holds."""
    name = controller.queue

    def read(b: object) -> list[int]:
        queue = b.manager.queues[name]  # type: ignore[attr-defined]
        held = [entry for consumer in queue.attached.consumers for entry in consumer.held]
        return [int(entry.delivery_count) for entry in held]

    found = controller.broker.call(read)
    assert len(found) == length
    return found


def test_an_outcome_other_than_accepted_takes_effect_with_the_commit(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, Modified(delivery_failed=True)))
    controller.peer.round_trip()
    assert controller.depth() == (0, 1)
    commit(controller, txn_id)
    assert controller.depth() == (1, 1)


# Retiring: settled later, again, without an outcome, in another transaction.


def test_what_is_settled_after_its_outcome_returns_with_a_rollback(controller: Controller) -> None:
    """The outcome first, unsettled, then the settlement: the receiver has forgotten the delivery."""
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), True)
    roll_back(controller, txn_id)
    assert controller.depth() == (1, 1)
    assert controller.receive_text() == "x"


def test_settling_without_a_state_leaves_the_outcome_as_it_is(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.dispose(delivery_id, None, True)
    assert isinstance(commit(controller, txn_id), Accepted)
    assert controller.depth() == (0, 0)


def test_an_unsettled_delivery_stays_with_its_receiver_until_it_is_released(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    roll_back(controller, txn_id)
    assert controller.depth() == (0, 1)
    controller.dispose(delivery_id, RELEASED)
    assert controller.receive_text() == "x"


def test_an_unsettled_delivery_may_be_retired_in_another_transaction_after_a_rollback(
    controller: Controller,
) -> None:
    controller.send("x")
    first = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(first, ACCEPTED), False)
    roll_back(controller, first)
    again = controller.declare()
    controller.dispose(delivery_id, TransactionalState(again, ACCEPTED), False)
    assert isinstance(commit(controller, again), Accepted)
    assert controller.depth() == (0, 0)


def test_an_unsettled_delivery_goes_back_when_its_link_is_detached(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    roll_back(controller, txn_id)
    controller.receiver.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.depth() == (1, 1)


def test_an_unsettled_delivery_goes_back_when_its_connection_is_lost(
    broker: BrokerThread, queue: str
) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("x")
        txn_id = controller.declare()
        delivery_id = controller.receive().delivery_id
        controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
        roll_back(controller, txn_id)
    broker.wait_until(lambda b: b.manager.queues[queue].statistics.current == 1)


def test_a_link_may_detach_with_receipts_in_an_open_transaction(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    controller.dispose(controller.receive().delivery_id, TransactionalState(txn_id, ACCEPTED))
    controller.receiver.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.depth() == (0, 1)
    assert isinstance(commit(controller, txn_id), Accepted)
    assert controller.depth() == (0, 0)


def test_the_outcome_of_an_unsettled_delivery_is_answered_with_the_commit(
    broker: BrokerThread, queue: str
) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        receiver = controller.session.attach_receiver(
            "second", Source(address=queue), Target(), rcv_settle_mode=RCV_SECOND
        )
        peer.pump(lambda: receiver.attached)
        controller.send("x")
        receiver.flow(1)
        delivery_id = peer.wait_for(TransferReceived).delivery_id
        txn_id = controller.declare()
        receiver.settle(delivery_id, delivery_id, TransactionalState(txn_id, ACCEPTED), False)
        peer.round_trip()
        assert receiver.unsettled_count == 1
        commit(controller, txn_id)
        peer.pump(lambda: receiver.unsettled_count == 0)


def test_a_transaction_without_an_outcome_decides_nothing(controller: Controller) -> None:
    controller.send("x")
    txn_id = controller.declare()
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(txn_id, None), False)
    assert isinstance(commit(controller, txn_id), Accepted)
    assert controller.depth() == (0, 1)
    controller.dispose(delivery_id, ACCEPTED)
    controller.broker.wait_until(lambda b: b.manager.queues[controller.queue].statistics.depth == 0)


def test_a_delivery_in_two_open_transactions_can_be_committed_by_the_first_only(
    controller: Controller,
) -> None:
    controller.send("x")
    first, other = controller.declare(), controller.declare()
    controller.send("of the other", other)
    delivery_id = controller.receive().delivery_id
    controller.dispose(delivery_id, TransactionalState(first, ACCEPTED), False)
    controller.dispose(delivery_id, TransactionalState(other, ACCEPTED), False)
    assert refused_with(commit(controller, other)) == ROLLBACK
    assert controller.depth() == (0, 1)
    assert isinstance(commit(controller, first), Accepted)
    assert controller.depth() == (0, 0)


# Posting.


def test_a_send_that_is_refused_is_answered_in_its_transaction(controller: Controller) -> None:
    txn_id = controller.declare()
    delivery = controller.sender.send(
        b"no message", controller.tag(), False, state=TransactionalState(txn_id)
    )
    controller.peer.pump(lambda: delivery.settled)
    answer = delivery.state
    assert isinstance(answer, TransactionalState) and answer.txn_id == txn_id
    assert refused_with(answer.outcome) == "amqp:decode-error"
    assert isinstance(commit(controller, txn_id), Accepted)  # its sender has been told


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c, state: c.sender.send(b"no message", c.tag(), True, state=state),
        lambda c, state: c.sender.send(b"no message" * 100_000, c.tag(), True, state=state),
        lambda c, state: c.sender.send(durable("x"), c.tag(), True, 7, state=state),
    ],
    ids=["no message", "no message, large", "another format"],
)
def test_a_presettled_send_that_fails_leaves_nothing_but_rollback(
    controller: Controller, spoil: Callable[[Controller, TransactionalState], object]
) -> None:
    txn_id = controller.declare()
    controller.send("x", txn_id)
    spoil(controller, TransactionalState(txn_id))
    assert refused_with(commit(controller, txn_id)) == ROLLBACK
    assert controller.depth() == (0, 0)


def test_a_large_message_is_one_of_its_transaction(controller: Controller) -> None:
    txn_id = controller.declare()
    text = "0123456789" * 150_000
    controller.send(text, txn_id)
    assert controller.depth() == (0, 1)
    commit(controller, txn_id)
    controller.receiver.flow(1)
    got = b""
    while not got.endswith(b"9") or len(got) < len(text):
        controller.peer.pump(lambda: bool(controller.peer.of(TransferReceived)))
        got += b"".join(event.payload for event in controller.peer.of(TransferReceived))
        controller.peer.forget()
    assert got.endswith(text.encode())


def attach(name: str, handle: int, target: Target | Coordinator) -> Attach:
    return Attach(
        name=name,
        handle=handle,
        role=SENDER,
        source=Source(),
        target=target,
        initial_delivery_count=0,
    )


class RawPoster:
    """Posts frame by frame, as no engine would."""

    def __init__(self, broker: BrokerThread, queue: str) -> None:
        self.peer = RawPeer(broker.port)
        self.peer.send(
            OPENING
            + frames(
                Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000),
                attach("control", 0, Coordinator()),
                attach("s", 1, Target(address=queue)),
            )
        )
        self.peer.wait_for(Flow)
        self.next_id = 0

    def declare(self) -> bytes:
        state = self.outcome_of(self.post(0, value(Declare())))
        assert isinstance(state, Declared)
        return bytes(state.txn_id)

    def post(
        self, handle: int, payload: bytes, state: TransactionalState | None = None, more: bool = False
    ) -> int:
        """The first frame of a delivery; its id."""
        delivery_id, self.next_id = self.next_id, self.next_id + 1
        tag = delivery_id.to_bytes(4, "big")
        first = Transfer(handle, delivery_id, tag, message_format=0, settled=False, more=more, state=state)
        self.peer.send(self.frame(first, payload))
        return delivery_id

    def go_on(self, payload: bytes, state: TransactionalState | None = None, more: bool = False) -> None:
        self.peer.send(self.frame(Transfer(1, more=more, state=state), payload))

    @staticmethod
    def frame(transfer: Transfer, payload: bytes) -> bytes:
        writer = BytesWriter()
        write_frame(writer, 0, transfer, payload)
        return writer.getvalue()

    def outcome_of(self, delivery_id: int) -> object:
        while True:
            for each in self.peer.of(Disposition):
                if each.role == RECEIVER and each.first <= delivery_id <= each.last:
                    return each.state
            self.peer.more()


@pytest.fixture
def raw(broker: BrokerThread, queue: str) -> Iterator[RawPoster]:
    poster = RawPoster(broker, queue)
    yield poster
    poster.peer.cut()


def test_every_frame_of_a_delivery_names_the_same_transaction(raw: RawPoster) -> None:
    state = TransactionalState(raw.declare())
    whole = durable("x")
    delivery_id = raw.post(1, whole[:5], state, more=True)
    raw.go_on(whole[5:], state)
    answer = raw.outcome_of(delivery_id)
    assert isinstance(answer, TransactionalState) and isinstance(answer.outcome, Accepted)


@pytest.mark.parametrize("named", ["1-1", "-1-", "121", "112", "--1", "1--"])
def test_a_frame_that_names_no_transaction_or_another_costs_the_message(
    raw: RawPoster, broker: BrokerThread, queue: str, named: str
) -> None:
    """``named``: which transaction each of three frames names."""
    states = {"1": TransactionalState(raw.declare()), "2": TransactionalState(raw.declare())}
    whole = durable("x")
    delivery_id = raw.post(1, whole[:5], states.get(named[0]), more=True)
    raw.go_on(whole[5:10], states.get(named[1]), more=True)
    raw.go_on(whole[10:], states.get(named[2]))
    answer = raw.outcome_of(delivery_id)
    outcome = answer.outcome if isinstance(answer, TransactionalState) else answer
    assert refused_with(outcome) == "amqp:not-allowed"
    assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 0


def test_frames_of_a_presettled_message_that_name_different_transactions_spoil_both(raw: RawPoster) -> None:
    one, other = TransactionalState(raw.declare()), TransactionalState(raw.declare())
    whole = durable("x")
    tag = raw.next_id.to_bytes(4, "big")
    raw.peer.send(
        raw.frame(
            Transfer(1, raw.next_id, tag, message_format=0, settled=True, more=True, state=one), whole[:5]
        )
    )
    raw.next_id += 1
    raw.go_on(whole[5:], other)
    for state in (one, other):
        discharged = raw.post(0, value(Discharge(state.txn_id, False)))
        assert refused_with(raw.outcome_of(discharged)) == ROLLBACK


def test_a_management_request_is_in_no_transaction(controller: Controller) -> None:
    requests = controller.session.attach_sender("r", Source(), Target(address="$management"))
    controller.peer.pump(lambda: requests.credit > 0)
    state = TransactionalState(controller.declare())
    delivery = requests.send(durable("x"), controller.tag(), False, state=state)
    controller.peer.pump(lambda: delivery.settled)
    assert refused_with(delivery.state) == "amqp:not-implemented"


def test_a_discharge_over_a_partial_delivery_ends_the_control_link(
    raw: RawPoster, broker: BrokerThread, queue: str
) -> None:
    txn_id = raw.declare()
    raw.post(1, durable("whole"), TransactionalState(txn_id))
    raw.post(1, durable("x")[:5], TransactionalState(txn_id), more=True)
    raw.post(0, value(Discharge(txn_id, False)))
    error = raw.peer.wait_for(Detach).error
    assert error is not None and error.condition == ROLLBACK
    assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 0


def test_an_aborted_delivery_is_no_partial_one(raw: RawPoster) -> None:
    txn_id = raw.declare()
    raw.post(1, durable("x")[:5], TransactionalState(txn_id), more=True)
    raw.peer.send(raw.frame(Transfer(1, aborted=True), b""))
    delivery_id = raw.post(0, value(Discharge(txn_id, False)))
    assert isinstance(raw.outcome_of(delivery_id), Accepted)


# Settling without an outcome.


@pytest.mark.parametrize(
    ("default", "failed"), [(None, 0), (Modified(delivery_failed=True), 1)], ids=["released", "modified"]
)
def test_settling_without_an_outcome_applies_the_default_outcome(
    broker: BrokerThread, queue: str, default: Modified | None, failed: int
) -> None:
    """Of the source; where it has none, released."""
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        source = Source(address=queue, default_outcome=default)
        receiver = controller.session.attach_receiver("default", source, Target())
        peer.pump(lambda: receiver.attached)
        controller.send("x")
        receiver.flow(1)
        delivery_id = peer.wait_for(TransferReceived).delivery_id
        receiver.settle(delivery_id, delivery_id, None)
        assert controller.receive_text() == "x"
        assert counts(controller, 1) == [failed]
