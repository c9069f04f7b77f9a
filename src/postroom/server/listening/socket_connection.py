"""One socket: bytes in to its inbox, bytes out of its binding, timers, and the two kinds of back
pressure.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

from mypy_extensions import mypyc_attr

from postroom.amqp.engine.options import NEVER_US
from postroom.amqp.engine.shared_state import Output
from postroom.server.access.sign_in_policy import ClientCertificate
from postroom.server.clock import Clock, monotonic_us
from postroom.server.configuration.config import LimitsConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.connection.binding import ConnectionBinding
from postroom.server.listening.turns import Turns, Worker

if TYPE_CHECKING:
    from postroom.server.channels.outbound_connection import Outward


METERED_PIECE_BYTES: Final = 1 << 10
"""Taken at a time from a connection whose rate is limited: so little may be over the limit."""


class Owner(Protocol):
    """What a socket needs of the service that has it."""

    @property
    def limits(self) -> LimitsConfig: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def clock(self) -> Clock: ...

    def connect(self, connection: "SocketConnection") -> ConnectionBinding | None:
        """A binding for a new connection; None when there are too many."""

    def meter(
        self, binding: ConnectionBinding, size_bytes: int, messages: int, resume: Callable[[], None]
    ) -> bool:
        """So much has come over ``binding``. Whether nothing more is to be taken in from it until ``resume``
        is called."""

    def forget(self, binding: ConnectionBinding) -> None:
        """The socket of ``binding`` is gone."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketConnection(Worker):
    """Between one transport and one `ConnectionBinding`. It has all of `asyncio.Protocol` (`as_protocol`); as
    its subclass it couldn't be compiled."""

    def __init__(
        self,
        owner: Owner,
        loop: asyncio.AbstractEventLoop,
        listen: ListenConfig | None,
        outward: "Outward | None" = None,
    ) -> None:
        super().__init__()
        self.listen = listen
        """Where it was accepted; None: the broker has opened it."""
        self.outward = outward
        """What the broker has opened it for; None: it was accepted."""
        self.certificate: ClientCertificate | None = None
        """What the client has shown, if a certificate is wanted there."""
        self.end_point = b""
        """What SCRAM-…-PLUS is bound to; empty: nothing."""
        self.remote = "?"
        self._owner: Final = owner
        self._turns: Final = owner.turns
        self._most_inbox_bytes: Final = owner.limits.inbox_bytes
        self._now_us: Final = owner.clock.now_us
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._binding: ConnectionBinding | None = None
        self._inbox: Final[deque[bytes]] = deque()
        self._offset = 0
        self._joins = False
        """Each part of a write would be a TLS record of its own."""
        self._paused = False
        self._held = False
        """A limit of its rate is reached: nothing is read, and what has arrived waits."""
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_us = 0

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.remote = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has all of it, but is no subclass
        self._transport.set_write_buffer_limits(high=self._owner.limits.output_bytes)
        handshake = transport.get_extra_info("ssl_object")
        self._joins = handshake is not None
        if self.listen is not None and handshake is not None:
            from postroom.server.listening.tls import end_point, shown_certificate

            self.certificate = shown_certificate(handshake) if self.listen.client_certificate else None
            self.end_point = end_point(handshake)
        self._binding = self._owner.connect(self)
        if self._binding is None:
            self._transport.abort()
        else:
            self.arm_timer()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        had_work = self.has_work()
        self._inbox.append(data)
        self.inbox_bytes += len(data)
        if self.inbox_bytes >= self._most_inbox_bytes and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if not had_work and not self._held:
            self._turns.wake(self)

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._binding is not None:
            self._binding.lost(self._now_us())
            self._owner.forget(self._binding)
            self._turns.schedule()

    def pause_writing(self) -> None:
        if self._binding is not None:
            self._binding.set_writable(False, self._now_us())
            self._turns.schedule()

    def resume_writing(self) -> None:
        if self._binding is not None:
            self._binding.set_writable(True, self._now_us())
            self._turns.schedule()

    # From the turns.

    def has_work(self) -> bool:
        return bool(self._inbox) and not self._held

    @property
    def messages_in(self) -> int:
        """Since the counters of its connection were reset last."""
        return self._binding.messages_in if self._binding is not None else 0

    def work(self, limit_bytes: int) -> int:
        """Give the binding up to ``limit_bytes`` of what has arrived; the number of events that made."""
        if self._binding is None or self._ended:
            self._inbox.clear()
            return 0
        if self._binding.metered:
            return self._work_metered(self._binding, limit_bytes)
        events = self._hand_over(self._binding, limit_bytes)
        if self._paused:
            self._resume_reading()
        return events

    def _work_metered(self, binding: ConnectionBinding, limit_bytes: int) -> int:
        """As `work`, for a connection whose rate is limited."""
        waiting_bytes, messages = self.inbox_bytes, binding.messages_in
        events = self._hand_over(binding, min(limit_bytes, METERED_PIECE_BYTES))
        messages = max(0, binding.messages_in - messages)
        self._held = self._owner.meter(binding, waiting_bytes - self.inbox_bytes, messages, self._release)
        if self._held and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and not self._held:
            self._resume_reading()
        return events

    def _release(self) -> None:
        """Its rate has room again."""
        self._held = False
        if self._binding is None or self._ended:
            return
        self._binding.keep_alive(monotonic_us())
        self._resume_reading()
        if self.has_work():
            self._turns.wake(self)

    def flush(self) -> None:
        """Send what the binding has to say, in one write; close the socket when it has said the last."""
        if self._transport is None or self._binding is None:
            return
        if self._binding.aborted:
            self._transport.abort()
            return
        parts = self._wrapped(self._binding)
        if len(parts) > 1 and not self._joins:
            self._transport.writelines(parts)
        elif parts:
            self._transport.write(b"".join(parts))
        if self._binding.finished and not self._ended:
            self._ended = True
            self._finish(self._transport)
        else:
            self.arm_timer()

    def abort(self) -> None:
        """Cut the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    def arm_timer(self) -> None:
        """Have the binding called when its next deadline comes; one that only moved away needs no new
        timer.
        """
        if self._binding is None or self._ended:
            return
        due_us = self._binding.next_deadline_us()
        if due_us == NEVER_US or (self._timer is not None and self._timer_due_us <= due_us):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_us = due_us
        self._timer = self._loop.call_later(max(0, due_us - monotonic_us()) / 1e6, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._binding is not None:
            if self._held:
                self._binding.keep_alive(monotonic_us())
            self._binding.on_time(monotonic_us(), self._now_us())
            self._turns.schedule()
            self.arm_timer()

    # What lies between the socket and AMQP's own bytes: here nothing.

    def _hand_over(self, binding: ConnectionBinding, limit_bytes: int) -> int:
        """Give ``binding`` up to ``limit_bytes`` of the inbox; the number of events that made."""
        data, start = self._inbox[0], self._offset
        end = self._pass(len(data) - start, limit_bytes)
        return binding.receive(data, monotonic_us(), self._now_us(), start, end)

    def _wrapped(self, binding: ConnectionBinding) -> list[Output]:
        """What goes out of all that ``binding`` has to say, in parts."""
        return binding.parts_to_send()

    def _finish(self, transport: asyncio.Transport) -> None:
        """AMQP has said its last."""
        transport.close()

    def _take(self, limit_bytes: int) -> bytes:
        data, start = self._inbox[0], self._offset
        return data[start : self._pass(len(data) - start, limit_bytes)]

    def _pass(self, left_bytes: int, limit_bytes: int) -> int:
        """Take up to ``limit_bytes`` of the first bytes in the inbox, of which so many are left; where what
        was taken ends."""
        taken = min(left_bytes, limit_bytes)
        end = self._offset + taken
        self.inbox_bytes -= taken
        if taken == left_bytes:
            self._inbox.popleft()
            self._offset = 0
        else:
            self._offset = end
        return end

    def _resume_reading(self) -> None:
        """Unless much waits in the inbox."""
        if self.inbox_bytes * 2 >= self._most_inbox_bytes:
            return
        self._paused = False
        if self._transport is not None:
            self._transport.resume_reading()


def as_protocol(connection: SocketConnection) -> asyncio.Protocol:
    """The same, for an event loop, which calls the methods and doesn't care for the class."""
    return cast(asyncio.Protocol, connection)
