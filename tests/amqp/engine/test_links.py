"""Attach, detach, stealing, suspending and resuming; credit, drain and flow in both roles."""

from __future__ import annotations

import pytest

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.events import (
    CreditChanged,
    DispositionReceived,
    Drained,
    FlowReceived,
    LinkAttached,
    LinkDetached,
    SessionBegun,
    SessionEnded,
    TransferReceived,
)
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.frames.outcomes import ACCEPTED, Received
from postroom.amqp.frames.performatives import Attach, Begin, Detach, End
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import Flow, Transfer
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
    only,
    server_options,
    transfer,
)

# --- sessions


def test_sessions_begin_from_either_end_and_channels_are_used_again() -> None:
    pair = Pair().open()
    first, second = pair.client.begin(), pair.client.begin()
    pair.pump()
    third = pair.server.begin()
    pair.pump()
    assert [first.channel, second.channel, third.channel] == [0, 1, 2]
    assert [event.by_peer for event in of(pair.client_events, SessionBegun)] == [False, False, True]
    first.end(Error(errors.INTERNAL_ERROR, "bug"))
    pair.pump()
    ended = only(pair.server_events, SessionEnded)
    assert (ended.local, ended.error) == (False, Error(errors.INTERNAL_ERROR, "bug"))
    assert only(pair.client_events, SessionEnded).session is first
    assert pair.client.begin().channel == 0


def test_a_session_that_ends_takes_its_links_along() -> None:
    pair = Pair()
    link, peer = pair.sending(10)
    delivery = link.send(b"m", b"t", False)
    link.session.end()
    pair.pump()
    assert [type(event) for event in pair.server_events] == [TransferReceived, LinkDetached, SessionEnded]
    assert only(pair.client_events, LinkDetached).unsettled == [delivery]
    assert peer.gone
    pair.session().attach_sender("to-server", None, None)
    pair.pump()
    assert only(pair.server_events, LinkAttached).by_peer, "the name is free again"


def test_a_begin_that_comes_after_our_end_is_no_surprise() -> None:
    pair = Pair().open()
    session = pair.client.begin()
    session.end()
    pair.pump()
    assert [type(event) for event in pair.client_events[1:]] == [SessionEnded]
    assert pair.client.sessions() == []


def test_session_state_is_echoed() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    peer.answers()
    peer.send(flow(echo=True))
    [answer] = peer.answers()
    assert isinstance(answer, Flow)
    assert (answer.handle, answer.next_incoming_id, answer.incoming_window) == (None, 0, 2048)


# --- attach


@pytest.mark.parametrize("snd_settle_mode", [0, 1, 2])
@pytest.mark.parametrize("rcv_settle_mode", [0, 1])
def test_settle_modes_are_echoed(snd_settle_mode: int, rcv_settle_mode: int) -> None:
    pair = Pair()
    sender, _ = pair.sending(snd_settle_mode=snd_settle_mode, rcv_settle_mode=rcv_settle_mode)
    receiver, _ = pair.receiving(snd_settle_mode=snd_settle_mode, rcv_settle_mode=rcv_settle_mode)
    for link in (sender, receiver):
        assert link.peer_attach is not None
        assert link.peer_attach.snd_settle_mode == snd_settle_mode
        assert link.peer_attach.rcv_settle_mode == rcv_settle_mode


def test_attach_carries_what_both_sides_say() -> None:
    pair = Pair(by_hand=True)
    pair.client.open()
    session = pair.client.begin()
    session.attach_receiver(
        "r",
        Source(address="q", durable=2),
        Target(),
        properties={"a": 1},
        desired_capabilities=["queue"],
        unsettled={b"1": Received(0, 0), b"2": None},
    )
    pair.pump()
    pair.server.open()
    attached = only(pair.server_events, LinkAttached)
    assert isinstance(attached.link, SenderLink)
    assert attached.attach.source == Source(address="q", durable=2)
    assert attached.attach.properties == {"a": 1}
    assert attached.attach.desired_capabilities == ["queue"]
    assert attached.attach.unsettled == {b"1": Received(0, 0), b"2": None}
    attached.link.accept_attach(
        Source(address="q", durable=0),
        attached.attach.target,
        properties={"b": 2},
        unsettled={b"2": ACCEPTED},
    )
    pair.pump()
    answer = only(pair.client_events, LinkAttached)
    assert not answer.by_peer
    assert answer.link.source == Source(address="q", durable=0)
    assert answer.attach.properties == {"b": 2}
    assert answer.attach.unsettled == {b"2": ACCEPTED}
    assert answer.attach.initial_delivery_count == 0
    assert answer.link.attached
    with pytest.raises(UsageError, match="no attach to answer"):
        attached.link.accept_attach(None, None)


