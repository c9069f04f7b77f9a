"""Messages in one frame and in many, shut windows, settlement from both ends, ranges, wrapping serials."""

from __future__ import annotations

import pytest

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.delivery import Delivery, present_ids
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
from postroom.amqp.engine.serial_numbers import serial_diff
from postroom.amqp.engine.shared_state import COPIED_BYTES
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.performatives import End
from postroom.amqp.frames.transfers import SENDER, Disposition, Flow, Transfer
from tests.amqp.engine.engine_pair import (
    BEGIN,
    HEADER,
    OPEN,
    Pair,
    RawPeer,
    attach_receiver,
    attach_sender,
    client_options,
    frame,
    of,
    only,
    server_options,
    transfer,
)

NEAR_WRAP = 0xFFFF_FFFD

# --- serials


def test_serial_arithmetic() -> None:
    assert serial_diff(1, 0xFFFF_FFFF) == 2
    assert serial_diff(0xFFFF_FFFF, 1) == -2
    assert serial_diff(0x8000_0000, 0) == -0x8000_0000
    assert serial_diff(0x7FFF_FFFF, 0) == 0x7FFF_FFFF


# --- messages


@pytest.mark.parametrize("size", [0, 1, 255, 256, 434, 435, 436, 1000, 5000])
@pytest.mark.parametrize("settled", [True, False])
def test_messages_of_any_size_arrive_whole(size: int, settled: bool) -> None:
    """511 to 512 bytes is where one frame of the smallest peer ends."""
    pair = Pair(server=server_options(max_frame_size_bytes=512))
    link, peer = pair.sending(1)
    payload = bytes(index % 251 for index in range(size))
    link.send(payload, b"t" * 32, settled, 0xFFFF_FFFF)
    pair.pump()
    frames = of(pair.server_events, TransferReceived)
    assert b"".join(each.payload for each in frames) == payload
    assert [each.first for each in frames] == [True] + [False] * (len(frames) - 1)
    assert [each.more for each in frames] == [True] * (len(frames) - 1) + [False]
    assert len({(each.delivery_id, each.tag, each.message_format, each.settled) for each in frames}) == 1
    assert (frames[0].tag, frames[0].message_format, frames[0].settled) == (b"t" * 32, 0xFFFF_FFFF, settled)
    assert peer.unsettled_count == link.unsettled_count == (0 if settled else 1)


def test_no_frame_is_larger_than_the_peer_takes() -> None:
    """The pair's decoders refuse larger ones; here even the first frame carries a large state."""
    pair = Pair(server=server_options(max_frame_size_bytes=512))
    link, _ = pair.sending(2)
    state = Rejected(Error(errors.INTERNAL_ERROR, "x" * 300))
    link.send(b"m" * 2000, b"t", False, 0, state)
    pair.pump()
    frames = of(pair.server_events, TransferReceived)
    assert sum(len(each.payload) for each in frames) == 2000
    assert frames[0].state == state
    with pytest.raises(UsageError, match="delivery state"):
        link.send(b"m", b"u", False, 0, Rejected(Error(errors.INTERNAL_ERROR, "x" * 600)))
    assert link.credit == 1


def test_a_large_message() -> None:
    pair = Pair(client_options(max_frame_size_bytes=1 << 16), server_options(max_message_size_bytes=0))
    link, _ = pair.sending(1)
    payload = bytes(range(256)) * 4096 * 8
    link.send(payload, b"t", False)
    pair.pump()
    assert b"".join(each.payload for each in of(pair.server_events, TransferReceived)) == payload
    assert link.credit == 0


def test_a_large_message_is_written_a_piece_at_a_time() -> None:
    """What the socket can't take yet is not copied into the output."""
    client = client_options(max_written_bytes=5000, max_buffered_bytes=8000)
    pair = Pair(client, server_options(max_frame_size_bytes=1024))
    link, _ = pair.sending(5)
    link.send(b"m" * 20_000, b"1", False)
    link.send(b"behind", b"2", False)
    assert link.usable_credit() == 0
    pieces: list[int] = []
    events = []
    while (piece := pair.client.data_to_send()) or pair.client.holds_back:
        pieces.append(len(piece))
        assert pair.client.data_to_send() == b""
        pair.server_events += pair.server.receive_data(piece, pair.now_us)
        events += pair.client.write_on()
    assert all(5000 <= each < 6100 for each in pieces[:-1]) and len(pieces) == 4
    assert only(events, CreditChanged).link is link
    frames = of(pair.server_events, TransferReceived)
    assert b"".join(each.payload for each in frames) == b"m" * 20_000 + b"behind"
    assert [each.delivery_id for each in frames if not each.more] == [0, 1]


