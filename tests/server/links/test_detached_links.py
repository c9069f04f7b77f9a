"""Deliveries of links that are detached, not closed, live on in their session (part 2, section 2.7.6), and
outcomes for them are applied. Where they can't be, no transaction is committed that was to have them.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from proton import Delivery, Endpoint, Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container

from postroom.amqp.engine.events import (
    CreditChanged,
    DispositionReceived,
    LinkAttached,
    LinkDetached,
    SenderDispositionReceived,
    TransferReceived,
)
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.termini import EXPIRY_CONNECTION_CLOSE, EXPIRY_LINK_DETACH, Source, Target
from postroom.amqp.frames.transfers import RCV_SECOND
from postroom.cli import main
from postroom.client import ConnectionFactory
from tests.server.client_messages import depth
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import payload, receiving, send, sending, transfers
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import ROLLBACK, Controller, commit, refused_with, roll_back

pytestmark = pytest.mark.sockets


def detach(peer: EnginePeer, link: ReceiverLink | SenderLink, closed: bool = False) -> None:
    """Have the link detached at both ends."""
    link.detach(closed=closed)
    peer.pump(lambda: any(event.link is link for event in peer.of(LinkDetached)))


def dispose(peer: EnginePeer, link: ReceiverLink, event: TransferReceived, state: DeliveryState) -> None:
    link.settle(event.delivery_id, event.delivery_id, state)
    peer.flush()


def received(
    peer: EnginePeer, queue: str, *texts: str, **attach: object
) -> tuple[ReceiverLink, list[TransferReceived]]:
    """A link that has been given these messages."""
    send(peer, sending(peer, "s", Target(address=queue)), *texts)
    link = receiving(peer, "r", Source(address=queue), **attach)
    link.flow(len(texts))
    return link, transfers(peer, link, len(texts))


# Outcomes.


def test_an_outcome_on_a_detached_link_is_applied(broker: BrokerThread, peer: EnginePeer, queue: str) -> None:
    link, events = received(peer, queue, "one", "two", "three")
    detach(peer, link)
    dispose(peer, link, events[0], ACCEPTED)
    dispose(peer, link, events[1], Modified(delivery_failed=True))
    broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth == 2)
    other = receiving(peer, "other", Source(address=queue))
    other.flow(5)
    [again] = transfers(peer, other, 1)
    assert again.payload.endswith(b"two")  # the third is the detached link's until its session ends
    peer.session().end()


def test_an_outcome_that_waits_for_an_answer_gets_it(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    link, [event] = received(peer, queue, "x", rcv_settle_mode=RCV_SECOND)
    detach(peer, link)
    link.settle(event.delivery_id, event.delivery_id, ACCEPTED, False)
    peer.pump(lambda: bool(peer.of(SenderDispositionReceived)))
    assert peer.of(SenderDispositionReceived)[0].settled
    assert depth(broker, queue) == 0


def test_an_outcome_that_comes_too_late_is_answered_with_what_became_of_the_message(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    send(peer, sending(peer, "s", Target(address=queue)), "x")
    source = Source(address=queue, expiry_policy=EXPIRY_LINK_DETACH)
    link = receiving(peer, "r", source, rcv_settle_mode=RCV_SECOND)
    link.flow(1)
    [event] = transfers(peer, link, 1)
    detach(peer, link)
    link.settle(event.delivery_id, event.delivery_id, ACCEPTED, False)
    answer = peer.wait_for(SenderDispositionReceived)
    assert answer.settled and isinstance(answer.state, Released)
    assert depth(broker, queue) == 1


@pytest.mark.parametrize("end", [commit, roll_back])
def test_an_outcome_in_a_transaction(
    broker: BrokerThread, queue: str, end: Callable[[Controller, bytes], object]
) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("x")
        txn_id, event = controller.declare(), controller.receive()
        detach(peer, controller.receiver)
        controller.dispose(event.delivery_id, TransactionalState(txn_id, ACCEPTED))
        end(controller, txn_id)
        assert depth(broker, queue) == (0 if end is commit else 1)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "its terminus ends when it is detached"])
def test_a_transaction_whose_outcome_came_too_late_is_rolled_back(
    broker: BrokerThread, queue: str, closed: bool
) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("x")
        source = Source(address=queue, expiry_policy=EXPIRY_LINK_DETACH)
        link = controller.session.attach_receiver("mine", source, Target())
        link.flow(1)
        [event] = transfers(peer, link, 1)
        txn_id = controller.declare()
        controller.send("y", txn_id)
        link.detach(closed=closed)
        peer.pump(lambda: any(event.link is link for event in peer.of(LinkDetached)))
        # as a client does that has sent this before it knew of the end of its link
        controller.session.deliveries.send_disposition(
            True, event.delivery_id, event.delivery_id, True, TransactionalState(txn_id, ACCEPTED)
        )
        assert refused_with(commit(controller, txn_id)) == ROLLBACK
        assert depth(broker, queue) == 1


def test_an_outcome_given_before_the_link_was_closed_stands(broker: BrokerThread, queue: str) -> None:
    """That its receiver settles it afterwards changes nothing."""
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("x")
        txn_id, event = controller.declare(), controller.receive()
        state = TransactionalState(txn_id, ACCEPTED)
        controller.dispose(event.delivery_id, state, settled=False)
        detach(peer, controller.receiver, closed=True)
        controller.session.deliveries.send_disposition(
            True, event.delivery_id, event.delivery_id, True, state
        )
        assert isinstance(commit(controller, txn_id), Accepted)
        assert depth(broker, queue) == 0


def test_a_stolen_link_hears_no_outcome_of_its_other_life(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    """The link is attached on another connection: what is said on the first is of nothing there."""
    link, [event] = received(peer, queue, "x")
    detach(peer, link)
    with EnginePeer(broker.port, container_id=queue) as second:
        again = (
            second.open()
            .session()
            .attach_receiver("r", Source(address=queue), Target(), unsettled={event.tag: None})
        )
        second.wait_for(LinkAttached)
        dispose(peer, link, event, ACCEPTED)
        again.flow(2)
        fresh = [each for each in transfers(second, again, 3) if each.payload]
        assert [each.payload[-1:] for each in fresh] == [b"x"]


# Links that come again.


def test_a_detached_link_is_resumed_with_what_is_open(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    link, events = received(peer, queue, "one", "two", "three")
    detach(peer, link)
    dispose(peer, link, events[0], ACCEPTED)
    peer.forget()
    unsettled: dict[bytes, DeliveryState | None] = {events[1].tag: ACCEPTED, events[2].tag: None}
    again = peer.session().attach_receiver("r", Source(address=queue), Target(), unsettled=unsettled)
    attach = peer.wait_for(LinkAttached).attach
    assert attach.unsettled == {events[1].tag: None, events[2].tag: None}
    broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth == 1)  # without another word
    again.flow(5)
    fields = {event.tag: event for event in transfers(peer, again, 4) if event.resume}
    assert isinstance(fields[events[1].tag].state, Accepted) and fields[events[1].tag].settled


def test_an_outcome_in_a_map_is_applied_once(broker: BrokerThread, peer: EnginePeer, queue: str) -> None:
    """In a mode in which nothing may be sent settled, it is the client that settles."""
    link, [event] = received(peer, queue, "x", snd_settle_mode=0, rcv_settle_mode=RCV_SECOND)
    detach(peer, link)
    again = peer.session().attach_receiver(
        "r",
        Source(address=queue),
        Target(),
        unsettled={event.tag: Rejected()},
        snd_settle_mode=0,
        rcv_settle_mode=RCV_SECOND,
    )
    again.flow(5)
    [resumed] = [each for each in transfers(peer, again, 1) if each.resume]
    assert isinstance(resumed.state, Rejected) and not resumed.settled
    again.settle(resumed.delivery_id, resumed.delivery_id, Rejected(), False)
    peer.pump(lambda: bool(peer.of(SenderDispositionReceived)))
    assert depth(broker, queue) == 0


def test_a_sender_that_comes_again_learns_what_was_answered(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    link = sending(peer, "s", Target(address=queue), rcv_settle_mode=RCV_SECOND)
    link.send(payload("x"), b"tag-1", False)
    peer.wait_for(DispositionReceived)
    detach(peer, link)
    peer.forget()
    unsettled: dict[bytes, DeliveryState | None] = {b"tag-1": None, b"tag-2": None}
    again = peer.session().attach_sender(
        "s", Source(), Target(address=queue), rcv_settle_mode=RCV_SECOND, unsettled=unsettled
    )
    assert peer.wait_for(LinkAttached).attach.unsettled == {b"tag-1": ACCEPTED}
    peer.wait_for(CreditChanged)
    again.send(b"", b"tag-1", True, resume=True)
    again.send(payload("y"), b"tag-2", False)
    peer.wait_for(DispositionReceived)
    assert depth(broker, queue) == 2


@pytest.mark.parametrize("policy", ["session-end", EXPIRY_CONNECTION_CLOSE])
def test_a_sender_of_the_usual_mode_finds_nothing_open(
    broker: BrokerThread, peer: EnginePeer, queue: str, policy: str
) -> None:
    """Everything that came was answered, on the detached link too."""
    target = Target(address=queue, expiry_policy=policy)
    link = sending(peer, "s", target)
    link.send(payload("x"), b"tag-1", False)
    link.detach(closed=False)
    peer.wait_for(DispositionReceived)
    again = peer.session().attach_sender("s", Source(), target, unsettled={b"tag-2": None})
    peer.pump(lambda: again.attached)
    assert again.peer_attach is not None and again.peer_attach.unsettled == {}
    assert [each.deliveries[0].tag for each in peer.of(DispositionReceived)] == [b"tag-1"]
    assert depth(broker, queue) == 1


# A client that nobody here wrote, the ledger, and the next start.


class Detaching(MessagingHandler):
    """Gets two messages, detaches its link, and only then accepts the first of them."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__(prefetch=2, auto_accept=False)
        self.url, self.queue = url, queue
        self.deliveries: list[Delivery] = []
        self.bodies: list[object] = []

    def on_start(self, event: Event) -> None:
        self.connection = event.container.connect(self.url)
        self.receiver = event.container.create_receiver(self.connection, self.queue)

    def on_message(self, event: Event) -> None:
        self.deliveries.append(event.delivery)
        self.bodies.append(event.message.body)
        if len(self.deliveries) == 2:
            self.receiver.detach()

    def on_link_remote_detach(self, event: Event) -> None:
        self.accept(self.deliveries[0])
        event.container.create_sender(self.connection, "seen", options=AtMostOnce())

    def on_sendable(self, event: Event) -> None:
        if not event.sender.state & Endpoint.LOCAL_CLOSED:
            event.sender.send(Message(body="done"))
            event.sender.close()
            self.connection.close()


