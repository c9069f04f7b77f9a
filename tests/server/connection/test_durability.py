"""Nothing leaves before the records it depends on are durable: the ledger here holds blocks until told."""

from collections.abc import Iterator

import pytest

from postroom.amqp.engine.events import DispositionReceived, LinkAttached, TransferReceived
from postroom.amqp.frames.outcomes import ACCEPTED, Accepted, Rejected
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.frames.transfers import RCV_SECOND
from postroom.amqp.message.sections import Data, Header, Message, Value
from postroom.server.configuration.config import LimitsConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.memory_ledger import MemoryLedger
from tests.server.peers import EnginePeer

pytestmark = pytest.mark.sockets

PAYLOAD = Message(header=Header(durable=True), body=Data([b"x" * 100])).encode()


class Held:
    """A broker with one queue, whose ledger can be told to hold its blocks; and a peer."""

    def __init__(self, broker: BrokerThread, ledger: MemoryLedger, peer: EnginePeer) -> None:
        self.broker = broker
        self.ledger = ledger
        self.peer = peer

    def hold(self) -> None:
        self.broker.wait_until(lambda b: b.idle())
        self.broker.call(lambda _: setattr(self.ledger, "held", True))

    def let_go(self) -> None:
        self.broker.wait_until(lambda _: self.ledger.in_flight)
        self.broker.call(lambda _: self.ledger.let_go())

    def nothing_comes(self) -> None:
        """The peer asks for an echo: whatever the broker had sent before it would be here."""
        self.peer.forget()
        self.peer.round_trip()
        assert not self.peer.of(DispositionReceived) and not self.peer.of(TransferReceived)


@pytest.fixture
def held() -> Iterator[Held]:
    ledger = MemoryLedger()
    with BrokerThread(make_config(("q",)), ledger) as broker, EnginePeer(broker.port) as peer:
        yield Held(broker, ledger, peer.open())
        broker.call(lambda _: setattr(ledger, "held", False))
        if ledger.in_flight:
            broker.call(lambda _: ledger.let_go())
    ledger.close()


def test_accepted_waits_for_its_block(held: Held) -> None:
    link = held.peer.session().attach_sender("s", Source(), Target(address="q"))
    held.peer.pump(lambda: link.attached and link.credit > 0)
    held.hold()
    link.send(PAYLOAD, b"1", False)
    held.nothing_comes()
    held.let_go()
    event = held.peer.wait_for(DispositionReceived)
    assert isinstance(event.state, Accepted) and event.settled


def test_messages_of_the_next_block_wait_for_the_next_block(held: Held) -> None:
    link = held.peer.session().attach_sender("s", Source(), Target(address="q"))
    held.peer.pump(lambda: link.attached and link.credit > 0)
    held.hold()
    first = link.send(PAYLOAD, b"1", False)
    held.nothing_comes()
    second = link.send(PAYLOAD, b"2", False)
    held.nothing_comes()
    held.let_go()
    held.peer.wait_for(DispositionReceived)
    held.nothing_comes()
    assert first.settled and not second.settled
    held.let_go()
    held.peer.pump(lambda: second.settled)


def test_a_delivery_waits_for_its_block(held: Held) -> None:
    session = held.peer.session()
    sender = session.attach_sender("s", Source(), Target(address="q"))
    receiver = session.attach_receiver("r", Source(address="q"), Target())
    held.peer.pump(lambda: receiver.attached and sender.credit > 0)
    receiver.flow(1)
    held.hold()
    sender.send(PAYLOAD, b"1", True)
    held.nothing_comes()
    held.let_go()
    assert held.peer.wait_for(TransferReceived).payload.endswith(b"x")


def test_the_answer_to_an_outcome_waits_for_its_block(held: Held) -> None:
    session = held.peer.session()
    sender = session.attach_sender("s", Source(), Target(address="q"))
    receiver = session.attach_receiver("r", Source(address="q"), Target(), rcv_settle_mode=RCV_SECOND)
    held.peer.pump(lambda: receiver.attached and sender.credit > 0)
    sender.send(PAYLOAD, b"1", True)
    receiver.flow(1)
    delivery_id = held.peer.wait_for(TransferReceived).delivery_id
    held.hold()
    receiver.settle(delivery_id, delivery_id, ACCEPTED, False)
    held.nothing_comes()
    assert receiver.unsettled_count == 1
    held.let_go()
    held.peer.pump(lambda: receiver.unsettled_count == 0)


def test_a_management_answer_waits_for_its_block(held: Held) -> None:
    session = held.peer.session()
    replies = session.attach_receiver("r", Source(address="$management"), Target(address="me"))
    requests = session.attach_sender("s", Source(), Target(address="$management"))
    held.peer.pump(lambda: replies.attached and requests.credit > 0)
    replies.flow(1)
    held.hold()
    request = Message(
        application_properties={"operation": "CREATE", "type": "postroom.queue", "name": "new"},
        body=Value({}),
    )
    requests.send(request.encode(), b"1", True)
    held.nothing_comes()
    held.let_go()
    held.peer.wait_for(TransferReceived)


