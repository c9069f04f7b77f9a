"""What time does to a connection: heartbeats, silence, an open that doesn't come (part 2, section 2.4.5)."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.engine.options import NEVER_US, ConnectionOptions

_US_PER_MS: Final = 1000


@final
class Deadlines:
    """The moments that matter, all on the application's clock, in µs."""

    def __init__(self, options: ConnectionOptions, now_us: i64) -> None:
        self.now_us = now_us
        """The latest that was heard."""
        self.last_sent_us = now_us
        self.last_received_us = now_us
        self._heartbeat_us: i64 = 0
        self._silence_us: i64 = 0
        self._peer_silence_us: i64 = options.idle_timeout_ms * _US_PER_MS
        self._open_by_us: i64 = NEVER_US
        if options.handshake_timeout_ms > 0:
            self._open_by_us = now_us + options.handshake_timeout_ms * _US_PER_MS

    def received(self, now_us: i64) -> None:
        """Bytes came."""
        self.now_us = now_us
        self.last_received_us = now_us

    def peer_opened(self, idle_timeout_ms: i64) -> None:
        """The peer's open came: silence counts now, and half of its time-out (0: none) is our heartbeat."""
        self._open_by_us = NEVER_US
        self._silence_us = self._peer_silence_us
        self._heartbeat_us = idle_timeout_ms * _US_PER_MS // 2

    def next_us(self) -> i64:
        """The earliest of them, NEVER_US when there is none."""
        deadline = self._open_by_us
        if self._silence_us > 0:
            deadline = min(deadline, self.last_received_us + self._silence_us)
        if self._heartbeat_us > 0:
            deadline = min(deadline, self.last_sent_us + self._heartbeat_us)
        return deadline

    def open_is_overdue(self) -> bool:
        return self.now_us >= self._open_by_us

    def peer_is_silent(self) -> bool:
        return self._silence_us > 0 and self.now_us >= self.last_received_us + self._silence_us

    def heartbeat_is_due(self) -> bool:
        return self._heartbeat_us > 0 and self.now_us >= self.last_sent_us + self._heartbeat_us
