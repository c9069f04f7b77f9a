"""Our engine against Qpid Proton's, in memory: neither end is ours alone to be right about."""

from __future__ import annotations

import proton
import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import (
    Closed,
    CreditChanged,
    DispositionReceived,
    Drained,
    LinkAttached,
    LinkDetached,
    Opened,
    SaslInitReceived,
    SenderDispositionReceived,
    SessionEnded,
    TransferReceived,
)
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import ACCEPTED, Modified, Released
from tests.amqp.engine.engine_pair import of, only, server_options


class ProtonPair:
    """Proton as the client, our engine as the server, which answers open and attach at once."""

    def __init__(self, *, user: str | None = None, max_frame_size: int = 0, **options: object) -> None:
        mechanisms = ["PLAIN"] if user else ["ANONYMOUS"]
        self.server = Connection(server_options(sasl_mechanisms=mechanisms, **options), 0)
        self.events: list[Event] = []
        self.connection = proton.Connection()
        self.connection.container = "proton"
        self.connection.hostname = "host"
        self.transport = proton.Transport(proton.Transport.CLIENT)
        if max_frame_size:
            self.transport.max_frame_size = max_frame_size
        sasl = self.transport.sasl()
        sasl.allow_insecure_mechs = True
        if user:
            self.connection.user = user
            self.connection.password = "pw"
        sasl.allowed_mechs(mechanisms[0])
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()

    def pump(self) -> None:
        moved = True
        while moved:
            moved = self._to_server() | self._to_proton()

    def _to_server(self) -> bool:
        pending = self.transport.pending()
        if pending <= 0:
            return False
        data = bytes(self.transport.peek(pending))
        self.transport.pop(len(data))
        self._took(self.server.receive_data(data, 0))
        return True

    def _to_proton(self) -> bool:
        data = self.server.data_to_send()
        rest = data
        while rest:
            room = self.transport.capacity()
            assert room > 0, self.transport.condition
            self.transport.push(rest[:room])
            rest = rest[room:]
        return bool(data)

    def _took(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, SaslInitReceived):
                self._took(self.server.sasl_accept())
            elif isinstance(event, Opened):
                self.server.open()
            elif isinstance(event, LinkAttached):
                event.link.accept_attach(event.attach.source, event.attach.target)

    def sender(self, credit: int, **modes: int) -> tuple[proton.Sender, ReceiverLink]:
        """Proton's sender and our receiver."""
        link = self.session.sender("to-server")
        self._open(link, modes)
        ours = only(self.events, LinkAttached).link
        assert isinstance(ours, ReceiverLink)
        ours.flow(credit)
        self.pump()
        self.events.clear()
        return link, ours

    def receiver(self, credit: int, **modes: int) -> tuple[proton.Receiver, SenderLink]:
        """Proton's receiver and our sender."""
        link = self.session.receiver("to-client")
        link.flow(credit)
        self._open(link, modes)
        ours = only(self.events, LinkAttached).link
        assert isinstance(ours, SenderLink)
        self.events.clear()
        return link, ours

    def _open(self, link: proton.Link, modes: dict[str, int]) -> None:
        for name, value in modes.items():
            setattr(link, name, value)
        link.open()
        self.pump()


def put(link: proton.Sender, tag: str, payload: bytes) -> proton.Delivery:
    delivery = link.delivery(tag)
    link.stream(payload)
    link.advance()
    return delivery


def take(link: proton.Receiver) -> tuple[proton.Delivery, bytes]:
    delivery = link.current
    assert delivery is not None
    payload = link.recv(delivery.pending) if delivery.pending else b""
    link.advance()
    return delivery, payload


def test_open_with_plain() -> None:
    pair = ProtonPair(user="ann")
    pair.pump()
    sasl_init = only(pair.events, SaslInitReceived)
    assert (sasl_init.username, sasl_init.password) == ("ann", "pw")
    opened = only(pair.events, Opened).open
    assert (opened.container_id, opened.hostname) == ("proton", "host")
    assert pair.connection.remote_container == "server"
    assert pair.connection.state & proton.Endpoint.REMOTE_ACTIVE


@pytest.mark.parametrize("size", [0, 10, 300, 70_000, 1_000_000])
def test_proton_sends(size: int) -> None:
    pair = ProtonPair()
    link, ours = pair.sender(5)
    payload = bytes(index % 253 for index in range(size))
    deliveries = [put(link, f"t{index}", payload) for index in range(3)]
    pair.pump()
    got = of(pair.events, TransferReceived)
    assert b"".join(each.payload for each in got) == payload * 3
    assert [each.tag for each in got if not each.more] == [b"t0", b"t1", b"t2"]
    first = got[0].delivery_id
    ours.settle(first, first + 1, ACCEPTED)
    ours.settle(first + 2, first + 2, Released())
    pair.pump()
    assert [each.remote_state for each in deliveries] == [proton.Delivery.ACCEPTED] * 2 + [
        proton.Delivery.RELEASED
    ]
    assert all(each.settled for each in deliveries)
    assert link.credit == ours.credit == 2


