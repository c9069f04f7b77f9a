"""AMQP over WebSocket: the handshake and its refusals, messages in any pieces, pings, ways of closing."""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from postroom.amqp.engine.events import Closed, DispositionReceived, SaslDone, TransferReceived
from postroom.amqp.frames.frames import AMQP_HEADER, SASL_HEADER
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Header, Message, decode_message
from postroom.server.configuration.config import LimitsConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import hash_password
from postroom.server.configuration.websocket import WebSocketConfig
from postroom.server.listening import websocket_connection
from postroom.server.listening.websocket import FRAMES_AT_ONCE, WebSocket
from postroom.server.listening.websocket_request import MAX_HEAD_BYTES, Door
from tests.certificates import Certificate
from tests.server.harness import BrokerThread, make_config
from tests.server.listening.websockets import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FIN,
    PING,
    PONG,
    TEXT,
    Frame,
    Split,
    WebSocketClient,
    WebSocketPeer,
    accept_token,
    close,
    close_code,
    frame,
    in_one_message,
    request,
)
from tests.server.peers import OPENING, EnginePeer

pytestmark = pytest.mark.sockets

PAGE = "https://shop.example"
HERE = ListenConfig("127.0.0.1:0", websocket=WebSocketConfig(origins=[PAGE]))
PLAIN = ListenConfig("127.0.0.1:0")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """It listens for WebSocket first, and for AMQP alone."""
    with BrokerThread(make_config(listen=[HERE, PLAIN])) as running:
        yield running


def byte_by_byte(data: bytes) -> Iterable[bytes]:
    for index in range(len(data)):
        yield frame(BINARY, data[index : index + 1])


def in_fragments(data: bytes) -> Iterable[bytes]:
    """One message in three frames, one of them empty, with pings and a pong between."""
    third = len(data) // 3
    yield frame(BINARY, data[:third], first_bits=0)
    yield frame(PING, b"between") + frame(CONTINUATION, b"", first_bits=0)
    yield frame(CONTINUATION, data[third : 2 * third], first_bits=0) + frame(PONG, b"unasked")
    yield frame(CONTINUATION, data[2 * third :]) + frame(BINARY, b"")


SPLITS: dict[str, Split] = {
    "whole": in_one_message,
    "byte by byte": byte_by_byte,
    "fragments": in_fragments,
}


def durable(body: bytes) -> bytes:
    return Message(header=Header(durable=True), body=Data([body])).encode()


def send(peer: EnginePeer, queue: str, *bodies: bytes) -> None:
    """Send, and wait until all are accepted."""
    link = peer.session().attach_sender("s", Source(), Target(address=queue))
    peer.pump(lambda: link.attached and link.credit > 0)
    for number, body in enumerate(bodies):
        link.send(durable(body), str(number).encode(), False)
    peer.pump(lambda: link.unsettled_count == 0)
    outcomes = [event.state for event in peer.of(DispositionReceived)]
    assert outcomes and all(state == ACCEPTED for state in outcomes), outcomes


def receive(peer: EnginePeer, queue: str, count: int) -> list[bytes]:
    """Receive and accept."""
    link = peer.session().attach_receiver("r", Source(address=queue), Target())
    link.flow(count)
    peer.pump(lambda: sum(not event.more for event in peer.of(TransferReceived)) >= count)
    bodies, parts = [], b""
    for event in peer.of(TransferReceived):
        parts += event.payload
        if not event.more:
            body = decode_message(parts).body
            assert isinstance(body, Data)
            bodies.append(body.joined())
            link.settle(event.delivery_id, event.delivery_id, ACCEPTED)
            parts = b""
    peer.round_trip()
    return bodies


# Conversations.


@pytest.mark.parametrize("how", SPLITS)
def test_what_was_sent_is_in_the_ledger_after_a_restart(how: str, tmp_path: Path) -> None:
    config = make_config(listen=[HERE])
    with BrokerThread(config, folder=tmp_path) as first, WebSocketPeer(first.port, split=SPLITS[how]) as peer:
        send(peer, "kept", b"a", b"b" * 3000)
    with BrokerThread(config, folder=tmp_path) as again, WebSocketPeer(again.port, split=SPLITS[how]) as peer:
        assert receive(peer, "kept", 2) == [b"a", b"b" * 3000]
        assert again.call(lambda broker: int(broker.manager.queues["kept"].statistics.depth)) == 0


