"""What links, channels and the management node share of a connection: who it is, its links, its transactions.

The composition is `connection.binding.ConnectionBinding`, which carries out the engine's events.
"""

import logging
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import SessionState
from postroom.amqp.errors import CONNECTION_FORCED, INTERNAL_ERROR
from postroom.amqp.frames.outcomes import RELEASED, DeliveryState, Received, TransactionalState
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transaction import Transaction
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.logs import LOGGER_NAME, log

if TYPE_CHECKING:
    from postroom.server.kernel.broker_state import BrokerState

ANONYMOUS_USER: Final = "anonymous"


class EnforcementPolicy(IntEnum):
    """What is to be done about a second connection."""

    REFUSE_CONNECTION = 0
    CLOSE_EXISTING = 1


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionContext:
    """What a session is to somebody, as long as it lives."""

    def close(self, lost: bool, now_us: int) -> None:
        """The session has ended; ``lost``: not in an orderly way."""
        raise NotImplementedError


class ConnectionState:
    """The broker's end of one connection."""

    def __init__(
        self, broker: "BrokerState", remote: str, options: ConnectionOptions, monotonic_us: int, now_us: int
    ) -> None:
        self.broker: Final = broker
        self.remote: Final = remote
        self.engine: Final = Connection(options, monotonic_us)
        self.user = ANONYMOUS_USER
        self.roles: tuple[str, ...] = ()
        """That its token gives it, beside those that its user has."""
        self.by_token = False
        """Its user has signed in with a token."""
        self.listener = ""
        """The address, as configured, of the listener that has accepted it."""
        self.metered = False
        """What comes over it is counted against a rate."""
        self.by_us = False
        """This end has opened it, for a channel."""
        self.container_id = ""
        self.sole_policy: EnforcementPolicy | None = None
        """It is the only connection of its container; None: it hasn't asked for that."""
        self.writable = True
        """False while the socket's output buffer is over its bound."""
        self.closed_here = False
        """This end has closed it, and its peer had no say: nobody knows what of its deliveries was seen."""
        self.failed = False
        self.aborted = False
        """The socket is to be cut at once, whatever it still has to send."""
        self.opened_us: Final = now_us
        self.links: Final[dict[Link, BoundLink]] = {}
        self.begin_counting()
        self.transactions: Final[dict[bytes, Transaction]] = {}
        self.branches: Final[dict[bytes, Transaction]] = {}
        """XA branches that its sessions work on, and sink branches that began on it, by their ids here."""
        self.sessions: Final[dict[SessionState, SessionContext]] = {}
        """What its sessions are to XA."""
        self.retired: Final[dict[Transaction, dict[BoundLink, list[int]]]] = {}
        """Unsettled outcomes that wait for the end of their transaction: delivery ids by link."""
        self.acquired: Final[dict[Transaction, dict[BoundLink, list[WireDelivery]]]] = {}
        """What links have sent in transactions that are open."""
        self.partial: Final[dict[BoundLink, bytes]] = {}
        """Links on which a message of a transaction is arriving, of which not all frames have come."""
        self._refill: Final[dict[BoundLink, None]] = {}
        self._now_us = now_us

    def begin_counting(self) -> None:
        """Set the counters to 0: messages sent and received on links to queues and topics, bytes on the
        wire."""
        self.messages_in = 0
        self.messages_out = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def touch(self) -> None:
        """There may be something to send."""
        self.broker.touched[self] = None

    def wrote(self, bound: BoundLink) -> None:
        """``bound`` has sent a delivery, and may have room for more."""
        self._refill[bound] = None
        self.broker.touched[self] = None

    def refill(self, now_us: int) -> None:
        """Give links that have sent something new credit with the queue manager, where they have room."""
        if self._refill:
            bounds = list(self._refill)
            self._refill.clear()
            for bound in bounds:
                bound.refill(now_us)

    def close(self, condition: str = CONNECTION_FORCED, description: str = "the broker is stopping") -> None:
        """Close from this side; the peer's answer ends the connection. What was sent to it and has no outcome
        goes back as after a lost connection.
        """
        self.closed_here = True
        self.engine.close(Error(condition, description))
        self.touch()

    def leave(self) -> None:
        """Close a connection that this end has opened and needs no more."""
        self.engine.close()
        self.touch()

    def cut(self) -> None:
        """End the connection without another word."""
        self.failed = True
        self.aborted = True
        self.touch()

    def give_way(self, error: Error, now_us: int) -> None:
        """Close for a later connection of the same container. What this one holds goes back at once, as after
        a lost connection: the peer may be long gone, and the later one may want it.
        """
        raise NotImplementedError

    def fail(self) -> None:
        """A defect of ours, being handled: say so in the log, and close."""
        log(logging.ERROR, "internal-error", remote=self.remote, container=self.container_id)
        logging.getLogger(LOGGER_NAME).exception("traceback")
        self.engine.close(Error(INTERNAL_ERROR, "the broker failed on this connection; see its log"))
        self.failed = True
        self.touch()

    # Transactions.

    def transaction(self, txn_id: bytes) -> Transaction | None:
        """The open transaction or branch of that id; None where this connection has none."""
        transaction = self.transactions.get(txn_id)
        return transaction if transaction is not None else self.branches.get(txn_id)

    def is_live(self, txn_id: bytes) -> bool:
        """Whether that transaction is open here, and not decided."""
        transaction = self.transaction(txn_id)
        return transaction is not None and not transaction.decided

    def decide_retired(self, transaction: Transaction, committed: bool) -> None:
        """``transaction`` is over: tell the links whose outcomes were in it."""
        for outgoing, delivery_ids in self.retired.pop(transaction, {}).items():
            outgoing.decided(delivery_ids, committed)
        for outgoing, deliveries in self.acquired.pop(transaction, {}).items():
            outgoing.acquisition_decided(deliveries, committed)

    def end_acquisition(self, transaction: Transaction) -> None:
        """It is being discharged: no link acquires anything more in it."""
        for bound in self.links.values():
            bound.end_acquisition(transaction, self._now_us)

    def sends_acquired(self, transaction: Transaction, discharger: BoundLink) -> bool:
        """Whether something that was acquired in it waits for the window of its session; if so,
        ``discharger`` hears (`BoundLink.unblocked`) when nothing does any more."""
        sending = [each for each in self.acquired.get(transaction, {}) if each.waits_to_send()]
        for outgoing in sending:
            outgoing.notify_when_sent(discharger)
        return bool(sending)

    def outcome_too_late(
        self,
        link: SenderLink,
        deliveries: list[WireDelivery],
        state: DeliveryState | None,
        settled: bool,
        now_us: int,
    ) -> None:
        """What ``link`` held has gone back: an outcome for it changes nothing, and a transaction that was to
        have it can't be committed.
        """
        if isinstance(state, TransactionalState):
            transaction = self.transaction(state.txn_id)
            entries = [each.context for each in deliveries if isinstance(each.context, Entry)]
            if any(entry.owner is not transaction for entry in entries):
                self.spoil_late(transaction, now_us)
        elif not settled and state is not None and not isinstance(state, Received):
            for delivery in deliveries:
                link.settle(delivery.id, delivery.id, RELEASED)
            self.touch()

    def spoil_late(self, transaction: Transaction | None, now_us: int) -> None:
        if transaction is not None:
            what = "an outcome in it came after the end of its link, which had given the message back"
            self.broker.manager.spoil(transaction, what, now_us)

    # Links.

    def forget_link(self, link: Link) -> None:
        """``link`` is bound to nothing any more, from this side."""
        raise NotImplementedError

    def end_link(self, bound: BoundLink, error: Error) -> None:
        """Detach it, closed, for that reason; what it holds goes back."""
        link = bound.attached_link
        self.forget_link(link)
        bound.close(False, self._now_us)
        link.detach(closed=True, error=error)
        self.touch()

    def take_link_away(self, bound: BoundLink, now_us: int) -> None:
        """The link of ``bound`` is being attached on another connection of the same container."""
        raise NotImplementedError