def test_the_coordinator_is_a_target() -> None:
    pair = Pair()
    link = pair.session().attach_sender("tx", Source(), Coordinator(capabilities=["amqp:local-transactions"]))
    pair.pump()
    assert only(pair.server_events, LinkAttached).attach.target == Coordinator(
        capabilities=["amqp:local-transactions"]
    )
    assert link.attached


def test_the_same_name_serves_both_directions() -> None:
    pair = Pair()
    session = pair.session()
    sender = session.attach_sender("name", None, Target(address="q"))
    receiver = session.attach_receiver("name", Source(address="q"), None)
    pair.pump()
    assert sender.attached
    assert receiver.attached


def test_attaching_a_name_twice_is_misuse() -> None:
    pair = Pair()
    link, _ = pair.sending()
    with pytest.raises(UsageError, match="attached already"):
        link.session.attach_sender("to-server", None, None)


def test_refused() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    peer.answers()
    for name, attach in (("s", attach_sender(0, "s")), ("r", attach_receiver(1, "r"))):
        event = only(peer.server.receive_data(attach, 1), LinkAttached)
        event.link.refuse_attach(Error(errors.NOT_FOUND, f"no {name}"))
        answer, detach = peer.answers()
        assert isinstance(answer, Attach)
        assert (answer.target if name == "s" else answer.source) is None
        assert isinstance(detach, Detach)
        assert detach.closed
        assert detach.error == Error(errors.NOT_FOUND, f"no {name}")
        assert peer.send(frame(Detach(handle=event.link.remote_handle, closed=True))) == []
    assert peer.server.sessions()[0].links() == []


def test_answers_that_come_too_late_say_nothing() -> None:
    """The events of one batch can end what its first events are about; answering in order is harmless."""
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    peer.answers()
    events = peer.server.receive_data(attach_sender() + attach_sender(1, "b") + frame(End()), 1)
    links = [event.link for event in of(events, LinkAttached)]
    assert len(of(events, LinkDetached)) == 2
    links[0].accept_attach(None, None)
    links[1].refuse_attach(Error(errors.NOT_FOUND))
    for link in links:
        assert isinstance(link, ReceiverLink)
        link.flow(10)
        link.settle(0, 9, ACCEPTED)
        link.detach()
    assert [type(answer) for answer in peer.answers()] == [End]


def test_an_attach_that_was_never_answered_can_be_detached_by_the_peer() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    peer.answers()
    events = peer.server.receive_data(attach_sender() + frame(Detach(handle=0, closed=True)), 1)
    only(events, LinkDetached).link.detach()
    assert [type(answer) for answer in peer.answers()] == [Attach, Detach]
    assert peer.server.sessions()[0].links() == []


def test_a_large_unsettled_map_is_sent_in_part() -> None:
    pair = Pair(server=server_options(max_frame_size_bytes=512))
    session = pair.session()
    unsettled = {id.to_bytes(8, "big"): None for id in range(200)}
    session.attach_sender("s", None, Target(address="q"), unsettled=dict(unsettled))
    pair.pump()
    attached = only(pair.server_events, LinkAttached).attach
    assert attached.incomplete_unsettled
    assert attached.unsettled
    assert attached.unsettled.items() <= unsettled.items()


def test_an_incomplete_map_lets_only_resumed_deliveries_pass() -> None:
    pair = Pair(server=server_options(max_frame_size_bytes=512))
    tags = [id.to_bytes(8, "big") for id in range(200)]
    link, _ = pair.sending(5, unsettled=dict.fromkeys(tags))
    with pytest.raises(UsageError, match="only resumed"):
        link.send(b"m", b"t", False)
    link.send(b"m", tags[0], False, 0, None, None, False, True)


