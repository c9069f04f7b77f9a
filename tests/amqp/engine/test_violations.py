"""Each rule that a peer can break, what it is told for it, and that it is told in the right place."""

from __future__ import annotations

import pytest

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Performative
from postroom.amqp.engine.events import LinkDetached, ProtocolFailed, SessionEnded
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.performatives import Attach, Begin, Close, Detach, End, Open
from postroom.amqp.frames.transfers import Disposition, Flow, Transfer
from tests.amqp.engine.engine_pair import (
    BEGIN,
    HEADER,
    OPEN,
    RawPeer,
    attach_receiver,
    attach_sender,
    flow,
    frame,
    of,
    only,
    server_options,
    transfer,
)

SESSION = HEADER + OPEN + BEGIN
LONG_FRAME = b"\x00\x10\x00\x01\x02\x00\x00\x00"

CLOSING = [
    ("begin before open", HEADER + BEGIN, errors.ILLEGAL_STATE),
    ("close before open", HEADER + frame(Close()), errors.ILLEGAL_STATE),
    ("a second open", HEADER + OPEN + OPEN, errors.ILLEGAL_STATE),
    ("open on another channel", HEADER + frame(Open(container_id="raw"), channel=1), errors.NOT_ALLOWED),
    ("a performative on an unknown channel", HEADER + OPEN + frame(End(), channel=3), errors.ILLEGAL_STATE),
    ("a transfer on an unknown channel", HEADER + OPEN + transfer(), errors.ILLEGAL_STATE),
    ("begin on a channel in use", SESSION + BEGIN, errors.ILLEGAL_STATE),
    (
        "channel above channel-max",
        HEADER + OPEN + frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=256),
        errors.CONNECTION_FRAMING_ERROR,
    ),
    ("handle above handle-max", SESSION + attach_sender(handle=1024), errors.CONNECTION_FRAMING_ERROR),
    (
        "begin that answers nothing",
        HEADER
        + OPEN
        + frame(Begin(remote_channel=7, next_outgoing_id=0, incoming_window=1, outgoing_window=1)),
        errors.INVALID_FIELD,
    ),
    ("frame above max-frame-size", HEADER + OPEN + LONG_FRAME, errors.CONNECTION_FRAMING_ERROR),
    ("frame shorter than its header", HEADER + OPEN + b"\0\0\0\7\2\0\0\0", errors.CONNECTION_FRAMING_ERROR),
    ("data offset inside the header", HEADER + OPEN + b"\0\0\0\x08\1\0\0\0", errors.CONNECTION_FRAMING_ERROR),
    ("data offset behind the frame", HEADER + OPEN + b"\0\0\0\x08\3\0\0\0", errors.CONNECTION_FRAMING_ERROR),
    ("unknown frame type", HEADER + OPEN + b"\0\0\0\x08\2\7\0\0", errors.CONNECTION_FRAMING_ERROR),
    ("SASL frame after the headers", HEADER + OPEN + b"\0\0\0\x08\2\1\0\0", errors.CONNECTION_FRAMING_ERROR),
    ("a body that is no performative", HEADER + OPEN + b"\0\0\0\x0a\2\0\0\0\x41\x41", errors.DECODE_ERROR),
    (
        "max-frame-size below 512",
        HEADER + frame(Open(container_id="raw", max_frame_size=511)),
        errors.INVALID_FIELD,
    ),
    ("idle-time-out too short", HEADER + frame(Open(container_id="raw", idle_timeout=1)), errors.NOT_ALLOWED),
]

ENDING = [
    ("detach of an unknown handle", frame(Detach(handle=5)), errors.SESSION_UNATTACHED_HANDLE),
    ("flow for an unknown handle", flow(handle=5), errors.SESSION_UNATTACHED_HANDLE),
    ("transfer for an unknown handle", frame(Transfer(5, 0, b"t"), b"x"), errors.SESSION_UNATTACHED_HANDLE),
    (
        "frame for a handle that was detached",
        attach_sender() + frame(Detach(handle=0)) + flow(handle=0),
        errors.SESSION_UNATTACHED_HANDLE,
    ),
    ("handle in use", attach_sender() + attach_sender(name="other"), errors.SESSION_HANDLE_IN_USE),
    (
        "sender without initial-delivery-count",
        attach_sender(initial_delivery_count=None),
        errors.INVALID_FIELD,
    ),
    (
        "disposition that ends before it begins",
        frame(Disposition(True, 5, 4, True, ACCEPTED)),
        errors.INVALID_FIELD,
    ),
]