def test_the_same_queues_are_served_as_without_websocket(broker: BrokerThread, queue: str) -> None:
    plain_port = int(broker.addresses[1].rpartition(":")[2])
    with WebSocketPeer(broker.port) as there, EnginePeer(plain_port, container_id="plain") as here:
        send(there, queue, b"x")
        assert receive(here, queue, 1) == [b"x"]


def test_messages_to_the_peer_are_no_longer_than_its_frames(broker: BrokerThread, queue: str) -> None:
    """Some clients take no longer ones: Netty's, of Qpid JMS, bounds them by its max-frame-size."""
    body = bytes(200_000)
    with WebSocketPeer(broker.port, container_id=queue, max_frame_size_bytes=1024) as small:
        send(small, queue, body)
        assert receive(small, queue, 1) == [body]
        assert max(small.stream.messages_bytes) == 1024
    with WebSocketPeer(broker.port, container_id=queue) as large:
        send(large, queue, body)
        assert receive(large, queue, 1) == [body]
        assert max(large.stream.messages_bytes) == websocket_connection.MAX_MESSAGE_BYTES


def test_over_tls_with_a_password(signed: Certificate, queue: str) -> None:
    listen = ListenConfig(
        "127.0.0.1:0", False, str(signed.certificate), str(signed.key), websocket=WebSocketConfig()
    )
    trusting = ssl.create_default_context(cafile=signed.certificate)
    login = {"sasl_mechanisms": ["PLAIN"], "username": "ann"}
    with BrokerThread(make_config(listen=[listen], users={"ann": hash_password("sesame")})) as secure:
        with WebSocketPeer(secure.port, tls=trusting, password="sesame", **login) as peer:
            send(peer, queue, b"x")
            assert receive(peer, queue, 1) == [b"x"]
        with WebSocketPeer(secure.port, tls=trusting, password="wrong", **login) as peer:
            peer.engine.open()
            with pytest.raises(AssertionError, match="the broker has closed"):
                peer.pump(lambda: peer.engine.peer_open is not None)
            assert [event.ok for event in peer.of(SaslDone)] == [False]
        with WebSocketClient(secure.port, trusting) as unknown:
            unknown.send(frame(BINARY, AMQP_HEADER))
            messages = unknown.frames_to_the_end()
            assert [each.payload for each in messages if each.opcode == BINARY] == [SASL_HEADER]


# The handshake.


def test_the_answer_to_a_good_request(broker: BrokerThread) -> None:
    with WebSocketClient(
        broker.port, opening=request(Sec_WebSocket_Extensions="permessage-deflate")
    ) as client:
        head = client.answer.lower()
        assert client.status == 101
        assert f"sec-websocket-accept: {accept_token()}".lower() in head
        assert "sec-websocket-protocol: amqp" in head
        assert "sec-websocket-extensions" not in head


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_WebSocket_Protocol": "binary, AMQPWSB10, amqp"},
        {"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket"},
        {"Origin": PAGE},
        {"Origin": "HTTPS://Shop.Example"},
        {"Host": "localhost:5673", "Origin": "http://localhost:5673"},
        {"Host": "[::1]:5673", "Origin": "http://[::1]:5673"},
    ],
)
def test_requests_that_are_taken(broker: BrokerThread, headers: dict[str, str]) -> None:
    with WebSocketClient(broker.port, opening=request(**headers)) as client:
        assert client.status == 101, client.read_to_the_end()


def test_a_request_may_come_in_any_pieces(broker: BrokerThread) -> None:
    whole = request("GET /amqp?who=me HTTP/1.1")
    with EnginePeer(broker.port) as tcp:
        for index in range(len(whole)):
            tcp.socket.sendall(whole[index : index + 1])
        assert tcp.socket.recv(1 << 16).startswith(b"HTTP/1.1 101 ")