def test_payload_goes_out_uncopied() -> None:
    """Unless it is small: a whole one as it is, one in many frames as views of it."""
    pair = Pair(server=server_options(max_frame_size_bytes=1 << 16))
    link, _ = pair.sending(4)
    small, whole, long = b"s" * COPIED_BYTES, b"w" * (COPIED_BYTES + 1), b"l" * 200_000
    for tag, payload in ((b"1", small), (b"2", whole), (b"3", long), (b"4", small)):
        link.send(payload, tag, False)
    parts = pair.client.parts_to_send()
    views = [part for part in parts if isinstance(part, memoryview)]
    assert [part for part in parts if part is whole] == [whole]
    assert len(views) >= 3 and all(view.obj is long for view in views)
    assert not pair.client.parts_to_send()
    pair.server_events += pair.server.receive_data(b"".join(parts), pair.now_us)
    frames = of(pair.server_events, TransferReceived)
    assert b"".join(each.payload for each in frames) == small + whole + long + small
    assert pair.client.data_to_send() == b""


@pytest.mark.parametrize("size", [0, 10, COPIED_BYTES, COPIED_BYTES + 1, 30_000, 200_000])
@pytest.mark.parametrize("settled", [True, False])
def test_a_message_behind_its_head(size: int, settled: bool) -> None:
    """It comes as if it had been sent as one, at once or when the window opens."""
    pair = Pair(client_options(max_frame_size_bytes=1 << 16), server_options(max_frame_size_bytes=1 << 15))
    link, peer = pair.sending(3)
    rest = bytes(index % 251 for index in range(size))
    link.send_behind(b"head", rest, b"t", settled, "context")
    window, link.session.backlog.peer_incoming_window = link.session.backlog.peer_incoming_window, 0
    link.send_behind(b"second", rest, b"u", settled, None)
    link.session.backlog.peer_incoming_window = window
    link.session.backlog.flush()
    pair.pump()
    frames = of(pair.server_events, TransferReceived)
    assert b"".join(each.payload for each in frames) == b"head" + rest + b"second" + rest
    assert [each.tag for each in frames if not each.more] == [b"t", b"u"]
    assert len(frames) == 2 or size > 30_000, "what fits into a frame takes one, also where it had to wait"
    assert link.credit == 1
    assert peer.unsettled_count == link.unsettled_count == (0 if settled else 2)
    if not settled:
        assert [each.context for each in link.session.deliveries.outgoing_of(link)] == ["context", None]


def test_a_message_behind_its_head_is_refused_as_any_other() -> None:
    pair = Pair()
    link, _ = pair.sending(0)
    with pytest.raises(UsageError, match="has no credit"):
        link.send_behind(b"head", b"rest", b"t", False, None)


def test_links_take_turns_inside_one_session() -> None:
    """Frames of different links may mix; each message is put together for itself."""
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender(0, "a"), attach_sender(1, "b"))
    for link in peer.server.sessions()[0].links():
        link.flow(5)  # type: ignore[attr-defined]
    events = peer.send(
        transfer(0, b"a", b"a1", more=True),
        frame(Transfer(1, 1, b"b", more=True), b"b1"),
        transfer(None, None, b"a2"),
        frame(Transfer(1, None, None), b"b2"),
    )
    got = [(event.link.name, event.delivery_id, event.payload) for event in of(events, TransferReceived)]
    assert got == [("a", 0, b"a1"), ("b", 1, b"b1"), ("a", 0, b"a2"), ("b", 1, b"b2")]


@pytest.mark.parametrize(
    ("flags", "settled"),
    [
        ((None, None), False),
        ((True, None), True),
        ((None, True), True),
        ((False, True), True),
        ((True, False), True),
    ],
)
def test_settled_is_true_when_any_frame_says_so(
    flags: tuple[bool | None, bool | None], settled: bool
) -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender())
    link = peer.server.sessions()[0].links()[0]
    link.flow(5)  # type: ignore[attr-defined]
    events = peer.send(transfer(0, settled=flags[0], more=True), transfer(None, None, settled=flags[1]))
    assert of(events, TransferReceived)[-1].settled is settled
    assert link.unsettled_count == (0 if settled else 1)


