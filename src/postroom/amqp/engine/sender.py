"""The sending end of a link: messages out within credit, whole or in pieces, drain."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.engine.backlog import NOT_SENT
from postroom.amqp.engine.delivery import Delivery, Piece
from postroom.amqp.engine.events import CreditChanged
from postroom.amqp.engine.link import TXN_ID, Link
from postroom.amqp.engine.serial_numbers import serial_diff
from postroom.amqp.engine.shared_state import SessionState
from postroom.amqp.engine.states import OPEN
from postroom.amqp.engine.violations import LinkViolation, UsageError
from postroom.amqp.errors import INVALID_FIELD, LINK_MESSAGE_SIZE_EXCEEDED, LINK_TRANSFER_LIMIT_EXCEEDED
from postroom.amqp.frames.frames import MAX_FAST_TAG_BYTES, write_settled_transfer, write_transfer
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.transfers import SENDER, SND_MIXED, SND_SETTLED, Flow

SETTLED_TAG: Final = b"-"
"""Of what is settled as it is sent: nobody speaks of it again."""
MAX_FAST_STATE_BYTES: Final = 200
"""A state that fits, with the other fields of a transfer, into a list with a size of one byte."""


@final
class SenderLink(Link):
    """The sending end of a link."""

    def __init__(self, session: SessionState, name: str) -> None:
        super().__init__(session, name, SENDER)
        self.capped = False
        """The application was told less credit than there is, and wants to know when there is room."""
        self.unfinished: Delivery | None = None
        """A delivery that was sent with more=True and not yet ended."""
        self._unfinished_state: DeliveryState | None = None
        """Its state: a transaction is named on every frame."""
        self.pieces_waiting: i64 = 0
        self.notifies_when_sent = False
        """The event CreditChanged is wanted when nothing of it waits any more."""
        self.drained_waiting = False

    def usable_credit(self) -> int:
        """How many messages to give to ``send`` now: the credit, unless a bound of the options is nearer.

        When a bound was nearer, the event CreditChanged comes again as soon as there is room.
        """
        if self.local_state != OPEN or self.remote_state != OPEN:
            return 0
        options = self.wire.options
        deliveries = self.session.deliveries
        room: i64 = options.max_link_unsettled - self.unsettled_count
        left: i64 = options.max_outgoing_unsettled - len(deliveries.outgoing)
        if left < room:
            room = left
            deliveries.capped = self.credit > room
        if self.session.backlog.bytes > options.max_buffered_bytes:
            room = 0
        if self.credit <= room:
            self.capped = False
            return self.credit
        self.capped = True
        return room if room > 0 else 0

    def report_room(self) -> None:
        """Tell the application of room, where it was told less credit than there is."""
        if self.capped and self.unsettled_count * 2 <= self.wire.options.max_link_unsettled:
            self.capped = False
            self.wire.events.append(CreditChanged(self))

    # --- messages

    def send(
        self,
        payload: bytes,
        tag: bytes,
        settled: bool,
        message_format: int = 0,
        state: DeliveryState | None = None,
        context: object = None,
        more: bool = False,
        resume: bool = False,
    ) -> Delivery:
        """Send a message, or its beginning (``more``; go on with :meth:`append`).

        It is split into frames that the peer can take, and waits where the session's window is shut.
        ``tag``: up to 32 bytes, not in use on this link. ``state``: a transactional state, or that of a
        resumed delivery.

        Raises UsageError when there is no credit, the link isn't attached, the settle mode forbids
        ``settled``, the tag is too long, the last message isn't ended, or (condition
        link:message-size-exceeded) the peer wouldn't take it.
        """
        size: i64 = len(payload)
        self._check(size, tag, settled, resume)
        if state is not None:
            self.session.backlog.check_state(tag, state)
        delivery = self._begin(tag, settled, message_format, context)
        if self._needs_pieces(size) or more or resume or state is not None:
            self._send_pieces(Piece(delivery, payload, True, more, False, resume, state))
        else:
            self._send_at_once(delivery, b"", payload)
        return delivery

    def send_behind(self, head: bytes, rest: bytes, tag: bytes, settled: bool, context: object) -> None:
        """As :meth:`send`, of a message that is ``head`` and ``rest``, of which the second isn't copied if it
        is large.
        """
        size: i64 = len(head) + len(rest)
        self._check(size, tag, settled, False)
        delivery = self._begin(tag, settled, 0, context)
        if not self._needs_pieces(size):
            self._send_at_once(delivery, head, rest)
        elif size <= self.wire.max_payload_bytes:
            self._send_pieces(Piece(delivery, head + rest, True, False, False, False, None))
        else:
            self._send_pieces(Piece(delivery, head, True, True, False, False, None))
            self._send_pieces(Piece(delivery, rest, False, False, False, False, None))

    def _check(self, size: i64, tag: bytes, settled: bool, resume: bool) -> None:
        """Raises as :meth:`send` where a message of so many bytes can't be sent."""
        if not self._may_send(size, tag, settled, resume):
            raise self._refusal(size, tag, settled)

    def _begin(self, tag: bytes, settled: bool, message_format: int, context: object) -> Delivery:
        """Count a message that is sent."""
        self.delivery_count = (self.delivery_count + 1) & 0xFFFF_FFFF
        self.credit -= 1
        if not settled:
            self.unsettled_count += 1
        return Delivery(NOT_SENT, self, tag, message_format, settled, context)

    def _needs_pieces(self, size: i64) -> bool:
        """Whether a message of so many bytes can't go at once, in a frame."""
        return size > self.wire.max_payload_bytes or not self._window_is_open()

    def _send_at_once(self, delivery: Delivery, head: bytes, rest: bytes) -> None:
        wire, backlog = self.wire, self.session.backlog
        backlog.give_id(delivery)
        backlog.count_frame()
        write_transfer(
            wire.writer,
            backlog.channel,
            self.handle,
            delivery.id,
            delivery.tag,
            delivery.message_format,
            delivery.settled,
            False,
            head,
            len(rest),
        )
        wire.put_payload(rest, 0, len(rest))

    def send_settled(
        self, payloads: list[bytes], start: int, end: int, state: DeliveryState | None = None
    ) -> int:
        """Send the messages ``payloads[start:end]``, each with ``state``, settled: no outcome comes. For many
        messages, of which this writes each in a fraction of the time of :meth:`send`.

        Returns how many were taken, as many as there is credit and room for. After 0 the event CreditChanged
        comes as soon as there is some. Raises as :meth:`send`.
        """
        room = start + self.usable_credit()
        last: i64 = end if end < room else room
        shown = b"" if state is None else _encoded(state)
        fits = self._fast_payload_bytes(len(shown))
        index: i64 = start
        while index < last:
            payload = payloads[index]
            if len(payload) > fits or not self._window_is_open():
                if self.session.backlog.bytes > self.wire.options.max_buffered_bytes:
                    self.capped = True
                    break
                self.send(payload, SETTLED_TAG, True, state=state)
            elif self._may_send(len(payload), SETTLED_TAG, True, False):
                self._write_settled(payload, shown)
            else:
                raise self._refusal(len(payload), SETTLED_TAG, True)
            index += 1
        return index - start

    def _fast_payload_bytes(self, state_bytes: i64) -> i64:
        """What surely fits into one frame beside a state; −1: nothing, the state needs the long way."""
        if state_bytes > MAX_FAST_STATE_BYTES:
            return -1
        return self.wire.max_payload_bytes - state_bytes

    def _window_is_open(self) -> bool:
        backlog = self.session.backlog
        return backlog.peer_incoming_window > 0 and not backlog.pieces

    def _write_settled(self, payload: bytes, state: bytes) -> None:
        backlog = self.session.backlog
        self.delivery_count = (self.delivery_count + 1) & 0xFFFF_FFFF
        self.credit -= 1
        write_settled_transfer(
            self.wire.writer, backlog.channel, self.handle, backlog.next_delivery_id, state, payload
        )
        backlog.next_delivery_id = (backlog.next_delivery_id + 1) & 0xFFFF_FFFF
        backlog.count_frame()

    def _may_send(self, size: i64, tag: bytes, settled: bool, resume: bool) -> bool:
        return (
            self.credit > 0
            and self.unfinished is None
            and self.local_state == OPEN
            and (self.snd_settle_mode == SND_MIXED or settled == (self.snd_settle_mode == SND_SETTLED))
            and (size <= self.max_message_size_bytes or self.max_message_size_bytes == 0)
            and len(tag) <= MAX_FAST_TAG_BYTES
            and (resume or not self.incomplete)
        )

    def append(self, delivery: Delivery, payload: bytes, more: bool) -> None:
        """Go on with a message that was begun with ``more``; ``more`` False ends it."""
        self._check_unfinished(delivery)
        self._send_pieces(Piece(delivery, payload, False, more, False, False, self._unfinished_state))

    def abort(self, delivery: Delivery) -> None:
        """Give up a message that was begun with ``more``: the peer discards what it has got of it."""
        self._check_unfinished(delivery)
        self._send_pieces(Piece(delivery, b"", False, False, True, False, self._unfinished_state))
        self.session.deliveries.settle_outgoing(delivery)

    def _send_pieces(self, piece: Piece) -> None:
        self.unfinished = piece.delivery if piece.more else None
        self._unfinished_state = piece.state if piece.more else None
        self.pieces_waiting += 1
        self.session.backlog.add(piece)

    def _check_unfinished(self, delivery: Delivery) -> None:
        if self.unfinished is not delivery or self.local_state != OPEN:
            raise UsageError(
                f"delivery {delivery.id} of link {self.name!r} is not the one that is being sent"
            )

    def _refusal(self, size: i64, tag: bytes, settled: bool) -> UsageError:
        """Why :meth:`send` can't."""
        name = f"link {self.name!r}"
        if self.unfinished is not None:
            return UsageError(f"{name}: delivery {self.unfinished.id} has to be ended first")
        if self.local_state != OPEN:
            return UsageError(f"{name} is not attached")
        if self.credit <= 0:
            return UsageError(f"{name} has no credit; wait for CreditChanged", LINK_TRANSFER_LIMIT_EXCEEDED)
        if self.snd_settle_mode != SND_MIXED and settled != (self.snd_settle_mode == SND_SETTLED):
            mode = "unsettled" if settled else "settled"
            return UsageError(f"{name} is in snd-settle-mode {mode}; send with settled={not settled}")
        if len(tag) > MAX_FAST_TAG_BYTES:
            return UsageError(f"delivery tag of {len(tag)} bytes; at most {MAX_FAST_TAG_BYTES} are allowed")
        if size > self.max_message_size_bytes > 0:
            return UsageError(
                f"message of {size} bytes; on {name} the peer takes {self.max_message_size_bytes} at most",
                LINK_MESSAGE_SIZE_EXCEEDED,
            )
        return UsageError(f"{name}: an unsettled map is incomplete, so only resumed deliveries may be sent")

    def settle(self, first: i64, last: i64, state: DeliveryState | None = None) -> None:
        """Settle deliveries ``first`` .. ``last`` from this end: the answer in receiver-settle-mode second.

        Only those of them that are unsettled are touched; no frame is sent where there are none. On a
        detached link, too, as long as its session lives (part 2, section 2.7.6).
        """
        if self.session.deliveries.settle_own(first, last):
            self.session.deliveries.send_disposition(SENDER, first, last, True, state)

    # --- credit

    def drained(self) -> None:
        """Nothing more to send now: give back all credit of a drain, and say so. No-op when the peer
        doesn't drain.
        """
        if not self.drain or self.local_state != OPEN:
            return
        if self.pieces_waiting > 0:
            self.drained_waiting = True
            return
        self.drained_waiting = False
        self.drain = False
        self.delivery_count = (self.delivery_count + self.credit) & 0xFFFF_FFFF
        self.credit = 0
        self.session.send_flow(self, drained=True)

    def piece_written(self) -> None:
        """The session has written one of this link's pieces."""
        self.pieces_waiting -= 1
        if self.pieces_waiting > 0:
            return
        if self.drained_waiting:
            self.drained()
        if self.notifies_when_sent:
            self.notifies_when_sent = False
            self.wire.events.append(CreditChanged(self))

    def on_flow(self, flow: Flow) -> None:
        self._take_txn_id(flow)
        credit = flow.link_credit
        if credit is not None:
            behind: i64 = 0
            if flow.delivery_count is not None:
                behind = serial_diff(self.delivery_count, flow.delivery_count)
            granted: i64 = credit
            granted -= behind if behind > 0 else 0
            self.credit = granted if granted > 0 else 0
        self.drain = flow.drain
        self.wire.events.append(CreditChanged(self))
        if flow.echo and self.local_state == OPEN:
            self.session.send_flow(self)

    def _take_txn_id(self, flow: Flow) -> None:
        """A flow that names no transaction ends the acquisition in one."""
        wanted = None if flow.properties is None else flow.properties.get(TXN_ID)
        if wanted is not None and not isinstance(wanted, bytes):
            what = f"{TXN_ID} of a flow on link {self.name!r} must be binary, not {wanted!r:.100}"
            raise LinkViolation(self, INVALID_FIELD, what)
        self.txn_id = wanted


def _encoded(state: DeliveryState) -> bytes:
    w = BytesWriter()
    state.write(w)
    return w.getvalue()
