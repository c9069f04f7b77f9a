"""What the parts of one connection share: the bytes to send, the events to report, the bounds, the links by
name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.events import Event
from postroom.amqp.engine.options import (
    MAX_ERROR_DESCRIPTION_CHARS,
    ConnectionOptions,
)
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.errors import FRAME_SIZE_TOO_SMALL
from postroom.amqp.frames.frames import MIN_MAX_FRAME_BYTES, TRANSFER_OVERHEAD_BYTES, write_frame
from postroom.amqp.frames.performatives import Attach, Close, Detach, End, Performative

if TYPE_CHECKING:
    from postroom.amqp.engine.link import Link
    from postroom.amqp.engine.session import Session


MAX_KEPT_BUFFER_BYTES: Final = 256 * 1024
"""A buffer is used again, which saves growing it, unless it has become larger than this."""


@final
class Wire:
    """One connection's shared state; its owner is the connection, sessions and links write through it."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.writer = BytesWriter()
        self.events: list[Event] = []
        self.links: dict[tuple[str, bool], Link] = {}
        """Links by name and local role, until both ends are detached and nothing of them is unsettled: what
        link stealing looks at."""
        self.shrunk: list[Session] = []
        """Sessions of which half of the incoming window has been used since it was renewed."""
        self.peer_max_frame_bytes: i64 = MIN_MAX_FRAME_BYTES
        self.max_payload_bytes: i64 = MIN_MAX_FRAME_BYTES - TRANSFER_OVERHEAD_BYTES
        """What surely fits into one transfer frame."""

    def set_peer_max_frame(self, size_bytes: i64) -> None:
        self.peer_max_frame_bytes = size_bytes
        self.max_payload_bytes = size_bytes - TRANSFER_OVERHEAD_BYTES

    def forget(self, link: Link) -> None:
        """The name of ``link`` means it no longer."""
        key = (link.name, link.role)
        if self.links.get(key) is link:
            del self.links[key]

    def take(self) -> bytes:
        """Everything written since the last call."""
        data = self.writer.getvalue()
        if len(data) <= MAX_KEPT_BUFFER_BYTES:
            self.writer.truncate(0)
        else:
            self.writer = BytesWriter()
        return data

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
