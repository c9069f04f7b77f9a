"""A transaction manager: two-phase commit over the broker and other resource managers: the asyncio face.

.. code-block:: python

    async with TransactionManager("transactions") as manager:
        await manager.recover(session.xa_resource, database)
        async with manager.transaction(session.xa_resource, database):
            order = await consumer.receive(timeout_s=5)
            await connection.execute("INSERT INTO orders VALUES (%s)", [order.body])
            await producer.send(Message(order.body))
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from postroom.client.aio.transaction import Branch, OnStep, Resource, SecondPhase, Transaction
from postroom.client.aio.waiting import result_of
from postroom.client.decision_log import DEFAULT_MAX_UNFINISHED, DecisionLog
from postroom.client.decisions import Decision, HeuristicOutcome
from postroom.client.exceptions import IllegalStateException, XAException
from postroom.client.two_phase import Answer, Recovery, Step, XidMaker
from postroom.model.xa import XaFlag

__all__ = ["TransactionManager"]


def pass_over(step: Step, resource: str) -> None:
    """Nobody wants to know."""


class TransactionManager:
    """Makes transactions over any number of resource managers, and ends those that a crash has left open.

    ``folder`` holds its decision log; no other manager can use it meanwhile. Its transactions have ids that
    begin with the log's own, so several managers may share resource managers: none touches a branch of
    another. ``max_unfinished`` bounds the transactions that wait for a recovery. ``on_step`` is called before
    and after each step of each transaction, with the name of the resource manager ("" for the log's).
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        max_unfinished: int = DEFAULT_MAX_UNFINISHED,
        on_step: OnStep = pass_over,
    ) -> None:
        self._folder = Path(folder)
        self._max_unfinished = max_unfinished
        self._on_step = on_step
        self._opened: tuple[DecisionLog, XidMaker] | None = None
        self._live: set[bytes] = set()
        """Transactions that are under way here; recovery leaves them alone."""

    async def __aenter__(self) -> TransactionManager:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the decision log. Raises DecisionLogException: in use, damaged, or not to be written."""
        if self._opened is None:
            log = DecisionLog(self._folder, self._max_unfinished)
            self._opened = log, XidMaker(log.owner_id, log.epoch)

    async def close(self) -> None:
        """Close the decision log; transactions that haven't decided yet can't commit any more."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def transaction(self, *resources: Resource) -> Transaction:
        """A new transaction over ``resources``, which begins with ``async with``."""
        log, xids = self._open_log()
        return Transaction(xids.new_gtrid(), resources, log, self._live, self._on_step)

    async def recover(self, *resources: Resource) -> Recovery:
        """End what a crash, or a resource manager that couldn't be reached, has left open in ``resources``.

        Branches of transactions that the log says are decided are committed, all others of this manager are
        rolled back; branches of others, and of transactions under way, are left alone. To be called at every
        start, with a resource for each resource manager, and again when one has come back.
        """
        log, xids = self._open_log()
        log.check()
        report = Recovery()
        waiting = [decision for decision in log.decisions() if decision.gtrid not in self._live]
        heard: set[tuple[bytes, bytes]] = set()
        for resource in resources:
            heard |= await self._recover(resource, xids, waiting, report)
        for decision in waiting:
            if all((decision.gtrid, branch.bqual) in heard for branch in decision.branches):
                log.end(decision.gtrid)
        return report

    async def _recover(
        self, resource: Resource, xids: XidMaker, waiting: list[Decision], report: Recovery
    ) -> set[tuple[bytes, bytes]]:
        """The branches of ``waiting`` in this resource manager that have heard, now or before."""
        try:
            name = await resource.resource_name()
            found = await resource.recover(XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)
        except XAException as error:
            report.unreachable.append(error)
            return set()
        unheard = set()
        for xid in found:
            if xids.is_own(xid) and xid.gtrid not in self._live:
                branch = Branch(resource, xid, name)
                if await self._resolve(branch, report) is Answer.UNHEARD:
                    unheard.add((xid.gtrid, xid.bqual))
        return {
            (decision.gtrid, branch.bqual)
            for decision in waiting
            for branch in decision.branches
            if branch.resource == name
        } - unheard

    async def _resolve(self, branch: Branch, report: Recovery) -> Answer:
        log, _ = self._open_log()
        second_phase = SecondPhase(log, self._on_step)
        if log.is_decided(branch.xid.gtrid):
            answer = await second_phase.commit(branch, report.heuristics, again=True)
            done = report.committed
        else:
            answer = await second_phase.roll_back(branch, report.heuristics)
            done = report.rolled_back
        if answer is Answer.HEARD:
            done.append(branch.xid)
        elif branch.error is not None and answer is Answer.UNHEARD:
            report.unreachable.append(branch.error)
        return answer

    def unfinished(self) -> list[Decision]:
        """Transactions that are decided, and of which some branch may not have heard."""
        log, _ = self._open_log()
        return [decision for decision in log.decisions() if decision.gtrid not in self._live]

    def heuristics(self) -> list[HeuristicOutcome]:
        """Branches that somebody else decided about, otherwise: kept until they are forgotten."""
        log, _ = self._open_log()
        return log.heuristics()

    async def forget(self, gtrid: bytes) -> None:
        """Take note of a transaction's heuristic outcomes, or give up an unfinished transaction.

        Branches of it that are still prepared will be rolled back by the next recovery.
        """
        log, _ = self._open_log()
        await result_of(log.forget(gtrid))

    def _open_log(self) -> tuple[DecisionLog, XidMaker]:
        if self._opened is None:
            raise IllegalStateException("the transaction manager is not open")
        return self._opened