def test_each_end_states_what_it_decides() -> None:
    """The source and snd-settle-mode are the sender's to say, the rest the receiver's."""
    pair = Pair(by_hand=True)
    pair.client.open()
    session = pair.client.begin()
    receiver = session.attach_receiver("r", Source(address="wish"), Target(address="mine"), rcv_settle_mode=1)
    pair.pump()
    pair.server.open()
    sender = only(pair.server_events, LinkAttached).link
    assert sender.source == Source(address="wish")
    sender.accept_attach(Source(address="granted"), Target(address="no say"))
    pair.pump()
    for link in (receiver, sender):
        assert (link.source, link.target) == (Source(address="granted"), Target(address="mine"))
        assert (link.snd_settle_mode, link.rcv_settle_mode) == (2, 1)


def test_an_attach_too_large_for_the_peer_is_misuse_and_harmless() -> None:
    pair = Pair(server=server_options(max_frame_size_bytes=512))
    session = pair.session()
    with pytest.raises(UsageError, match="max-frame-size"):
        session.attach_sender("s" * 600, None, None)
    session.attach_sender("s", None, None)
    pair.pump()
    assert only(pair.server_events, LinkAttached).link.handle == 0, "the handle was not lost"


def test_handles_are_bounded_and_used_again() -> None:
    pair = Pair(server=server_options(max_links=2))
    session = pair.session()
    links = [session.attach_sender(name, None, None) for name in "ab"]
    pair.pump()
    with pytest.raises(UsageError, match="handle-max"):
        session.attach_sender("c", None, None)
    links[0].detach()
    pair.pump()
    only(pair.server_events, LinkDetached).link.detach()
    pair.pump()
    assert session.attach_sender("c", None, None).handle == 0


# --- detach


@pytest.mark.parametrize("closed", [True, False])
def test_detach_is_answered_by_the_application(closed: bool) -> None:
    pair = Pair()
    link, peer = pair.sending()
    link.detach(closed=closed, error=Error(errors.LINK_DETACH_FORCED, "done"))
    link.detach()
    pair.pump()
    detached = only(pair.server_events, LinkDetached)
    assert (detached.closed, detached.local, detached.error) == (
        closed,
        False,
        Error(errors.LINK_DETACH_FORCED, "done"),
    )
    assert of(pair.client_events, LinkDetached) == []
    peer.detach(closed=False)
    pair.pump()
    assert only(pair.client_events, LinkDetached).closed == closed, (
        "a peer that closes is answered with closed"
    )
    assert link.session.links() == []


def test_both_detach_at_once() -> None:
    pair = Pair()
    link, peer = pair.sending()
    link.detach()
    peer.detach()
    pair.pump()
    assert only(pair.client_events, LinkDetached).link is link
    assert only(pair.server_events, LinkDetached).link is peer
    assert link.session.links() == peer.session.links() == []


def test_a_detach_that_overtakes_the_answer_to_attach() -> None:
    pair = Pair()
    session = pair.session()
    pair.forget_events()
    link = session.attach_sender("s", None, None)
    link.detach()
    pair.pump()
    only(pair.server_events, LinkDetached).link.detach()
    pair.pump()
    assert [type(event) for event in pair.client_events] == [LinkDetached]
    assert session.links() == []


def test_deliveries_of_a_detached_link_are_forgotten() -> None:
    pair = Pair()
    link, peer = pair.receiving(10)
    deliveries = [peer.send(b"m", bytes([tag]), False) for tag in range(3)]
    pair.pump()
    link.settle(0, 0, ACCEPTED)
    link.detach()
    pair.pump()
    detached = only(pair.server_events, LinkDetached)
    assert detached.unsettled == deliveries[1:]
    peer.detach()
    assert peer.session.deliveries.outgoing == {}
    assert link.session.deliveries.incoming == {}


def test_dispositions_still_pass_between_the_peers_detach_and_ours() -> None:
    pair = Pair()
    link, peer = pair.sending(10)
    delivery = link.send(b"m", b"t", False)
    pair.pump()
    link_detach = frame(Detach(handle=link.handle, closed=True))
    pair.server.receive_data(link_detach, pair.now_us)
    peer.settle(0, 0, ACCEPTED)
    pair.pump()
    assert delivery.settled
    assert delivery.state == ACCEPTED