def test_a_tag_serves_again_once_its_delivery_is_settled() -> None:
    """By us, by the sender, by being aborted, by having come settled; however many there are."""
    peer = RawPeer(server_options())
    peer.send(HEADER + OPEN + BEGIN, attach_sender())
    (link,) = peer.server.sessions()[0].links()
    assert isinstance(link, ReceiverLink)
    id = 0
    for number in range(1000):
        link.flow(10)
        tag = b"%d" % (number % 100)
        peer.send(transfer(id, tag))
        link.settle(id, id, ACCEPTED)
        peer.send(transfer(id + 1, tag, more=True), transfer(id + 1, tag, message_format=0))
        peer.send(frame(Disposition(SENDER, id + 1, id + 1, True)))
        peer.send(transfer(id + 2, tag, more=True), transfer(None, aborted=True))
        peer.send(transfer(id + 3, tag, settled=True))
        events = peer.send(transfer(id + 4, tag))
        assert [event.tag for event in of(events, TransferReceived)] == [tag]
        link.settle(id + 4, id + 4, ACCEPTED)
        id += 5
    assert link.unsettled_count == 0


def test_tags_are_kept_of_unsettled_deliveries_only() -> None:
    """Settled in whatever order, and by the end of their session."""
    peer = RawPeer(server_options())
    peer.send(HEADER + OPEN + BEGIN, attach_sender())
    (link,) = peer.server.sessions()[0].links()
    assert isinstance(link, ReceiverLink)
    link.flow(100)
    peer.send(*(transfer(id, b"%d" % id) for id in range(100)))
    for id in range(99, 4, -1):
        link.settle(id, id, ACCEPTED)
    assert {tag: received.id for tag, received in link.unsettled_tags.items()} == {
        b"%d" % id: id for id in range(5)
    }
    peer.send(frame(End()))
    assert link.unsettled_tags == {}


def test_a_tag_that_was_resumed_is_taken_until_it_is_settled_again() -> None:
    """That the delivery of before is settled doesn't free the tag that it shares."""
    peer = RawPeer(server_options())
    peer.send(HEADER + OPEN + BEGIN, attach_sender(unsettled={b"t": None}))
    (link,) = peer.server.sessions()[0].links()
    assert isinstance(link, ReceiverLink)
    assert link.attach is not None
    link.attach.unsettled = {b"t": None}
    link.flow(10)
    peer.send(transfer(0, b"t", resume=True), transfer(1, b"t", resume=True))
    link.settle(0, 0, ACCEPTED)
    (detached,) = of(peer.send(transfer(2, b"t")), LinkDetached)
    assert detached.error is not None
    assert "delivery-tag of unsettled delivery 1" in (detached.error.description or "")


def test_an_aborted_message_is_void_and_settled() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender())
    link = peer.server.sessions()[0].links()[0]
    link.flow(5)  # type: ignore[attr-defined]
    events = peer.send(
        transfer(0, more=True), transfer(0, payload=b"ignored", more=True, aborted=True), transfer(1)
    )
    first, aborted, second = of(events, TransferReceived)
    assert (first.aborted, first.more) == (False, True)
    assert (aborted.aborted, aborted.more, aborted.payload) == (True, False, b"")
    assert (second.first, second.delivery_id) == (True, 1)
    assert link.unsettled_count == 1


def test_a_message_aborted_in_its_first_frame() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender())
    link = peer.server.sessions()[0].links()[0]
    link.flow(5)  # type: ignore[attr-defined]
    [event] = peer.send(transfer(0, aborted=True))
    assert isinstance(event, TransferReceived)
    assert (event.aborted, event.first) == (True, True)
    assert link.unsettled_count == 0


