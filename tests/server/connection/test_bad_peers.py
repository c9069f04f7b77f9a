"""Peers that break the rules: each gets the right close, and nobody else notices."""

import socket

import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.amqp.encoding.composite import Performative
from postroom.amqp.frames.frames import AMQP_HEADER, SASL_HEADER, TLS_HEADER
from postroom.amqp.frames.performatives import Attach, Begin, Close, Detach, End, Open
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.frames.transfers import (
    RCV_FIRST,
    RCV_SECOND,
    RECEIVER,
    SENDER,
    Disposition,
    Flow,
    Transfer,
)
from tests.server.harness import BrokerThread
from tests.server.peers import OPENING, SESSION, EnginePeer, RawPeer, frames

pytestmark = pytest.mark.sockets

DATA = b"\x00\x53\x75\xa0\x01x"
"""A message of one byte."""


def sending(queue: str, rcv_settle_mode: int = RCV_FIRST) -> bytes:
    """A link to it."""
    return SESSION + frames(
        Attach(
            name="s",
            handle=0,
            role=SENDER,
            rcv_settle_mode=rcv_settle_mode,
            source=Source(),
            target=Target(address=queue),
            initial_delivery_count=0,
        )
    )


SENDING = sending("bad")
BAD_BYTES = {
    "a flow without a session": (OPENING + frames(Flow(1, 0, 1)), "amqp:illegal-state"),
    "a second open": (OPENING + frames(Open(container_id="raw")), "amqp:illegal-state"),
    "an open on another channel": (
        AMQP_HEADER + frames(Open(container_id="raw"), channel=1),
        "amqp:not-allowed",
    ),
    "begin before open": (
        AMQP_HEADER + frames(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)),
        "amqp:illegal-state",
    ),
    "a frame larger than agreed": (
        OPENING + b"\x7f\xff\xff\xff\x02\x00\x00\x00",
        "amqp:connection:framing-error",
    ),
    "a frame smaller than its header": (
        OPENING + b"\x00\x00\x00\x07\x02\x00\x00\x00",
        "amqp:connection:framing-error",
    ),
    "a data offset outside the frame": (
        OPENING + b"\x00\x00\x00\x08\x09\x00\x00\x00",
        "amqp:connection:framing-error",
    ),
    "a frame of an unknown type": (
        OPENING + b"\x00\x00\x00\x08\x02\x07\x00\x00",
        "amqp:connection:framing-error",
    ),
    "garbage in a frame": (
        OPENING + b"\x00\x00\x00\x0c\x02\x00\x00\x00\xff\xff\xff\xff",
        "amqp:decode-error",
    ),
    "a performative cut short": (
        OPENING + b"\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x53\x11",
        "amqp:decode-error",
    ),
    "a channel above channel-max": (
        OPENING + frames(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=60_000),
        "amqp:connection:framing-error",
    ),
    "a handle above handle-max": (
        SESSION + frames(Attach(name="x", handle=1 << 30, role=RECEIVER, source=Source(address="bad"))),
        "amqp:connection:framing-error",
    ),
}
BAD_SESSIONS: dict[str, tuple[list[Performative], str]] = {
    "a transfer on no link": ([Transfer(7, 0, b"t", message_format=0)], "amqp:session:unattached-handle"),
    "a detach of no link": ([Detach(handle=9)], "amqp:session:unattached-handle"),
    "a handle that is in use": (
        [Attach(name="y", handle=0, role=RECEIVER, source=Source(address="bad"))],
        "amqp:session:handle-in-use",
    ),
}


@pytest.mark.parametrize("case", BAD_BYTES)
def test_a_broken_rule_closes_the_connection(broker: BrokerThread, case: str) -> None:
    data, condition = BAD_BYTES[case]
    assert RawPeer(broker.port).send(data).close_condition() == condition


@pytest.mark.parametrize("case", BAD_SESSIONS)
def test_a_broken_rule_ends_the_session(broker: BrokerThread, case: str) -> None:
    performatives, condition = BAD_SESSIONS[case]
    with RawPeer(broker.port) as peer:
        end = peer.send(SENDING + frames(*performatives)).wait_for(End)
        assert end.error is not None and end.error.condition == condition
        peer.send(frames(Close())).wait_for(Close)


@pytest.mark.parametrize(
    "header", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", TLS_HEADER, b"\x16\x03\x01\x02"]
)
def test_another_protocol_gets_our_header_and_no_more(broker: BrokerThread, header: bytes) -> None:
    assert RawPeer(broker.port).send(header.ljust(8, b"\0")).read_to_the_end() in (AMQP_HEADER, SASL_HEADER)


def test_a_connection_that_says_nothing_is_closed() -> None:
    from postroom.server.configuration.config import LimitsConfig
    from tests.server.harness import make_config

    with BrokerThread(make_config(limits=LimitsConfig(open_timeout_ms=50))) as impatient:
        RawPeer(impatient.port).read_to_the_end()
        RawPeer(impatient.port).send(AMQP_HEADER).read_to_the_end()


