"""A global transaction over several resource managers: the asyncio face.

Presumed abort: the decision to commit is on disk before any branch hears of it, the decision to roll back
needs no trace. The words are those of X/Open XA and Jakarta Transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from postroom.client.exceptions import (
    DecisionLogException,
    IllegalStateException,
    TransactionRolledBackException,
    XAException,
)
from postroom.client.transactions.decision_log import DecisionLog
from postroom.client.transactions.decision_records import BranchName, Decision, HeuristicOutcome
from postroom.client.transactions.two_phase import (
    COMMIT,
    COMPLETED_HEURISTICALLY,
    ROLLBACK,
    Answer,
    Recovery,
    Step,
    TransactionStatus,
    after_commit,
    after_rollback,
    branch_xid,
    heuristic_exception,
    now_ms,
)
from postroom.model.xa import XaCode, XaFlag, Xid, is_rolled_back

__all__ = ["Branch", "Resource", "SecondPhase", "Shared", "Transaction", "Waits"]

OnStep = Callable[[Step, str], None]
T = TypeVar("T")


class Resource(Protocol):
    """What a resource manager offers to a transaction manager: the verbs of XA. All raise XAException."""

    async def resource_name(self) -> str:
        """Which resource manager it is: the same from every connection and after every restart."""

    async def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """What is done in the resource from now on belongs to the branch."""

    async def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """No more of it does."""

    async def prepare(self, xid: Xid) -> XaCode:
        """Promise to commit, whatever happens: XA_OK; or XA_RDONLY, there is nothing to commit."""

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit what was prepared; ``one_phase``: what was not."""

    async def rollback(self, xid: Xid) -> None:
        """Undo what the branch did."""

    async def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN) -> list[Xid]:
        """The branches that are prepared, or were decided about by somebody else."""

    async def forget(self, xid: Xid) -> None:
        """Nobody will ask any more how the branch was decided."""


class Branch:
    """The share of one resource in a transaction."""

    def __init__(self, resource: Resource, xid: Xid, name: str) -> None:
        self.resource = resource
        self.xid = xid
        self.name = name
        self.is_ended = False
        self.error: XAException | None = None
        """What it last answered, if that was an error."""


class Waits:
    """How a transaction waits: as a task of asyncio. The blocking face has its own."""

    def __init__(self) -> None:
        self._running: Final[set[asyncio.Task[Any]]] = set()

    async def result_of(self, future: Future[T]) -> T:
        """What another thread promised."""
        return await asyncio.wrap_future(future)

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do ``work`` to its end, even if who waits for it is cancelled."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)


class Shared:
    """What the transactions of a transaction manager share."""

    def __init__(self, log: DecisionLog, on_step: OnStep, waits: Waits) -> None:
        self.log: Final = log
        self.on_step: Final = on_step
        self.waits: Final = waits
        self.live: Final[set[bytes]] = set()
        """Transactions that are under way; recovery leaves them alone."""
        self.settled: Final[set[str]] = set()
        """Resource managers in which nothing of an earlier transaction is left open."""


