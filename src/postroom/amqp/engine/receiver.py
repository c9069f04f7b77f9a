"""The receiving end of a link: credit out, transfer frames in, outcomes back."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from postroom.amqp.engine.events import Drained, FlowReceived, TransferReceived
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.serial_numbers import serial_diff
from postroom.amqp.engine.shared_state import SessionState
from postroom.amqp.engine.states import OPEN
from postroom.amqp.engine.violations import LinkViolation, UsageError
from postroom.amqp.errors import (
    INVALID_FIELD,
    LINK_MESSAGE_SIZE_EXCEEDED,
    LINK_TRANSFER_LIMIT_EXCEEDED,
    NOT_ALLOWED,
)
from postroom.amqp.frames.frames import MAX_FAST_TAG_BYTES
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.transfers import RCV_FIRST, RECEIVER, SND_MIXED, SND_SETTLED, Flow, Transfer


@final
class ReceiverLink(Link):
    """The receiving end of a link."""

    def __init__(self, session: SessionState, name: str) -> None:
        super().__init__(session, name, RECEIVER)
        self._granted: i64 = 0
        """How many more messages may come: the credit, and what was under way when it was taken back."""
        self._arriving = False
        """A message has begun and not ended; what follows describes it."""
        self._id: i64 = 0
        self._tag = b""
        self._format: i64 = 0
        self._settled = False
        self._resumed = False
        self._mode: i64 = 0
        self._size_bytes: i64 = 0
        self._ignored = False

    def flow(self, credit: i64, drain: bool = False, echo: bool = False, txn_id: bytes | None = None) -> None:
        """Let the sender send ``credit`` messages from now on (not in addition).

        Less than before takes credit back; what is under way may still come.

        ``drain``: it is to use or return them at once; the event Drained says when it has. ``txn_id``: they
        are to be acquired in that transaction, until another call names none.

        Nothing happens when the link has gone meanwhile. Raises UsageError before it is attached here.
        """
        if self.gone:
            return
        if self.local_state != OPEN:
            raise UsageError(f"link {self.name!r} is not attached")
        self.credit = credit
        if credit > self._granted:
            self._granted = credit
        self.drain = drain
        self.txn_id = txn_id
        self.session.send_flow(self, echo)

    def settle(self, first: i64, last: i64, state: DeliveryState | None, settled: bool = True) -> None:
        """Tell the sender ``state`` of deliveries ``first`` .. ``last``, in one frame.

        ``settled`` False keeps them until the sender settles (receiver-settle-mode second). Only unsettled
        deliveries are touched; where the range holds none, no frame is sent. On a detached link, too, as
        long as its session lives (part 2, section 2.7.6).
        """
        if self.session.deliveries.settle_received(first, last, settled):
            self.session.deliveries.send_disposition(RECEIVER, first, last, settled, state)

    def on_flow(self, flow: Flow) -> None:
        count = flow.delivery_count
        if count is not None:
            given_back = serial_diff(count, self.delivery_count)
            if given_back > 0:
                self.delivery_count = count
                self.credit = max(self.credit - given_back, 0)
                self._granted = max(self._granted - given_back, 0)
        if flow.available is not None:
            self.available = flow.available
        self.wire.events.append(FlowReceived(self))
        self._check_drained()
        if flow.echo and self.local_state == OPEN:
            self.session.send_flow(self)

    def _check_drained(self) -> None:
        if self.drain and self.credit == 0:
            self.drain = False
            self.wire.events.append(Drained(self))

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """One transfer frame of the peer."""
        first = not self._arriving
        if first:
            self._begin_delivery(transfer)
        else:
            self._check_continuation(transfer)
        aborted = transfer.aborted
        if transfer.settled:
            self._settled = True
        if aborted:
            payload = b""
        self._size_bytes += len(payload)
        if self._size_bytes > self.max_message_size_bytes and self.max_message_size_bytes > 0:
            raise self._too_large()
        more = transfer.more and not aborted
        self._arriving = more
        if self._ignored:
            return
        if first:
            if not self._settled and not aborted:
                self._track()
        elif self._settled or aborted:
            self.session.deliveries.untrack_received(self._id)
        if not more and not aborted and self.snd_settle_mode != SND_MIXED:
            self._check_settled()
        event = TransferReceived(self, self._id, self._tag, payload, first=first, more=more, aborted=aborted)
        event.message_format = self._format
        event.settled = self._settled
        event.state = transfer.state
        event.resume = self._resumed
        event.rcv_settle_mode = self._mode
        self.wire.events.append(event)
        if self.drain and not more:
            self._check_drained()

    def _begin_delivery(self, transfer: Transfer) -> None:
        """The first frame of a delivery: it must say which one it is, and takes one credit."""
        id = transfer.delivery_id
        tag = transfer.delivery_tag
        if id is None or tag is None:
            raise self._bad_field("begins a delivery without delivery-id or delivery-tag")
        if len(tag) > MAX_FAST_TAG_BYTES:
            raise self._bad_field(
                f"has a delivery-tag of {len(tag)} bytes; at most {MAX_FAST_TAG_BYTES} are allowed"
            )
        if self._granted <= 0:
            raise LinkViolation(
                self, LINK_TRANSFER_LIMIT_EXCEEDED, f"delivery {id} on link {self.name!r} came without credit"
            )
        if not self.session.deliveries.is_next(id):
            raise self._bad_field(f"has delivery-id {id}, which has been used")
        self._granted -= 1
        if self.credit > 0:
            self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & 0xFFFF_FFFF
        self._id = id
        self._tag = tag
        self._format = transfer.message_format or 0
        self._settled = False
        self._size_bytes = 0
        self._mode = self.rcv_settle_mode
        if transfer.rcv_settle_mode is not None and not transfer.settled:
            self._set_mode(transfer.rcv_settle_mode)
        if self.available > 0:
            self.available -= 1
        if self.incomplete and not transfer.resume:
            raise LinkViolation(
                self,
                NOT_ALLOWED,
                f"delivery {id} is new; only resumed ones pass while an unsettled map is incomplete",
            )
        self._resumed = transfer.resume
        self._ignored = transfer.resume and not self._known(tag)

    def _check_continuation(self, transfer: Transfer) -> None:
        """What a frame after a delivery's first says of it again must be the same (part 2, section 2.7.5)."""
        if transfer.delivery_id is not None and transfer.delivery_id != self._id:
            raise self._bad_field(f"continues delivery {transfer.delivery_id}, but {self._id} has not ended")
        if transfer.delivery_tag is not None and transfer.delivery_tag != self._tag:
            raise self._bad_field(f"continues delivery {self._id} with another delivery-tag")
        if transfer.message_format is not None and transfer.message_format != self._format:
            raise self._bad_field(f"continues delivery {self._id} with another message-format")

    def _track(self) -> None:
        """An unsettled delivery has begun. Its tag must be no other unsettled one's of this link (part 2,
        section 2.6.12); one that is resumed has been here before."""
        known = self.unsettled_tags.get(self._tag)
        if known is not None and not self._resumed:
            raise LinkViolation(
                self,
                NOT_ALLOWED,
                f"delivery {self._id} on link {self.name!r} has the delivery-tag of unsettled delivery"
                f" {known.id}",
            )
        self.session.deliveries.track_received(self, self._id, self._tag)

    def _set_mode(self, mode: i64) -> None:
        """A transfer may ask for less than the link's receiver-settle-mode, not for more (part 2, section
        2.7.5).
        """
        if mode != RCV_FIRST and self.rcv_settle_mode == RCV_FIRST:
            raise LinkViolation(
                self,
                INVALID_FIELD,
                f"transfer on link {self.name!r} asks for rcv-settle-mode second; the link has first",
            )
        self._mode = mode

    def _known(self, tag: bytes) -> bool:
        """A resumed delivery is ignored unless it is in this end's unsettled map (part 2, section 2.7.5)."""
        attach = self.attach
        return attach is not None and attach.unsettled is not None and tag in attach.unsettled

    def _bad_field(self, what: str) -> LinkViolation:
        return LinkViolation(self, INVALID_FIELD, f"a transfer on link {self.name!r} {what}")

    def _too_large(self) -> LinkViolation:
        return LinkViolation(
            self,
            LINK_MESSAGE_SIZE_EXCEEDED,
            f"delivery {self._id} on link {self.name!r} is larger than {self.max_message_size_bytes} bytes",
        )

    def _check_settled(self) -> None:
        """The settle mode that was agreed on says whether deliveries come settled."""
        if self._settled != (self.snd_settle_mode == SND_SETTLED):
            settled = "settled" if self._settled else "unsettled"
            raise LinkViolation(
                self,
                INVALID_FIELD,
                f"delivery {self._id} came {settled}, against the snd-settle-mode of link {self.name!r}",
            )