def test_proton_accepts_on_a_detached_link(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    config = make_config(("orders", "seen"))
    with BrokerThread(config, folder=folder) as first:
        with ConnectionFactory(first.url).create_connection() as connection:
            producer = connection.create_session().create_producer("orders")
            for body in ("one", "two"):
                producer.send(body)
        handler = Detaching(first.url, "orders")
        Container(handler).run()
        first.wait_until(lambda b: b.manager.queues["seen"].statistics.depth == 1)
        assert handler.bodies == ["one", "two"]
    with BrokerThread(config, folder=folder) as second:
        assert depth(second, "orders") == 1
    dumped = CliRunner().invoke(main, ["ledger", "dump", "--data", str(folder), "--json"])
    lines = [json.loads(line) for line in dumped.stdout.splitlines()]
    fields: dict[int, list[str]] = {}
    for line in lines:
        if line.get("queue") == "orders" and "event" in line:
            fields.setdefault(line["serial"], []).append(line["event"])
    assert list(fields.values()) == [
        ["put", "acquire", "suspend", "resume", "confirm"],
        ["put", "acquire", "suspend", "link_lost"],
    ]
    verified = CliRunner().invoke(main, ["ledger", "verify", "--data", str(folder), "--bodies"])
    assert verified.exit_code == 0, verified.output