def test_sending_in_parts() -> None:
    pair = Pair()
    link, _ = pair.sending(3)
    delivery = link.send(b"one", b"t", False, more=True)
    with pytest.raises(UsageError, match="has to be ended first"):
        link.send(b"m", b"u", False)
    link.append(delivery, b"two", True)
    link.append(delivery, b"", False)
    with pytest.raises(UsageError, match="not the one"):
        link.append(delivery, b"more", False)
    given_up = link.send(b"never", b"u", False, more=True)
    link.abort(given_up)
    assert given_up.settled
    pair.pump()
    got = of(pair.server_events, TransferReceived)
    assert [(each.payload, each.more, each.aborted) for each in got] == [
        (b"one", True, False),
        (b"two", True, False),
        (b"", False, False),
        (b"never", True, False),
        (b"", False, True),
    ]
    assert link.unsettled_count == 1


def test_every_frame_names_the_transaction() -> None:
    """Part 4, section 4.4.1: of a message that is split, and of one that is sent in parts."""
    pair = Pair()
    link, _ = pair.sending(3)
    state = TransactionalState(b"tx")
    link.send(bytes(200_000), b"t", False, state=state)
    delivery = link.send(b"one", b"u", False, state=state, more=True)
    link.append(delivery, b"two", False)
    link.send(b"outside", b"v", False)
    pair.pump()
    got = of(pair.server_events, TransferReceived)
    assert len(got) > 4
    assert [each.state for each in got] == [state] * (len(got) - 1) + [None]


@pytest.mark.parametrize("state", [None, TransactionalState(b"tx"), TransactionalState(b"t" * 300)])
@pytest.mark.parametrize("size", [0, 10, 1_000, 65_000, 65_536, 200_000])
def test_many_settled_messages_arrive_whole_and_in_order(state: DeliveryState | None, size: int) -> None:
    pair = Pair()
    link, _ = pair.sending(7, snd_settle_mode=1)
    payloads = [bytes([index]) * (size + index) for index in range(9)]
    assert link.send_settled(payloads, 1, 9, state) == 7, "as many as there is credit"
    assert link.send_settled(payloads, 8, 9, state) == 0
    pair.pump()
    got = of(pair.server_events, TransferReceived)
    assert b"".join(each.payload for each in got) == b"".join(payloads[1:8])
    assert [each.first for each in got].count(True) == 7
    assert all(each.settled for each in got if not each.more)
    assert all(each.state == state for each in got if each.first)
    assert link.unsettled_count == 0


def test_many_settled_messages_take_turns_with_others_on_their_link() -> None:
    pair = Pair()
    link, _ = pair.sending(4)
    link.send(b"1", b"t", True)
    assert link.send_settled([b"2", b"3"], 0, 2) == 2
    link.send(b"4", b"u", True)
    pair.pump()
    assert b"".join(each.payload for each in of(pair.server_events, TransferReceived)) == b"1234"


def test_many_settled_messages_wait_for_the_window_in_bounded_bytes() -> None:
    peer = RawPeer(server_options(max_buffered_bytes=100))
    peer.send(HEADER, OPEN, BEGIN, attach_receiver(), frame_flow(0, window=2))
    [link] = peer.server.sessions()[0].links()
    assert isinstance(link, SenderLink)
    payloads = [bytes([index]) * 30 for index in range(10)]
    assert link.send_settled(payloads, 0, 10) == 6, "two in the window, and what makes 100 bytes full"
    assert link.send_settled(payloads, 6, 10) == 0
    events = peer.send(frame_flow(None, window=100, seen=2))
    assert only(events, CreditChanged).link is link
    assert link.send_settled(payloads, 6, 10) == 4
    sent = [each for each in peer.answers() if isinstance(each, Transfer)]
    assert [each.delivery_id for each in sent] == list(range(10))


def test_what_the_peer_would_not_take_is_not_sent_among_many() -> None:
    pair = Pair(server=server_options(max_message_size_bytes=10))
    link, _ = pair.sending(5, snd_settle_mode=1)
    with pytest.raises(UsageError) as too_large:
        link.send_settled([b"m", b"m" * 11], 0, 2)
    assert too_large.value.condition == errors.LINK_MESSAGE_SIZE_EXCEEDED
    unsettled, _ = Pair().sending(5, snd_settle_mode=0)
    with pytest.raises(UsageError, match="snd-settle-mode unsettled"):
        unsettled.send_settled([b"m"], 0, 1)


