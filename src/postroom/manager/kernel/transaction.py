"""A transaction, local or a branch's, XA or of a Spark sink: what was put and taken in it, until it is
decided.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64, mypyc_attr

from postroom.manager.kernel.errors import (
    LimitExceeded,
    NotAllowed,
    TransactionRolledBack,
    TransactionTimedOut,
    TransactionUnknown,
)
from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import Consumer
    from postroom.manager.kernel.core import Core
    from postroom.manager.kernel.destination import DuplicateWindow
    from postroom.manager.kernel.effects import Sink
    from postroom.manager.kernel.entry import Entry
    from postroom.manager.kernel.quota_pool import PoolWaiter


@final
class Receipt:
    """A delivery disposed of within a transaction; ``event`` is the outcome that its commit applies."""

    def __init__(self, consumer: "Consumer | None", entry: "Entry", event: i64, settled: bool) -> None:
        self.consumer = consumer
        """None: a prepared branch has it from before the start."""
        self.entry = entry
        self.event: i64 = event
        self.settled = settled
        """Settled by its receiver: after a rollback it returns to its place, else it stays with the
        receiver."""
        self.acquired = False
        """It was acquired in the transaction, too: it returns however it was settled."""
        self.not_here = False
        self.annotations: dict[str, object] | None = None
        self.delay_us: i64 = -1
        """How long a failed one is to wait; −1: as its queue or consumer says."""
        self.condition = ""
        self.description = ""


@mypyc_attr(allow_interpreted_subclasses=True)
class Disposal:
    """What becomes of a put at its commit, in the same block, instead of its being available to others."""

    def carry_out(self, core: "Core", entry: "Entry") -> None:
        """``entry`` is available by the books and an object in no order: end it, or have it go elsewhere."""
        raise NotImplementedError


class Admission:
    """What a branch asks before it takes in more than a local transaction would."""

    def admit(self, transaction: "Transaction", count: i64, size: i64) -> None:
        """Raise a ManagerError unless ``count`` entries of one message, ``size`` bytes each, may go in."""
        raise NotImplementedError


@final
class Transaction:
    """Open until committed, rolled back or timed out."""

    def __init__(self, id: i64, begun_us: i64, kind: i64, max_entries: i64, detail: bytes) -> None:
        self.id: i64 = id
        self.kind: i64 = kind
        """LOCAL_TRANSACTION, XA_BRANCH, XA_PREPARED or SPARK_BRANCH."""
        self.begun_us: i64 = begun_us
        self.max_entries: i64 = max_entries
        """Put and taken together."""
        self.detail = detail
        """What the ledger is told of it as a holder."""
        self.puts: list[Entry] = []
        self.receipts: list[Receipt] = []
        self.acquired: dict[Entry, Consumer] = {}
        """What its client has received in it, without an outcome yet: a rollback takes it back."""
        self.disposals: dict[Entry, Disposal] = {}
        """Puts that end in some way as soon as they are committed, and how."""
        self.message_ids: dict[tuple[DuplicateWindow, bytes], None] = {}
        """Of its puts, where the destination remembers ids; keys as `model.duplicates` makes them."""
        self.blocked: list[PoolWaiter] = []
        """Its sends that wait for room: it can't be committed before they have been answered."""
        self.dischargers: list[Sink] = []
        """Who wants to discharge it, or to end the branch that it is, as soon as none waits."""
        self.admission: Admission | None = None
        """None: its own bound is all."""
        self.recorded = False
        self.decided = False
        self.ended = False
        """Of a branch: nobody works on it now, so it takes nothing more."""
        self.failed = ""
        """Why it can only be rolled back; "" while it can be committed."""
        self.condition = ""
        """As an AMQP error: the refusal that has failed it, "" where it was none."""
        self.timed_out = False


@final
class OpenTransactions:
    """Those that are not decided."""

    def __init__(self) -> None:
        self.local: dict[int, Transaction] = {}
        """By id, oldest first; not those of XA branches."""
        self.failed_branches: list[Transaction] = []
        """Those of XA branches that this command has made impossible to commit."""


def fail(core: "Core", transaction: Transaction, why: str, condition: str = "") -> None:
    """Something of it was lost or doesn't fit: it can only be rolled back; a branch is before the command is
    over.

    What is said to a transaction that is decided, or to a branch that is ended, was never of it. The first
    reason is the one that is told.
    """
    if transaction.decided or transaction.ended or transaction.failed != "":
        return
    transaction.failed = why
    transaction.condition = condition
    if transaction.kind == n.XA_BRANCH:
        core.transactions.failed_branches.append(transaction)
        core.agenda.due = True


def check_open(transaction: Transaction) -> None:
    """Raise TransactionTimedOut, TransactionRolledBack or TransactionUnknown unless it can take more."""
    if transaction.timed_out:
        raise TransactionTimedOut(f"transaction {transaction.id}: {transaction.failed}")
    if transaction.failed:
        raise TransactionRolledBack(f"transaction {transaction.id}: {transaction.failed}")
    if transaction.decided:
        raise TransactionUnknown(f"transaction {transaction.id} has been decided already")
    if transaction.ended:
        if transaction.kind == n.SPARK_BRANCH:
            raise NotAllowed(
                f"transaction {transaction.id} is a sink branch that has been sealed: begin another"
            )
        raise NotAllowed(f"transaction {transaction.id} is a branch that has been ended: join or resume it")


def make_room(core: "Core", transaction: Transaction, count: i64 = 1, size: i64 = 0) -> None:
    """Raise unless ``count`` more entries fit, of a message of ``size`` bytes. One too many leaves nothing
    but rollback; a sink branch stays as it was."""
    check_open(transaction)
    if transaction.admission is not None:
        transaction.admission.admit(transaction, count, size)
    else:
        check_bound(core, transaction, count)
    if not transaction.recorded:
        transaction.recorded = True
        core.holders.open(transaction.id, transaction.kind, transaction.detail)


def check_bound(core: "Core", transaction: Transaction, count: i64) -> None:
    """Raise LimitExceeded unless ``count`` more entries fit: one too many leaves nothing but rollback."""
    limit = transaction.max_entries
    if len(transaction.puts) + len(transaction.receipts) + count > limit:
        local = transaction.kind == n.LOCAL_TRANSACTION
        option = "max_transaction_entries" if local else "max_branch_messages"
        why = f"more than {limit} messages in one transaction ({option})"
        fail(core, transaction, why)
        raise LimitExceeded(why)
