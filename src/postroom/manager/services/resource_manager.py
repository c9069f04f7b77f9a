"""The queue manager as a resource manager: local transactions, and the verbs of X/Open XA that transaction
managers and, for branches that are in doubt, administrators say.

What each verb may be said to and is answered, `model.xa` says; they raise XaError.
"""

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transaction import Transaction, fail
from postroom.manager.transactions import commit as transactions
from postroom.manager.transactions import xa_verbs as branches
from postroom.manager.transactions.xa_branch import Branch, BranchRow, XaSession, branches_of, row_of
from postroom.manager.turn import Command
from postroom.model.xa import XaCode, XaVerb, Xid


class ResourceManager:
    """Transactions; branches, by session and Xid."""

    def __init__(self, core: Core) -> None:
        self.core = core

    # -- transactions

    def begin(self, now_us: i64) -> Transaction:
        """Open a local transaction; raises LimitExceeded."""
        self.core.begin(now_us)
        return transactions.begin(self.core)

    def commit(self, transaction: Transaction, now_us: i64) -> None:
        """Decide for it, atomically. Raises TransactionRolledBack, TransactionTimedOut (it has been rolled
        back), TransactionUnknown."""
        with Command(self.core, now_us):
            transactions.commit(self.core, transaction)

    def rollback(self, transaction: Transaction, now_us: i64, lost: bool = False) -> None:
        """Decide against it; no effect if it has been decided. ``lost``: its connection is.

        Deliveries that their receivers have settled return to their places; others stay with the receiver
        until disposed of, detached or lost.
        """
        with Command(self.core, now_us):
            transactions.rollback(self.core, transaction, lost)

    def spoil(self, transaction: Transaction, why: str, now_us: i64, condition: str = "") -> None:
        """Something of it was refused before it came here, and its client isn't told: it can only be rolled
        back."""
        with Command(self.core, now_us):
            fail(self.core, transaction, why, condition)

    # -- branches

    def open_xa_session(self, container: str = "", user: str = "") -> XaSession:
        """Someone who will work on branches."""
        return XaSession(container, user)

    def close_xa_session(self, session: XaSession, lost: bool, now_us: i64) -> None:
        """It is gone. ``lost``: without a word, so that its branches that are not prepared are rolled back;
        else they are left alone."""
        with Command(self.core, now_us):
            branches.close_session(self.core, session, lost)

    def xa_start(self, session: XaSession, xid: Xid, flags: int, now_us: i64, timeout_s: int = 0) -> Branch:
        """Have the session work on a branch; flags TMNOFLAGS, TMJOIN or TMRESUME. Puts and outcomes are in
        it when they name its transaction. A new one that isn't prepared ``timeout_s`` after its start is
        rolled back; 0: one of which nothing is heard for ``branch_idle_timeout_ms``."""
        self.core.begin(now_us)
        return branches.start(self.core, session, xid, flags, timeout_s)

    def xa_end(
        self, session: XaSession, xid: Xid, flags: int, received: list[tuple[Consumer, Entry]], now_us: i64
    ) -> None:
        """The session works on it no longer; flags TMSUCCESS, TMFAIL or TMSUSPEND.

        What it has ``received`` and not disposed of joins the branch; it goes back if the branch is, or is
        to be, rolled back. Raises NotHeld, and NotAllowed while sends of the branch wait for room, too.
        """
        with Command(self.core, now_us):
            branches.end(self.core, session, xid, flags, received)

    def xa_prepare(self, xid: Xid, now_us: i64) -> XaCode:
        """XA_OK: it can be committed whatever happens; XA_RDONLY: there is nothing to commit, it is gone."""
        with Command(self.core, now_us):
            return branches.prepare(self.core, xid)

    def xa_commit(self, xid: Xid, one_phase: bool, now_us: i64) -> None:
        """Decide for it, atomically."""
        with Command(self.core, now_us):
            branches.commit(self.core, xid, one_phase)

    def xa_rollback(self, xid: Xid, now_us: i64) -> None:
        """Decide against it, atomically; what was received in it returns to its places."""
        with Command(self.core, now_us):
            branches.rollback(self.core, xid)

    def xa_recover(self, session: XaSession, flags: int, now_us: i64) -> list[Xid]:
        """The branches that are prepared or heuristically decided; flags TMSTARTRSCAN, TMENDRSCAN, both or,
        in an open scan, none."""
        self.core.begin(now_us)
        return branches.recover(self.core, session, flags)

    def xa_forget(self, xid: Xid, now_us: i64) -> None:
        """Its transaction manager has seen the heuristic outcome."""
        with Command(self.core, now_us):
            branches.forget(self.core, xid, XaVerb.FORGET)

    def branches(self) -> list[BranchRow]:
        """Every branch, those included that are only remembered."""
        return [row_of(branch) for branch in branches_of(self.core).by_xid.values()]

    def heuristic_commit(self, xid: Xid, now_us: i64, user: str = "") -> None:
        """An administrator, ``user``, decides for a branch that is idle or prepared; it stays until
        forgotten."""
        with Command(self.core, now_us):
            branches.decide_heuristically(self.core, xid, XaVerb.HEURISTIC_COMMIT, user)

    def heuristic_rollback(self, xid: Xid, now_us: i64, user: str = "") -> None:
        """An administrator decides against it, likewise."""
        with Command(self.core, now_us):
            branches.decide_heuristically(self.core, xid, XaVerb.HEURISTIC_ROLLBACK, user)

    def delete_branch(self, xid: Xid, now_us: i64) -> None:
        """An administrator forgets a heuristic outcome."""
        with Command(self.core, now_us):
            branches.forget(self.core, xid, XaVerb.DELETE)