def test_what_the_peer_would_not_take_is_not_sent() -> None:
    pair = Pair(server=server_options(max_message_size_bytes=10))
    link, _ = pair.sending(5, snd_settle_mode=0)
    with pytest.raises(UsageError) as too_large:
        link.send(b"m" * 11, b"t", False)
    assert too_large.value.condition == errors.LINK_MESSAGE_SIZE_EXCEEDED
    with pytest.raises(UsageError, match="snd-settle-mode unsettled"):
        link.send(b"m", b"t", True)
    with pytest.raises(UsageError, match="delivery tag of 33 bytes"):
        link.send(b"m", b"t" * 33, False)
    assert link.credit == 5
    settled, _ = Pair().sending(5, snd_settle_mode=1)
    with pytest.raises(UsageError, match="snd-settle-mode settled"):
        settled.send(b"m", b"t", False)
    link.detach()
    with pytest.raises(UsageError, match="not attached"):
        link.send(b"m", b"t", False)


def test_the_receivers_own_message_size_bound() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    [attached] = of(peer.server.receive_data(attach_sender(), 1), LinkAttached)
    attached.link.accept_attach(None, None, max_message_size=5)
    attached.link.flow(5)  # type: ignore[attr-defined]
    assert len(of(peer.send(transfer(payload=b"x" * 5)), TransferReceived)) == 1
    assert len(of(peer.send(transfer(1, payload=b"x" * 6)), LinkDetached)) == 1


# --- windows


def test_messages_wait_for_the_window_in_order() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_receiver(0, "a"), attach_receiver(1, "b"))
    a, b = peer.server.sessions()[0].links()
    peer.send(frame_flow(0, window=3), frame_flow(1, window=3))
    assert isinstance(a, SenderLink)
    assert isinstance(b, SenderLink)
    peer.answers()
    sent = [(a if index % 2 else b).send(bytes([index]), bytes([index]), False) for index in range(8)]
    assert [each.id for each in sent] == [0, 1, 2, -1, -1, -1, -1, -1]
    assert transfer_ids(peer) == [0, 1, 2]
    peer.send(frame_flow(None, window=3, seen=2))
    assert transfer_ids(peer) == [3, 4], "one that was under way is taken off the window"
    peer.send(frame_flow(None, window=100, seen=5))
    assert transfer_ids(peer) == [5, 6, 7]
    assert [each.id for each in sent] == list(range(8))


def frame_flow(handle: int | None, window: int, seen: int | None = 0) -> bytes:
    credit = None if handle is None else 100
    return frame(
        Flow(
            window,
            0,
            100,
            next_incoming_id=seen,
            handle=handle,
            delivery_count=None if handle is None else 0,
            link_credit=credit,
        )
    )


def transfer_ids(peer: RawPeer) -> list[int | None]:
    return [each.delivery_id for each in peer.answers() if isinstance(each, Transfer)]


def test_a_detached_link_takes_its_waiting_messages_along_and_leaves_no_gap() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_receiver(0, "a"), attach_receiver(1, "b"))
    a, b = peer.server.sessions()[0].links()
    peer.send(frame_flow(0, window=1), frame_flow(1, window=1))
    assert isinstance(a, SenderLink)
    assert isinstance(b, SenderLink)
    peer.answers()
    for index in range(4):
        (b if index % 2 else a).send(bytes([index]), bytes([index]), False)
    assert len(a.session.unsettled_of(a)) == len(a.session.unsettled_of(b)) == 2
    a.detach()
    peer.send(frame_flow(None, window=100, seen=1))
    assert transfer_ids(peer) == [0, 1, 2]


def test_a_large_message_passes_a_small_window() -> None:
    pair = Pair(client_options(), server_options(incoming_window_frames=2, max_frame_size_bytes=512))
    link, _ = pair.sending(2)
    payload = bytes(range(256)) * 40
    link.send(payload, b"1", False)
    link.send(b"next", b"2", False)
    pair.pump()
    got = of(pair.server_events, TransferReceived)
    assert b"".join(each.payload for each in got) == payload + b"next"
    assert got[-1].first


def test_credit_is_withheld_while_much_waits() -> None:
    peer = RawPeer(server_options(max_buffered_bytes=100))
    peer.send(HEADER, OPEN, BEGIN, attach_receiver(), frame_flow(0, window=0))
    [link] = peer.server.sessions()[0].links()
    assert isinstance(link, SenderLink)
    assert link.usable_credit() == 100
    link.send(b"m" * 150, b"1", False)
    assert link.usable_credit() == 0
    events = peer.send(frame_flow(None, window=5))
    assert only(events, CreditChanged).link.usable_credit() == 99


