"""The transaction coordinator: declare and discharge of local transactions (part 4, sections 4.3 and 4.5),
and the start of XA branches.

A declare with a global-id starts, joins or resumes a branch: its other verbs are requests to the management
node (`management.branches`), on links of the same session.
"""

from typing import TYPE_CHECKING, Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Int, Symbol
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.errors import NOT_ALLOWED, TRANSACTION_ROLLBACK, TRANSACTION_UNKNOWN_ID, AmqpError
from postroom.amqp.extensions import DISTRIBUTED_TRANSACTIONS, LOCAL_TRANSACTIONS, XA_CODE
from postroom.amqp.frames.outcomes import ACCEPTED, Declared, DeliveryState, Discharge, Rejected
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import Coordinator
from postroom.manager.kernel.errors import LimitExceeded, ManagerError, XaError
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.requests import read_coordinator_request
from postroom.server.links.terminus import may_reject
from postroom.server.links.xa_context import read_global_id, xa_context

if TYPE_CHECKING:
    from postroom.manager.kernel.transaction import Transaction

MULTIPLE_PER_SESSION: Final = "amqp:multi-txns-per-ssn"
MULTIPLE_SESSIONS: Final = "amqp:multi-ssns-per-txn"
COORDINATOR_CREDIT: Final = 100
MAX_REQUEST_BYTES: Final = 4096
"""A declare or discharge is a few bytes."""
TXN_ID_BYTES: Final = 8


def granted_coordinator(requested: Coordinator) -> Coordinator:
    """The coordinator as it is: what it can do, whatever was asked."""
    return Coordinator(
        capabilities=[LOCAL_TRANSACTIONS, DISTRIBUTED_TRANSACTIONS, MULTIPLE_PER_SESSION, MULTIPLE_SESSIONS]
    )


