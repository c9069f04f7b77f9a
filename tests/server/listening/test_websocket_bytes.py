"""Any bytes whatever on a WebSocket: nothing is raised, and how they were cut makes no difference."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from postroom.server.configuration.websocket import WebSocketConfig
from postroom.server.listening.websocket import Phase, WebSocket
from postroom.server.listening.websocket_request import MAX_HEAD_BYTES, Door
from tests.server.listening.websockets import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame, request

HTTP = [
    b"GET ",
    b"/amqp ",
    b"HTTP/1.1",
    b"\r\n",
    b"\r\n\r\n",
    b"Host: a",
    b"Upgrade: websocket",
    b": ",
    b"\xff",
    b"AMQP",
]
opcodes = st.sampled_from([CONTINUATION, TEXT, BINARY, CLOSE, PING, 0x3])
frames = st.builds(
    frame, opcodes, st.binary(max_size=200), st.sampled_from([0x80, 0x00, 0xC0]), st.booleans()
)
good_frames = st.builds(
    frame, st.sampled_from([BINARY, PING]), st.binary(max_size=70_000) | st.binary(max_size=9)
)


def new() -> WebSocket:
    return WebSocket(Door(WebSocketConfig(), True))


def opened() -> WebSocket:
    websocket = new()
    websocket.receive(request())
    assert websocket.take(True).startswith(b"HTTP/1.1 101 ")
    return websocket


def received(websocket: WebSocket, pieces: list[bytes]) -> bytes:
    found = b""
    for piece in pieces:
        found += websocket.receive(piece)
        while websocket.pending:
            found += websocket.receive(b"")
        websocket.take(True)
    return found


@given(st.lists(st.sampled_from(HTTP) | st.binary(max_size=20)))
def test_any_request(parts: list[bytes]) -> None:
    websocket = new()
    received(websocket, parts)
    assert len(websocket._head) <= MAX_HEAD_BYTES + 20
    websocket.close()
    assert websocket.phase >= Phase.CLOSING


@given(st.lists(frames | st.binary(max_size=20)))
def test_any_frames(parts: list[bytes]) -> None:
    websocket = opened()
    received(websocket, parts)
    websocket.close()
    assert websocket.ended
    received(websocket, parts)
    assert websocket.wrap(b"x", 10) == b""


@given(st.lists(good_frames, max_size=5), st.lists(st.integers(1, 100_000), max_size=5))
def test_it_makes_no_difference_how_frames_arrive(parts: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(parts)
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert received(opened(), pieces) == received(opened(), [whole])