def test_transfer_ids_wrap_in_both_directions() -> None:
    pair = Pair(
        client_options(initial_outgoing_id=NEAR_WRAP, incoming_window_frames=4),
        server_options(initial_outgoing_id=NEAR_WRAP, incoming_window_frames=4),
    )
    sender, receiver = pair.sending(100)
    deliveries = [sender.send(bytes([index]), bytes([index]), False) for index in range(20)]
    pair.pump()
    got = of(pair.server_events, TransferReceived)
    assert [each.payload[0] for each in got] == list(range(20))
    assert got[0].delivery_id == NEAR_WRAP
    assert got[3].delivery_id == 0
    receiver.settle(NEAR_WRAP, 5, ACCEPTED)
    pair.pump()
    disposition = only(pair.client_events, DispositionReceived)
    assert disposition.deliveries == deliveries[:9]
    assert all(each.settled for each in deliveries[:9])
    assert sender.unsettled_count == 11


# --- dispositions


@pytest.mark.parametrize(
    "state",
    [
        ACCEPTED,
        Released(),
        Rejected(Error("amqp:decode-error", "bad")),
        Modified(True, True, {"k": 1}),
        Received(1, 2),
        TransactionalState(b"tx", ACCEPTED),
        None,
    ],
)
def test_states_pass_through(state: DeliveryState | None) -> None:
    pair = Pair()
    link, peer = pair.sending(5)
    delivery = link.send(b"m", b"t", False, context="mine")
    pair.pump()
    peer.settle(0, 0, state)
    pair.pump()
    disposition = only(pair.client_events, DispositionReceived)
    assert disposition.deliveries == [delivery]
    assert (disposition.state, disposition.settled) == (state, True)
    assert delivery.state == state
    assert delivery.context == "mine"


def test_a_range_over_several_links_skips_what_is_settled() -> None:
    pair = Pair()
    receiver, sender = pair.receiving(10)
    session = receiver.session
    other_receiver = session.attach_receiver("other", None, None)
    other_receiver.flow(10)
    pair.pump()
    other = pair.server_link("other")
    assert isinstance(other, SenderLink)
    deliveries = [
        (sender if index % 2 else other).send(b"m", bytes([index]), index == 4) for index in range(6)
    ]
    pair.pump()
    receiver.settle(2, 2, ACCEPTED)
    receiver.settle(1, 5, Released())
    receiver.settle(1, 5, Released())
    pair.pump()
    disposition = of(pair.server_events, DispositionReceived)
    assert [each.deliveries for each in disposition] == [
        [deliveries[2]],
        [deliveries[1], deliveries[3], deliveries[5]],
    ]
    assert (receiver.unsettled_count, other_receiver.unsettled_count) == (0, 1)
    assert (sender.unsettled_count, other.unsettled_count) == (0, 1)


def test_frames_that_say_the_same_one_after_another_are_one_event() -> None:
    pair = Pair()
    receiver, sender = pair.receiving(10)
    deliveries = [sender.send(b"m", bytes([tag]), False) for tag in range(8)]
    pair.pump()
    for first, last, settled, state in (
        (0, 0, True, ACCEPTED),
        (1, 2, True, ACCEPTED),
        (4, 4, False, ACCEPTED),
        (3, 3, False, ACCEPTED),
        (5, 5, False, RELEASED),
        (6, 6, True, TransactionalState(b"t", ACCEPTED)),
        (7, 7, True, TransactionalState(b"t", ACCEPTED)),
    ):
        receiver.settle(first, last, state, settled=settled)
    pair.pump()
    found = [
        (each.deliveries, each.settled, each.state) for each in of(pair.server_events, DispositionReceived)
    ]
    assert found == [
        (deliveries[:3], True, ACCEPTED),
        ([deliveries[4]], False, ACCEPTED),
        ([deliveries[3]], False, ACCEPTED),
        ([deliveries[5]], False, RELEASED),
        (deliveries[6:], True, TransactionalState(b"t", ACCEPTED)),
    ]


def test_unknown_ids_are_passed_over() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    for role in (True, False):
        assert peer.send(frame(Disposition(role, 5, 9, True, ACCEPTED))) == []
    assert peer.answers()[-1].__class__.__name__ == "Begin"