def test_deliveries_of_a_suspended_link_live_on() -> None:
    """Part 2, section 2.7.6: a disposition may speak of links that are no longer attached, unless closed."""
    pair = Pair()
    link, peer = pair.receiving(10)
    first, second = [peer.send(b"m", bytes([tag]), False) for tag in range(2)]
    pair.pump()
    link.detach(closed=False)
    pair.pump()
    assert only(pair.server_events, LinkDetached).unsettled == [first, second]
    peer.detach(closed=False)
    pair.pump()
    link.settle(0, 0, ACCEPTED)
    pair.pump()
    assert only(pair.server_events, DispositionReceived).deliveries == [first]
    again = link.session.attach_receiver("to-client", Source(address="q"), Target())
    pair.pump()
    assert again.attached
    link.settle(1, 1, ACCEPTED)
    pair.pump()
    assert len(of(pair.server_events, DispositionReceived)) == 1, (
        "ids of then mean nothing to the link of now"
    )
    assert peer.session.deliveries.outgoing == link.session.deliveries.incoming == {}


def test_the_name_of_a_suspended_link_is_kept_as_long_as_its_deliveries() -> None:
    pair = Pair()
    link, peer = pair.receiving(10)
    peer.send(b"m", b"t", False)
    pair.pump()
    link.detach(closed=False)
    pair.pump()
    peer.detach(closed=False)
    pair.pump()
    assert list(pair.server.wire.links) == [("to-client", False)]
    link.settle(0, 0, ACCEPTED)
    pair.pump()
    assert pair.server.wire.links == pair.client.wire.links == {}


# --- stealing


@pytest.mark.parametrize("same_session", [True, False])
def test_a_link_attached_again_is_stolen(same_session: bool) -> None:
    peer = RawPeer()
    second = frame(Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9), channel=1)
    peer.send(HEADER, OPEN, BEGIN, second, attach_sender(0, "name"))
    old = peer.server.sessions()[0].links()[0]
    peer.answers()
    attach = attach_sender(1, "name")
    if not same_session:
        attach = attach[:7] + b"\x01" + attach[8:]
    events = peer.send(attach)
    detached = only(events, LinkDetached)
    assert (detached.link, detached.closed, detached.local) == (old, False, True)
    assert detached.error is not None
    assert detached.error.condition == errors.LINK_STOLEN
    assert isinstance(events[1], LinkAttached)
    detach, answer = peer.answers()
    assert isinstance(detach, Detach)
    assert detach.closed
    assert isinstance(answer, Attach)
    assert peer.send(frame(Detach(handle=0))) == []


def test_the_server_steals_across_connections() -> None:
    pair = Pair()
    link, peer = pair.sending()
    peer.steal()
    peer.steal()
    pair.pump()
    detached = only(pair.client_events, LinkDetached)
    assert detached.closed
    assert detached.error is not None
    assert detached.error.condition == errors.LINK_STOLEN
    link.detach()
    pair.pump()
    assert pair.server_events == []
    assert peer.session.links() == []


def test_the_other_direction_is_not_stolen() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender(0, "name"))
    assert of(peer.send(attach_receiver(1, "name")), LinkDetached) == []


def test_a_name_whose_detach_is_not_answered_yet_can_be_attached_again() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender(0, "name"))
    old = peer.server.sessions()[0].links()[0]
    events = peer.send(frame(Detach(handle=0)), attach_sender(0, "name"))
    assert [type(event) for event in events] == [LinkDetached, LinkAttached]
    new = events[1]
    assert isinstance(new, LinkAttached)
    assert new.by_peer
    old.detach()
    assert peer.server.sessions()[0].links() == [new.link]


# --- credit


def test_transfers_take_credit_on_both_ends() -> None:
    pair = Pair()
    link, peer = pair.sending(3)
    assert only([CreditChanged(link)], CreditChanged).link.usable_credit() == 3
    for tag in range(3):
        link.send(b"m", bytes([tag]), True)
    with pytest.raises(UsageError, match="no credit"):
        link.send(b"m", b"t", True)
    pair.pump()
    assert (link.credit, peer.credit) == (0, 0)
    assert link.delivery_count == peer.delivery_count == 3


def test_credit_counts_from_what_the_receiver_had_seen() -> None:
    pair = Pair()
    link, peer = pair.sending(5)
    link.send(b"m", b"1", True)
    link.send(b"m", b"2", True)
    peer.flow(5)
    pair.pump()
    assert (link.credit, peer.credit) == (3, 3)


def test_credit_can_be_taken_back() -> None:
    pair = Pair()
    link, peer = pair.sending(5)
    peer.flow(0)
    pair.pump()
    assert link.usable_credit() == 0


