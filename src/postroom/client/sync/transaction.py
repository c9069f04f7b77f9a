"""A global transaction over several resource managers: the sync face.

Generated from aio/transaction.py by tools/async_to_sync.py: change that, and run the tool.

Presumed abort: the decision to commit is on disk before any branch hears of it, the decision to roll back
needs no trace. The words are those of X/Open XA and Jakarta Transactions.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from postroom.client.aio import transaction as aio
from postroom.client.sync.caller import Driven, awaited
from postroom.client.transactions.two_phase import TransactionStatus
from postroom.model.xa import XaCode, XaFlag, Xid

__all__ = ["Resource", "Transaction"]


class Resource(Protocol):
    """What a resource manager offers to a transaction manager: the verbs of XA. All raise XAException."""

    def resource_name(self) -> str:
        """Which resource manager it is: the same from every connection and after every restart."""

    def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """What is done in the resource from now on belongs to the branch."""

    def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """No more of it does."""

    def prepare(self, xid: Xid) -> XaCode:
        """Promise to commit, whatever happens: XA_OK; or XA_RDONLY, there is nothing to commit."""

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit what was prepared; ``one_phase``: what was not."""

    def rollback(self, xid: Xid) -> None:
        """Undo what the branch did."""

    def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN) -> list[Xid]:
        """The branches that are prepared, or were decided about by somebody else."""

    def forget(self, xid: Xid) -> None:
        """Nobody will ask any more how the branch was decided."""


class Transaction(Driven[aio.Transaction]):
    """A transaction; leaving ``with`` commits it, leaving with an exception rolls it back.

    Made by :meth:`TransactionManager.transaction`. Leaving raises

    * TransactionRolledBackException: a resource refused; nothing of it has happened anywhere;
    * HeuristicMixedException, HeuristicRollbackException, HeuristicCommitException: somebody else decided
      about branches, otherwise; :meth:`TransactionManager.heuristics` keeps which;
    * XAException, DecisionLogException: nobody here knows the outcome (`status` UNKNOWN); recovery decides
      what the log has, and a single resource has decided by itself.
    """

    @property
    def gtrid(self) -> bytes:
        """Its global transaction id, as the decision log and the resource managers have it."""
        return self._inner.gtrid

    @property
    def status(self) -> TransactionStatus:
        """Where it is."""
        return self._inner.status

    @property
    def unheard(self) -> list[str]:
        """The resource managers that couldn't be told the outcome; the next transaction with them, or
        recovery, tells them.
        """
        return self._inner.unheard

    def __enter__(self) -> Transaction:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._portal.is_running:
            self._portal.call(self._inner.__aexit__(kind, error, trace))

    def enlist(self, resource: Resource) -> None:
        """Take a further resource in: what is done in it from now on belongs to the transaction.

        What is left open in it of earlier transactions is ended first.
        """
        self._portal.call(self._inner.enlist(awaited(resource)))

    def set_rollback_only(self) -> None:
        """It can't be committed any more."""
        self._portal.do(lambda: self._inner.set_rollback_only())
