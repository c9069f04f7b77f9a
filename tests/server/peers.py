"""Peers with full control of the wire: one sends raw frames, one drives the client's end of the engine."""

import socket as socket_module
import time
from collections.abc import Callable
from typing import Self, TypeVar

from librt.strings import BytesWriter

from postroom.amqp.encoding.composite import Performative
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import SessionBegun
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.session import Session
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.frames import AMQP_HEADER, FrameDecoder, write_frame
from postroom.amqp.frames.performatives import Begin, Close, Open

TIMEOUT_S = 15.0
READ_BYTES = 65536
E = TypeVar("E", bound=Event)
P = TypeVar("P", bound=Performative)


def frames(*performatives: Performative, channel: int = 0, payload: bytes = b"") -> bytes:
    """These performatives as frames, each with the payload."""
    writer = BytesWriter()
    for performative in performatives:
        write_frame(writer, channel, performative, payload)
    return writer.getvalue()


OPENING = AMQP_HEADER + frames(Open(container_id="raw"))
SESSION = OPENING + frames(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100))


class _Peer:
    """A context manager that closes its socket."""

    socket: socket_module.socket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.cut()

    def cut(self) -> None:
        """Lose the connection without a word."""
        self.socket.close()


class RawPeer(_Peer):
    """Sends what it is given, and collects what comes back until the broker closes the socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket_module.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.received = b""

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def read_to_the_end(self) -> bytes:
        """Everything until the broker closes; raises TimeoutError where it doesn't."""
        try:
            while data := self.socket.recv(READ_BYTES):
                self.received += data
        except ConnectionResetError:
            pass
        self.socket.close()
        return self.received

    def wait_for(self, kind: type[P]) -> P:
        """The first performative of this kind that the broker sends."""
        while not self.of(kind):
            self.more()
        return self.of(kind)[0]

    def of(self, kind: type[P]) -> list[P]:
        """The performatives of this kind that have come so far."""
        return [each for each in self._decoded() if isinstance(each, kind)]

    def more(self) -> None:
        """Wait for anything; AssertionError where the broker closes instead."""
        data = self.socket.recv(READ_BYTES)
        assert data, f"the broker has closed: {self._decoded()}"
        self.received += data

    def performatives(self) -> list[Performative]:
        """What the broker sent until it closed."""
        self.read_to_the_end()
        return self._decoded()

    def _decoded(self) -> list[Performative]:
        decoder = FrameDecoder(1 << 20)
        decoder.feed(self.received)
        decoder.read_protocol_header()
        performatives = []
        while decoder.next():
            if not decoder.is_empty:
                performatives.append(decoder.performative())
        return performatives

    def close_condition(self) -> str:
        """The condition of the broker's close."""
        closes = [each for each in self.performatives() if isinstance(each, Close)]
        assert len(closes) == 1 and closes[0].error is not None, closes
        return closes[0].error.condition


class EnginePeer(_Peer):
    """The client's end of the engine on a blocking socket; events pile up until they are asked for."""

    def __init__(self, port: int, container_id: str = "peer", **options: object) -> None:
        settings: dict[str, object] = {"sasl_mechanisms": [], "hostname": "localhost", **options}
        self.engine = Connection(
            ConnectionOptions(server=False, container_id=container_id, **settings),  # type: ignore[arg-type]
            time.monotonic_ns() // 1000,
        )
        self.socket = self._connect(port)
        self.events: list[Event] = []

    def _connect(self, port: int) -> socket_module.socket:
        return socket_module.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)

    def open(self, **fields: object) -> Self:
        self.engine.open(**fields)  # type: ignore[arg-type]
        self.pump(lambda: self.engine.peer_open is not None)
        return self

    def session(self) -> Session:
        if self.engine.peer_open is None:
            self.open()
        return self.engine.begin()

    def flush(self) -> None:
        data = self.engine.data_to_send()
        if data:
            self.socket.sendall(data)

    def pump(self, done: Callable[[], bool]) -> None:
        """Send and read until ``done`` says so; AssertionError when the broker closes first."""
        self.flush()
        while not done():
            data = self.socket.recv(READ_BYTES)
            if not data:
                self.events += self.engine.connection_lost()
                assert done(), f"the broker has closed: {self.events}"
                return
            self.events += self.engine.receive_data(data, time.monotonic_ns() // 1000)
            self.flush()

    def round_trip(self) -> None:
        """Wait for the answer to a new session: what the broker had to say before it has come by then."""
        session = self.engine.begin()
        self.pump(lambda: any(event.session is session for event in self.of(SessionBegun)))

    def push_until_refused(self) -> bytes:
        """Write to the (non-blocking) socket until it takes no more; what is left over."""
        data = self.engine.data_to_send()
        try:
            while data:
                data = data[self.socket.send(data) :]
        except BlockingIOError:
            pass
        return data

    def wait_for(self, kind: type[E], count: int = 1) -> E:
        """The last of ``count`` events of this kind, of those that have come since the last `forget`."""
        self.pump(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def forget(self) -> None:
        self.events.clear()
