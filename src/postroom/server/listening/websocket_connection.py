"""One socket with a WebSocket on it: between the transport and the bytes of AMQP."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from postroom.amqp.engine.shared_state import Output
from postroom.amqp.frames.frames import MIN_MAX_FRAME_BYTES
from postroom.server.clock import monotonic_us
from postroom.server.listening.socket_connection import Owner, SocketConnection
from postroom.server.listening.websocket import Phase, WebSocket
from postroom.server.logs import log

if TYPE_CHECKING:
    from postroom.server.configuration.listening import ListenConfig
    from postroom.server.connection.binding import ConnectionBinding
    from postroom.server.listening.websocket_request import Door

CLOSE_TIMEOUT_S: Final = 2.0
"""Time that the peer has to answer our close frame; then the socket is cut."""
ROUNDS_AFTER_CLOSE: Final = 16
"""So often frames are looked at while the peer's close frame is awaited: it may come behind others."""
MAX_MESSAGE_BYTES: Final = 64 << 10
"""Of a message to the peer; it is no longer than the peer's max-frame-size either, as there are clients that
take no longer ones."""


class WebSocketConnection(SocketConnection):
    """Between one transport and one `ConnectionBinding`, with a WebSocket in between."""

    def __init__(
        self, owner: Owner, loop: asyncio.AbstractEventLoop, listen: "ListenConfig", door: "Door"
    ) -> None:
        super().__init__(owner, loop, listen)
        self._websocket: Final = WebSocket(door)
        self._rounds_left = ROUNDS_AFTER_CLOSE
        self._cut: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._ended:
            self._await_close(data)
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cut is not None:
            self._cut.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._binding is not None:
            self._binding.touch()  # a ping may wait for its answer

    def has_work(self) -> bool:
        return super().has_work() or (self._websocket.pending and not self._ended and not self._held)

    def _hand_over(self, binding: "ConnectionBinding", limit_bytes: int) -> int:
        websocket = self._websocket
        payload = websocket.receive(b"" if websocket.pending else self._take(limit_bytes))
        events = websocket.frames
        if payload:
            events += binding.receive(payload, monotonic_us(), self._now_us())
        if websocket.ended:
            self._log_failure()
            binding.cut_off(self._now_us())
        binding.touch()
        return events

    def _wrapped(self, binding: "ConnectionBinding") -> list[Output]:
        head = self._websocket.take(binding.writable)
        data = head + self._websocket.wrap(binding.data_to_send(), _message_bytes(binding))
        return [data] if data else []

    def _finish(self, transport: asyncio.Transport) -> None:
        """Close the WebSocket, and the socket once both ends have."""
        self._websocket.close()
        transport.write(self._websocket.take(False))
        if self._websocket.phase != Phase.OVER:
            self._cut = self._loop.call_later(CLOSE_TIMEOUT_S, transport.abort)
            self._read_the_rest()
        if self._websocket.phase == Phase.OVER:
            transport.close()

    def _read_the_rest(self) -> None:
        """The peer's close frame may have arrived with what AMQP reads no more."""
        while self._inbox:
            self._await_close(self._take(self.inbox_bytes))
        if self._paused:
            self._resume_reading()

    def _await_close(self, data: bytes) -> None:
        websocket = self._websocket
        websocket.receive(data)
        while websocket.pending and self._rounds_left:
            self._rounds_left -= 1
            websocket.receive(b"")
        if self._transport is None:
            return
        if websocket.phase == Phase.OVER:
            self._transport.close()
        elif websocket.pending:
            self._transport.abort()

    def _log_failure(self) -> None:
        if self._websocket.failure:
            log(logging.WARNING, "websocket-refused", remote=self.remote, reason=self._websocket.failure)


def _message_bytes(binding: "ConnectionBinding") -> int:
    opened = binding.engine.peer_open
    return MIN_MAX_FRAME_BYTES if opened is None else min(opened.max_frame_size, MAX_MESSAGE_BYTES)
