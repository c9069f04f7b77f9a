"""What session, deliveries and backlog know of a link: its two ends as far as they have been told, its
credit, its unsettled deliveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.states import CLOSED, DISCARDING, OPEN, UNOPENED
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import Flow

if TYPE_CHECKING:
    from postroom.amqp.engine.delivery import Received

NO_HANDLE: Final = -1


class LinkState:
    """What sender and receiver have in common; ``context`` is the application's own."""

    def __init__(self, name: str, role: bool) -> None:
        self.name = name
        self.role = role
        """SENDER (False) or RECEIVER (True): what this end is."""
        self.local_state: i64 = UNOPENED
        self.remote_state: i64 = UNOPENED
        self.handle: i64 = NO_HANDLE
        self.remote_handle: i64 = NO_HANDLE
        self.source: Source | None = None
        """As stated by the end that decides it: the last attach that had one."""
        self.target: Target | Coordinator | None = None
        self.snd_settle_mode: i64 = 2
        self.rcv_settle_mode: i64 = 0
        self.attach: Attach | None = None
        """Ours, as sent."""
        self.peer_attach: Attach | None = None
        """The peer's, with its properties, capabilities and unsettled map."""
        self.peer_closed = False
        """The peer's detach said closed: the answer must, too."""
        self.dead = False
        """Closed or failed on either end: its deliveries mean nothing any more. Without that they live on
        while it is detached, and can be settled until the session ends (part 2, section 2.7.6)."""
        self.delivery_count: i64 = 0
        self.credit: i64 = 0
        self.available: i64 = 0
        """Sender: set by the application, told in flows. Receiver: what the sender last told."""
        self.drain = False
        self.txn_id: bytes | None = None
        """The transaction in which the receiver wants to acquire what comes (part 4, section 4.4.3), as its
        last flow says; a sender's application clears it when that is discharged."""
        self.unsettled_count: i64 = 0
        self.unsettled_tags: Final[dict[bytes, Received]] = {}
        """Receiver: the deliveries that these are, by tag."""
        self.incomplete = False
        """An unsettled map was too large for its attach: only resumed deliveries may pass (section 2.7.3)."""
        self.max_message_size_bytes: i64 = 0
        """Receiver: enforced while a message arrives. Sender: the peer's. 0: no limit."""
        self.errant_frames: i64 = 0
        self.reported = False
        """The application has been told, or has itself brought about, that the link is detached."""
        self.capped = False
        """Sender: the application was told less credit than there is, because of the session's bounds."""
        self.context: object = None

    @property
    def attached(self) -> bool:
        """Both ends are attached."""
        return self.local_state == OPEN and self.remote_state == OPEN

    def table_row(self) -> i64:
        """The row of ``states.LINK_TABLE``."""
        if self.local_state == CLOSED and self.remote_state == OPEN:
            return DISCARDING
        return self.remote_state

    def settle(self, first: i64, last: i64, state: DeliveryState | None) -> None:
        """Settle deliveries of this link, from ``first`` to ``last``."""
        raise NotImplementedError

    def piece_written(self) -> None:
        """A piece that has waited for the session's window is written; only senders have any."""
        raise NotImplementedError

    def fail(self, error: Error) -> None:
        """The peer broke a rule on this link: detach it, and tell the application."""
        raise NotImplementedError

    def replaced(self) -> None:
        """A later attach has the same name."""
        raise NotImplementedError

    def on_flow(self, flow: Flow) -> None:
        """The peer's state of the link."""
        raise NotImplementedError

    def report_room(self) -> None:
        """Deliveries were settled or the session's backlog has shrunk; only senders care."""
