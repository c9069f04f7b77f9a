"""Acquisition in transactions: a flow names the one in which what comes is acquired (AMQP 1.0, part 4: 4.4.3,
4.4.4)."""

import pytest

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine.events import LinkDetached, TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    Discharge,
    Modified,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.performatives import Attach, Begin, Detach
from postroom.amqp.frames.termini import EXPIRY_NEVER, Source, Target
from postroom.amqp.frames.transfers import RCV_SECOND, RECEIVER, SND_SETTLED, Flow
from postroom.amqp.message.sections import decode_message
from postroom.server.configuration.config import TransactionsConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import detached
from tests.server.peers import OPENING, EnginePeer, RawPeer, frames
from tests.server.transaction_peer import (
    ROLLBACK,
    UNKNOWN,
    Controller,
    commit,
    new_xid,
    refused_with,
    roll_back,
    value,
)

pytestmark = pytest.mark.sockets

NOT_IMPLEMENTED = "amqp:not-implemented"


@pytest.fixture
def controller(broker: BrokerThread, queue: str, peer: EnginePeer) -> Controller:
    return Controller(broker, peer, queue)


def acquire(controller: Controller, txn_id: bytes | None, *texts: str) -> list[TransferReceived]:
    """Send these, and receive them after a flow that names the transaction."""
    for text in texts:
        controller.send(text)
    return receive(controller, controller.receiver, txn_id, len(texts))


def receive(
    controller: Controller, link: ReceiverLink, txn_id: bytes | None, count: int
) -> list[TransferReceived]:
    controller.peer.forget()
    link.flow(count, txn_id=txn_id)
    controller.peer.pump(lambda: len(controller.peer.of(TransferReceived)) >= count)
    return controller.peer.of(TransferReceived)


def txn_id_of(event: TransferReceived) -> bytes | None:
    """The transaction that a transfer names."""
    return bytes(event.state.txn_id) if isinstance(event.state, TransactionalState) else None


def counts(controller: Controller, text: str) -> int:
    """The delivery count with which it comes now."""
    message = decode_message(controller.receive().payload)
    assert message.header is not None and text.encode() in message.encode()
    return int(message.header.delivery_count or 0)


def test_transfers_name_the_transaction_until_a_flow_names_none(controller: Controller) -> None:
    txn_id = controller.declare()
    assert [txn_id_of(event) for event in acquire(controller, txn_id, "a", "b")] == [txn_id, txn_id]
    assert [txn_id_of(event) for event in acquire(controller, None, "c")] == [None]
    other = controller.declare()
    assert [txn_id_of(event) for event in acquire(controller, other, "d")] == [other]


def test_a_commit_applies_outcomes_and_leaves_the_rest_acquired(controller: Controller) -> None:
    """What has none goes on as any delivery of the link."""
    txn_id = controller.declare()
    first, second = acquire(controller, txn_id, "a", "b")
    controller.dispose(first.delivery_id, TransactionalState(txn_id, ACCEPTED))
    assert isinstance(commit(controller, txn_id), Accepted)
    assert controller.depth() == (0, 1)
    controller.dispose(second.delivery_id, ACCEPTED)
    controller.broker.wait_until(lambda b: int(b.manager.queues[controller.queue].statistics.depth) == 0)


@pytest.mark.parametrize("settled", [True, False])
def test_a_rollback_takes_back_what_was_acquired(controller: Controller, settled: bool) -> None:
    """With an outcome or without, and settled or not, where without acquisition it would stay."""
    txn_id = controller.declare()
    first, second = acquire(controller, txn_id, "a", "b")
    controller.dispose(first.delivery_id, TransactionalState(txn_id, ACCEPTED), settled)
    roll_back(controller, txn_id)
    assert controller.depth() == (2, 2)
    controller.peer.round_trip()
    assert controller.receiver.unsettled_count == 0, "the broker has said that both were released"
    assert [counts(controller, text) for text in ("a", "b")] == [1, 1]
    controller.dispose(second.delivery_id, ACCEPTED)  # of then: it means nothing now
    controller.peer.round_trip()
    assert controller.depth()[1] == 2


def test_the_discharge_clears_it_and_leaves_the_credit(controller: Controller) -> None:
    txn_id = controller.declare()
    controller.send("a")
    controller.peer.forget()
    controller.receiver.flow(5, txn_id=txn_id)
    controller.peer.wait_for(TransferReceived)
    assert isinstance(commit(controller, txn_id), Accepted)
    controller.send("b")
    controller.peer.wait_for(TransferReceived, 2)
    assert [txn_id_of(event) for event in controller.peer.of(TransferReceived)] == [txn_id, None]


