"""Sessions: ordered frames in both directions with a window each way, and the links on them.

Source: AMQP 1.0 part 2, section 2.5. The receiving half (what the peer's frames do) and the begin / end of
a session are here; what waits for the peer's window is in backlog.py, links are in link.py, sender.py and
receiver.py.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error, Performative
from postroom.amqp.engine.backlog import Backlog
from postroom.amqp.engine.deliveries import Deliveries
from postroom.amqp.engine.delivery import Delivery
from postroom.amqp.engine.events import (
    DispositionReceived,
    LateDisposition,
    LateTransfer,
    LinkAttached,
    SenderDispositionReceived,
    SessionBegun,
    SessionEnded,
)
from postroom.amqp.engine.link import TXN_ID, Link
from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.serial_numbers import serial_diff
from postroom.amqp.engine.shared_state import SessionState, SessionViolation, Wire
from postroom.amqp.engine.states import (
    CLOSED,
    COLUMN_ATTACH,
    COLUMN_DETACH,
    COLUMN_FLOW,
    COLUMN_TRANSFER,
    DISCARDING,
    IGNORED,
    IN_USE,
    LINK_TABLE,
    OPEN,
    UNATTACHED,
    UNOPENED,
)
from postroom.amqp.engine.violations import ConnectionViolation, LinkViolation, UsageError
from postroom.amqp.errors import (
    CONNECTION_FRAMING_ERROR,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION_ERRANT_LINK,
    SESSION_HANDLE_IN_USE,
    SESSION_UNATTACHED_HANDLE,
    SESSION_WINDOW_VIOLATION,
)
from postroom.amqp.frames.frames import write_flow
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import Attach, Begin, Detach, End
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import RCV_FIRST, RECEIVER, SENDER, SND_MIXED, Disposition, Flow, Transfer


@final
class Session(SessionState):
    """One session."""

    def __init__(self, wire: Wire, channel: i64) -> None:
        super().__init__(wire, channel)
        options = wire.options
        self.remote_channel: i64 = -1
        self.local_links: list[Link | None] = []
        """By our handle."""
        self.remote_links: list[Link | None] = []
        """By the peer's handle."""
        self._handle_limit: i64 = options.max_links
        self._reported = False

        self.deliveries = Deliveries(wire, channel, self)
        self.backlog = Backlog(wire, channel, options.initial_outgoing_id, self.deliveries.outgoing)
        self.next_incoming_id: i64 = 0
        self.incoming_window: i64 = options.incoming_window_frames
        self._low_window: i64 = options.incoming_window_frames // 2

    def table_row(self) -> i64:
        """The row of ``states.SESSION_TABLE``."""
        if self.local_state == CLOSED and self.remote_state == OPEN:
            return DISCARDING
        return self.remote_state

    def links(self) -> list[Link]:
        """The links that this end knows of, attached or on their way to or from it."""
        return [link for link in self.local_links if link is not None]

    # --- begin and end

    def send_begin(self, remote_channel: int | None, properties: dict[object, object] | None = None) -> None:
        options = self.wire.options
        begin = Begin(
            remote_channel=remote_channel,
            next_outgoing_id=self.backlog.next_outgoing_id,
            incoming_window=options.incoming_window_frames,
            outgoing_window=options.outgoing_window_frames,
            handle_max=options.handle_max,
            properties=properties,
        )
        self.wire.send(self.channel, begin)
        self.local_state = OPEN

    def on_begin(self, begin: Begin, remote_channel: i64) -> None:
        """The peer's end begins: as the first (it is answered here), or as the answer to ours."""
        self.remote_channel = remote_channel
        self.remote_state = OPEN
        self.next_incoming_id = begin.next_outgoing_id
        self._handle_limit = min(self.wire.options.max_links, begin.handle_max + 1)
        self.backlog.peer_incoming_window = begin.incoming_window
        if self.local_state == CLOSED:
            return
        by_peer = self.local_state == UNOPENED
        if by_peer:
            self.send_begin(remote_channel)
        self.wire.events.append(SessionBegun(self, begin, by_peer))

    def end(self, error: Error | None = None) -> None:
        if self.local_state == OPEN:
            self.local_state = CLOSED
            self.wire.send_last(self.channel, End(error=error))

    def fail(self, error: Error) -> None:
        self.report_ended(error, True)
        self.end(error)

    def on_end(self, end: End) -> None:
        """The peer's end has ended: so does ours."""
        self.remote_state = CLOSED
        self.end()
        self.report_ended(end.error, False)

    def report_ended(self, error: Error | None, local: bool) -> None:
        """Tell the application, once, that the session and with it its links are over."""
        if self._reported:
            return
        self._reported = True
        for link in self.links():
            link.report_detached(False, error, True, True)
            self.wire.forget(link)
        self.deliveries.clear()
        self.backlog.clear()
        self.wire.events.append(SessionEnded(self, error, local))

    def on_performative(self, performative: Performative) -> None:
        """A frame that the table lets through; transfers come straight from the connection."""
        if isinstance(performative, Disposition):
            self.deliveries.on_disposition(performative)
        elif isinstance(performative, Flow):
            self.on_flow(performative)
        elif isinstance(performative, Attach):
            self.on_attach(performative)
        elif isinstance(performative, Detach):
            self.on_detach(performative)

    def check_open(self) -> None:
        if self.local_state != OPEN:
            raise UsageError(f"the session on channel {self.channel} is not open")

    # --- attach and detach

    def attach_sender(
        self,
        name: str,
        source: Source | None,
        target: Target | Coordinator | None,
        *,
        snd_settle_mode: int = SND_MIXED,
        rcv_settle_mode: int = RCV_FIRST,
        initial_delivery_count: int = 0,
        unsettled: dict[bytes, DeliveryState | None] | None = None,
        properties: dict[object, object] | None = None,
    ) -> SenderLink:
        """Attach the sending end of a link called ``name``; the event LinkAttached brings the peer's answer.

        Raises UsageError when the session isn't open, no handle is free, or a link of that name is attached
        here.
        """
        link = SenderLink(self, name)
        attach = Attach(
            name=name,
            handle=0,
            role=SENDER,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            source=source,
            target=target,
            unsettled=unsettled,
            initial_delivery_count=initial_delivery_count,
            properties=properties,
        )
        self._attach(link, attach)
        return link

    def attach_receiver(
        self,
        name: str,
        source: Source | None,
        target: Target | Coordinator | None,
        *,
        snd_settle_mode: int = SND_MIXED,
        rcv_settle_mode: int = RCV_FIRST,
        max_message_size: int | None = None,
        unsettled: dict[bytes, DeliveryState | None] | None = None,
        properties: dict[object, object] | None = None,
        desired_capabilities: list[str] | None = None,
    ) -> ReceiverLink:
        """Attach the receiving end of a link called ``name``; as :meth:`attach_sender`.

        ``max_message_size`` in bytes; None: that of the connection's options, 0: no limit.
        """
        link = ReceiverLink(self, name)
        attach = Attach(
            name=name,
            handle=0,
            role=RECEIVER,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            source=source,
            target=target,
            unsettled=unsettled,
            max_message_size=max_message_size,
            properties=properties,
            desired_capabilities=desired_capabilities or [],
        )
        self._attach(link, attach)
        return link

    def _attach(self, link: Link, attach: Attach) -> None:
        self.check_open()
        old = self.wire.links.get((link.name, link.role))
        if old is not None and (old.local_state != CLOSED or old.remote_state == UNOPENED):
            raise UsageError(f"a link {link.name!r} of this direction is attached already", NOT_ALLOWED)
        if old is not None:
            old.replaced()
        link.handle = self._free_handle()
        if link.handle < 0:
            raise UsageError(
                f"{self._handle_limit} links are on this session; the peer's handle-max allows no more",
                RESOURCE_LIMIT_EXCEEDED,
            )
        link.send_attach(attach)
        self._know(link)

    def _free_handle(self) -> i64:
        """The lowest handle of ours that is free, −1 when there is none."""
        for handle, link in enumerate(self.local_links):
            if link is None:
                return handle
        if len(self.local_links) < self._handle_limit:
            self.local_links.append(None)
            return len(self.local_links) - 1
        return -1

    def _know(self, link: Link) -> None:
        self.local_links[link.handle] = link
        self.wire.links[(link.name, link.role)] = link

    def free_handle_of(self, link: LinkState) -> None:
        if self.local_links[link.handle] is link:
            self.local_links[link.handle] = None
        if link.unsettled_count == 0:
            self.wire.forget(link)

    def on_attach(self, attach: Attach) -> None:
        """The peer attaches a link: its answer to ours, a new one, or one that it takes from elsewhere."""
        handle: i64 = attach.handle
        if handle >= self.wire.options.max_links:
            raise ConnectionViolation(
                CONNECTION_FRAMING_ERROR,
                f"attach with handle {handle}; handle-max is {self.wire.options.handle_max}",
            )
        while len(self.remote_links) <= handle:
            self.remote_links.append(None)
        self._check_link(COLUMN_ATTACH, handle, self.remote_links[handle])
        link, by_peer = self._link_to_attach(attach)
        self.remote_links[handle] = link
        link.on_attach(attach)
        if link.local_state != CLOSED:
            self.wire.events.append(LinkAttached(link, attach, by_peer))

    def _link_to_attach(self, attach: Attach) -> tuple[Link, bool]:
        """The link that the peer's attach speaks of, and whether it is a new one."""
        old = self.wire.links.get((attach.name, not attach.role))
        if old is not None:
            if isinstance(old, Link) and old.remote_state == UNOPENED and old.session is self:
                return old, False
            old.replaced()
        link: Link = (
            ReceiverLink(self, attach.name) if attach.role == SENDER else SenderLink(self, attach.name)
        )
        if len(self.wire.links) >= self.wire.options.max_connection_links:
            raise SessionViolation(
                self,
                RESOURCE_LIMIT_EXCEEDED,
                f"more than {self.wire.options.max_connection_links} links on one connection",
            )
        link.handle = self._free_handle()
        if link.handle < 0:
            raise SessionViolation(
                self,
                RESOURCE_LIMIT_EXCEEDED,
                f"no handle is left to answer the attach of link {attach.name!r}",
            )
        self._know(link)
        return link, True

    def on_detach(self, detach: Detach) -> None:
        link = self._remote_link(detach.handle)
        self._check_link(COLUMN_DETACH, detach.handle, link)
        if link is not None:
            self.remote_links[detach.handle] = None
            link.on_detach(detach)

    def _remote_link(self, handle: i64) -> Link | None:
        return self.remote_links[handle] if handle < len(self.remote_links) else None

    def _check_link(self, column: i64, handle: i64, link: Link | None) -> bool:
        """Whether a frame for ``handle`` is to be acted on. Raises SessionViolation where the table refuses
        it.
        """
        verdict: i64 = LINK_TABLE[UNOPENED if link is None else link.table_row()][column]
        if verdict == IN_USE:
            raise SessionViolation(
                self, SESSION_HANDLE_IN_USE, f"attach with handle {handle}, which is in use"
            )
        if verdict == UNATTACHED:
            raise SessionViolation(
                self,
                SESSION_UNATTACHED_HANDLE,
                f"a frame names handle {handle}, to which no link is attached",
            )
        return verdict != IGNORED

    # --- flow

    def send_flow(self, link: LinkState | None = None, echo: bool = False, drained: bool = False) -> None:
        self.incoming_window = self.wire.options.incoming_window_frames
        flow = Flow(
            self.incoming_window, self.backlog.next_outgoing_id, self.wire.options.outgoing_window_frames
        )
        if self.remote_state == OPEN:
            flow.next_incoming_id = self.next_incoming_id
        if link is not None:
            flow.handle = link.handle
            flow.link_credit = link.credit
            flow.drain = link.drain or drained
            if link.txn_id is not None:
                flow.properties = {TXN_ID: link.txn_id}
            if link.role == SENDER:
                flow.delivery_count = link.delivery_count
                flow.available = link.available
            elif link.remote_state == OPEN:
                flow.delivery_count = link.delivery_count
        flow.echo = echo
        write_flow(self.wire.writer, self.channel, flow)

    def renew_window(self) -> None:
        if self.incoming_window <= self._low_window and self.local_state == OPEN:
            self.send_flow()

    def on_flow(self, flow: Flow) -> None:
        """The peer's windows, and its end of a link where it names one."""
        self.next_incoming_id = flow.next_outgoing_id
        self.backlog.on_flow(flow.next_incoming_id, flow.incoming_window)
        handle = flow.handle
        if handle is None:
            if flow.echo:
                self.send_flow()
        else:
            link = self._remote_link(handle)
            if self._check_link(COLUMN_FLOW, handle, link) and link is not None:
                link.on_flow(flow)
        if self.backlog.pieces:
            self.flush_backlog()

    def flush_backlog(self) -> None:
        """Send what the window allows; tell the application where there is room again."""
        self.backlog.flush()
        if self.backlog.bytes * 2 <= self.wire.options.max_buffered_bytes:
            self.report_room()

    def report_room(self) -> None:
        for link in self.local_links:
            if link is not None:
                link.report_room()

    # --- messages in

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """One transfer frame of the peer."""
        if self.incoming_window <= 0:
            raise SessionViolation(
                self,
                SESSION_WINDOW_VIOLATION,
                f"transfer {self.next_incoming_id} on channel {self.remote_channel} came with a shut window",
            )
        self.incoming_window -= 1
        if self.incoming_window == self._low_window:
            self.wire.shrunk.append(self)
        self.next_incoming_id = (self.next_incoming_id + 1) & 0xFFFF_FFFF
        link = self._remote_link(transfer.handle)
        if link is None or link.local_state == CLOSED:
            self._discard_transfer(transfer, link)
        elif isinstance(link, ReceiverLink):
            link.on_transfer(transfer, payload)
        else:
            raise LinkViolation(
                link, NOT_ALLOWED, f"transfer on link {link.name!r}, of which the peer is the receiver"
            )

    def _discard_transfer(self, transfer: Transfer, link: Link | None) -> None:
        """A transfer for a link that this end has detached: it was under way, unless there are too many."""
        if not self._check_link(COLUMN_TRANSFER, transfer.handle, link) and link is not None:
            link.errant_frames += 1
            if transfer.state is not None:
                self.wire.events.append(LateTransfer(self, transfer.state))
            if link.errant_frames > self.wire.options.max_errant_frames:
                raise SessionViolation(
                    self,
                    SESSION_ERRANT_LINK,
                    f"transfers keep coming for link {link.name!r}, which was detached",
                )

    # --- what deliveries report

    def report_outcome(self, first: Delivery, state: DeliveryState | None, settled: bool) -> list[Delivery]:
        """Tell of an outcome of ``first`` and others; the caller adds all of them to the list returned.

        Where the frame before said the same of deliveries of that link, one event tells of both: many
        clients send a frame for each delivery.
        """
        events = self.wire.events
        if events:
            last = events[-1]
            if (
                isinstance(last, DispositionReceived)
                and last.session is self
                and last.state is state
                and last.settled == settled
                and last.deliveries[-1].link is first.link
                and serial_diff(first.id, last.deliveries[-1].id) > 0
            ):
                return last.deliveries
        deliveries: list[Delivery] = []
        events.append(DispositionReceived(self, deliveries, state, settled))
        return deliveries

    def report_late_outcome(self, state: DeliveryState) -> None:
        self.wire.events.append(LateDisposition(self, state))

    def report_sender_state(
        self, link: LinkState, ids: list[int], state: DeliveryState | None, settled: bool
    ) -> None:
        assert isinstance(link, ReceiverLink)
        self.wire.events.append(SenderDispositionReceived(link, ids, state, settled))

    def unsettled_of(self, link: LinkState) -> list[Delivery]:
        if link.role == RECEIVER:
            return []
        return self.deliveries.outgoing_of(link) + self.backlog.unsent_of(link)
