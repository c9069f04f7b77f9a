"""One connection as the broker sees it: the engine's events on one side, the queue manager on the other.

Nothing here touches a socket: `receive` takes bytes, `data_to_send` gives them.
"""

import logging
from collections.abc import Callable
from typing import Final

from postroom import __version__
from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.events import (
    Closed,
    CreditChanged,
    DispositionReceived,
    LateDisposition,
    LateTransfer,
    LinkAttached,
    LinkDetached,
    Opened,
    ProtocolFailed,
    SaslDone,
    SaslInitReceived,
    SaslResponseReceived,
    SenderDispositionReceived,
    SessionEnded,
    TransferReceived,
)
from postroom.amqp.engine.link import TXN_ID, Link
from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event, Output
from postroom.amqp.errors import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
)
from postroom.amqp.extensions import SOLE_CONNECTION
from postroom.amqp.frames.outcomes import TransactionalState
from postroom.amqp.frames.sasl import (
    ANONYMOUS,
    binds_channel,
)
from postroom.server.access.access import access_of
from postroom.server.access.sign_in_policy import Arrival
from postroom.server.access.traffic import traffic_of
from postroom.server.channels.outbound_connection import Outward
from postroom.server.configuration.config import LimitsConfig
from postroom.server.connection.attach import bind_link
from postroom.server.connection.client_sign_in import ClientSignIn
from postroom.server.connection.sole_connection import admit, answer_properties
from postroom.server.connection.token_sign_in import token_sign_ins_of
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ANONYMOUS_USER, ConnectionState
from postroom.server.links.registry import Gone, registry_of
from postroom.server.logs import log

OUTPUT_PIECE_BYTES: Final = 512 << 10
"""Of large messages so much is written in a turn: each turn has its own cost, and the others wait for it."""
OFFERED_CAPABILITIES: Final = ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", SOLE_CONNECTION]


