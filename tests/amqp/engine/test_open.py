"""Protocol headers, SASL, open and close, heartbeats: a connection from its first byte to its last."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import (
    Closed,
    LinkDetached,
    Opened,
    ProtocolFailed,
    SaslDone,
    SaslInitReceived,
    SessionBegun,
    SessionEnded,
)
from postroom.amqp.engine.options import NEVER_US
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.frames.frames import AMQP_HEADER, SASL_HEADER, TLS_HEADER, FrameDecoder, write_sasl_frame
from postroom.amqp.frames.performatives import Begin, Close, Open
from postroom.amqp.frames.sasl import (
    SaslChallenge,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from tests.amqp.engine.engine_pair import (
    BEGIN,
    HEADER,
    OPEN,
    Pair,
    RawPeer,
    client_options,
    frame,
    of,
    only,
    server_options,
)

EMPTY_FRAME = b"\0\0\0\x08\2\0\0\0"


def sasl(*bodies: SaslFrame) -> bytes:
    writer = BytesWriter()
    for body in bodies:
        write_sasl_frame(writer, body)
    return writer.getvalue()


def sasl_answers(connection: Connection) -> list[SaslFrame]:
    data = connection.data_to_send()
    decoder = FrameDecoder(1 << 16)
    decoder.feed(data.removeprefix(SASL_HEADER))
    found = []
    while decoder.next():
        found.append(decoder.sasl_body())
    return found


# --- protocol headers


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x01\x01\x00\x00",
        TLS_HEADER,
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
    ids=["HTTP", "AMQP 0-9-1", "unknown protocol id", "TLS layer", "TLS hello"],
)
def test_a_wrong_header_is_answered_with_ours(sent: bytes) -> None:
    for required, header in ((False, AMQP_HEADER), (True, SASL_HEADER)):
        server = Connection(server_options(sasl_required=required), 0)
        assert only(server.receive_data(sent, 0), ProtocolFailed)
        assert server.data_to_send() == header
        assert server.finished
        assert server.receive_data(OPEN, 0) == []


def test_a_server_that_requires_sasl_says_so() -> None:
    server = Connection(server_options(sasl_required=True), 0)
    assert only(server.receive_data(AMQP_HEADER, 0), ProtocolFailed)
    assert server.data_to_send() == SASL_HEADER
    assert server.finished


def test_a_server_without_mechanisms_speaks_no_sasl() -> None:
    server = Connection(server_options(sasl_mechanisms=[]), 0)
    assert only(server.receive_data(SASL_HEADER, 0), ProtocolFailed)
    assert server.data_to_send() == AMQP_HEADER


@pytest.mark.parametrize("answer", [AMQP_HEADER, b"AMQP\x00\x00\x09\x01"])
def test_a_client_gives_up_on_the_wrong_header(answer: bytes) -> None:
    client = Connection(client_options(sasl_mechanisms=["ANONYMOUS"]), 0)
    client.open()
    assert client.data_to_send() == SASL_HEADER
    assert only(client.receive_data(answer, 0), ProtocolFailed)
    assert client.data_to_send() == b""
    assert client.finished


# --- SASL


def test_plain_reaches_the_application() -> None:
    pair = Pair(
        client_options(sasl_mechanisms=["PLAIN"], username="ann", password="s3cret"),
        server_options(sasl_mechanisms=["PLAIN", "ANONYMOUS"]),
    ).open()
    asked = only(pair.server_events, SaslInitReceived)
    assert (asked.mechanism, asked.username, asked.password) == ("PLAIN", "ann", "s3cret")
    assert asked.hostname == "host"
    assert only(pair.client_events, SaslDone).ok
    assert only(pair.client_events, Opened).open.container_id == "server"


def test_the_client_takes_its_first_mechanism_that_is_offered() -> None:
    pair = Pair(client_options(sasl_mechanisms=["X", "ANONYMOUS", "PLAIN"]), server_options()).open()
    assert only(pair.server_events, SaslInitReceived).mechanism == "ANONYMOUS"
    assert only(pair.server_events, SaslInitReceived).trace == "client"


def test_no_mechanism_in_common() -> None:
    pair = Pair(client_options(sasl_mechanisms=["PLAIN"], username="u"), server_options()).open()
    assert only(pair.client_events, ProtocolFailed).error.condition == errors.UNAUTHORIZED_ACCESS
    assert pair.client.finished


def test_rejected_by_the_application() -> None:
    pair = Pair(client_options(sasl_mechanisms=["ANONYMOUS"]), by_hand=True).open()
    pair.server.sasl_reject()
    pair.pump()
    done = only(pair.client_events, SaslDone)
    assert (done.ok, done.code) == (False, 1)
    assert pair.client.finished
    assert pair.server.finished


def test_the_verdict_may_take_its_time_and_nothing_is_read_meanwhile() -> None:
    server = Connection(server_options(), 0)
    init = sasl(SaslInit("ANONYMOUS"))
    events = server.receive_data(SASL_HEADER + init + AMQP_HEADER + OPEN, 0)
    assert [type(event) for event in events] == [SaslInitReceived]
    assert server.receive_data(BEGIN, 1) == []
    assert [type(event) for event in server.sasl_accept()] == [SaslDone, Opened, SessionBegun]
    with pytest.raises(UsageError, match="no client waits"):
        server.sasl_accept()


def test_what_may_wait_for_the_verdict_is_bounded() -> None:
    server = Connection(server_options(max_pipelined_bytes=100), 0)
    server.receive_data(SASL_HEADER + sasl(SaslInit("ANONYMOUS")), 0)
    assert server.receive_data(b"x" * 100, 0) == []
    failed = only(server.receive_data(b"x", 0), ProtocolFailed)
    assert failed.error.condition == errors.RESOURCE_LIMIT_EXCEEDED
    assert server.finished


def test_plain_without_initial_response_is_asked_for_it() -> None:
    server = Connection(server_options(sasl_mechanisms=["PLAIN"]), 0)
    server.receive_data(SASL_HEADER + sasl(SaslInit("PLAIN")), 0)
    assert sasl_answers(server) == [SaslMechanisms(["PLAIN"]), SaslChallenge(b"")]
    asked = only(server.receive_data(sasl(SaslResponse(b"root\0ann\0pw")), 0), SaslInitReceived)
    assert (asked.authorize_as, asked.username, asked.password) == ("root", "ann", "pw")


@pytest.mark.parametrize(
    "init",
    [
        SaslInit("EXTERNAL"),
        SaslInit("PLAIN", b"ann"),
        SaslInit("PLAIN", b"\0ann\0pw\0"),
        SaslInit("PLAIN", b"\0\0pw"),
        SaslInit("PLAIN", b"\0\xff\0pw"),
        SaslInit("ANONYMOUS", b"\xff"),
    ],
    ids=["not offered", "no NUL", "three NUL", "no user", "user not UTF-8", "trace not UTF-8"],
)
def test_a_bad_init_is_refused_without_asking(init: SaslInit) -> None:
    server = Connection(server_options(sasl_mechanisms=["PLAIN", "ANONYMOUS"]), 0)
    server.receive_data(SASL_HEADER, 0)
    server.data_to_send()
    events = server.receive_data(sasl(init), 0)
    assert only(events, ProtocolFailed).error.condition == errors.UNAUTHORIZED_ACCESS
    assert of(events, SaslInitReceived) == []
    assert sasl_answers(server) == [SaslOutcome(1)]
    assert server.finished


@pytest.mark.parametrize(
    ("sent", "condition"),
    [
        (sasl(SaslResponse(b"")), errors.ILLEGAL_STATE),
        (sasl(SaslMechanisms(["PLAIN"])), errors.ILLEGAL_STATE),
        (OPEN, errors.CONNECTION_FRAMING_ERROR),
        (b"\0\0\0\x0a\2\1\0\0\x41\x41", errors.DECODE_ERROR),
        (b"\0\x01\0\0\2\1\0\0", errors.CONNECTION_FRAMING_ERROR),
    ],
    ids=["response before init", "mechanisms from a client", "open inside SASL", "garbage", "too large"],
)
def test_broken_sasl(sent: bytes, condition: str) -> None:
    server = Connection(server_options(), 0)
    server.receive_data(SASL_HEADER, 0)
    assert only(server.receive_data(sent, 0), ProtocolFailed).error.condition == condition
    assert server.finished


# --- open


def test_open_carries_the_options_and_both_ends_keep_the_smaller_bounds() -> None:
    pair = Pair(
        client_options(max_frame_size_bytes=1024, max_sessions=2, idle_timeout_ms=9000),
        server_options(max_frame_size_bytes=4096),
    ).open()
    told = only(pair.server_events, Opened).open
    assert (told.container_id, told.hostname, told.max_frame_size) == ("client", "host", 1024)
    assert (told.channel_max, told.idle_timeout) == (1, 4500)
    assert pair.server.wire.peer_max_frame_bytes == 1024
    assert pair.client.wire.peer_max_frame_bytes == 1024
    pair.client.begin()
    pair.client.begin()
    with pytest.raises(UsageError, match="channel-max"):
        pair.client.begin()


def test_the_client_may_say_everything_before_the_first_answer() -> None:
    pair = Pair(client_options(sasl_mechanisms=["ANONYMOUS"]))
    pair.client.open()
    pair.client.begin()
    pair.pump()
    assert only(pair.server_events, SessionBegun).by_peer
    assert not only(pair.client_events, SessionBegun).by_peer


def test_nothing_leaves_a_server_before_its_open() -> None:
    server = Connection(server_options(), 0)
    server.receive_data(HEADER + OPEN + BEGIN, 0)
    assert server.data_to_send() == HEADER
    assert server.data_to_send() == b""
    server.open(properties={})
    peer = RawPeer()
    peer.server = server
    assert [type(answer) for answer in peer.answers()] == [Open, Begin]


def test_a_server_refuses_with_open_and_close() -> None:
    pair = Pair(by_hand=True).open()
    pair.client.begin()
    pair.pump()
    pair.server.close(Error(errors.INVALID_FIELD, "container-id in use"))
    pair.pump()
    assert [type(event) for event in pair.client_events] == [Opened, SessionEnded, Closed]
    closed = only(pair.client_events, Closed)
    assert closed.error is not None
    assert closed.error.condition == errors.INVALID_FIELD


def test_opening_twice_is_misuse() -> None:
    pair = Pair().open()
    with pytest.raises(UsageError, match="opened already"):
        pair.client.open()


def test_beginning_before_opening_is_misuse() -> None:
    with pytest.raises(UsageError, match="not open"):
        Pair().client.begin()


# --- close


def test_close_is_answered_and_both_are_finished() -> None:
    pair = Pair().open()
    pair.sending()
    pair.client.close(Error(errors.CONNECTION_FORCED, "enough"))
    pair.client.close()
    pair.pump()
    events = pair.take_server_events()
    assert [type(event) for event in events] == [LinkDetached, SessionEnded, Closed]
    detached = only(events, LinkDetached)
    assert (detached.local, detached.closed, detached.with_session) == (True, False, True)
    closed = only(events, Closed)
    assert closed.error == Error(errors.CONNECTION_FORCED, "enough")
    assert pair.client.finished
    assert pair.server.finished
    assert pair.client.next_deadline_us() == NEVER_US


def test_frames_after_close_are_ignored() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN)
    assert [type(event) for event in peer.send(frame(Close()), BEGIN, OPEN)] == [Closed]


def test_frames_after_our_close_are_ignored_until_the_peers() -> None:
    peer = RawPeer()
    peer.send(HEADER, OPEN, BEGIN)
    peer.server.close()
    assert (
        peer.send(BEGIN, frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=9))
        == []
    )
    assert [type(event) for event in peer.send(frame(Close()))] == [SessionEnded, Closed]
    assert peer.server.finished


def test_a_lost_socket_ends_everything_once() -> None:
    pair = Pair()
    pair.sending()
    assert [type(event) for event in pair.server.connection_lost()] == [LinkDetached, SessionEnded]
    assert pair.server.connection_lost() == []
    assert pair.server.finished


# --- time


def test_heartbeats_at_half_of_the_peers_time_out() -> None:
    pair = Pair(client_options(idle_timeout_ms=8000), server_options(idle_timeout_ms=0)).open()
    start_us = pair.now_us
    assert pair.server.next_deadline_us() == start_us + 2_000_000
    assert pair.server.on_time(start_us + 1_999_999) == []
    assert pair.server.data_to_send() == b""
    pair.server.on_time(start_us + 2_000_000)
    pair.server.on_time(start_us + 2_000_000)
    assert pair.server.data_to_send() == EMPTY_FRAME
    assert pair.server.next_deadline_us() == start_us + 4_000_000


def test_a_blocked_socket_doesnt_make_time_spin() -> None:
    """What was due is put off while something waits to be sent, so the next deadline lies ahead."""
    pair = Pair(client_options(idle_timeout_ms=8000), server_options(idle_timeout_ms=0)).open()
    due_us = pair.server.next_deadline_us()
    for _ in range(3):
        pair.server.on_time(due_us)
        assert pair.server.next_deadline_us() > due_us
        due_us = pair.server.next_deadline_us()
    assert pair.server.data_to_send() == EMPTY_FRAME


def test_what_is_sent_counts_as_a_heartbeat() -> None:
    pair = Pair(client_options(idle_timeout_ms=8000)).open()
    pair.now_us += 1_500_000
    pair.client.begin()
    pair.pump()
    assert pair.server.next_deadline_us() == pair.now_us + 2_000_000


def test_a_silent_peer_is_closed() -> None:
    pair = Pair(server=server_options(idle_timeout_ms=5000)).open()
    assert pair.server.on_time(pair.now_us + 4_999_999) == []
    pair.server.receive_data(EMPTY_FRAME, pair.now_us + 4_999_999)
    assert pair.server.on_time(pair.now_us + 5_000_001) == []
    failed = only(pair.server.on_time(pair.now_us + 10_000_000), ProtocolFailed)
    assert failed.error.condition == errors.RESOURCE_LIMIT_EXCEEDED
    pair.pump()
    closed = only(pair.client_events, Closed)
    assert closed.error == failed.error


@pytest.mark.parametrize("sent", [b"", b"AMQP", SASL_HEADER, AMQP_HEADER])
def test_a_peer_that_never_opens_is_given_up(sent: bytes) -> None:
    server = Connection(server_options(handshake_timeout_ms=1000), 0)
    server.receive_data(sent, 0)
    assert server.next_deadline_us() == 1_000_000
    assert server.on_time(999_999) == []
    failed = only(server.on_time(1_000_000), ProtocolFailed)
    assert failed.error.condition == errors.RESOURCE_LIMIT_EXCEEDED
    assert server.finished


def test_time_bounds_can_be_left_out() -> None:
    pair = Pair(
        client_options(idle_timeout_ms=0), server_options(idle_timeout_ms=0, handshake_timeout_ms=0)
    ).open()
    assert pair.server.next_deadline_us() == NEVER_US
    assert pair.server.on_time(1 << 60) == []
