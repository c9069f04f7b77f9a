"""XA sessions, and the broker as a resource manager: the sync face.

Generated from aio/xa.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from postroom.client.aio import xa as aio
from postroom.client.aio.xa import WHOLE_SCAN, OfBroker
from postroom.client.sync.portal import Face
from postroom.client.sync.session import Session
from postroom.model.xa import XaCode, XaFlag, Xid

__all__ = ["XAResource", "XASession"]


class XAResource(Face[aio.XAResource]):
    """The broker as a resource manager: the verbs of X/Open XA, for one session. Made by
    :meth:`Connection.create_xa_session`.

    Every verb raises XAException. XAER_RMFAIL is for a broker that can't be reached: of a commit nobody knows
    then whether it has happened, and :meth:`recover`, from any session, tells.
    """

    @property
    def broker_container_id(self) -> str:
        """The container id of the broker: what tells it from other resource managers."""
        return self._inner.broker_container_id

    def resource_name(self) -> str:
        """What the decision log of a transaction manager calls the broker."""
        return self._portal.call(self._inner.resource_name())

    def is_same_rm(self, other: OfBroker) -> bool:
        """Whether the other is a resource of the same broker."""
        return self._portal.call(self._inner.is_same_rm(other))

    def set_transaction_timeout(self, seconds: int) -> bool:
        """Have each branch that is started from now on, over this resource, rolled back unless it is
        prepared within so many seconds (XA_RBTIMEOUT at the next verb); 0: the default again, the broker's
        ``branch_idle_timeout_ms``. Always True. Raises XAException (XAER_INVAL) for what is no number of
        seconds.
        """
        return self._portal.call(self._inner.set_transaction_timeout(seconds))

    def get_transaction_timeout(self) -> int:
        """The seconds that were set last; 0: the broker's default."""
        return self._portal.call(self._inner.get_transaction_timeout())

    def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """What the session sends and receives from now on belongs to branch ``xid``.

        TMNOFLAGS: a new branch; TMJOIN: one that another session works on, or has ended; TMRESUME: one that
        was suspended. A session works on one branch at a time (XAER_PROTO).
        """
        self._portal.call(self._inner.start(xid, flags))

    def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """The session works on the branch no longer.

        TMSUCCESS: it may be prepared; TMFAIL: it is rolled back; TMSUSPEND: to be resumed. A branch in which
        a send was refused, or that the broker has rolled back, ends with XA_RB*: call :meth:`rollback`.
        """
        self._portal.call(self._inner.end(xid, flags))

    def prepare(self, xid: Xid) -> XaCode:
        """The branch is on the broker's disk and waits for the decision: XA_OK; or XA_RDONLY, it did nothing
        and is gone.
        """
        return self._portal.call(self._inner.prepare(xid))

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch; ``one_phase``: one that was ended and not prepared."""
        self._portal.call(self._inner.commit(xid, one_phase))

    def rollback(self, xid: Xid) -> None:
        """What was sent in the branch is gone, what was received in it is back."""
        self._portal.call(self._inner.rollback(xid))

    def recover(self, flags: XaFlag = WHOLE_SCAN) -> list[Xid]:
        """The branches that are prepared, or were decided by an administrator; all with TMSTARTRSCAN."""
        return self._portal.call(self._inner.recover(flags))

    def forget(self, xid: Xid) -> None:
        """The administrator's decision about the branch has been noted."""
        self._portal.call(self._inner.forget(xid))


class XASession(Session):
    """A session whose work belongs to branches of global transactions. Made by
    :meth:`Connection.create_xa_session`.

    Consumers receive in a branch only; producers send in it while there is one, and as any other producer
    outside. ``Message.acknowledge`` has no effect.
    """

    _inner: aio.XASession

    @property
    def xa_resource(self) -> XAResource:
        """What a transaction manager drives."""
        return XAResource(self._portal, self._inner.xa_resource)

    def commit(self) -> None:
        """TransactionInProgressException: the transaction manager commits."""
        self._portal.call(self._inner.commit())

    def rollback(self) -> None:
        """TransactionInProgressException: the transaction manager rolls back."""
        self._portal.call(self._inner.rollback())

    def close(self) -> None:
        """Close the session with its producers and consumers. A branch that was not ended stays suspended;
        what is prepared waits for its decision.
        """
        super().close()