def test_a_transaction_of_two_links_and_puts(controller: Controller, broker: BrokerThread) -> None:
    """One rollback for all of it; in receiver-settle-mode second, too."""
    other = controller.session.attach_receiver(
        "other", Source(address=controller.queue), Target(), rcv_settle_mode=RCV_SECOND
    )
    controller.peer.pump(lambda: other.attached)
    txn_id = controller.declare()
    acquire(controller, txn_id, "a")
    controller.send("b")
    (event,) = receive(controller, other, txn_id, 1)
    other.settle(event.delivery_id, event.delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.send("put", txn_id)
    assert controller.depth() == (0, 3)
    roll_back(controller, txn_id)
    assert controller.depth() == (2, 2)
    controller.peer.round_trip()
    assert (controller.receiver.unsettled_count, other.unsettled_count) == (0, 0)


@pytest.mark.parametrize("how", ["outside", "in another", "settled without one"])
def test_an_outcome_elsewhere_leaves_only_the_rollback(controller: Controller, how: str) -> None:
    txn_id, another = controller.declare(), controller.declare()
    (event,) = acquire(controller, txn_id, "a")
    states = {
        "outside": ACCEPTED,
        "in another": TransactionalState(another, ACCEPTED),
        "settled without one": None,
    }
    controller.dispose(event.delivery_id, states[how])
    assert refused_with(commit(controller, txn_id)) == ROLLBACK
    if how == "in another":
        assert refused_with(commit(controller, another)) == ROLLBACK
    assert controller.depth() == (1, 1)


def test_outcomes_of_other_kinds(controller: Controller) -> None:
    txn_id = controller.declare()
    first, second = acquire(controller, txn_id, "a", "b")
    controller.dispose(first.delivery_id, TransactionalState(txn_id, Released()))
    controller.dispose(second.delivery_id, TransactionalState(txn_id, Modified(delivery_failed=True)))
    assert isinstance(commit(controller, txn_id), Accepted)
    assert [counts(controller, text) for text in ("a", "b")] == [0, 1]


def test_a_transaction_that_can_only_be_rolled_back_acquires_nothing(
    controller: Controller, broker: BrokerThread
) -> None:
    txn_id = controller.declare()
    (event,) = acquire(controller, txn_id, "a")
    controller.dispose(event.delivery_id, ACCEPTED)  # outside
    controller.receiver.flow(5, txn_id=txn_id)
    controller.send("b")
    controller.peer.round_trip()
    assert controller.depth()[0] == 1
    controller.peer.forget()
    roll_back(controller, txn_id)
    controller.peer.wait_for(TransferReceived, 2)
    assert [txn_id_of(each) for each in controller.peer.of(TransferReceived)] == [None, None]


def test_a_lost_connection_gives_all_of_it_back(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id="lost") as peer:
        controller = Controller(broker, peer, queue)
        txn_id = controller.declare()
        event, _ = acquire(controller, txn_id, "a", "b")
        controller.dispose(event.delivery_id, TransactionalState(txn_id, ACCEPTED))
        peer.round_trip()
    broker.wait_until(lambda b: int(b.manager.queues[queue].statistics.current) == 2)
    broker.wait_until(lambda b: not b.manager.core.transactions.local)


def test_a_control_link_that_closes_takes_it_back(controller: Controller) -> None:
    txn_id = controller.declare()
    acquire(controller, txn_id, "a")
    controller.control.detach()
    controller.peer.pump(lambda: controller.receiver.unsettled_count == 0)
    assert controller.depth() == (1, 1)


def test_a_link_that_closes_gives_back_and_the_rest_is_committed(controller: Controller) -> None:
    txn_id = controller.declare()
    controller.send("put", txn_id)
    acquire(controller, txn_id, "a")
    controller.receiver.detach()
    detached(controller.peer, controller.receiver)
    assert isinstance(commit(controller, txn_id), Accepted)
    assert controller.depth() == (2, 2)


def test_a_rollback_waits_until_the_message_has_been_sent(broker: BrokerThread, queue: str) -> None:
    """Its window is shut in the midst of a message: the discharge is answered when the rest has gone."""
    with EnginePeer(
        broker.port, container_id="slow", incoming_window_frames=4, max_frame_size_bytes=512
    ) as peer:
        controller = Controller(broker, peer, queue)
        txn_id = controller.declare()
        controller.send("x" * 20_000)
        peer.forget()
        controller.receiver.flow(1, txn_id=txn_id)
        peer.wait_for(TransferReceived)
        discharge = controller.control.send(value(Discharge(txn_id, True)), controller.tag(), False)
        peer.pump(lambda: discharge.settled)
        arrived = peer.of(TransferReceived)
        assert not arrived[-1].more and {txn_id_of(each) for each in arrived} == {txn_id}
        peer.pump(lambda: controller.receiver.unsettled_count == 0)
        assert controller.depth() == (1, 1)


def test_after_a_time_out_it_has_gone_back_and_outcomes_of_then_mean_nothing(queue: str) -> None:
    """Not even where the same link has been given the message again, outside of the transaction."""
    config = make_config(transactions=TransactionsConfig(timeout_ms=1))
    with BrokerThread(config) as broker, EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("a")
        txn_id = controller.declare()
        controller.receiver.flow(1, txn_id=txn_id)
        broker.wait_until(lambda b: not b.manager.core.transactions.local)
        peer.round_trip()
        old = [event.delivery_id for event in peer.of(TransferReceived)]
        (again,) = receive(controller, controller.receiver, None, 1)
        for delivery_id in old:
            controller.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED), False)
        peer.round_trip()
        assert controller.depth() == (0, 1)
        assert refused_with(commit(controller, txn_id)) == "amqp:transaction:timeout"
        controller.dispose(again.delivery_id, ACCEPTED)
        broker.wait_until(lambda b: int(b.manager.queues[queue].statistics.depth) == 0)