REFUSED = {
    "another path": (request("GET /other HTTP/1.1"), 404, "there is nothing at '/other'"),
    "a path below it": (request("GET /amqp/x HTTP/1.1"), 404, "there is nothing at '/amqp/x'"),
    "a long path": (request(f"GET /{'x' * 9000} HTTP/1.1"), 404, "x…'"),
    "no upgrade": (request(Upgrade=None, Connection="close"), 400, "'Connection: Upgrade'"),
    "an upgrade to something else": (request(Upgrade="h2c"), 400, "'Upgrade: websocket'"),
    "not by this connection": (request(Connection="keep-alive"), 400, "'Connection: Upgrade'"),
    "no version": (request(Sec_WebSocket_Version=None), 400, "Sec-WebSocket-Version"),
    "another version": (request(Sec_WebSocket_Version="8"), 426, "Sec-WebSocket-Version"),
    "no key": (request(Sec_WebSocket_Key=None), 400, "'Sec-WebSocket-Key'"),
    "a short key": (request(Sec_WebSocket_Key="c2hvcnQ="), 400, "not 16 bytes in base64"),
    "a key that is no base64": (request(Sec_WebSocket_Key="*" * 24), 400, "not 16 bytes in base64"),
    "no subprotocol": (request(Sec_WebSocket_Protocol=None), 400, "Sec-WebSocket-Protocol offers none"),
    "another subprotocol": (request(Sec_WebSocket_Protocol="mqtt, v12.stomp"), 400, "'mqtt, v12.stomp'"),
    "no host": (request(Host=None), 400, "Bad HTTP message"),
    "another method": (request("POST /amqp HTTP/1.1"), 405, "the method is 'POST'"),
    "HTTP 1.0": (request("GET /amqp HTTP/1.0"), 505, "'HTTP/1.0'"),
    "HTTP 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "'HTTP/2.0'"),
    "a body": (request(Content_Length="5") + b"hello", 400, "has no body"),
    "a body in chunks": (request(Transfer_Encoding="chunked"), 400, "has no body"),
    "bytes behind it": (request() + frame(BINARY, AMQP_HEADER), 400, "bytes came behind the request"),
    "a page of somebody else": (request(Origin="https://evil.example"), 403, "'https://evil.example'"),
    "a page without origin of its own": (request(Origin="null"), 403, "'null'"),
    "a name that was made to lead here": (
        request(Host="evil.example", Origin="http://evil.example"),
        403,
        "'http://evil.example'",
    ),
    "AMQP itself": (OPENING, 400, "AMQP came without WebSocket"),
    "SASL": (SASL_HEADER, 400, "AMQP came without WebSocket"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", 400, "no HTTP request"),
    "a line that is none": (b"GET\r\n\r\n", 400, "Bad HTTP message"),
    "a header that is none": (b"GET /amqp HTTP/1.1\r\nwhat\r\n\r\n", 400, "Bad HTTP message"),
    "a header that is not ASCII": (request(Connection="Upgrade, ü"), 400, "not ASCII"),
    "a host that is not ASCII": (request(Host="xn--ü.example"), 400, "not ASCII"),
    "an endless head": (request()[:-2] + b"X: " + b"y" * MAX_HEAD_BYTES, 431, "longer than 16384 bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_is_refused(broker: BrokerThread, name: str) -> None:
    data, status, what = REFUSED[name]
    with WebSocketClient(broker.port, opening=data) as client:
        body = client.read_to_the_end().decode()
        assert (client.status, "Connection: close" in client.answer) == (status, True), client.answer
        assert what in body and "AMQP over WebSocket is served at /amqp" in body
        assert f"Content-Length: {len(body.encode())}" in client.answer
        assert ("Sec-WebSocket-Version: 13" in client.answer) == ("Sec-WebSocket-Version" in what)
        assert ("Allow: GET" in client.answer) == (status == 405)


def test_off_loopback_any_host_may_be_its_own() -> None:
    """Only those who can be led to a loopback address by another name need that check."""
    door = Door(WebSocketConfig(), False)
    websocket = WebSocket(door)
    websocket.receive(request(Host="mq.example:5673", Origin="http://mq.example:5673"))
    assert websocket.take(True).startswith(b"HTTP/1.1 101 ")


def test_a_request_that_does_not_become_whole_is_given_up() -> None:
    limits = LimitsConfig(open_timeout_ms=200)
    with BrokerThread(make_config(listen=[HERE], limits=limits)) as impatient:
        with WebSocketClient(impatient.port, opening=request()[:-4]) as slow:
            assert slow.status == 408 and b"open_timeout_ms" in slow.read_to_the_end()
        with WebSocketClient(impatient.port) as silent:
            closed = silent.send(frame(BINARY, AMQP_HEADER)).frames_to_the_end()[-1]
            assert (closed.opcode, close_code(closed.payload)) == (CLOSE, 1000)


def test_connections_beyond_the_bound_are_cut() -> None:
    config = make_config(listen=[HERE], limits=LimitsConfig(max_connections=1))
    with BrokerThread(config) as small, WebSocketPeer(small.port) as first:
        first.open()
        for _ in range(2):
            with pytest.raises((AssertionError, ConnectionResetError)):
                WebSocketClient(small.port)
        first.round_trip()


# Frames.

BAD_FRAMES = {
    "a text message": (frame(TEXT, b"hello"), 1003),
    "a text message in fragments": (frame(TEXT, b"hel", first_bits=0) + frame(CONTINUATION, b"lo"), 1003),
    "a text message that is no text": (frame(TEXT, b"\xff\xff"), 1007),
    "a frame that is not masked": (frame(BINARY, AMQP_HEADER, masked=False), 1002),
    "a reserved bit": (frame(BINARY, AMQP_HEADER, first_bits=FIN | 0x40), 1002),
    "an unknown opcode": (frame(0x3, AMQP_HEADER), 1002),
    "an unknown control frame": (frame(0xB, b"x"), 1002),
    "a fragment of nothing": (frame(CONTINUATION, b"x"), 1002),
    "a message within another": (frame(BINARY, b"A", first_bits=0) + frame(BINARY, b"M"), 1002),
    "a ping in fragments": (frame(PING, b"x", first_bits=0), 1002),
    "a long ping": (frame(PING, bytes(126)), 1002),
    "a close of one byte": (frame(CLOSE, b"x"), 1002),
    "a close with a code that is none": (close(999), 1002),
    "a close with a code for no wire": (close(1006), 1002),
    "a close with a reason that is no text": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "a length of two bytes for one": (b"\x82\xfe\x00\x05" + bytes(9), 1002),
    "a length of eight bytes for two": (b"\x82\xff" + bytes(6) + b"\x00\xff" + bytes(9), 1002),
    "a length with the sign bit": (b"\x82\xff\x80" + bytes(15), 1002),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_peer_that_breaks_a_rule_of_websocket_is_closed(broker: BrokerThread, name: str) -> None:
    data, code = BAD_FRAMES[name]
    with WebSocketPeer(broker.port, container_id="other") as other, WebSocketClient(broker.port) as client:
        other.open()
        client.send(frame(BINARY, OPENING) + data)
        frames = _answered(client)
        closed = [each for each in frames if each.opcode == CLOSE]
        assert [close_code(each.payload) for each in closed] == [code]
        assert closed[0].payload[2:], "no reason"
        other.round_trip()


def _answered(client: WebSocketClient) -> list[Frame]:
    """All frames until the end; the broker's close frame is answered where it takes an answer."""
    found = []
    while (each := client.next_frame()) is not None:
        found.append(each)
        if each.opcode == CLOSE:
            with suppress(ConnectionError):
                client.send(frame(CLOSE, each.payload[:2]))
    return found


def test_what_a_peer_held_that_breaks_a_rule_goes_back(broker: BrokerThread, queue: str) -> None:
    with WebSocketPeer(broker.port, container_id="other") as other:
        send(other, queue, b"x")
        with WebSocketPeer(broker.port) as peer:
            link = peer.session().attach_receiver("r", Source(address=queue), Target())
            link.flow(1)
            peer.wait_for(TransferReceived)
            peer.client.send(frame(TEXT, b"hello"))
            assert receive(other, queue, 1) == [b"x"]


def test_a_ping_is_answered_with_what_it_says(broker: BrokerThread) -> None:
    with WebSocketClient(broker.port) as client:
        assert client.send(frame(PING, b"before AMQP")).next_frame() == (PONG, b"before AMQP")
        client.send(frame(BINARY, OPENING[:3]) + frame(PING) + frame(BINARY, OPENING[3:]))
        while (answer := client.next_frame()) != (PONG, b""):
            assert answer is not None and answer.opcode == BINARY


def test_pings_do_not_count_as_signs_of_life() -> None:
    """AMQP's empty frames do: an AMQP that hangs behind a WebSocket that lives is noticed."""
    limits = LimitsConfig(idle_timeout_ms=300)
    with BrokerThread(make_config(listen=[HERE], limits=limits)) as strict:
        with WebSocketClient(strict.port) as client:
            client.send(frame(BINARY, OPENING))
            record = b""
            while (answer := client.send(frame(PING)).next_frame()) is not None and answer.opcode != CLOSE:
                record += answer.payload
        assert b"nothing came for 300 ms" in record


def test_of_pings_that_cannot_be_answered_yet_the_last_one_is() -> None:
    """So a peer that sends pings and reads nothing costs no memory."""
    websocket = WebSocket(Door(WebSocketConfig(), True))
    websocket.receive(request())
    websocket.take(False)
    for number in range(10_000):
        websocket.receive(frame(PING, str(number).encode()))
        assert websocket.take(False) == b""
    assert websocket.take(True) == bytes([FIN | PONG, 4]) + b"9999"
    assert websocket.take(True) == b""


def test_a_flood_of_tiny_frames_is_looked_at_in_pieces() -> None:
    websocket = WebSocket(Door(WebSocketConfig(), True))
    websocket.receive(request())
    found = websocket.receive(frame(BINARY, b"x") * (2 * FRAMES_AT_ONCE + 1))
    while websocket.pending:
        assert websocket.frames == FRAMES_AT_ONCE
        found += websocket.receive(b"")
    assert found == b"x" * (2 * FRAMES_AT_ONCE + 1)


def test_a_frame_is_handed_on_before_it_is_whole() -> None:
    """However long it says that it is."""
    websocket = WebSocket(Door(WebSocketConfig(), True))
    websocket.receive(request())
    assert websocket.receive(b"\x82\xff\x7f" + b"\xff" * 7 + bytes(4) + AMQP_HEADER) == AMQP_HEADER
    assert websocket.receive(b"more") == b"more"


# Closing.


def test_the_end_of_amqp_closes_the_websocket(broker: BrokerThread) -> None:
    with WebSocketPeer(broker.port) as peer:
        peer.open()
        peer.engine.close()
        peer.wait_for(Closed)
        assert peer.client.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))
        peer.client.send(close(1000))
        assert peer.client.next_frame() is None


def test_an_error_of_amqp_is_told_by_amqp(broker: BrokerThread) -> None:
    with WebSocketClient(broker.port) as client:
        client.send(frame(BINARY, OPENING + b"\x00\x00\x00\x07\x02\x00\x00\x00"))
        frames = _answered(client)
        text = b"".join(each.payload for each in frames if each.opcode == BINARY)
        assert b"amqp:connection:framing-error" in text
        assert [close_code(each.payload) for each in frames if each.opcode == CLOSE] == [1000]


def test_a_peer_that_closes_first_is_answered_and_what_it_held_goes_back(
    broker: BrokerThread, queue: str
) -> None:
    with WebSocketPeer(broker.port, container_id="other") as other:
        send(other, queue, b"x")
        with WebSocketPeer(broker.port) as peer:
            link = peer.session().attach_receiver("r", Source(address=queue), Target())
            link.flow(1)
            peer.wait_for(TransferReceived)
            peer.client.send(close(1001, "going away"))
            closed = peer.client.frames_to_the_end()[-1]
            assert (closed.opcode, close_code(closed.payload)) == (CLOSE, 1001)
        assert len(receive(other, queue, 1)) == 1


def test_a_close_behind_amqps_own_is_seen(broker: BrokerThread) -> None:
    with WebSocketPeer(broker.port) as peer:
        peer.open()
        peer.engine.close()
        peer.client.send(frame(BINARY, peer.engine.data_to_send()) + frame(CLOSE))
        assert peer.client.frames_to_the_end()[-1] == (CLOSE, b"")


def test_a_peer_that_never_answers_our_close_is_cut(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket_connection, "CLOSE_TIMEOUT_S", 0.05)
    with WebSocketPeer(broker.port) as peer:
        peer.open()
        peer.engine.close()
        peer.wait_for(Closed)
        assert peer.client.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))
        assert peer.client.next_frame() is None


def test_a_peer_that_goes_on_sending_after_our_close_is_cut(broker: BrokerThread) -> None:
    with WebSocketClient(broker.port) as client:
        client.send(frame(TEXT, b"hello"))
        flood = frame(BINARY, b"x") * 10_000
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while True:
                client.send(flood)


def test_a_broker_that_stops_closes_websockets() -> None:
    with ExitStack() as ends, BrokerThread(make_config(listen=[HERE])) as stopping:
        peer = ends.enter_context(WebSocketPeer(stopping.port)).open()
        waiting = ends.enter_context(WebSocketClient(stopping.port))
        stopping.stop()
        error = peer.wait_for(Closed).error
        assert error is not None and error.condition == "amqp:connection:forced"
        assert peer.client.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))
        peer.client.send(close(1000))
        assert peer.client.next_frame() is None
        assert waiting.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))
        assert waiting.send(close(1000)).next_frame() is None
