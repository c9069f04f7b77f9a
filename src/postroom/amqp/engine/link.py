"""Links: one direction of messages between two nodes, with credit (part 2, section 2.6).

A link has two ends that live on their own: ours, and the peer's as far as it has told us. Ours is a
``SenderLink`` (sender.py) or a ``ReceiverLink`` (receiver.py); this module holds what both do: attach,
detach, steal.
"""

from __future__ import annotations

from typing import Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine.events import LinkDetached
from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.engine.shared_state import SessionState, SessionViolation
from postroom.amqp.engine.states import CLOSED, OPEN, UNOPENED
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.errors import INVALID_FIELD, LINK_STOLEN
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import Attach, Detach
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import RECEIVER, SENDER

TXN_ID: Final = Symbol("txn-id")
"""Property of a flow: `Link.txn_id`."""


class Link(LinkState):
    """One end of a link, on its session."""

    def __init__(self, session: SessionState, name: str, role: bool) -> None:
        super().__init__(name, role)
        self.session = session
        self.wire = session.wire

    @property
    def gone(self) -> bool:
        """This end is detached, or its session has ended: nothing more can be said on the link."""
        return self.local_state == CLOSED or self.session.local_state == CLOSED

    # --- attach

    def accept_attach(
        self,
        source: Source | None,
        target: Target | Coordinator | None,
        *,
        unsettled: dict[bytes, DeliveryState | None] | None = None,
        max_message_size: int | None = None,
        properties: dict[object, object] | None = None,
    ) -> None:
        """Answer the peer's attach with the terminus actually granted.

        The settle modes that it asked for are echoed. ``max_message_size`` (bytes, receivers; None: that of
        the connection's options, 0: no limit) is enforced. ``unsettled`` is this end's unsettled map when a
        link is resumed. Credit that came with the peer's attach counts from now on: look at
        ``usable_credit()``.

        Nothing happens when the link has gone meanwhile (the event of its end is still to be read). Raises
        UsageError when there is nothing to answer, or it has been answered.
        """
        if self.gone:
            return
        peer = self.peer_attach
        if peer is None or self.local_state != UNOPENED:
            raise UsageError(f"link {self.name!r} has no attach to answer")
        attach = Attach(
            name=self.name,
            handle=0,
            role=self.role,
            snd_settle_mode=peer.snd_settle_mode,
            rcv_settle_mode=peer.rcv_settle_mode,
            source=source,
            target=target,
            unsettled=unsettled,
            initial_delivery_count=0 if self.role == SENDER else None,
            max_message_size=max_message_size,
            properties=properties,
        )
        self.send_attach(attach)

    def refuse_attach(self, error: Error) -> None:
        """Answer the peer's attach with no terminus, and detach at once with ``error`` (part 2, section
        2.6.3).
        """
        if self.gone:
            return
        peer = self.peer_attach
        if peer is None:
            raise UsageError(f"link {self.name!r} has no attach to refuse")
        if self.role == SENDER:
            self.accept_attach(None, peer.target)
        else:
            self.accept_attach(peer.source, None)
        self.reported = True
        self.detach(error=error)

    def send_attach(self, attach: Attach) -> None:
        """Send ``attach``, whose handle is the link's; raises before anything has changed."""
        session = self.session
        session.check_open()
        attach.handle = self.handle
        if self.role == RECEIVER and attach.max_message_size is None:
            attach.max_message_size = self.wire.options.max_message_size_bytes or None
        self.wire.write_attach(session.channel, attach)
        self.attach = attach
        self.incomplete = self.incomplete or attach.incomplete_unsettled
        self.local_state = OPEN
        self._state_own(attach)
        if self.remote_state == UNOPENED:
            self._state_others(attach)
        if self.role == RECEIVER:
            self.max_message_size_bytes = attach.max_message_size or 0
        else:
            self.delivery_count = attach.initial_delivery_count or 0

    def on_attach(self, attach: Attach) -> None:
        """The peer's end attaches: as the first, or as the answer to ours."""
        self.peer_attach = attach
        self.incomplete = self.incomplete or attach.incomplete_unsettled
        self.remote_handle = attach.handle
        self.remote_state = OPEN
        self._state_others(attach)
        if self.local_state == UNOPENED:
            self._state_own(attach)
        if self.role == SENDER:
            self.max_message_size_bytes = attach.max_message_size or 0
        elif attach.initial_delivery_count is None:
            raise SessionViolation(
                self.session, INVALID_FIELD, f"attach of sender {self.name!r} has no initial-delivery-count"
            )
        else:
            # Credit granted before the answer came: the count starts only now.
            self.delivery_count = attach.initial_delivery_count

    def _state_own(self, attach: Attach) -> None:
        """What this end decides: a sender its source and settle mode, a receiver its target and settle mode
        (part 2, section 2.6.3). Until it has, what the peer wishes.
        """
        if self.role == SENDER:
            self.source = attach.source
            self.snd_settle_mode = attach.snd_settle_mode
        else:
            self.target = attach.target
            self.rcv_settle_mode = attach.rcv_settle_mode

    def _state_others(self, attach: Attach) -> None:
        """What the peer's end decides. Until it has, what this end wishes."""
        if self.role == SENDER:
            self.target = attach.target
            self.rcv_settle_mode = attach.rcv_settle_mode
        else:
            self.source = attach.source
            self.snd_settle_mode = attach.snd_settle_mode

    # --- detach

    def detach(self, closed: bool = True, error: Error | None = None) -> None:
        """Detach this end, or answer the peer's detach. ``closed`` False suspends: the terminus stays.

        A peer that has closed is always answered with closed. Nothing happens when this end is detached
        already; an attach that was never answered is answered first, since a detach needs a handle.
        """
        if self.local_state == CLOSED or self.session.local_state != OPEN:
            return
        if self.local_state == UNOPENED:
            self.accept_attach(None, None)
        self.local_state = CLOSED
        closed = closed or self.peer_closed
        self.dead = self.dead or closed or error is not None
        self.wire.send_last(self.session.channel, Detach(handle=self.handle, closed=closed, error=error))
        self.credit = 0
        self._detached()

    def fail(self, error: Error) -> None:
        """The peer broke a rule on this link, or it was attached elsewhere: detach it, and tell the
        application.
        """
        self.report_detached(error.condition != LINK_STOLEN, error, True, False)
        self.detach(error=error)

    def replaced(self) -> None:
        """A later attach has the same name. Where this end is still attached, the link is stolen (part 2,
        section 2.6.1); where it was detached, delivery ids of then mean nothing to the link of now (2.6.13).
        """
        self.dead = True
        if self.local_state == CLOSED:
            self.session.deliveries.drop(self)
        elif self.remote_state != CLOSED:
            self.fail(self._stolen_error())

    def steal(self) -> None:
        """The same container has attached the link on another connection, as only the application knows.

        No event comes of it: the caller does what it does at LinkDetached. The terminus goes on there.
        """
        self.reported = True
        self.detach(error=self._stolen_error())

    def _stolen_error(self) -> Error:
        return Error(LINK_STOLEN, f"link {self.name!r} has been attached elsewhere")

    def on_detach(self, detach: Detach) -> None:
        """The peer's end detaches."""
        self.remote_state = CLOSED
        self.peer_closed = detach.closed
        self.dead = self.dead or detach.closed or detach.error is not None
        self.report_detached(detach.closed, detach.error, False, False)
        self._detached()

    def report_detached(self, closed: bool, error: Error | None, local: bool, with_session: bool) -> None:
        """Tell the application, once, that the link is detached."""
        if not self.reported:
            self.reported = True
            unsettled = self.session.unsettled_of(self)
            self.wire.events.append(LinkDetached(self, closed, error, local, with_session, unsettled))

    def _detached(self) -> None:
        """One end is detached. Dispositions still pass between the peer's detach and ours."""
        if self.local_state == CLOSED:
            self.session.backlog.drop(self)
            if self.dead:
                self.session.deliveries.drop(self)
            if self.remote_state == CLOSED:
                self.session.free_handle_of(self)