def test_a_link_that_is_resumed_has_it_in_no_transaction(broker: BrokerThread, queue: str) -> None:
    """A rollback afterwards touches nothing of what the link has been given since."""
    lasting = Source(address=queue, expiry_policy=EXPIRY_NEVER, timeout=60)
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.receiver.detach()
        detached(peer, controller.receiver)
        link = controller.session.attach_receiver("lasting", lasting, Target())
        peer.pump(lambda: link.attached)
        txn_id = controller.declare()
        controller.send("a")
        (event,) = receive(controller, link, txn_id, 1)
        link.detach(closed=False)
        detached(peer, link)
        peer.forget()
        link = controller.session.attach_receiver("lasting", lasting, Target(), unsettled={event.tag: None})
        link.flow(3)
        peer.pump(lambda: any(each.tag != event.tag for each in peer.of(TransferReceived)))
        new = peer.of(TransferReceived)[-1]
        assert txn_id_of(new) is None
        roll_back(controller, txn_id)
        peer.round_trip()
        assert (controller.depth(), link.unsettled_count) == ((0, 1), 1)
        link.settle(new.delivery_id, new.delivery_id, ACCEPTED)
        peer.flush()
        broker.wait_until(lambda b: int(b.manager.queues[queue].statistics.depth) == 0)


# --- bad input


def raw_flow(broker: BrokerThread, queue: str, txn_id: object, attach: Attach | None = None) -> Detach:
    """What the broker answers to a flow with this txn-id."""
    attach = attach or Attach(
        name="r", handle=0, role=RECEIVER, source=Source(address=queue), target=Target()
    )
    flow = Flow(
        1000,
        0,
        1000,
        next_incoming_id=0,
        handle=0,
        delivery_count=0,
        link_credit=10,
        properties={Symbol("txn-id"): txn_id},
    )
    with RawPeer(broker.port) as raw:
        begin = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
        raw.send(OPENING + frames(begin, attach, flow))
        return raw.wait_for(Detach)


@pytest.mark.parametrize(
    ("txn_id", "condition"),
    [
        (b"\0", UNKNOWN),
        (b"", UNKNOWN),
        (b"x" * 33, UNKNOWN),
        ("text", "amqp:invalid-field"),
        (7, "amqp:invalid-field"),
        ([b"\0"], "amqp:invalid-field"),
    ],
)
def test_an_id_that_is_none(broker: BrokerThread, queue: str, txn_id: object, condition: str) -> None:
    answer = raw_flow(broker, queue, txn_id)
    assert answer.closed and answer.error is not None and answer.error.condition == condition


def test_one_of_another_connection_or_that_is_over(
    controller: Controller, broker: BrokerThread, queue: str
) -> None:
    txn_id = controller.declare()
    error = raw_flow(broker, queue, txn_id).error
    assert error is not None and error.condition == UNKNOWN
    assert isinstance(commit(controller, txn_id), Accepted)
    controller.receiver.flow(1, txn_id=txn_id)
    assert controller.detached_with() == UNKNOWN


@pytest.mark.parametrize(
    "attach",
    [
        {"source": Source(address="acquire-none", distribution_mode="copy")},
        {"source": Source(address="acquire-none"), "snd_settle_mode": SND_SETTLED},
        {"source": Source(address="acquire-none"), "properties": {Symbol("x-opt-xa"): True}},
        {"source": Source(address="$management")},
    ],
    ids=["browser", "pre-settled", "for branches", "management"],
)
def test_links_that_acquire_nothing(broker: BrokerThread, attach: dict[str, object]) -> None:
    performative = Attach(name="r", handle=0, role=RECEIVER, target=Target(), **attach)  # type: ignore[arg-type]
    answer = raw_flow(broker, "", b"\0", performative)
    assert answer.closed and answer.error is not None and answer.error.condition == NOT_IMPLEMENTED


def test_a_branch_is_not_named_in_a_flow(controller: Controller) -> None:
    controller.receiver.flow(1, txn_id=controller.start(new_xid()))
    assert controller.detached_with() == "amqp:not-allowed"


def test_a_txn_id_of_null_is_none(controller: Controller) -> None:
    (event,) = acquire(controller, None, "a")
    assert txn_id_of(event) is None
    assert not controller.peer.of(LinkDetached)
