"""What one AMQP session is to XA: the branch that it works on, the links that receive for it, what they have
received.

A branch is started on the coordinator and ended by a request to the management node, on links of the same
session: so both are ordered with its transfers and dispositions.
"""

from typing import Final, cast

from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.shared_state import SessionState
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, TransactionalState
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import XaError
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.transactions.xa_branch import XaSession, branches_of
from postroom.model.rights import Right
from postroom.model.xa import XaCode, XaFlag, Xid, XidInvalid
from postroom.server.access.access import access_of
from postroom.server.kernel.connection_state import ConnectionState, SessionContext
from postroom.server.links.outgoing_link import OutgoingLink

XID_PARTS: Final = 3
"""Of a global-id: format id, gtrid and bqual."""
MORE_PARTS: Final = ("flags", "timeout")
"""What may follow: the flags of the start, and the branch's timeout in seconds."""


def read_global_id(value: object) -> tuple[Xid, int, int]:
    """The Xid, the flags and the timeout of a declare's global-id. Raises XaError."""
    parts = list(value) if isinstance(value, (list, tuple)) else value
    more = [int(XaFlag.TMNOFLAGS), 0]
    if isinstance(parts, list) and len(parts) <= XID_PARTS + len(MORE_PARTS):
        for place, value in enumerate(parts[XID_PARTS:]):
            more[place] = _uint(MORE_PARTS[place], value)
        parts = parts[:XID_PARTS]
    try:
        return Xid.from_wire(parts), more[0], more[1]
    except XidInvalid as error:
        raise XaError(XaCode.XAER_INVAL, str(error)) from error


def _uint(what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise XaError(XaCode.XAER_INVAL, f"the {what} of a global-id is a uint, not {value!r:.100}")
    return int(value)


def xa_context(connection: ConnectionState, session: SessionState) -> "XaContext":
    """What ``session`` is to XA, made when it is first asked for."""
    context = connection.sessions.get(session)
    if context is None:
        context = connection.sessions[session] = XaContext(connection, session)
    return cast(XaContext, context)


class XaContext(SessionContext):
    """Of one session that has said a verb of XA."""

    def __init__(self, binding: ConnectionState, session: SessionState) -> None:
        self._binding: Final = binding
        self._manager: Final = binding.broker.manager
        self._session: Final = session
        self.known: Final[XaSession] = self._manager.open_xa_session(binding.container_id, binding.user)
        """It, to the queue manager."""
        self._txn_id = b""
        """By what transfers and dispositions name the branch; b"" while there is none."""

    def start(
        self, xid: Xid, flags: int, timeout_s: int, txn_id: bytes, local_work: bool, now_us: int
    ) -> None:
        """Work on a branch, which is ``txn_id`` on this connection until it is ended. Raises XaError."""
        access, user = access_of(self._binding.broker), self._binding.user
        branch_of_xid = branches_of(self._manager.core).by_xid.get(xid)
        others = branch_of_xid is not None and branch_of_xid.user != user
        if others and not access.rights_of(self._binding).on_queue_manager(Right.RESOLVE):
            raise XaError(XaCode.XAER_PROTO, f"branch {xid} is another user's")
        self.known.local_work = local_work
        branch = self._manager.xa_start(self.known, xid, flags, now_us, timeout_s)
        self._txn_id = txn_id
        self._binding.branches[txn_id] = branch.transaction

    def blocked(self) -> Transaction | None:
        """The transaction of its branch, while sends of that wait for room."""
        branch = self.known.branch
        return branch.transaction if branch is not None and branch.transaction.blocked else None

    def end(self, xid: Xid, flags: int, assign: bool, now_us: int) -> None:
        """Work on the branch no longer; with ``assign`` what was received joins it. Raises XaError,
        NotAllowed.

        What was received is settled, whatever has become of it: in the branch, or back in its queue.
        """
        if self._txn_id and self._txn_id in self._binding.partial.values():
            raise XaError(XaCode.XAER_PROTO, "a message of the branch has not come with all its frames")
        branch, txn_id = self.known.branch, self._txn_id
        links = self._links() if assign else []
        received = [pair for link in links for pair in link.received_for_branch()]
        sent = [(each, _held_since(each)) for link in links for each in link.unsettled_now()]
        try:
            self._manager.xa_end(self.known, xid, flags, received, now_us)
        finally:
            over = [(each, _joined(each)) for each, since in sent if not _is_held(each, since)]
            self._binding.broker.after_durable(self._binding, lambda _: _settle(over, txn_id))
            if branch is not None and self.known.branch is None:
                branch.transaction.dischargers.clear()
                self._leave(branch.transaction)

    def close(self, lost: bool, now_us: int) -> None:
        """The session is over."""
        if self.known.branch is not None:
            self._leave(self.known.branch.transaction)
        self._manager.close_xa_session(self.known, lost, now_us)

    def _leave(self, transaction: Transaction) -> None:
        self._binding.branches.pop(self._txn_id, None)
        self._txn_id = b""
        self._binding.decide_retired(transaction, True)

    def _links(self) -> list[OutgoingLink]:
        """Those that receive for branches."""
        bounds = [bound for link, bound in self._binding.links.items() if link.session is self._session]
        return [bound for bound in bounds if isinstance(bound, OutgoingLink) and bound.for_branches]


def _held_since(delivery: WireDelivery) -> int:
    """By which event its link was given it."""
    entry = delivery.context
    return int(entry.held_since) if isinstance(entry, Entry) else 0


def _is_held(delivery: WireDelivery, since: int) -> bool:
    """Whether its link still has it by that event: what goes back may be delivered again at once, to the same
    link as well."""
    entry = delivery.context
    if not isinstance(entry, Entry):
        return True
    return isinstance(entry.owner, Consumer) and int(entry.held_since) == since


def _joined(delivery: WireDelivery) -> bool:
    """Whether it is in the branch; otherwise it has gone back."""
    entry = delivery.context
    return isinstance(entry, Entry) and isinstance(entry.owner, Transaction)


def _settle(deliveries: list[tuple[WireDelivery, bool]], txn_id: bytes) -> None:
    for delivery, joined in deliveries:
        state = TransactionalState(txn_id, ACCEPTED) if joined else RELEASED
        delivery.link.settle(delivery.id, delivery.id, state)