def test_what_was_under_way_when_credit_was_taken_back_is_taken() -> None:
    """Part 2, section 2.6.10: stopping a link leaves transfers in flight, which are no violation."""
    pair = Pair()
    link, peer = pair.sending(2)
    link.send(b"m", b"1", True)
    peer.flow(0)
    pair.pump()
    assert len(of(pair.server_events, TransferReceived)) == 1
    assert link.credit == peer.credit == 0
    assert link.attached


def test_credit_that_comes_with_the_attach_counts_once_it_is_answered() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    events = peer.server.receive_data(attach_receiver() + flow(handle=0, link_credit=5), 1)
    link = only(events, LinkAttached).link
    assert isinstance(link, SenderLink)
    assert link.usable_credit() == 0
    link.accept_attach(Source(address="q"), Target())
    assert link.usable_credit() == 5
    link.send(b"m", b"t", True)


def test_a_receiver_may_grant_before_the_attach_is_answered() -> None:
    pair = Pair()
    session = pair.session()
    receiver = session.attach_receiver("r", Source(address="q"), Target())
    receiver.flow(5)
    pair.pump()
    link = pair.server_link("r")
    assert isinstance(link, SenderLink)
    assert link.usable_credit() == 5


def test_flow_before_attach_is_misuse() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    link = only(peer.server.receive_data(attach_sender(), 1), LinkAttached).link
    assert isinstance(link, ReceiverLink)
    with pytest.raises(UsageError, match="not attached"):
        link.flow(1)


def test_delivery_count_wraps() -> None:
    pair = Pair()
    link, peer = pair.sending(initial_delivery_count=0xFFFF_FFFE)
    peer.flow(4)
    pair.pump()
    assert link.credit == 4
    for tag in range(3):
        link.send(b"m", bytes([tag]), True)
    peer.flow(4)
    pair.pump()
    assert (link.delivery_count, peer.delivery_count) == (1, 1)
    assert (link.credit, peer.credit) == (1, 1)


def test_largest_credit() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_receiver(), flow(handle=0, link_credit=0xFFFF_FFFF))
    link = peer.server.sessions()[0].links()[0]
    assert isinstance(link, SenderLink)
    assert link.credit == 0xFFFF_FFFF
    assert link.usable_credit() == 5000


def test_usable_credit_is_bounded_by_unsettled_deliveries_and_comes_back() -> None:
    pair = Pair(server=server_options(max_link_unsettled=4))
    link, peer = pair.receiving(100)
    assert peer.usable_credit() == 4
    for tag in range(4):
        peer.send(b"m", bytes([tag]), False)
    assert peer.usable_credit() == 0
    pair.pump()
    pair.forget_events()
    link.settle(0, 0, ACCEPTED)
    pair.pump()
    assert of(pair.server_events, CreditChanged) == [], "not for every single one"
    link.settle(1, 1, ACCEPTED)
    pair.pump()
    assert only(pair.server_events, CreditChanged).link.usable_credit() == 2


def test_usable_credit_is_bounded_for_the_whole_session_too() -> None:
    pair = Pair(server=server_options(max_outgoing_unsettled=4))
    link, peer = pair.receiving(100)
    other = link.session.attach_receiver("other", None, None)
    other.flow(100)
    pair.pump()
    second = pair.server_link("other")
    assert isinstance(second, SenderLink)
    for tag in range(3):
        peer.send(b"m", bytes([tag]), False)
    assert (peer.usable_credit(), second.usable_credit()) == (1, 1)
    pair.pump()
    pair.forget_events()
    link.settle(0, 1, ACCEPTED)
    pair.pump()
    assert {event.link: event.link.usable_credit() for event in of(pair.server_events, CreditChanged)} == {
        peer: 3,
        second: 3,
    }


def test_every_link_in_a_range_is_told_of_room() -> None:
    pair = Pair(server=server_options(max_link_unsettled=2))
    link, peer = pair.receiving(100)
    other = link.session.attach_receiver("other", None, None)
    other.flow(100)
    pair.pump()
    second = pair.server_link("other")
    assert isinstance(second, SenderLink)
    for sender in (peer, second):
        for tag in range(2):
            sender.send(b"m", bytes([tag]), False)
        assert sender.usable_credit() == 0
    pair.pump()
    pair.forget_events()
    link.session.deliveries.send_disposition(True, 0, 3, True, ACCEPTED)
    pair.pump()
    assert {event.link for event in of(pair.server_events, CreditChanged)} == {peer, second}


