"""The sending half of a session: transfer ids, the peer's window, and the payload that waits for it."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding.types import MAX_UINT
from postroom.amqp.engine.delivery import Delivery, Piece
from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.engine.serial_numbers import serial_diff
from postroom.amqp.engine.shared_state import Wire
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.errors import FRAME_SIZE_TOO_SMALL
from postroom.amqp.frames.frames import write_frame
from postroom.amqp.frames.outcomes import DeliveryState, TransactionalState
from postroom.amqp.frames.transfers import Transfer

NOT_SENT: Final = -1
"""The id of a delivery of which no frame has been written: ids are given in the order of first frames,
without gaps.
"""

_COMPACT_AT: Final = 1024


@final
class Backlog:
    """Payload in pieces, in order; a session's fast path goes past it while it is empty and the window
    open.
    """

    def __init__(
        self, wire: Wire, channel: i64, initial_outgoing_id: i64, outgoing: dict[int, Delivery]
    ) -> None:
        self.wire = wire
        self.channel = channel
        self.outgoing = outgoing
        """The session's unsettled deliveries: one enters when its first frame is written."""
        self.initial_outgoing_id = initial_outgoing_id
        self.next_outgoing_id = initial_outgoing_id
        self.next_delivery_id = initial_outgoing_id
        self.peer_incoming_window: i64 = 0
        self.bytes: i64 = 0
        self.pieces: list[Piece] = []
        self._head: i64 = 0

    def on_flow(self, next_incoming_id: int | None, incoming_window: i64) -> None:
        """The peer's window counts from what it had seen when it wrote; what is under way is taken off
        (section 2.5.6).
        """
        seen: i64 = self.initial_outgoing_id
        if next_incoming_id is not None:
            seen = next_incoming_id
        under_way = serial_diff(self.next_outgoing_id, seen)
        window = incoming_window - (under_way if under_way > 0 else 0)
        self.peer_incoming_window = window if window > 0 else 0

    def check_state(self, tag: bytes, state: DeliveryState) -> None:
        """Raises UsageError when a first frame with this state would be too large for the peer."""
        if self._first_frame_room(tag, state) <= 0:
            raise UsageError(
                "the delivery state is larger than the peer's max-frame-size", FRAME_SIZE_TOO_SMALL
            )

    def _first_frame_room(self, tag: bytes, state: DeliveryState) -> i64:
        """Payload bytes that fit beside ``state`` in a delivery's first frame."""
        scratch = BytesWriter()
        most = MAX_UINT
        transfer = Transfer(most, most, tag, message_format=most, settled=True, more=True, state=state)
        transfer.resume = True
        write_frame(scratch, self.channel, transfer)
        return self.wire.peer_max_frame_bytes - len(scratch)

    def add(self, piece: Piece) -> None:
        """Queue a piece and write what the window allows."""
        self.pieces.append(piece)
        self.bytes += len(piece.payload)
        self.flush()

    def flush(self) -> None:
        """Write pieces in order until the window is shut, or the output full."""
        while self._head < len(self.pieces) and self._write(self.pieces[self._head]):
            link = self.pieces[self._head].delivery.link
            self._head += 1
            link.piece_written()
        if self._head == len(self.pieces):
            self.pieces.clear()
            self._head = 0
        elif self._head >= _COMPACT_AT:
            del self.pieces[: self._head]
            self._head = 0

    def _write(self, piece: Piece) -> bool:
        """Write frames of ``piece``; whether all of it is written."""
        while self.peer_incoming_window > 0 and self.wire.has_room():
            transfer = self._transfer(piece)
            room = self.wire.max_payload_bytes
            if transfer.state is not None:
                room = self._first_frame_room(piece.delivery.tag, transfer.state)
            start = piece.offset
            rest: i64 = len(piece.payload) - start
            taken = room if rest > room else rest
            piece.offset = start + taken
            transfer.more = piece.more or taken < rest
            write_frame(self.wire.writer, self.channel, transfer, b"", taken)
            self.wire.put_payload(piece.payload, start, start + taken)
            self.count_frame()
            self.bytes -= taken
            piece.first = False
            if taken == rest:
                return True
        return False

    def count_frame(self) -> None:
        """One transfer frame has been written."""
        self.peer_incoming_window -= 1
        self.next_outgoing_id = (self.next_outgoing_id + 1) & 0xFFFF_FFFF

    def _transfer(self, piece: Piece) -> Transfer:
        """The next frame's performative; the first one gives the delivery its id."""
        delivery = piece.delivery
        transfer = Transfer(delivery.link.handle, settled=delivery.settled, aborted=piece.aborted)
        if isinstance(piece.state, TransactionalState):
            transfer.state = piece.state  # every frame names the transaction (part 4, section 4.4.1)
        if piece.first:
            self.give_id(delivery)
            transfer.delivery_id = delivery.id
            transfer.delivery_tag = delivery.tag
            transfer.message_format = delivery.message_format
            transfer.state = piece.state
            transfer.resume = piece.resume
        return transfer

    def give_id(self, delivery: Delivery) -> None:
        """The first frame of ``delivery`` is about to be written."""
        delivery.id = self.next_delivery_id
        self.next_delivery_id = (self.next_delivery_id + 1) & 0xFFFF_FFFF
        if not delivery.settled:
            self.outgoing[delivery.id] = delivery

    def unsent_of(self, link: LinkState) -> list[Delivery]:
        """Unsettled deliveries of ``link`` of which nothing has been written yet."""
        waiting = self.pieces[self._head :]
        return [
            piece.delivery
            for piece in waiting
            if piece.first and piece.delivery.link is link and not piece.delivery.settled
        ]

    def drop(self, link: LinkState) -> None:
        """Forget what waits of ``link``, which is detached."""
        if self.pieces:
            link.unsettled_count -= len(self.unsent_of(link))
            waiting = self.pieces[self._head :]
            self.pieces = [piece for piece in waiting if piece.delivery.link is not link]
            self._head = 0
            self.bytes = 0
            for piece in self.pieces:
                self.bytes += len(piece.payload) - piece.offset

    def clear(self) -> None:
        """The session is over."""
        self.pieces.clear()
        self._head = 0
        self.bytes = 0