def test_a_hostile_range_costs_no_more_than_what_is_unsettled() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_receiver(), frame_flow(0, window=100))
    [link] = peer.server.sessions()[0].links()
    assert isinstance(link, SenderLink)
    delivery = link.send(b"m", b"t", False)
    for _ in range(1000):
        assert peer.send(frame(Disposition(True, 1, 0x7FFF_FFFF, True, ACCEPTED))) == []
    events = peer.send(frame(Disposition(True, 0, 0x7FFF_FFFF, True, ACCEPTED)))
    assert only(events, DispositionReceived).deliveries == [delivery]


def test_receiver_settle_mode_second() -> None:
    pair = Pair()
    receiver, sender = pair.receiving(10, rcv_settle_mode=1)
    deliveries = [sender.send(b"m", bytes([tag]), False) for tag in range(3)]
    pair.pump()
    assert all(event.rcv_settle_mode == 1 for event in of(pair.client_events, TransferReceived))
    receiver.settle(0, 2, ACCEPTED, settled=False)
    pair.pump()
    disposition = only(pair.server_events, DispositionReceived)
    assert (disposition.deliveries, disposition.settled) == (deliveries, False)
    assert sender.unsettled_count == receiver.unsettled_count == 3
    sender.settle(0, 1, ACCEPTED)
    sender.settle(0, 1, ACCEPTED)
    pair.pump()
    answer = only(pair.client_events, SenderDispositionReceived)
    assert (answer.link, answer.delivery_ids, answer.settled, answer.state) == (
        receiver,
        [0, 1],
        True,
        ACCEPTED,
    )
    assert sender.unsettled_count == receiver.unsettled_count == 1


def test_the_sender_speaks_of_several_links_at_once() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender(0, "a"), attach_sender(1, "b"))
    a, b = peer.server.sessions()[0].links()
    for link in (a, b):
        link.flow(5)  # type: ignore[attr-defined]
    peer.send(transfer(0), frame(Transfer(1, 1, b"t"), b""), frame(Transfer(1, 2, b"u"), b""), transfer(3))
    events = peer.send(frame(Disposition(False, 0, 3, True, ACCEPTED)))
    got = [(event.link, event.delivery_ids) for event in of(events, SenderDispositionReceived)]
    assert got == [(a, [0]), (b, [1, 2]), (a, [3])]
    assert a.unsettled_count == b.unsettled_count == 0


def test_the_sender_may_give_up_a_delivery() -> None:
    pair = Pair()
    link, peer = pair.sending(5)
    link.send(b"m", b"t", False)
    pair.pump()
    link.settle(0, 0)
    pair.pump()
    disposition = only(pair.server_events, SenderDispositionReceived)
    assert (disposition.delivery_ids, disposition.settled, disposition.state) == ([0], True, None)
    peer.settle(0, 0, ACCEPTED)
    assert pair.server.data_to_send() == b"", "what the sender has settled needs no answer"


def test_a_transfer_may_ask_for_settle_mode_first_on_a_link_with_second() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender(rcv_settle_mode=1))
    peer.server.sessions()[0].links()[0].flow(5)  # type: ignore[attr-defined]
    events = of(peer.send(transfer(0, rcv_settle_mode=0), transfer(1)), TransferReceived)
    assert [event.rcv_settle_mode for event in events] == [0, 1]


@pytest.mark.parametrize(
    ("held", "first", "last", "found"),
    [
        ([], 0, 5, []),
        ([3, 4, 5], 4, 4, [4]),
        ([3, 4, 5], 0, 0x7FFF_FFFF, [3, 4, 5]),
        ([0xFFFF_FFFF, 0, 1], 0xFFFF_FFFE, 0, [0xFFFF_FFFF, 0]),
        ([0xFFFF_FFFF, 0, 1], 0xFFFF_FF00, 0x10, [0xFFFF_FFFF, 0, 1]),
        ([7], 8, 0x7FFF_0000, []),
    ],
)
def test_present_ids(held: list[int], first: int, last: int, found: list[int]) -> None:
    link, _ = Pair().sending()
    unsettled = {id: Delivery(id, link, b"", 0, False, None) for id in held}
    assert present_ids(unsettled, first, last) == found