@pytest.mark.parametrize("size", [0, 10, 300, 70_000, 1_000_000])
def test_proton_receives(size: int) -> None:
    pair = ProtonPair(max_frame_size=4096)
    link, ours = pair.receiver(5)
    assert ours.usable_credit() == 5
    payload = bytes(index % 253 for index in range(size))
    sent = [ours.send(payload, bytes([index]), False) for index in range(3)]
    pair.pump()
    for index in range(3):
        delivery, got = take(link)
        assert got == payload
        assert delivery.tag == chr(index)
        delivery.update(proton.Delivery.ACCEPTED if index else proton.Delivery.MODIFIED)
        delivery.settle()
    pair.pump()
    assert [each.state for each in sent] == [Modified(), ACCEPTED, ACCEPTED]
    assert all(each.settled for each in sent)
    assert ours.unsettled_count == 0


def test_settle_mode_second_both_ways() -> None:
    pair = ProtonPair()
    link, ours = pair.receiver(5, rcv_settle_mode=proton.Link.RCV_SECOND)
    assert link.remote_rcv_settle_mode == proton.Link.RCV_SECOND
    sent = ours.send(b"m", b"t", False)
    pair.pump()
    delivery, _ = take(link)
    delivery.update(proton.Delivery.ACCEPTED)
    pair.pump()
    disposition = only(pair.events, DispositionReceived)
    assert (disposition.deliveries, disposition.settled) == ([sent], False)
    ours.settle(sent.id, sent.id, ACCEPTED)
    pair.pump()
    assert delivery.settled

    pair = ProtonPair()
    sender, receiver = pair.sender(5, rcv_settle_mode=proton.Link.RCV_SECOND)
    delivery = put(sender, "t", b"m")
    pair.pump()
    got = only(pair.events, TransferReceived)
    assert got.rcv_settle_mode == 1
    receiver.settle(got.delivery_id, got.delivery_id, ACCEPTED, settled=False)
    pair.pump()
    assert delivery.remote_state == proton.Delivery.ACCEPTED
    assert not delivery.settled
    delivery.settle()
    pair.pump()
    assert only(pair.events, SenderDispositionReceived).settled
    assert receiver.unsettled_count == 0


def test_drain_asked_by_proton() -> None:
    pair = ProtonPair()
    link, ours = pair.receiver(0)
    link.drain(10)
    pair.pump()
    assert only(pair.events, CreditChanged).link.drain
    ours.send(b"m", b"t", True)
    ours.drained()
    pair.pump()
    take(link)
    assert link.credit == 0
    assert link.drained() == 9


def test_drain_asked_of_proton() -> None:
    pair = ProtonPair()
    link, ours = pair.sender(0)
    ours.flow(10, drain=True)
    pair.pump()
    put(link, "t", b"m")
    link.drained()
    pair.pump()
    assert len(of(pair.events, TransferReceived)) == 1
    assert only(pair.events, Drained).link is ours
    assert ours.credit == 0


def test_an_aborted_delivery() -> None:
    pair = ProtonPair()
    link, ours = pair.sender(5)
    delivery = link.delivery("t")
    link.stream(b"x" * 100_000)
    pair.pump()
    delivery.abort()
    pair.pump()
    put(link, "u", b"next")
    pair.pump()
    got = of(pair.events, TransferReceived)
    assert got[-2].aborted
    assert (got[-1].payload, got[-1].first) == (b"next", True)
    assert ours.unsettled_count == 1


def test_ours_aborted() -> None:
    pair = ProtonPair()
    link, ours = pair.receiver(5)
    delivery = ours.send(b"never", b"t", False, more=True)
    pair.pump()
    ours.abort(delivery)
    ours.send(b"next", b"u", False)
    pair.pump()
    aborted = link.current
    assert aborted is not None
    assert aborted.aborted
    aborted.settle()
    assert take(link)[1] == b"next"


def test_refused_detached_ended_closed() -> None:
    pair = ProtonPair()
    link, ours = pair.sender(5)
    ours.detach(error=Error("amqp:not-found", "gone"))
    pair.pump()
    assert link.remote_condition.name == "amqp:not-found"
    link.close()
    pair.pump()
    assert only(pair.events, LinkDetached).closed
    pair.session.close()
    pair.pump()
    assert only(pair.events, SessionEnded).error is None
    pair.connection.close()
    pair.pump()
    assert only(pair.events, Closed).error is None
    assert pair.server.finished
    assert pair.connection.state & proton.Endpoint.REMOTE_CLOSED


def test_a_violation_reaches_proton_as_its_condition() -> None:
    pair = ProtonPair(max_message_size_bytes=1000)
    link, _ = pair.sender(5)
    put(link, "t", b"x" * 2000)
    pair.pump()
    assert link.remote_condition.name == "amqp:link:message-size-exceeded"
    assert pair.connection.remote_condition is None


def test_many_small_messages_both_ways() -> None:
    """More than a window of them, so that both ends have to renew it."""
    pair = ProtonPair(incoming_window_frames=64)
    link, ours = pair.sender(1000)
    deliveries = []
    for index in range(1000):
        deliveries.append(put(link, str(index), b"m%d" % index))
        if index % 50 == 0:
            pair.pump()
    pair.pump()
    got = of(pair.events, TransferReceived)
    assert [each.payload for each in got] == [b"m%d" % index for index in range(1000)]
    ours.settle(got[0].delivery_id, got[-1].delivery_id, ACCEPTED)
    pair.pump()
    assert all(each.remote_state == proton.Delivery.ACCEPTED for each in deliveries)
