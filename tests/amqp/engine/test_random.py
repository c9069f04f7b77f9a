"""Any splitting of the bytes means the same; any order of work keeps every message, in order, once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import (
    Closed,
    DispositionReceived,
    LinkDetached,
    ProtocolFailed,
    SaslInitReceived,
    SenderDispositionReceived,
    SessionEnded,
    TransferReceived,
)
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.performatives import Begin, Close, Detach, End
from postroom.amqp.frames.transfers import Disposition, Transfer
from tests.amqp.engine.engine_pair import (
    BEGIN,
    HEADER,
    OPEN,
    Pair,
    RawPeer,
    attach_receiver,
    attach_sender,
    client_options,
    flow,
    frame,
    of,
    server_options,
    transfer,
)

FRAMES = st.one_of(
    st.builds(
        transfer,
        st.one_of(st.none(), st.integers(0, 6)),
        st.one_of(st.none(), st.binary(max_size=3)),
        st.binary(max_size=20),
        more=st.booleans(),
        settled=st.one_of(st.none(), st.booleans()),
        aborted=st.booleans(),
    ),
    st.builds(
        lambda handle, credit: flow(handle=handle, link_credit=credit), st.integers(0, 2), st.integers(0, 9)
    ),
    st.builds(
        lambda role, first, count: frame(Disposition(role, first, first + count, True, ACCEPTED)),
        st.booleans(),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    st.builds(lambda handle: frame(Detach(handle=handle)), st.integers(0, 2)),
    st.builds(lambda handle, name: attach_sender(handle, name), st.integers(0, 3), st.sampled_from("abs")),
    st.sampled_from([frame(End()), frame(Close()), BEGIN, b"\0\0\0\x08\2\0\0\0", b"\0\0\0\x07"]),
    st.binary(min_size=1, max_size=12),
)


def established() -> RawPeer:
    """A peer with a link each way, credit and one delivery unsettled in both directions."""
    peer = RawPeer(server_options(max_message_size_bytes=30))
    peer.send(
        HEADER, OPEN, BEGIN, attach_sender(0, "s"), attach_receiver(1, "r"), flow(handle=1, link_credit=9)
    )
    receiver, sender = peer.server.sessions()[0].links()
    assert isinstance(receiver, ReceiverLink)
    assert isinstance(sender, SenderLink)
    receiver.flow(3)
    sender.send(b"m", b"t", False)
    peer.answers()
    return peer


def values_of(event: Event) -> tuple[object, ...]:
    """The values of an event, without the identity of its objects."""
    if isinstance(event, TransferReceived):
        kind = (event.first, event.more, event.aborted, event.settled)
        return ("transfer", event.link.name, event.delivery_id, event.tag, event.payload, kind)
    if isinstance(event, DispositionReceived):
        return ("disposition", [each.id for each in event.deliveries], event.settled)
    if isinstance(event, SenderDispositionReceived):
        return ("sender says", event.link.name, event.delivery_ids, event.settled)
    if isinstance(event, LinkDetached):
        return ("detached", event.link.name, event.closed, event.error, event.local)
    if isinstance(event, SessionEnded):
        return ("ended", event.error, event.local)
    if isinstance(event, ProtocolFailed | Closed):
        return (type(event).__name__, event.error)
    return (type(event).__name__,)


@given(st.lists(FRAMES, max_size=12), st.data())
def test_chunks_make_no_difference(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frames)
    whole = established()
    expected = [values_of(event) for event in whole.server.receive_data(stream, 2)]

    cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=8))
    edges = [0, *sorted(cuts), len(stream)]
    parts = established()
    events: list[Event] = []
    for start, end in pairwise(edges):
        events += parts.server.receive_data(stream[start:end], 2)
    assert [values_of(event) for event in events] == expected
    assert [type(each) for each in parts.answers()] == [type(each) for each in whole.answers()]


@given(st.binary(max_size=64), st.booleans())
def test_no_bytes_raise_at_the_very_beginning(sent: bytes, header: bool) -> None:
    server = Connection(server_options(), 0)
    for start in range(0, len(sent), 7):
        for event in server.receive_data(
            (HEADER if header and start == 0 else b"") + sent[start : start + 7], 0
        ):
            assert isinstance(event, ProtocolFailed | SaslInitReceived)
    server.data_to_send()


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.integers(0, 1500)),
        st.tuples(st.just("flow"), st.integers(0, 1), st.integers(0, 6)),
        st.tuples(st.just("settle"), st.integers(1, 5), st.integers(0, 0)),
        st.tuples(st.just("pump"), st.integers(0, 0), st.integers(0, 0)),
    ),
    max_size=40,
)


class Traffic:
    """Two links from client to server on one session with small windows, and what has passed on them."""

    def __init__(self, first_id: int, window: int) -> None:
        self.pair = Pair(
            client_options(initial_outgoing_id=first_id),
            server_options(max_frame_size_bytes=512, incoming_window_frames=window),
            chunk_bytes=101,
        )
        session = self.pair.session()
        self.senders = [session.attach_sender(name, None, None) for name in "ab"]
        self.pair.pump()
        self.receivers = [self.pair.server_link(name) for name in "ab"]
        self.sent: list[list[bytes]] = [[], []]
        self.unsettled: list[tuple[ReceiverLink, int]] = []
        self.settled = 0

    def send(self, which: int, size: int) -> None:
        sender = self.senders[which]
        if sender.usable_credit() > 0:
            count = len(self.sent[which])
            payload = count.to_bytes(4, "big") * (size // 4)
            sender.send(payload, count.to_bytes(4, "big"), False)
            self.sent[which].append(payload)

    def flow(self, which: int, credit: int) -> None:
        receiver = self.receivers[which]
        assert isinstance(receiver, ReceiverLink)
        receiver.flow(credit)

    def settle(self, count: int, _: int) -> None:
        arrived = of(self.pair.server_events, TransferReceived)
        whole = [(event.link, event.delivery_id) for event in arrived if not event.more]
        for link, id in whole[self.settled : self.settled + count]:
            link.settle(id, id, ACCEPTED)
            self.settled += 1

    def pump(self, _: int, __: int) -> None:
        self.pair.pump()


@given(ACTIONS, st.sampled_from([0, 0xFFFF_FFFA]), st.integers(1, 4))
def test_every_message_arrives_once_and_in_order(
    actions: list[tuple[str, int, int]], first_id: int, window: int
) -> None:
    traffic = Traffic(first_id, window)
    pair = traffic.pair
    for name, one, two in actions:
        getattr(traffic, name)(one, two)
        for sender in traffic.senders:
            assert 0 <= sender.usable_credit() <= sender.credit
    pair.pump()
    traffic.settle(len(actions), 0)
    pair.pump()
    for which, receiver in enumerate(traffic.receivers):
        arrived = [event for event in of(pair.server_events, TransferReceived) if event.link is receiver]
        assert b"".join(event.payload for event in arrived) == b"".join(traffic.sent[which])
        assert sum(event.first for event in arrived) == len(traffic.sent[which])
        assert receiver.unsettled_count == traffic.senders[which].unsettled_count == 0
        assert receiver.delivery_count == traffic.senders[which].delivery_count
        assert receiver.credit == traffic.senders[which].credit
    assert of(pair.server_events, ProtocolFailed) == of(pair.server_events, SessionEnded) == []
    answered = [
        delivery for event in of(pair.client_events, DispositionReceived) for delivery in event.deliveries
    ]
    assert len(answered) == sum(map(len, traffic.sent))


def test_a_begin_and_end_storm_leaves_nothing_behind() -> None:
    peer = RawPeer(server_options(max_sessions=2))
    peer.send(HEADER, OPEN)
    storm = BEGIN + attach_sender() + transfer() + frame(Detach(handle=0)) + frame(End())
    for _ in range(50):
        peer.send(storm)
    second = frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=1)
    peer.send(BEGIN, second, frame(Transfer(0, 0, b"t")))
    assert len(peer.server.sessions()) == 2
    assert peer.server.wire.links == {}
    assert not peer.server.finished