class CoordinatorLink(BoundLink):
    """A control link: it owns the transactions that it has declared, and rolls them back when it closes."""

    def __init__(self, binding: ConnectionState, link: ReceiverLink, attach: Attach) -> None:
        super().__init__(binding, link)
        self.link: Final = link
        self._may_reject: Final = may_reject(attach.source)
        self._declared: Final[set[bytes]] = set()
        self._parts: list[bytes] = []
        self._postponed: list[tuple[Discharge, int]] = []
        """Discharges (with their delivery ids) whose transaction has sends that wait for room."""

    def confirmed(self, now_us: int) -> None:
        self.link.flow(COORDINATOR_CREDIT)

    def transfer(self, event: TransferReceived, now_us: int) -> None:
        if event.aborted:
            self._parts.clear()
            return
        self._parts.append(event.payload)
        if event.more and sum(map(len, self._parts)) <= MAX_REQUEST_BYTES:
            return
        request, self._parts = b"".join(self._parts), []
        if event.settled or event.more:
            what = "larger than any request" if event.more else "pre-settled: its answer would be lost"
            self._detach(AmqpError(NOT_ALLOWED, f"a declare or discharge that is {what}"), now_us)
            return
        try:
            self._do(request, event.delivery_id, now_us)
        except (AmqpError, ManagerError) as error:
            self._fail(event.delivery_id, error, now_us)

    def _do(self, request: bytes, delivery_id: int, now_us: int) -> None:
        body = read_coordinator_request(request)
        if isinstance(body, Discharge):
            self._discharge(body, delivery_id, now_us)
        elif body.global_id is None:
            self._answer(delivery_id, Declared(self._declare(now_us)))
        else:
            self._answer(delivery_id, Declared(self._start(body.global_id, now_us)))

    def _declare(self, now_us: int) -> bytes:
        limit = self.binding.broker.manager.options.max_transactions
        if len(self._declared) >= limit:
            raise LimitExceeded(
                f"{limit} transactions of one link are the limit (max_transactions): discharge some, those "
                "too that have timed out"
            )
        txn_id = self._new_id()
        self.binding.transactions[txn_id] = self.binding.broker.manager.begin(now_us)
        self._declared.add(txn_id)
        return txn_id

    def _new_id(self) -> bytes:
        return self.binding.broker.next_transaction_number().to_bytes(TXN_ID_BYTES, "big")

    def _start(self, global_id: object, now_us: int) -> bytes:
        """Of an XA branch; it is nobody's but its transaction manager's, and outlives this link."""
        xid, flags, timeout_s = read_global_id(global_id)
        session, txn_id = self.link.session, self._new_id()
        local_work = any(
            isinstance(bound, CoordinatorLink) and bound._declared
            for link, bound in self.binding.links.items()
            if link.session is session
        )
        xa_context(self.binding, session).start(xid, flags, timeout_s, txn_id, local_work, now_us)
        return txn_id

    def _discharge(self, discharge: Discharge, delivery_id: int, now_us: int) -> None:
        txn_id = bytes(discharge.txn_id)
        transaction = self.binding.transactions.get(txn_id) if txn_id in self._declared else None
        if transaction is None:
            raise AmqpError(TRANSACTION_UNKNOWN_ID, f"there is no transaction {txn_id.hex()} on this link")
        if txn_id in self.binding.partial.values():
            what = f"transaction {txn_id.hex()} is discharged while a message of it is under way"
            self._detach(AmqpError(TRANSACTION_ROLLBACK, what), now_us)
            return
        if transaction.blocked and not discharge.fail:
            # Sends of it wait for room: they are answered first, as if the sender had waited for each.
            transaction.dischargers.append(self)
            self._postponed.append((discharge, delivery_id))
            return
        self.binding.end_acquisition(transaction)
        if self.binding.sends_acquired(transaction, self):
            # What was acquired in it is sent to its end, before a rollback takes it back (section 4.4.3).
            self._postponed.append((discharge, delivery_id))
            return
        del self.binding.transactions[txn_id]
        self._declared.discard(txn_id)
        manager, binding = self.binding.broker.manager, self.binding
        committed = False
        try:
            if discharge.fail:
                manager.rollback(transaction, now_us)
            else:
                manager.commit(transaction, now_us)
                committed = True
        finally:
            binding.broker.after_durable(binding, lambda _: binding.decide_retired(transaction, committed))
        binding.broker.after_durable(binding, lambda _: self._answer(delivery_id, ACCEPTED))

    def unblocked(self, now_us: int) -> None:
        postponed, self._postponed = self._postponed, []
        for discharge, delivery_id in postponed:
            try:
                self._discharge(discharge, delivery_id, now_us)
            except (AmqpError, ManagerError) as error:
                self._fail(delivery_id, error, now_us)

    def _fail(self, delivery_id: int, error: AmqpError | ManagerError, now_us: int) -> None:
        """Rejected where the client knows that outcome, else the link is detached (section 4.3)."""
        if not self._may_reject:
            self._detach(error, now_us)
            return
        state = Rejected(Error(error.condition, error.description, _info(error)))
        self.binding.broker.after_durable(self.binding, lambda _: self._answer(delivery_id, state))

    def _detach(self, error: AmqpError | ManagerError, now_us: int) -> None:
        self.close(False, now_us)
        self.link.detach(closed=True, error=Error(error.condition, error.description, _info(error)))
        self.binding.forget_link(self.link)
        self.binding.touch()

    def _answer(self, delivery_id: int, state: DeliveryState) -> None:
        self.link.settle(delivery_id, delivery_id, state)
        if self.link.attached and self.link.credit * 2 <= COORDINATOR_CREDIT:
            self.link.flow(COORDINATOR_CREDIT)
        self.binding.touch()

    def close(self, lost: bool, now_us: int) -> None:
        self._postponed.clear()
        for txn_id in self._declared:
            transaction = self.binding.transactions.pop(txn_id, None)
            if transaction is not None:
                self.binding.end_acquisition(transaction)
                self.binding.broker.manager.rollback(transaction, now_us, lost)
                self._rolled_back(transaction)
        self._declared.clear()

    def _rolled_back(self, transaction: "Transaction") -> None:
        """Without a discharge: links hear of it all the same."""
        binding = self.binding
        binding.broker.after_durable(binding, lambda _: binding.decide_retired(transaction, False))


def _info(error: AmqpError | ManagerError) -> dict[object, object] | None:
    return {Symbol(XA_CODE): Int(error.code)} if isinstance(error, XaError) else None