class SecondPhase:
    """Tells branches what was decided, and keeps what was decided otherwise."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.on_step = shared.on_step

    async def commit(self, branch: Branch, outcomes: list[HeuristicOutcome], again: bool = False) -> Answer:
        """Tell ``branch`` to commit; what it did instead is added to ``outcomes``."""
        self.on_step(Step.COMMITTING, branch.name)
        code = await self._code_of(branch, branch.resource.commit(branch.xid))
        return await self._heard(branch, COMMIT, code, after_commit(code, again), outcomes)

    async def roll_back(self, branch: Branch, outcomes: list[HeuristicOutcome]) -> Answer:
        """Tell ``branch`` to roll back; what it did instead is added to ``outcomes``."""
        self.on_step(Step.ROLLING_BACK, branch.name)
        code = await self._code_of(branch, branch.resource.rollback(branch.xid))
        return await self._heard(branch, ROLLBACK, code, after_rollback(code), outcomes)

    async def _code_of(self, branch: Branch, verb: Awaitable[None]) -> XaCode:
        try:
            await verb
        except XAException as error:
            branch.error = error
            return error.error_code
        return XaCode.XA_OK

    async def _heard(
        self,
        branch: Branch,
        decision: str,
        code: XaCode,
        answer: Answer,
        outcomes: list[HeuristicOutcome],
    ) -> Answer:
        if answer is Answer.HEURISTIC:
            name = BranchName(branch.xid.bqual, branch.name)
            kept = XaCode.XA_HEURHAZ if code == XaCode.XAER_NOTA else code
            outcomes.append(HeuristicOutcome(branch.xid.gtrid, name, decision, kept, now_ms()))
            await self._shared.waits.result_of(self._shared.log.note_heuristic(outcomes[-1]))
        if code in COMPLETED_HEURISTICALLY:  # once it is in the log: else the next recovery finds it
            with suppress(XAException):
                await branch.resource.forget(branch.xid)
        if answer is Answer.UNHEARD:
            self._shared.settled.discard(branch.name)
        else:
            self.on_step(Step.COMMITTED if decision == COMMIT else Step.ROLLED_BACK, branch.name)
        return answer


class Transaction:
    """A transaction; leaving ``async with`` commits it, leaving with an exception rolls it back.

    Made by :meth:`TransactionManager.transaction`. Leaving raises

    * TransactionRolledBackException: a resource refused; nothing of it has happened anywhere;
    * HeuristicMixedException, HeuristicRollbackException, HeuristicCommitException: somebody else decided
      about branches, otherwise; :meth:`TransactionManager.heuristics` keeps which;
    * XAException, DecisionLogException: nobody here knows the outcome (`status` UNKNOWN); recovery decides
      what the log has, and a single resource has decided by itself.
    """

    def __init__(
        self,
        gtrid: bytes,
        resources: tuple[Resource, ...],
        shared: Shared,
        recover: Callable[[Resource], Awaitable[Recovery]],
    ) -> None:
        self._gtrid = gtrid
        self._resources = resources
        self._shared = shared
        self._recover = recover
        self._second_phase = SecondPhase(shared)
        self._branches: list[Branch] = []
        self._unheard: list[str] = []
        self._status = TransactionStatus.NO_TRANSACTION

    @property
    def gtrid(self) -> bytes:
        """Its global transaction id, as the decision log and the resource managers have it."""
        return self._gtrid

    @property
    def status(self) -> TransactionStatus:
        """Where it is."""
        return self._status

    @property
    def unheard(self) -> list[str]:
        """The resource managers that couldn't be told the outcome; the next transaction with them, or
        recovery, tells them.
        """
        return list(self._unheard)

    async def __aenter__(self) -> Transaction:
        if self._status is not TransactionStatus.NO_TRANSACTION:
            raise IllegalStateException("a transaction begins once; ask the manager for another one")
        self._status = TransactionStatus.ACTIVE
        self._shared.live.add(self._gtrid)
        try:
            for resource in self._resources:
                await self.enlist(resource)
        except BaseException:
            await self._shared.waits.to_its_end(self._abandon())
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._shared.waits.to_its_end(self._commit() if error is None else self._abandon())

    async def enlist(self, resource: Resource) -> None:
        """Take a further resource in: what is done in it from now on belongs to the transaction.

        What is left open in it of earlier transactions is ended first.
        """
        if self._status not in (TransactionStatus.ACTIVE, TransactionStatus.MARKED_ROLLBACK):
            raise IllegalStateException(f"the transaction is {self._status.name}: it takes no resource in")
        name = await resource.resource_name()
        if name not in self._shared.settled:
            await self._recover(resource)
        branch = Branch(resource, branch_xid(self._gtrid, len(self._branches), name), name)
        self._notify(Step.STARTING, name)
        self._branches.append(branch)  # even if the answer is lost it may have begun
        await resource.start(branch.xid)
        self._notify(Step.STARTED, name)

    def set_rollback_only(self) -> None:
        """It can't be committed any more."""
        if self._status is not TransactionStatus.ACTIVE:
            raise IllegalStateException(f"the transaction is {self._status.name}")
        self._status = TransactionStatus.MARKED_ROLLBACK

    # --- the first phase

    async def _commit(self) -> None:
        try:
            await self._end_all()
            if len(self._branches) == 1:
                await self._commit_one_phase(self._branches[0])
                return
            voted = await self._prepare_all()
            if voted:
                await self._decide(voted)
                await self._commit_branches(voted)
            self._status = TransactionStatus.COMMITTED
        finally:
            self._shared.live.discard(self._gtrid)

    @asynccontextmanager
    async def _or_rolled_back(self) -> AsyncIterator[None]:
        """One that refuses is the end of all."""
        try:
            yield
        except BaseException as error:
            await self._roll_back()
            raise_rolled_back(error)
            raise

    async def _end_all(self) -> None:
        """Every branch is told that its work is done."""
        async with self._or_rolled_back():
            if self._status is TransactionStatus.MARKED_ROLLBACK:
                raise TransactionRolledBackException("the transaction was marked for rollback only")
            for branch in self._branches:
                self._notify(Step.ENDING, branch.name)
                branch.is_ended = True
                await branch.resource.end(branch.xid, XaFlag.TMSUCCESS)
                self._notify(Step.ENDED, branch.name)

    async def _prepare_all(self) -> list[Branch]:
        """Those that have something to commit."""
        self._status = TransactionStatus.PREPARING
        voted = []
        async with self._or_rolled_back():
            for branch in self._branches:
                self._notify(Step.PREPARING, branch.name)
                if await branch.resource.prepare(branch.xid) != XaCode.XA_RDONLY:
                    voted.append(branch)
                self._notify(Step.PREPARED, branch.name)
        self._status = TransactionStatus.PREPARED
        return voted

    async def _commit_one_phase(self, branch: Branch) -> None:
        """Alone, a resource decides for itself: no log is needed."""
        self._status = TransactionStatus.COMMITTING
        self._notify(Step.COMMITTING, branch.name)
        try:
            await branch.resource.commit(branch.xid, one_phase=True)
        except XAException as error:
            await self._not_committed_one_phase(branch, error)
        self._status = TransactionStatus.COMMITTED
        self._notify(Step.COMMITTED, branch.name)

    async def _not_committed_one_phase(self, branch: Branch, error: XAException) -> None:
        outcomes: list[HeuristicOutcome] = []
        if is_rolled_back(error.error_code):
            self._status = TransactionStatus.ROLLED_BACK
            raise_rolled_back(error)
        self._status = TransactionStatus.UNKNOWN
        if error.error_code not in COMPLETED_HEURISTICALLY:
            raise error
        await self._second_phase.commit(branch, outcomes)
        if outcomes:
            raise heuristic_exception(COMMIT, 1, outcomes) from error

    # --- the decision and the second phase

    async def _decide(self, voted: list[Branch]) -> None:
        names = tuple(BranchName(branch.xid.bqual, branch.name) for branch in voted)
        self._notify(Step.DECIDING, "")
        try:
            written = self._shared.log.commit(Decision(self._gtrid, names, now_ms()))
        except DecisionLogException as error:
            await self._roll_back()
            raise_rolled_back(error)
            raise
        self._status = TransactionStatus.UNKNOWN
        await self._shared.waits.result_of(written)
        self._status = TransactionStatus.COMMITTING
        self._notify(Step.DECIDED, "")

    async def _commit_branches(self, voted: list[Branch]) -> None:
        outcomes: list[HeuristicOutcome] = []
        for branch in voted:
            if await self._second_phase.commit(branch, outcomes) is Answer.UNHEARD:
                self._unheard.append(branch.name)
            else:
                self._shared.log.heard(self._gtrid, branch.xid.bqual)
        if not self._unheard:
            self._notify(Step.FINISHED, "")
        self._status = TransactionStatus.COMMITTED
        if outcomes:
            raise heuristic_exception(COMMIT, len(voted), outcomes)

    async def _abandon(self) -> None:
        try:
            await self._roll_back()
        finally:
            self._shared.live.discard(self._gtrid)

    async def _roll_back(self) -> None:
        """Tell all branches; who can't be told is found by the next recovery, or has rolled back already."""
        self._status = TransactionStatus.ROLLING_BACK
        outcomes: list[HeuristicOutcome] = []
        for branch in self._branches:
            await self._end_in_failure(branch)
            if await self._second_phase.roll_back(branch, outcomes) is Answer.UNHEARD:
                self._unheard.append(branch.name)
        self._status = TransactionStatus.ROLLED_BACK
        if outcomes:
            raise heuristic_exception(ROLLBACK, len(self._branches), outcomes)

    async def _end_in_failure(self, branch: Branch) -> None:
        if branch.is_ended:
            return
        branch.is_ended = True
        with suppress(XAException):  # it says why when it is rolled back
            await branch.resource.end(branch.xid, XaFlag.TMFAIL)

    def _notify(self, step: Step, name: str) -> None:
        self._second_phase.on_step(step, name)


def raise_rolled_back(error: BaseException) -> None:
    """Tell the application that nothing has happened, if it was a resource or the log that said no."""
    if isinstance(error, XAException | DecisionLogException):
        raise TransactionRolledBackException(
            f"the transaction was rolled back: {error.description}", error.condition
        ) from error
