"""What the parts of one connection share: the bytes to send, the events to report, the bounds, the links by
name; and what links and deliveries know of their session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error, Performative
from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.engine.options import (
    MAX_ERROR_DESCRIPTION_CHARS,
    ConnectionOptions,
)
from postroom.amqp.engine.states import UNOPENED
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.errors import FRAME_SIZE_TOO_SMALL, AmqpError
from postroom.amqp.frames.frames import MIN_MAX_FRAME_BYTES, TRANSFER_OVERHEAD_BYTES, write_frame
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import Attach, Close, Detach, End

if TYPE_CHECKING:
    from postroom.amqp.engine.backlog import Backlog
    from postroom.amqp.engine.deliveries import Deliveries
    from postroom.amqp.engine.delivery import Delivery


MAX_KEPT_BUFFER_BYTES: Final = 256 * 1024
"""A buffer is used again, which saves growing it, unless it has become larger than this."""

COPIED_BYTES: Final = 4 * 1024
"""Payload up to so much is copied in between the frames' heads: handing it on as a part of its own would cost
more."""

Output = bytes | memoryview
"""A part of what goes out: copied by nobody before the socket has it."""


class Event:
    """Base of all events."""


@final
class Wire:
    """One connection's shared state; its owner is the connection, sessions and links write through it."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.writer = BytesWriter()
        """What was written last."""
        self._parts: list[Output] = []
        """What goes out before that."""
        self._parts_bytes: i64 = 0
        self.events: list[Event] = []
        self.links: dict[tuple[str, bool], LinkState] = {}
        """Links by name and local role, until both ends are detached and nothing of them is unsettled: what
        link stealing looks at."""
        self.shrunk: list[SessionState] = []
        """Sessions of which half of the incoming window has been used since it was renewed."""
        self.holds_back = False
        """Some payload waits until what was written has been taken."""
        self.peer_max_frame_bytes: i64 = MIN_MAX_FRAME_BYTES
        self.max_payload_bytes: i64 = MIN_MAX_FRAME_BYTES - TRANSFER_OVERHEAD_BYTES
        """What surely fits into one transfer frame."""

    def set_peer_max_frame(self, size_bytes: i64) -> None:
        self.peer_max_frame_bytes = size_bytes
        self.max_payload_bytes = size_bytes - TRANSFER_OVERHEAD_BYTES

    def forget(self, link: LinkState) -> None:
        """The name of ``link`` means it no longer."""
        key = (link.name, link.role)
        if self.links.get(key) is link:
            del self.links[key]

    def has_room(self) -> bool:
        """Whether more of a large message may be written now."""
        most: i64 = self.options.max_written_bytes
        if most == 0 or self._parts_bytes + len(self.writer) < most:
            return True
        self.holds_back = True
        return False

    def is_empty(self) -> bool:
        """Whether nothing is to go out."""
        return self._parts_bytes + len(self.writer) == 0

    def put_payload(self, payload: bytes, start: i64, end: i64) -> None:
        """What belongs behind the head of a frame that was just written: ``payload`` from ``start`` up to,
        not including, ``end``. It isn't copied unless it is small.
        """
        whole = start == 0 and end == len(payload)
        if end - start <= COPIED_BYTES:
            self.writer.write(payload if whole else payload[start:end])
            return
        self._seal()
        self._parts.append(payload if whole else memoryview(payload)[start:end])
        self._parts_bytes += end - start

    def _seal(self) -> None:
        """What was written becomes a part."""
        data = self.writer.getvalue()
        if len(data) <= MAX_KEPT_BUFFER_BYTES:
            self.writer.truncate(0)
        else:
            self.writer = BytesWriter()
        self._parts.append(data)
        self._parts_bytes += len(data)

    def take(self) -> list[Output]:
        """Everything written since the last call, in parts."""
        if len(self.writer) > 0:
            self._seal()
        parts = self._parts
        if parts:
            self._parts = []
            self._parts_bytes = 0
        return parts

    def send(self, channel: i64, performative: Performative) -> None:
        """Write a frame without payload. Raises UsageError when the peer can't take one so large; then
        nothing is written.
        """
        if not self._fits(channel, performative):
            raise UsageError(
                f"{type(performative).__name__.lower()} is larger than the peer's max-frame-size of"
                f" {self.peer_max_frame_bytes} bytes; shorten its properties or error",
                FRAME_SIZE_TOO_SMALL,
            )

    def _fits(self, channel: i64, performative: Performative) -> bool:
        before = len(self.writer)
        write_frame(self.writer, channel, performative)
        if len(self.writer) - before <= self.peer_max_frame_bytes:
            return True
        self.writer.truncate(before)
        return False

    def send_last(self, channel: i64, performative: Detach | End | Close) -> None:
        """Write a frame that ends something; its error is cut to what the peer can take rather than not
        sent.
        """
        if self._fits(channel, performative):
            return
        error = performative.error
        if error is not None:
            performative.error = Error(
                error.condition, (error.description or "")[:MAX_ERROR_DESCRIPTION_CHARS]
            )
        self.send(channel, performative)

    def write_attach(self, channel: i64, attach: Attach) -> None:
        """Write an attach; an unsettled map that is too large for one frame is sent in part (part 2, section
        2.7.3).
        """
        unsettled = attach.unsettled
        while not self._fits(channel, attach):
            if not unsettled:
                self.send(channel, attach)
            unsettled = dict(list((unsettled or {}).items())[: len(unsettled or {}) // 2])
            attach.unsettled = unsettled
            attach.incomplete_unsettled = True


class SessionState:
    """What the links and deliveries of a session know of it; ``context`` is the application's own."""

    deliveries: Deliveries
    backlog: Backlog

    def __init__(self, wire: Wire, channel: i64) -> None:
        self.wire = wire
        self.channel = channel
        """Ours: what our frames carry."""
        self.local_state: i64 = UNOPENED
        self.remote_state: i64 = UNOPENED
        self.context: object = None

    def end(self, error: Error | None = None) -> None:
        """End this side; the event SessionEnded comes with the peer's answer. No-op when it has ended
        already.
        """
        raise NotImplementedError

    def fail(self, error: Error) -> None:
        """The peer broke a rule in this session: end it and tell the application."""
        raise NotImplementedError

    def check_open(self) -> None:
        """Raises UsageError unless this side of the session has begun and not ended."""
        raise NotImplementedError

    def send_flow(self, link: LinkState | None = None, echo: bool = False, drained: bool = False) -> None:
        """Tell the peer this end's windows, and the state of ``link`` where one is given. It renews the
        incoming window.
        """
        raise NotImplementedError

    def renew_window(self) -> None:
        """Called once a batch of bytes: what the peer can't know of yet, it can't have used."""
        raise NotImplementedError

    def report_room(self) -> None:
        """A bound of the session is no longer near: tell the links that were given less credit for it."""
        raise NotImplementedError

    def report_outcome(self, first: Delivery, state: DeliveryState | None, settled: bool) -> list[Delivery]:
        """The peer, as receiver, says ``state`` of ``first`` and others, all of which the caller adds to the
        list returned."""
        raise NotImplementedError

    def report_late_outcome(self, state: DeliveryState) -> None:
        """The peer says ``state`` of deliveries that mean nothing any more."""
        raise NotImplementedError

    def report_sender_state(
        self, link: LinkState, ids: list[int], state: DeliveryState | None, settled: bool
    ) -> None:
        """The peer, as sender, says ``state`` of what came on ``link``; ``ids`` are filled in hereafter."""
        raise NotImplementedError

    def free_handle_of(self, link: LinkState) -> None:
        """Both ends have detached: the handle is free again, and the name unless deliveries live on."""
        raise NotImplementedError

    def unsettled_of(self, link: LinkState) -> list[Delivery]:
        """The unsettled deliveries of a sender link, in order; those that still wait for the window too."""
        raise NotImplementedError


@final
class SessionViolation(AmqpError):
    """The peer broke a rule that costs it the session."""

    def __init__(self, session: SessionState, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.session: Final = session
