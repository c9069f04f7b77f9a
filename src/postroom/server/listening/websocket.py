"""AMQP over WebSocket without I/O: the opening handshake, and AMQP's bytes in and out of binary messages.

Source: OASIS AMQP WebSocket Binding 1.0 over RFC 6455. The binary messages of each direction are one stream
of bytes: where a message or a fragment of it ends means nothing, so a frame is handed on piece by piece as it
arrives, and nothing has to be whole. No extension is taken: a message is never larger than what came. A ping
is answered by the next bytes that go out; of several, the last one is.
"""

from enum import IntEnum
from typing import Final

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from postroom.server.listening.websocket_request import MAX_HEAD_BYTES, SUBPROTOCOL, Door, Refused, refusal

FRAMES_AT_ONCE: Final = 64
"""Looked at in one go; a flood of tiny frames costs others no more."""
HEAD_END: Final = b"\r\n\r\n"


class Phase(IntEnum):
    """How far it has come."""

    REQUESTED = 0
    """Its request is arriving."""
    OPEN = 1
    CLOSING = 2
    """Our close frame is on its way, the peer's has not come."""
    OVER = 3
    """Nothing more is said on either side: the socket may be closed."""


class WebSocket:
    """The server's end of one WebSocket."""

    def __init__(self, door: Door) -> None:
        self.phase = Phase.REQUESTED
        self.pending = False
        """There are frames that have arrived and not been looked at: call `receive` again."""
        self.frames = 0
        """Looked at in the last `receive`."""
        self.failure = ""
        """What was wrong with what the peer has sent."""
        self._door: Final = door
        self._protocol: Final = WSConnection(ConnectionType.SERVER)
        self._head = bytearray()
        self._output = bytearray()
        self._ping: bytes | None = None
        """The one to be answered."""

    @property
    def ended(self) -> bool:
        """Whether AMQP's bytes pass no more."""
        return self.phase >= Phase.CLOSING

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the socket; the bytes of AMQP in them. Never raises for what the peer sent."""
        self.frames = 0
        if self.phase == Phase.REQUESTED:
            self._read_request(data)
            return b""
        if self.phase == Phase.OVER:
            self.pending = False
            return b""
        self._protocol.receive_data(data)
        return self._read_frames()

    def wrap(self, data: bytes, message_bytes: int) -> bytes:
        """AMQP's bytes as binary messages of up to ``message_bytes``; nothing once it has ended."""
        if self.phase != Phase.OPEN or not data:
            return b""
        pieces = (data[start : start + message_bytes] for start in range(0, len(data), message_bytes))
        return b"".join(self._protocol.send(BytesMessage(data=piece)) for piece in pieces)

    def take(self, with_pong: bool) -> bytes:
        """What the WebSocket itself has to say; it counts as sent."""
        if with_pong and self._ping is not None and self.phase == Phase.OPEN:
            self._output += self._protocol.send(Pong(payload=self._ping))
            self._ping = None
        data = bytes(self._output)
        self._output.clear()
        return data

    def close(self) -> None:
        """AMQP has said its last: begin the closing handshake, unless the peer has."""
        if self.phase == Phase.REQUESTED:
            what = "the request was not whole in time (open_timeout_ms), or the broker is stopping"
            self._refuse(Refused(408, what))
        elif self.phase == Phase.OPEN:
            self._send_close(CloseReason.NORMAL_CLOSURE, "")

    # The request.

    def _read_request(self, data: bytes) -> None:
        head = self._head
        head += data
        try:
            self._door.check_beginning(head)
            end = head.find(HEAD_END, max(0, len(head) - len(data) - len(HEAD_END)), MAX_HEAD_BYTES)
            if end >= 0:
                self._answer(bytes(head[: end + len(HEAD_END)]), len(head) - end - len(HEAD_END))
            elif len(head) >= MAX_HEAD_BYTES:
                raise Refused(431, f"the request's head is longer than {MAX_HEAD_BYTES} bytes")
        except Refused as refused:
            self._refuse(refused)

    def _answer(self, head: bytes, bytes_behind: int) -> None:
        self._door.check(self._protocol, head)
        if bytes_behind:
            raise Refused(400, "bytes came behind the request, before its answer")
        self._output += self._protocol.send(AcceptConnection(subprotocol=SUBPROTOCOL))
        self._head.clear()
        self.phase = Phase.OPEN

    def _refuse(self, refused: Refused) -> None:
        self.failure = f"{refused.status}: {refused.what}"
        self._output += refusal(refused, self._door.path)
        self._head.clear()
        self.phase = Phase.OVER

    # Frames.

    def _read_frames(self) -> bytes:
        payload = bytearray()
        self.pending = False
        for event in self._protocol.events():
            self.frames += 1
            if isinstance(event, BytesMessage):
                payload += event.data
            else:
                self._on_event(event)
            if self.frames == FRAMES_AT_ONCE or self.phase == Phase.OVER:
                self.pending = self.phase != Phase.OVER
                break
        return bytes(payload)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Ping):
            self._ping = bytes(event.payload)
        elif isinstance(event, TextMessage):
            self._fail(CloseReason.UNSUPPORTED_DATA, "a text message came; AMQP goes in binary messages")
        elif isinstance(event, CloseConnection):
            self._on_close(event)

    def _on_close(self, event: CloseConnection) -> None:
        """The peer closes, or (then the protocol's state says so) has sent what is no frame."""
        state = self._protocol.state
        if state == ConnectionState.REMOTE_CLOSING:
            self._output += self._protocol.send(event.response())
        elif state != ConnectionState.CLOSED:
            self._fail(event.code, event.reason or "")  # no frame can be found behind it any more
        self.phase = Phase.OVER

    def _fail(self, code: int, reason: str) -> None:
        """The peer has broken a rule; once our close frame is on its way, that changes nothing."""
        if self.phase == Phase.OPEN:
            self.failure = f"{int(code)}: {reason}"
            self._send_close(code, reason)

    def _send_close(self, code: int, reason: str) -> None:
        self._output += self._protocol.send(CloseConnection(code=code, reason=reason))
        self.phase = Phase.CLOSING