def test_an_attach_that_creates_a_queue_is_answered_when_the_queue_is_durable(held: Held) -> None:
    session = held.peer.session()
    held.peer.round_trip()
    held.hold()
    session.attach_sender("s", Source(), Target(address="brand-new"))
    held.peer.forget()
    held.peer.round_trip()
    assert not held.peer.of(LinkAttached)
    held.let_go()
    held.peer.wait_for(LinkAttached)


def test_a_disk_that_is_nearly_full_takes_no_new_messages_but_all_outcomes(held: Held) -> None:
    session = held.peer.session()
    sender = session.attach_sender("s", Source(), Target(address="q"))
    receiver = session.attach_receiver("r", Source(address="q"), Target(), rcv_settle_mode=RCV_SECOND)
    held.peer.pump(lambda: receiver.attached and sender.credit > 0)
    sender.send(PAYLOAD, b"1", True)
    receiver.flow(1)
    delivery_id = held.peer.wait_for(TransferReceived).delivery_id
    held.broker.turn(lambda _, __: setattr(held.ledger, "space_low", True))
    held.peer.round_trip()
    sender.send(PAYLOAD, b"2", False)
    state = held.peer.wait_for(DispositionReceived).state
    assert isinstance(state, Rejected) and state.error is not None
    assert state.error.condition == "amqp:resource-limit-exceeded"
    receiver.settle(delivery_id, delivery_id, ACCEPTED, False)
    held.peer.pump(lambda: receiver.unsettled_count == 0)


def test_who_sends_settled_messages_gets_no_credit_while_the_disk_is_nearly_full(held: Held) -> None:
    """They would be refused, and nobody told."""
    sender = held.peer.session().attach_sender("s", Source(), Target(address="q"))
    held.peer.pump(lambda: sender.credit > 0)
    held.broker.turn(lambda _, __: setattr(held.ledger, "space_low", True))
    held.peer.round_trip()
    for number in range(sender.credit):
        sender.send(PAYLOAD, b"%d" % number, True)
    held.peer.round_trip()
    assert sender.credit == 0
    held.broker.turn(lambda _, __: setattr(held.ledger, "space_low", False))
    held.peer.pump(lambda: sender.credit > 0)
    sender.send(PAYLOAD, b"taken", False)
    state = held.peer.wait_for(DispositionReceived).state
    assert isinstance(state, Accepted)


def test_reading_stops_while_the_ledger_is_behind(held: Held) -> None:
    link = held.peer.session().attach_sender("s", Source(), Target(address="q"))
    held.peer.pump(lambda: link.attached and link.credit > 0)
    held.broker.wait_until(lambda b: b.idle())
    held.broker.call(lambda _: setattr(held.ledger, "behind", True))
    delivery = link.send(PAYLOAD, b"1", False)
    held.peer.flush()
    held.broker.wait_until(lambda _: held.broker.inbox_bytes() > 0)
    held.broker.call(lambda _: setattr(held.ledger, "behind", False))
    held.peer.pump(lambda: delivery.settled)


def test_reading_stops_while_too_much_waits_for_the_disk() -> None:
    ledger = MemoryLedger()
    limits = LimitsConfig(unsynced_bytes=64 << 10, inbox_bytes=16 << 10)
    with BrokerThread(make_config(("q",), limits=limits), ledger) as broker, EnginePeer(broker.port) as peer:
        link = peer.open().session().attach_sender("s", Source(), Target(address="q"))
        peer.pump(lambda: link.attached and link.credit > 0)
        broker.wait_until(lambda b: b.idle())
        broker.call(lambda _: setattr(ledger, "held", True))
        payload = Message(header=Header(durable=True), body=Data([bytes(10_000)])).encode()
        for number in range(200):
            link.send(payload, number.to_bytes(2, "big"), False)
        peer.socket.setblocking(False)
        left = peer.push_until_refused()
        broker.wait_until(lambda b: b.unsynced_bytes() >= limits.unsynced_bytes)
        assert broker.call(lambda b: b.unsynced_bytes()) < limits.unsynced_bytes + (1 << 20)
        broker.call(lambda _: setattr(ledger, "held", False))
        broker.call(lambda _: ledger.let_go())
        peer.socket.setblocking(True)
        peer.socket.sendall(left)
        peer.pump(lambda: link.unsettled_count == 0)
    ledger.close()


class Marked(MemoryLedger):
    """Counts how often it was to say that its last block is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = 0

    def mark_idle(self) -> bool:
        self.marks += 1
        return False


def test_readers_are_told_of_the_last_block_only_when_no_other_has_followed() -> None:
    ledger = Marked()
    with BrokerThread(make_config(("q",)), ledger) as broker:
        broker.wait_until(lambda b: b.idle())

        def marks_after(durable: int) -> int:
            """When the time is over, and so many positions have become durable in it."""
            assert broker.broker is not None
            ledger.marks = 0
            broker.broker.durable_through += durable
            broker.idle_time_is_over()
            return ledger.marks

        def run(_: object) -> list[int]:
            broker.idle_time_is_over()
            return [marks_after(0), marks_after(1), marks_after(1), marks_after(0)]

        assert broker.call(run) == [1, 0, 0, 1]
    ledger.close()