def test_echo_is_answered_in_both_roles() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender(0, "s"), attach_receiver(1, "r"))
    receiver, sender = peer.server.sessions()[0].links()
    assert isinstance(sender, SenderLink)
    assert isinstance(receiver, ReceiverLink)
    sender.available = 9
    receiver.flow(2)
    peer.answers()
    peer.send(flow(handle=1, link_credit=5, delivery_count=0, echo=True))
    peer.send(flow(handle=0, delivery_count=0, available=3, echo=True))
    sender_flow, receiver_flow = peer.answers()
    assert isinstance(sender_flow, Flow)
    assert isinstance(receiver_flow, Flow)
    assert (
        sender_flow.handle,
        sender_flow.available,
        sender_flow.link_credit,
        sender_flow.delivery_count,
    ) == (1, 9, 5, 0)
    assert (receiver_flow.handle, receiver_flow.link_credit, receiver_flow.delivery_count) == (0, 2, 0)
    assert receiver.available == 3


# --- drain


def test_drain_gives_unused_credit_back() -> None:
    pair = Pair()
    receiver, sender = pair.receiving()
    receiver.flow(10, drain=True)
    pair.pump()
    assert only(pair.server_events, CreditChanged).link.drain
    sender.send(b"m", b"t", True)
    sender.drained()
    sender.drained()
    pair.pump()
    assert [type(event) for event in pair.client_events] == [TransferReceived, FlowReceived, Drained]
    assert (receiver.credit, sender.credit) == (0, 0)
    assert receiver.delivery_count == sender.delivery_count == 10
    receiver.flow(2)
    pair.pump()
    assert sender.usable_credit() == 2
    assert not sender.drain


def test_drain_used_up_by_messages() -> None:
    pair = Pair()
    receiver, sender = pair.receiving()
    receiver.flow(1, drain=True)
    pair.pump()
    sender.send(b"m", b"t", True)
    sender.drained()
    pair.pump()
    assert [type(event) for event in pair.client_events] == [TransferReceived, Drained, FlowReceived]


def test_drained_without_drain_says_nothing() -> None:
    pair = Pair()
    _, sender = pair.receiving(5)
    sender.drained()
    assert sender.credit == 5
    assert pair.server.data_to_send() == b""


def test_drained_waits_for_what_the_window_holds_back() -> None:
    pair = Pair(client_options(incoming_window_frames=2))
    receiver, sender = pair.receiving()
    receiver.flow(10, drain=True)
    pair.pump()
    for tag in range(5):
        sender.send(b"m", bytes([tag]), True)
    sender.drained()
    assert sender.credit == 5, "not drained while messages wait"
    pair.pump()
    assert len(of(pair.client_events, TransferReceived)) == 5
    assert isinstance(pair.client_events[-1], Drained)
    assert receiver.credit == sender.credit == 0


# --- resuming


def test_a_resumed_delivery_reaches_the_application_when_it_is_in_its_map() -> None:
    pair = Pair(by_hand=True)
    pair.client.open()
    session = pair.client.begin()
    link = session.attach_sender("s", None, Target(address="q"), unsettled={b"1": None, b"2": None})
    pair.pump()
    pair.server.open()
    peer = only(pair.server_events, LinkAttached).link
    assert isinstance(peer, ReceiverLink)
    peer.accept_attach(None, Target(address="q"), unsettled={b"1": Received(0, 0)})
    peer.flow(10)
    pair.pump()
    pair.forget_events()
    link.send(b"again", b"1", False, 0, Received(0, 0), None, False, True)
    link.send(b"unknown", b"2", False, 0, None, None, False, True)
    link.send(b"new", b"3", False)
    pair.pump()
    got = of(pair.server_events, TransferReceived)
    assert [(event.tag, event.resume) for event in got] == [(b"1", True), (b"3", False)]
    assert got[0].state == Received(0, 0)
    assert peer.credit == 7


def test_every_frame_of_an_ignored_resumed_delivery_is_ignored() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN, attach_sender())
    link = peer.server.sessions()[0].links()[0]
    assert isinstance(link, ReceiverLink)
    link.flow(10)
    assert peer.send(transfer(0, resume=True, more=True), frame(Transfer(0, None, None), b"x")) == []
    assert link.unsettled_count == 0
    assert len(peer.send(transfer(1))) == 1
