"""The deliveries of one session that are not settled, in both directions, and what either end says of them.

Source: AMQP 1.0 part 2, sections 2.6.12 and 2.7.6. Delivery ids are one sequence for each direction of a
session, whatever the link, so that one disposition can speak of many.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from postroom.amqp.engine.delivery import Delivery, Received, present_ids
from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.engine.serial_numbers import serial_diff
from postroom.amqp.engine.shared_state import SessionState, SessionViolation, Wire
from postroom.amqp.engine.states import CLOSED, OPEN
from postroom.amqp.errors import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED
from postroom.amqp.frames.frames import write_disposition
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.transfers import RECEIVER, SENDER, Disposition


@final
class Deliveries:
    """A session's unsettled deliveries."""

    def __init__(self, wire: Wire, channel: i64, session: SessionState) -> None:
        self.wire = wire
        self.channel = channel
        self.session = session
        self.outgoing: dict[int, Delivery] = {}
        """Ours, by id."""
        self.incoming: dict[int, Received] = {}
        """The peer's, by id."""
        self._dropped: dict[int, None] = {}
        """Ours, by id, without an outcome: the link of each was closed or has failed."""
        self.capped = False
        """A link was told less credit than there is because of what is unsettled on the session."""
        self._expected_id: i64 = -1

    def clear(self) -> None:
        """The session is over."""
        self.outgoing.clear()
        for received in self.incoming.values():
            received.link.unsettled_tags.clear()
        self.incoming.clear()
        self._dropped.clear()

    # --- the peer's deliveries

    def is_next(self, id: i64) -> bool:
        """Whether ``id`` goes on with the session's sequence of delivery ids; gaps do no harm."""
        if self._expected_id >= 0 and serial_diff(id, self._expected_id) < 0:
            return False
        self._expected_id = (id + 1) & 0xFFFF_FFFF
        return True

    def track_received(self, link: LinkState, id: i64, tag: bytes) -> None:
        """An unsettled delivery has begun to arrive."""
        if len(self.incoming) >= self.wire.options.max_incoming_unsettled:
            raise SessionViolation(
                self.session,
                RESOURCE_LIMIT_EXCEEDED,
                f"more than {self.wire.options.max_incoming_unsettled} unsettled deliveries on one session",
            )
        received = Received(id, link, tag)
        self.incoming[id] = link.unsettled_tags[tag] = received
        link.unsettled_count += 1

    def untrack_received(self, id: i64) -> bool:
        """A delivery that came is settled; whether it was unsettled until now."""
        received = self.incoming.pop(id, None)
        if received is None:
            return False
        link = received.link
        if link.unsettled_tags.get(received.tag) is received:  # else it was resumed since
            del link.unsettled_tags[received.tag]
        link.unsettled_count -= 1
        if link.unsettled_count == 0 and link.local_state == CLOSED:
            self._last_settled(link)
        return True

    def _last_settled(self, link: LinkState) -> None:
        """Nothing of a detached link lives on, so its name is free."""
        if link.remote_state == CLOSED:
            self.wire.forget(link)

    # --- dispositions

    def on_disposition(self, disposition: Disposition) -> None:
        """The peer's word on deliveries; ids that mean nothing (any more) are passed over (part 2, section
        2.6.12).
        """
        first = disposition.first
        last = disposition.last
        if serial_diff(last, first) < 0:
            raise SessionViolation(
                self.session,
                INVALID_FIELD,
                f"disposition of {first} to {last}: the last lies before the first",
            )
        if disposition.role == RECEIVER:
            self._on_receiver_disposition(disposition)
            if self._dropped and disposition.state is not None:
                self._on_late_outcome(disposition.state, first, last)
        else:
            self._on_sender_disposition(disposition)

    def _on_receiver_disposition(self, disposition: Disposition) -> None:
        deliveries: list[Delivery] | None = None
        id = disposition.first
        count: i64 = ((disposition.last - id) & 0xFFFF_FFFF) + 1
        if count > len(self.outgoing):
            for present in present_ids(self.outgoing, id, disposition.last):
                deliveries = self._have_outcome(self.outgoing[present], deliveries, disposition)
            count = 0
        while count > 0:
            delivery = self.outgoing.get(id)
            if delivery is not None:
                deliveries = self._have_outcome(delivery, deliveries, disposition)
            id = (id + 1) & 0xFFFF_FFFF
            count -= 1
        if deliveries is None:
            return
        if self.capped and len(self.outgoing) * 2 <= self.wire.options.max_outgoing_unsettled:
            self.capped = False
            self.session.report_room()

    def _have_outcome(
        self, delivery: Delivery, deliveries: list[Delivery] | None, disposition: Disposition
    ) -> list[Delivery]:
        """Of one of ours; it is added to ``deliveries``, those of the event that tells of it."""
        if deliveries is None:
            deliveries = self.session.report_outcome(delivery, disposition.state, disposition.settled)
        delivery.state = disposition.state
        deliveries.append(delivery)
        if disposition.settled:
            self.settle_outgoing(delivery)
            if delivery.link.capped:
                delivery.link.report_room()
        return deliveries

    def _on_late_outcome(self, state: DeliveryState, first: i64, last: i64) -> None:
        late = present_ids(self._dropped, first, last)
        for id in late:
            del self._dropped[id]
        if late:
            self.session.report_late_outcome(state)

    def _on_sender_disposition(self, disposition: Disposition) -> None:
        came_on: LinkState | None = None
        ids: list[int] = []
        for id in present_ids(self.incoming, disposition.first, disposition.last):
            link = self.incoming[id].link
            if link is not came_on:
                came_on, ids = link, []
                self.session.report_sender_state(link, ids, disposition.state, disposition.settled)
            ids.append(id)
            if disposition.settled:
                self.untrack_received(id)

    def settle_outgoing(self, delivery: Delivery) -> None:
        """One of our deliveries is settled."""
        if not delivery.settled:
            delivery.settled = True
            link = delivery.link
            link.unsettled_count -= 1
            self.outgoing.pop(delivery.id, None)
            if link.unsettled_count == 0 and link.local_state == CLOSED:
                self._last_settled(link)

    def settle_own(self, first: i64, last: i64) -> bool:
        """This end, as sender, settles; whether any of the range was unsettled."""
        ids = present_ids(self.outgoing, first, last)
        for id in ids:
            self.settle_outgoing(self.outgoing[id])
        return bool(ids)

    def settle_received(self, first: i64, last: i64, settled: bool) -> bool:
        """This end, as receiver, speaks of a range; whether any of it is unsettled."""
        if not settled:
            return bool(present_ids(self.incoming, first, last))
        count: i64 = ((last - first) & 0xFFFF_FFFF) + 1
        if count > len(self.incoming):
            ids = present_ids(self.incoming, first, last)
            for id in ids:
                self.untrack_received(id)
            return bool(ids)
        found = False
        while count > 0:
            if self.untrack_received(first):
                found = True
            first = (first + 1) & 0xFFFF_FFFF
            count -= 1
        return found

    def send_disposition(
        self, role: bool, first: i64, last: i64, settled: bool, state: DeliveryState | None
    ) -> None:
        """Write a disposition."""
        if self.session.local_state == OPEN:
            write_disposition(self.wire.writer, self.channel, role, first, last, settled, state)

    # --- a link goes

    def outgoing_of(self, link: LinkState) -> list[Delivery]:
        """Our unsettled deliveries on ``link``, in order of sending."""
        if link.unsettled_count == 0:
            return []
        return [delivery for delivery in self.outgoing.values() if delivery.link is link]

    def drop(self, link: LinkState) -> None:
        """Forget the deliveries of ``link``, which is detached for good."""
        if link.unsettled_count == 0:
            return
        if link.role == SENDER:
            for delivery in self.outgoing_of(link):
                del self.outgoing[delivery.id]
                if delivery.state is None:
                    self._note_dropped(delivery.id)
        else:
            for id in [id for id, received in self.incoming.items() if received.link is link]:
                del self.incoming[id]
            link.unsettled_tags.clear()
        link.unsettled_count = 0
        self._last_settled(link)

    def _note_dropped(self, id: i64) -> None:
        """An outcome for it may be under way; of the last so many that is told."""
        if len(self._dropped) >= self.wire.options.max_outgoing_unsettled:
            del self._dropped[next(iter(self._dropped))]
        self._dropped[id] = None
