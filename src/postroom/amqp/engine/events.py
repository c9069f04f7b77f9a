"""What the engine tells the application: one plain class an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.shared_state import Event, SessionState
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import Attach, Begin, Open

if TYPE_CHECKING:
    from postroom.amqp.engine.delivery import Delivery
    from postroom.amqp.engine.link import Link
    from postroom.amqp.engine.receiver import ReceiverLink
    from postroom.amqp.engine.sender import SenderLink


@final
class SaslInitReceived(Event):
    """Server: the client wants in. Answer with ``Connection.sasl_accept`` or ``sasl_reject``; until then
    nothing else is read.

    ``username`` and ``password`` are filled for PLAIN, ``trace`` for ANONYMOUS; ``authorize_as`` is PLAIN's
    authorization identity. ``response`` is the initial response of any other mechanism; what
    ``Connection.sasl_challenge`` asks for then comes as `SaslResponseReceived`.
    """

    def __init__(
        self,
        mechanism: str,
        hostname: str | None,
        authorize_as: str,
        username: str,
        password: str,
        trace: str,
        response: bytes = b"",
    ) -> None:
        self.mechanism = mechanism
        self.hostname = hostname
        self.authorize_as = authorize_as
        self.username = username
        self.password = password
        self.trace = trace
        self.response = response


@final
class SaslResponseReceived(Event):
    """Server: the client's answer to ``Connection.sasl_challenge``; again a verdict, or another challenge, is
    due.
    """

    def __init__(self, response: bytes) -> None:
        self.response = response


@final
class SaslDone(Event):
    """The SASL layer is through. Client: ``ok`` False means refused (``code``: part 5, section 5.3.3.6), and
    nothing more comes.
    """

    def __init__(self, ok: bool, code: int, mechanism: str) -> None:
        self.ok = ok
        self.code = code
        self.mechanism = mechanism


@final
class Opened(Event):
    """The peer's open. A server answers with ``Connection.open`` (then ``close(error)`` to refuse)."""

    def __init__(self, open: Open) -> None:
        self.open = open


@final
class Closed(Event):
    """The peer's close; already answered. All sessions have ended (their events come before this one)."""

    def __init__(self, error: Error | None) -> None:
        self.error = error


@final
class ProtocolFailed(Event):
    """The peer broke a rule, was silent too long, or isn't AMQP at all.

    ``data_to_send()`` holds the right last words (a close with ``error``, or a protocol header); then the
    socket is to be closed.
    """

    def __init__(self, error: Error) -> None:
        self.error = error


@final
class SessionBegun(Event):
    """A session works in both directions: the peer has answered our begin, or (``by_peer``) has begun it and
    was answered.
    """

    def __init__(self, session: SessionState, begin: Begin, by_peer: bool) -> None:
        self.session = session
        self.begin = begin
        self.by_peer = by_peer


@final
class SessionEnded(Event):
    """A session is over; its links have been reported detached before. ``local``: the engine ended it for
    ``error``.
    """

    def __init__(self, session: SessionState, error: Error | None, local: bool) -> None:
        self.session = session
        self.error = error
        self.local = local


@final
class LinkAttached(Event):
    """The peer's attach. ``by_peer``: it is a new link, to be answered with ``accept_attach`` or
    ``refuse_attach``.
    """

    def __init__(self, link: Link, attach: Attach, by_peer: bool) -> None:
        self.link = link
        self.attach = attach
        self.by_peer = by_peer


@final
class LinkDetached(Event):
    """A link is detached; ``closed`` False leaves its terminus (suspended, stolen, or its session ended).

    ``local``: there is nothing to answer, since the engine detached it (violation: closed; stolen: not
    closed), or (``with_session``) its session or connection has ended, for ``error`` if any. Otherwise the
    peer did, and the answer is ``link.detach()``. ``unsettled`` of a sender are the deliveries of which the
    peer's last word is open.
    """

    def __init__(
        self,
        link: Link,
        closed: bool,
        error: Error | None,
        local: bool,
        with_session: bool,
        unsettled: list[Delivery],
    ) -> None:
        self.link = link
        self.closed = closed
        self.error = error
        self.local = local
        self.with_session = with_session
        self.unsettled = unsettled


@final
class TransferReceived(Event):
    """One transfer frame. A message is complete when ``more`` is False; ``first`` marks its first frame.

    ``settled``, ``tag``, ``delivery_id``, ``message_format`` and ``rcv_settle_mode`` are filled in on every
    frame. An ``aborted`` message is void with all its frames, and settled. ``resume``: the tag is in this
    end's unsettled map.
    """

    def __init__(
        self,
        link: ReceiverLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        *,
        first: bool,
        more: bool,
        aborted: bool,
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.tag = tag
        self.message_format = 0
        self.settled = False
        self.state: DeliveryState | None = None
        self.payload = payload
        self.first = first
        self.more = more
        self.aborted = aborted
        self.resume = False
        self.rcv_settle_mode = 0


@final
class DispositionReceived(Event):
    """The peer, as receiver, says ``state`` of ``deliveries`` (ours, known and unsettled, in order of
    sending).

    ``settled`` False with an outcome: the peer waits for ``settle`` from this end.
    """

    def __init__(
        self, session: SessionState, deliveries: list[Delivery], state: DeliveryState | None, settled: bool
    ) -> None:
        self.session = session
        self.deliveries = deliveries
        self.state = state
        self.settled = settled


@final
class LateDisposition(Event):
    """The peer, as receiver, says the first ``state`` of deliveries of ours whose link was closed, or has
    failed, meanwhile: they mean nothing any more.
    """

    def __init__(self, session: SessionState, state: DeliveryState) -> None:
        self.session = session
        self.state = state


@final
class LateTransfer(Event):
    """A frame of a message with ``state`` has come for a link that this end has detached: the message is
    not taken, and its sender hears nothing of it.
    """

    def __init__(self, session: SessionState, state: DeliveryState) -> None:
        self.session = session
        self.state = state


@final
class SenderDispositionReceived(Event):
    """The peer, as sender, says ``state`` of deliveries that it sent on ``link``: ids in order of sending.

    ``settled`` True is its answer to an outcome in receiver-settle-mode second (or it has given the message
    up).
    """

    def __init__(
        self, link: ReceiverLink, delivery_ids: list[int], state: DeliveryState | None, settled: bool
    ) -> None:
        self.link = link
        self.delivery_ids = delivery_ids
        self.state = state
        self.settled = settled


@final
class CreditChanged(Event):
    """What ``link`` may send has changed: see its ``usable_credit()`` and ``drain``."""

    def __init__(self, link: SenderLink) -> None:
        self.link = link


@final
class Drained(Event):
    """The sender at the other end has used or given back all credit that ``flow(drain=True)`` offered."""

    def __init__(self, link: ReceiverLink) -> None:
        self.link = link


@final
class FlowReceived(Event):
    """The sender at the other end has told its state: see ``link.available``."""

    def __init__(self, link: ReceiverLink) -> None:
        self.link = link
