"""The client's end of a WebSocket, frame by frame, written from RFC 6455: it sends what the test says."""

import base64
import hashlib
import os
import socket as socket_module
import ssl
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from tests.server.peers import READ_BYTES, TIMEOUT_S, EnginePeer

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN = 0x80
KEY = base64.b64encode(bytes(range(16))).decode()
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HEADERS = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "amqp",
}

Split = Callable[[bytes], Iterable[bytes]]


class Frame(NamedTuple):
    """One that the broker has sent."""

    opcode: int
    payload: bytes


def request(line: str = "GET /amqp HTTP/1.1", **changes: str | None) -> bytes:
    """An opening request; a header (with _ for -) that is None is left out."""
    headers: dict[str, str | None] = dict(HEADERS)
    for name, value in changes.items():
        headers[name.replace("_", "-")] = value
    lines = [line, *(f"{name}: {value}" for name, value in headers.items() if value is not None), "", ""]
    return "\r\n".join(lines).encode()


def frame(opcode: int, payload: bytes = b"", first_bits: int = FIN, masked: bool = True) -> bytes:
    """A frame of a client."""
    size = len(payload)
    mask_bit = 0x80 if masked else 0
    if size < 126:
        length = bytes([mask_bit | size])
    elif size < 1 << 16:
        length = bytes([mask_bit | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([mask_bit | 127]) + size.to_bytes(8, "big")
    head = bytes([first_bits | opcode]) + length
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def close(code: int, reason: str = "") -> bytes:
    """A close frame."""
    return frame(CLOSE, code.to_bytes(2, "big") + reason.encode())


def close_code(payload: bytes) -> int:
    return int.from_bytes(payload[:2], "big")


class WebSocketClient:
    """A socket on which the handshake is done unless told otherwise; reads whole frames."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, opening: bytes = request()) -> None:
        plain = socket_module.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self._unread = b""
        try:
            self.socket.sendall(opening)
            self.answer = self._head()
        except BaseException:
            self.socket.close()
            raise

    @property
    def status(self) -> int:
        return int(self.answer.split(" ")[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def next_frame(self) -> Frame | None:
        """None where the broker has closed the socket."""
        while (found := self._whole_frame()) is None:
            data = self._received()
            if not data:
                assert not self._unread, f"the broker ended within a frame: {self._unread!r}"
                return None
            self._unread += data
        return found

    def frames_to_the_end(self) -> list[Frame]:
        """All that come until the broker closes the socket."""
        found = []
        while (each := self.next_frame()) is not None:
            found.append(each)
        return found

    def read_to_the_end(self) -> bytes:
        """Whatever comes until the broker closes the socket: the body of a refusal."""
        while data := self.socket.recv(READ_BYTES):
            self._unread += data
        return self._unread

    def _received(self) -> bytes:
        """b"" at the end: what was sent to a broker that had closed resets the connection."""
        try:
            return self.socket.recv(READ_BYTES)
        except ConnectionResetError:
            return b""

    def _head(self) -> str:
        while b"\r\n\r\n" not in self._unread:
            data = self.socket.recv(READ_BYTES)
            assert data, f"the broker has closed: {self._unread!r}"
            self._unread += data
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        return head.decode()

    def _whole_frame(self) -> Frame | None:
        data = self._unread
        if len(data) < 2:
            return None
        assert data[0] & 0x70 == 0 and data[1] & 0x80 == 0, "reserved bits, or a mask"
        size, start = data[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start], "big")
        if len(data) < start + size:
            return None
        self._unread = data[start + size :]
        return Frame(data[0] & 0x0F, data[start : start + size])


def accept_token() -> str:
    """What the answer to `request` must have in Sec-WebSocket-Accept."""
    return base64.b64encode(hashlib.sha1((KEY + GUID).encode()).digest()).decode()


class _Stream:
    """AMQP's bytes on a `WebSocketClient`, with the face of a socket."""

    def __init__(self, client: WebSocketClient, split: Split) -> None:
        self.client = client
        self.messages_bytes: list[int] = []
        """Sizes of the messages that have come."""
        self._split = split

    def sendall(self, data: bytes) -> None:
        self.client.send(b"".join(self._split(data)))

    def recv(self, _most: int) -> bytes:
        while (each := self.client.next_frame()) is not None:
            if each.opcode == BINARY:
                self.messages_bytes.append(len(each.payload))
                return each.payload
            assert each.opcode in (PONG, CLOSE), each
        return b""

    def close(self) -> None:
        self.client.socket.close()


def in_one_message(data: bytes) -> Iterable[bytes]:
    yield frame(BINARY, data)


class WebSocketPeer(EnginePeer):
    """The client's end of the engine over a WebSocket; ``split`` makes frames of its bytes."""

    def __init__(
        self,
        port: int,
        container_id: str = "peer",
        split: Split = in_one_message,
        tls: ssl.SSLContext | None = None,
        **options: object,
    ) -> None:
        self._split = split
        self._tls = tls
        super().__init__(port, container_id, **options)

    def _connect(self, port: int) -> socket_module.socket:
        self.client = WebSocketClient(port, self._tls)
        assert self.client.status == 101, self.client.answer
        self.stream = _Stream(self.client, self._split)
        return self.stream  # type: ignore[return-value]