DETACHING_WITH_CREDIT = [
    (
        "transfers beyond credit",
        b"".join(transfer(id) for id in range(4)),
        {},
        errors.LINK_TRANSFER_LIMIT_EXCEEDED,
    ),
    ("message too large, in one frame", transfer(payload=b"x" * 101), {}, errors.LINK_MESSAGE_SIZE_EXCEEDED),
    (
        "message too large, in the third frame",
        transfer(payload=b"x" * 50, more=True)
        + transfer(None, payload=b"x" * 50, more=True)
        + transfer(None),
        {},
        errors.LINK_MESSAGE_SIZE_EXCEEDED,
    ),
    (
        "unsettled on a settled link",
        transfer(settled=False),
        {"snd_settle_mode": 1},
        errors.INVALID_FIELD,
    ),
    ("settled on an unsettled link", transfer(settled=True), {"snd_settle_mode": 0}, errors.INVALID_FIELD),
    ("receiver-settle-mode second not agreed on", transfer(rcv_settle_mode=1), {}, errors.INVALID_FIELD),
    ("no delivery-id", transfer(id=None, tag=b"t"), {}, errors.INVALID_FIELD),
    ("no delivery-tag", transfer(tag=None), {}, errors.INVALID_FIELD),
    ("delivery-tag too long", transfer(tag=b"t" * 33), {}, errors.INVALID_FIELD),
    ("delivery-id used before", transfer(1) + transfer(1), {}, errors.INVALID_FIELD),
    ("delivery-id behind", transfer(2) + transfer(1), {}, errors.INVALID_FIELD),
    ("another delivery inside one", transfer(1, more=True) + transfer(2), {}, errors.INVALID_FIELD),
    (
        "goes on with another tag",
        transfer(1, more=True) + transfer(None, tag=b"2"),
        {},
        errors.INVALID_FIELD,
    ),
    (
        "goes on with another message-format",
        transfer(1, message_format=7, more=True) + transfer(None, message_format=8),
        {},
        errors.INVALID_FIELD,
    ),
    (
        "goes on with a message-format after none",
        transfer(1, more=True) + transfer(None, message_format=8),
        {},
        errors.INVALID_FIELD,
    ),
    ("a tag that is unsettled", transfer(1, b"t") + transfer(2, b"t"), {}, errors.NOT_ALLOWED),
    (
        "a tag that is unsettled, of a message under way",
        transfer(1, b"t", more=True) + transfer(None) + transfer(2, b"t", more=True),
        {},
        errors.NOT_ALLOWED,
    ),
    (
        "new delivery while the sender's unsettled map is incomplete",
        transfer(),
        {"unsettled": {b"1": None}, "incomplete_unsettled": True},
        errors.NOT_ALLOWED,
    ),
]


def ids(cases: list[tuple[str, bytes, str]]) -> list[str]:
    return [case[0] for case in cases]


def last_of(answers: list[Performative], kind: type[Performative]) -> Performative:
    return [answer for answer in answers if isinstance(answer, kind)][-1]


@pytest.mark.parametrize(("what", "sent", "condition"), CLOSING, ids=ids(CLOSING))
def test_costs_the_connection(what: str, sent: bytes, condition: str) -> None:
    peer = RawPeer(server_options(max_frame_size_bytes=1 << 20))
    events = peer.send(sent)
    failed = only(events, ProtocolFailed)
    assert failed.error.condition == condition
    answers = peer.answers()
    assert isinstance(answers[0], Open), "a close has an open before it"
    assert isinstance(answers[-1], Close)
    assert answers[-1].error is not None
    assert answers[-1].error.condition == condition
    assert peer.server.finished
    assert peer.send(OPEN + BEGIN) == [], "what comes after is ignored"


@pytest.mark.parametrize(("what", "sent", "condition"), ENDING, ids=ids(ENDING))
def test_costs_the_session(what: str, sent: bytes, condition: str) -> None:
    peer = RawPeer()
    peer.send(SESSION)
    check_session_ended(peer, sent, condition)


def check_session_ended(peer: RawPeer, sent: bytes, condition: str) -> None:
    peer.answers()
    events = peer.send(sent)
    ended = only(events, SessionEnded)
    assert ended.local
    assert ended.error is not None
    assert ended.error.condition == condition
    end = peer.answers()[-1]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == condition
    assert peer.send(sent) == [], "frames under way are ignored"
    assert peer.send(frame(End()), BEGIN) != [], "the channel is free again, the connection sound"
    assert not peer.server.finished


def attached(peer: RawPeer, **attach: object) -> ReceiverLink:
    peer.send(SESSION)
    peer.send(attach_sender(**attach))
    link = peer.server.sessions()[0].links()[0]
    assert isinstance(link, ReceiverLink)
    return link


@pytest.mark.parametrize(
    ("what", "sent", "attach", "condition"), DETACHING_WITH_CREDIT, ids=[c[0] for c in DETACHING_WITH_CREDIT]
)
def test_costs_the_link(what: str, sent: bytes, attach: dict[str, object], condition: str) -> None:
    peer = RawPeer(server_options(max_message_size_bytes=100))
    attached(peer, **attach).flow(3)
    peer.answers()
    check_link_detached(peer, sent, condition)