class ConnectionBinding(ConnectionState):
    """The broker's end of one connection, which it has accepted or, as ``outward``, opened itself."""

    def __init__(
        self,
        broker: BrokerState,
        remote: str,
        mechanisms: list[str],
        monotonic_us: int,
        now_us: int,
        outward: Outward | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        self.arrival: Final = arrival or Arrival(remote)
        if outward is None:
            options = _options(broker, self.arrival, mechanisms)
        else:
            options = outward.options(broker.config)
        super().__init__(broker, remote, options, monotonic_us, now_us)
        self.outward: Final = outward
        self._sign_in: ClientSignIn | None = None
        """That is under way."""
        bound = any(binds_channel(each) for each in mechanisms)
        self._end_point: Final = self.arrival.end_point if bound else b""
        """What SCRAM is bound to here; empty: nothing."""
        self._how = Gone.CLOSED
        """How links end whose session ends: CLOSED means by the session's or connection's own orderly end."""
        self._ended: Final[list[LinkDetached]] = []
        self._handlers: Final[dict[type[Event], Callable[..., None]]] = {
            CreditChanged: self._on_credit,
            SenderDispositionReceived: self._on_sender_disposition,
            LateDisposition: self._on_late_disposition,
            LateTransfer: self._on_late_transfer,
            LinkAttached: self._on_attach,
            LinkDetached: self._on_detach,
            SessionEnded: self._on_session_end,
            Opened: self._on_open,
            SaslInitReceived: self._on_sasl_init,
            SaslResponseReceived: self._on_sasl_response,
            Closed: self._on_close,
            ProtocolFailed: self._on_failure,
            SaslDone: self._on_sasl_done,
        }
        if outward is not None:
            self.by_us = True
            self.user = outward.secrets.user or ANONYMOUS_USER
            self.engine.open(properties=_open_properties())

    # For the owner of the socket.

    def receive(self, data: bytes, monotonic_us: int, now_us: int, start: int = 0, end: int = -1) -> int:
        """Bytes have come: those of ``data`` from ``start`` up to, not including, ``end`` (−1: all); the
        number of events made of them."""
        if end < 0:
            end = len(data)
        self.bytes_in += end - start
        events = self.engine.receive_data(data, monotonic_us, start, end)
        self.handle(events, now_us)
        return len(events)

    def on_time(self, monotonic_us: int, now_us: int) -> None:
        """A deadline of the connection (heartbeat, idle time-out, handshake) has come."""
        self.handle(self.engine.on_time(monotonic_us), now_us)

    def keep_alive(self, monotonic_us: int) -> None:
        """Nothing has been read, but for reasons of ours: the peer isn't silent."""
        self.engine.heard(monotonic_us)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted, monotonic clock."""
        return self.engine.next_deadline_us()

    @property
    def finished(self) -> bool:
        """Everything is said: the socket is to be closed once it has taken what is to be sent."""
        return self.failed or self.engine.finished

    def data_to_send(self) -> bytes:
        """Everything that is to go out now."""
        return b"".join(self.parts_to_send())

    def parts_to_send(self) -> list[Output]:
        """The same in parts, large payload uncopied."""
        parts = self.engine.parts_to_send()
        for part in parts:
            self.bytes_out += len(part)
        if self.writable:
            self._write_on(self._now_us)
        return parts

    def _write_on(self, now_us: int) -> None:
        """Go on with large messages, a piece at a time: as many as the socket takes."""
        if self.engine.holds_back:
            self.handle(self.engine.write_on(), now_us)

    def cut_off(self, now_us: int) -> None:
        """Nothing more can come from the peer, though its socket is still being closed."""
        self._how = Gone.CONNECTION_LOST
        self.handle(self.engine.connection_lost(), now_us)
        self._end(now_us)

    def lost(self, now_us: int) -> None:
        """The socket is gone, with or without a close before."""
        self.cut_off(now_us)
        self.broker.connections.pop(self, None)
        self.broker.touched.pop(self, None)
        traffic_of(self.broker).gone(self)
        token_sign_ins_of(self.broker).gone(self)
        if self.outward is not None:
            self.outward.lost(now_us)
        log(logging.INFO, "connection-ended", remote=self.remote, container=self.container_id)

    def set_writable(self, writable: bool, now_us: int) -> None:
        """The socket's output buffer has passed its bound, or has room again."""
        self.writable = writable
        if writable:
            self._write_on(now_us)
        for bound in self.links.values():
            bound.set_writable(now_us)

    def give_way(self, error: Error, now_us: int) -> None:
        """Close for a later connection of the same container. What this one holds goes back at once, as after
        a lost connection: the peer may be long gone, and the later one may want it.
        """
        self._how = Gone.CONNECTION_LOST
        self.engine.close(error)
        self.handle(self.engine.give_up_sessions(), now_us)
        self._end(now_us)
        log(logging.WARNING, "connection-displaced", remote=self.remote, container=self.container_id)

    def forget_link(self, link: Link) -> None:
        """``link`` is bound to nothing any more, from this side."""
        bound, context = self.links.pop(link, None), link.context
        link.context = None
        if bound is not None:
            self._refill.pop(bound, None)
        if isinstance(context, BoundLink):
            registry_of(self.broker).forget(context)

    # Events.

    def handle(self, events: list[Event], now_us: int) -> None:
        """Carry out what the engine has found. A defect of ours ends this connection and no other."""
        self._now_us = now_us
        self.broker.touched[self] = None
        if events and type(events[-1]) is ProtocolFailed:
            self._how = Gone.CONNECTION_LOST
        try:
            for event in events:
                if isinstance(event, TransferReceived):
                    bound = event.link.context
                    if isinstance(bound, BoundLink):
                        bound.transfer(event, now_us)
                elif isinstance(event, DispositionReceived):
                    self._on_disposition(event)
                else:
                    handler = self._handlers.get(type(event))
                    if handler is not None:
                        handler(event)
        except Exception:
            self.fail()

    def _on_disposition(self, event: DispositionReceived) -> None:
        deliveries = event.deliveries
        first_link = deliveries[0].link
        if all(delivery.link is first_link for delivery in deliveries):
            self._dispose(first_link, deliveries, event)
            return
        by_link: dict[LinkState, list[WireDelivery]] = {}
        for delivery in deliveries:
            by_link.setdefault(delivery.link, []).append(delivery)
        for link, some in by_link.items():
            self._dispose(link, some, event)

    def _dispose(self, link: LinkState, deliveries: list[WireDelivery], event: DispositionReceived) -> None:
        bound = link.context
        if isinstance(bound, BoundLink):
            bound.disposed(deliveries, event.state, event.settled, self._now_us)
        elif isinstance(link, SenderLink):
            self.outcome_too_late(link, deliveries, event.state, event.settled, self._now_us)

    def _on_late_disposition(self, event: LateDisposition) -> None:
        if isinstance(event.state, TransactionalState):
            self.spoil_late(self.transaction(event.state.txn_id), self._now_us)

    def _on_late_transfer(self, event: LateTransfer) -> None:
        state = event.state
        transaction = self.transaction(state.txn_id) if isinstance(state, TransactionalState) else None
        if transaction is not None:
            what = "a message in it came after the end of its link, and was not taken"
            self.broker.manager.spoil(transaction, what, self._now_us)

    def _on_sender_disposition(self, event: SenderDispositionReceived) -> None:
        bound = event.link.context
        if isinstance(bound, BoundLink) and event.settled:
            bound.sender_settled(event.delivery_ids)

    def _on_credit(self, event: CreditChanged) -> None:
        link = event.link
        bound = link.context
        if not isinstance(bound, BoundLink):
            return
        if link.txn_id is not None and not bound.may_acquire():
            what = f"a flow on link {link.name!r} has {TXN_ID}: it acquires nothing in transactions"
            self.end_link(bound, Error(NOT_IMPLEMENTED, what))
            return
        bound.credit_changed(self._now_us)

    def _on_attach(self, event: LinkAttached) -> None:
        bound = event.link.context
        if event.by_peer and self.outward is not None:
            what = "this connection carries the links that its maker attaches, and no others"
            event.link.refuse_attach(Error(NOT_ALLOWED, what))
        elif event.by_peer:
            bind_link(self, event.link, event.attach, self._now_us)
        elif isinstance(bound, BoundLink):
            bound.answered(event.attach, self._now_us)

    def _on_detach(self, event: LinkDetached) -> None:
        link = event.link
        bound = link.context
        if event.error is not None and isinstance(bound, BoundLink):
            bound.detach_error = event.error
        if event.with_session:
            self._ended.append(event)  # with its session, whose end is the next event to come
            return
        self._link_gone(link, event.unsettled, Gone.CLOSED if event.closed else Gone.DETACHED)
        if not event.local:
            link.detach(closed=event.closed)

    def _on_session_end(self, event: SessionEnded) -> None:
        for detached in self._ended:
            how = Gone.SESSION_ENDED if self._how == Gone.CLOSED else self._how
            self._link_gone(detached.link, detached.unsettled, how)
        self._ended.clear()
        context = self.sessions.pop(event.session, None)
        if context is not None:
            lost = self._how == Gone.CONNECTION_LOST or (event.local and event.error is not None)
            context.close(lost, self._now_us)
        registry_of(self.broker).session_ended(event.session, self._now_us)

    def _link_gone(self, link: Link, unsettled: list[WireDelivery], how: Gone) -> None:
        bound = self.links.pop(link, None)
        link.context = None
        if bound is not None:
            self._refill.pop(bound, None)
            if registry_of(self.broker).gone(bound, link, unsettled, how, self._now_us):
                link.context = bound  # while its session lives, outcomes are still said on it

    def take_link_away(self, bound: BoundLink, now_us: int) -> None:
        """The link of ``bound`` is being attached on another connection of the same container."""
        link = bound.attached_link
        self._now_us = now_us
        self._link_gone(link, link.session.unsettled_of(link), Gone.DETACHED)
        link.steal()
        self.touch()

    def _on_open(self, event: Opened) -> None:
        self.container_id = event.open.container_id
        if self.outward is not None:
            log(logging.INFO, "connection-made", remote=self.remote, container=self.container_id)
            self.outward.opened(self.container_id, self._now_us)
            return
        refusal = traffic_of(self.broker).admit(self) or admit(self, event.open, self._now_us)
        properties = _open_properties()
        properties.update(answer_properties(event.open, refusal is None, self.sole_policy))
        self.engine.open(offered_capabilities=OFFERED_CAPABILITIES, properties=properties)
        if refusal is not None:
            self.engine.close(refusal)
            log(
                logging.WARNING,
                "connection-refused",
                remote=self.remote,
                container=self.container_id,
                reason=refusal.description,
            )
            return
        registry_of(self.broker).opened(self)
        traffic_of(self.broker).opened(self)
        log(
            logging.INFO,
            "connection-opened",
            remote=self.remote,
            container=self.container_id,
            user=self.user,
        )

    def _on_close(self, event: Closed) -> None:
        self._end(self._now_us)
        if self.outward is not None:
            self.outward.closed(event.error, self._now_us)

    def _on_failure(self, event: ProtocolFailed) -> None:
        log(
            logging.WARNING,
            "protocol-violation",
            remote=self.remote,
            container=self.container_id,
            condition=event.error.condition,
            description=event.error.description,
        )
        self._end(self._now_us)
        if self.outward is not None:
            self.outward.broken(event.error, self._now_us)

    def _end(self, now_us: int) -> None:
        """The connection is over: its transactions are rolled back, its container id is free."""
        lost = self._how == Gone.CONNECTION_LOST or self.closed_here
        for transaction in self.transactions.values():
            self.broker.manager.rollback(transaction, now_us, lost)
        self.transactions.clear()
        self.retired.clear()
        self.acquired.clear()
        registry_of(self.broker).connection_ended(self, now_us)

    # SASL.

    def _on_sasl_init(self, event: SaslInitReceived) -> None:
        self._sign_in = ClientSignIn(self, self.arrival, self.handle, self._end_point)
        self._sign_in.begin(event, self._now_us)

    def _on_sasl_response(self, event: SaslResponseReceived) -> None:
        if self._sign_in is not None:
            self._sign_in.go_on(event, self._now_us)

    def _on_sasl_done(self, event: SaslDone) -> None:
        if self.outward is not None and not event.ok:
            self.outward.login_refused(event.code, self._now_us)


def _options(broker: BrokerState, arrival: Arrival, mechanisms: list[str]) -> ConnectionOptions:
    closed = bool(access_of(broker).policy.refusal(arrival, ANONYMOUS_USER, ANONYMOUS))
    limits: LimitsConfig = broker.config.limits
    return ConnectionOptions(
        server=True,
        container_id=broker.config.container_id,
        sasl_mechanisms=mechanisms,
        sasl_required=closed or ANONYMOUS not in mechanisms,
        max_frame_size_bytes=limits.max_frame_bytes,
        max_sessions=limits.max_sessions,
        idle_timeout_ms=limits.idle_timeout_ms,
        handshake_timeout_ms=limits.open_timeout_ms,
        max_links=limits.max_links,
        incoming_window_frames=limits.incoming_window_frames,
        max_message_size_bytes=limits.max_message_bytes,
        max_written_bytes=OUTPUT_PIECE_BYTES,
    )


def _open_properties() -> dict[object, object]:
    return {Symbol("product"): "postroom", Symbol("version"): __version__}