def test_a_silent_peer_is_closed_and_a_heartbeat_keeps_one_open() -> None:
    from postroom.server.configuration.config import LimitsConfig
    from tests.server.harness import make_config

    with BrokerThread(make_config(limits=LimitsConfig(idle_timeout_ms=200))) as impatient:
        assert RawPeer(impatient.port).send(OPENING).close_condition() == "amqp:resource-limit-exceeded"
        alive = BlockingConnection(impatient.url, timeout=15, heartbeat=1)
        sender = alive.create_sender("kept-open")
        sender.send(Message(body="x"))
        alive.close()


def test_more_messages_than_credit(broker: BrokerThread) -> None:
    transfers = [
        Transfer(0, number, number.to_bytes(4, "big"), message_format=0, settled=True) for number in range(2)
    ]
    with RawPeer(broker.port) as peer:
        detach = peer.send(SENDING + frames(*transfers)).wait_for(Detach)
    assert detach.error is not None and detach.error.condition == "amqp:link:transfer-limit-exceeded"


SECOND = [
    ("goes on with another tag", Transfer(0, None, b"2"), "amqp:invalid-field"),
    ("goes on with another message-format", Transfer(0, None, None, message_format=1), "amqp:invalid-field"),
]


@pytest.mark.parametrize(("what", "second", "condition"), SECOND, ids=[case[0] for case in SECOND])
def test_a_delivery_goes_on_as_it_began(
    broker: BrokerThread,
    connection: BlockingConnection,
    queue: str,
    what: str,
    second: Transfer,
    condition: str,
) -> None:
    """Nothing of it is taken."""
    with RawPeer(broker.port) as peer:
        peer.send(sending(queue)).wait_for(Flow)
        peer.send(frames(Transfer(0, 0, b"1", message_format=0, more=True), payload=DATA))
        detach = peer.send(frames(second, payload=DATA)).wait_for(Detach)
    assert detach.error is not None and detach.error.condition == condition
    sender, receiver = connection.create_sender(queue), connection.create_receiver(queue)
    sender.send(Message(body="next"))
    assert receiver.receive(timeout=15).body == "next"


def test_a_tag_means_one_unsettled_delivery(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    """The first has been taken, and waits for the sender's word; the second is refused with its link."""
    with RawPeer(broker.port) as peer:
        peer.send(sending(queue, rcv_settle_mode=RCV_SECOND)).wait_for(Flow)
        peer.send(frames(Transfer(0, 0, b"1", message_format=0), payload=DATA)).wait_for(Disposition)
        detach = peer.send(frames(Transfer(0, 1, b"1", message_format=0), payload=DATA)).wait_for(Detach)
    assert detach.error is not None and detach.error.condition == "amqp:not-allowed"
    sender, receiver = connection.create_sender(queue), connection.create_receiver(queue)
    sender.send(Message(body="next"))
    assert bytes(receiver.receive(timeout=15).body) == b"x"
    assert receiver.receive(timeout=15).body == "next"


def test_a_message_that_is_none_is_rejected(broker: BrokerThread) -> None:
    from postroom.amqp.engine.events import CreditChanged, DispositionReceived
    from postroom.amqp.frames.outcomes import Rejected

    peer = EnginePeer(broker.port, "bad-message").open()
    link = peer.session().attach_sender("s", Source(), Target(address="bad-message"))
    peer.wait_for(CreditChanged)
    for number, payload in enumerate((b"\xff\xff", b"", b"\x00\x53\x77")):
        link.send(payload, bytes([number]), False)
    peer.pump(lambda: sum(len(event.deliveries) for event in peer.of(DispositionReceived)) == 3)
    for event in peer.of(DispositionReceived):
        assert isinstance(event.state, Rejected) and event.state.error is not None
        assert event.state.error.condition == "amqp:decode-error"
    peer.cut()


def test_a_peer_that_sends_no_more_is_left() -> None:
    """It has closed its half of the socket without a word: nothing more can come, not even its close."""
    with BrokerThread() as broker:
        peer = RawPeer(broker.port).send(OPENING)
        peer.wait_for(Open)
        peer.socket.shutdown(socket.SHUT_WR)
        peer.read_to_the_end()
        broker.wait_until(lambda b: not b.connections)


def test_nobody_else_notices(broker: BrokerThread, connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(queue)
    receiver = connection.create_receiver(queue)
    for data, _ in BAD_BYTES.values():
        bad = RawPeer(broker.port).send(data)
        sender.send(Message(body="through", durable=True))
        bad.read_to_the_end()
        assert receiver.receive(timeout=15).body == "through"
        receiver.accept()


def test_connections_beyond_the_bound_are_cut() -> None:
    from postroom.server.configuration.config import LimitsConfig
    from tests.server.harness import make_config

    with BrokerThread(make_config(limits=LimitsConfig(max_connections=1))) as small:
        first = BlockingConnection(small.url, timeout=15)
        assert RawPeer(small.port).send(OPENING).read_to_the_end() == b""
        first.create_sender("still-here").send(Message(body="x"))
        first.close()