def test_transfer_on_a_link_of_which_the_peer_is_receiver() -> None:
    peer = RawPeer()
    peer.send(SESSION, attach_receiver())
    peer.answers()
    check_link_detached(peer, transfer(), errors.NOT_ALLOWED)


def test_transfer_before_the_attach_is_answered() -> None:
    """No credit can have been given; the attach is answered, since a detach needs a handle."""
    peer = RawPeer()
    peer.send(SESSION)
    peer.answers()
    events = peer.server.receive_data(attach_sender() + transfer(), 1)
    assert only(events, LinkDetached).local
    answers = peer.answers()
    assert [type(answer) for answer in answers] == [Attach, Detach]


def check_link_detached(peer: RawPeer, sent: bytes, condition: str) -> None:
    events = peer.send(sent)
    detached = only(events, LinkDetached)
    assert (detached.local, detached.closed, detached.with_session) == (True, True, False)
    assert detached.error is not None
    assert detached.error.condition == condition
    detach = peer.answers()[-1]
    assert isinstance(detach, Detach)
    assert detach.closed
    assert detach.error is not None
    assert detach.error.condition == condition
    assert peer.send(transfer(50), flow(handle=0)) == [], "what was under way is ignored"
    peer.send(frame(Detach(handle=0, closed=True)))
    assert peer.server.sessions()[0].links() == []
    assert of(peer.send(attach_sender(name="next")), SessionEnded) == [], "the handle is free again"


def test_window_violation() -> None:
    peer = RawPeer(server_options(incoming_window_frames=4))
    attached(peer).flow(100)
    for start in (0, 4):
        assert of(peer.send(*(transfer(id) for id in range(start, start + 4))), SessionEnded) == []
        assert isinstance(last_of(peer.answers(), Flow), Flow), "the window is renewed"
    ended = only(peer.send(*(transfer(id) for id in range(8, 13))), SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == errors.SESSION_WINDOW_VIOLATION


def test_too_many_frames_for_a_detached_link() -> None:
    peer = RawPeer(server_options(max_errant_frames=3))
    link: Link = attached(peer)
    link.detach()
    for id in range(3):
        assert peer.send(transfer(id)) == []
    ended = only(peer.send(transfer(3)), SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == errors.SESSION_ERRANT_LINK


def test_too_many_unsettled_deliveries() -> None:
    peer = RawPeer(server_options(max_incoming_unsettled=2))
    attached(peer).flow(100)
    assert of(peer.send(transfer(0), transfer(1), transfer(2, settled=True)), SessionEnded) == []
    ended = only(peer.send(transfer(3)), SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == errors.RESOURCE_LIMIT_EXCEEDED


def test_more_sessions_than_the_peer_lets_us_answer() -> None:
    """The peer's channel-max bounds our channels too, so its second begin can't be answered."""
    peer = RawPeer()
    begin = frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=1)
    events = peer.send(HEADER, frame(Open(container_id="raw", channel_max=0)), BEGIN, begin)
    assert only(events, ProtocolFailed).error.condition == errors.RESOURCE_LIMIT_EXCEEDED


def test_more_links_than_the_peer_lets_us_answer() -> None:
    peer = RawPeer()
    begin = frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1, handle_max=0))
    events = peer.send(HEADER, OPEN, begin, attach_sender(0, "a"), attach_sender(1, "b"))
    ended = only(events, SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == errors.RESOURCE_LIMIT_EXCEEDED


def test_more_links_than_the_connection_may_have() -> None:
    peer = RawPeer(server_options(max_connection_links=2))
    peer.send(SESSION, attach_sender(0, "a"), attach_sender(1, "b"))
    ended = only(peer.send(attach_sender(2, "c")), SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == errors.RESOURCE_LIMIT_EXCEEDED


def test_errors_are_cut_to_a_peer_with_small_frames() -> None:
    peer = RawPeer()
    name = "n" * 450
    peer.send(HEADER, frame(Open(container_id="raw", max_frame_size=512)), BEGIN, attach_sender(name=name))
    peer.answers()
    peer.send(transfer())
    detach = peer.answers()[-1]
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == errors.LINK_TRANSFER_LIMIT_EXCEEDED


def test_other_sessions_go_on_when_one_is_ended() -> None:
    peer = RawPeer()
    begin = frame(Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9), channel=1)
    peer.send(SESSION, begin)
    peer.send(frame(Detach(handle=5)))
    assert of(peer.send(frame(Flow(9, 0, 9, echo=True), channel=1)), SessionEnded) == []
    answers = peer.answers()
    assert isinstance(last_of(answers, Flow), Flow)
