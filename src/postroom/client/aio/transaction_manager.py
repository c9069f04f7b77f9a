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

from postroom.client.aio.transaction import Branch, OnStep, Resource, SecondPhase, Shared, Transaction, Waits
from postroom.client.exceptions import IllegalStateException, XAException
from postroom.client.transactions.decision_log import DEFAULT_MAX_UNFINISHED, DecisionLog
from postroom.client.transactions.decision_records import Decision, HeuristicOutcome
from postroom.client.transactions.two_phase import Answer, Recovery, Step, XidMaker
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
        self._waits = Waits()
        self._opened: tuple[Shared, XidMaker] | None = None

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
            self._opened = Shared(log, self._on_step, self._waits), XidMaker(log.owner_id, log.epoch)

    async def close(self) -> None:
        """Close the decision log; transactions that haven't decided yet can't commit any more."""
        if self._opened is not None:
            self._opened[0].log.close()
            self._opened = None

    def transaction(self, *resources: Resource) -> Transaction:
        """A new transaction over ``resources``, which begins with ``async with``."""
        shared, xids = self._open_state()
        return Transaction(xids.new_gtrid(), resources, shared, self.recover)

    async def recover(self, *resources: Resource) -> Recovery:
        """End what a crash, or a resource manager that couldn't be reached, has left open in ``resources``.

        Branches of transactions that the log says are decided are committed, all others of this manager are
        rolled back; branches of others, and of transactions under way, are left alone. To be called at every
        start, with a resource for each resource manager. A transaction does it by itself for those that were
        not recovered since, or couldn't be told something.
        """
        shared, _ = self._open_state()
        shared.log.check()
        report = Recovery()
        waiting = self.unfinished()
        for resource in resources:
            for gtrid, bqual in await self._recover(resource, waiting, report):
                shared.log.heard(gtrid, bqual)
        return report

    async def _recover(
        self, resource: Resource, waiting: list[Decision], report: Recovery
    ) -> set[tuple[bytes, bytes]]:
        """The branches of ``waiting`` in this resource manager that have heard, now or before."""
        shared, xids = self._open_state()
        under_way = set(shared.live)
        try:
            name = await resource.resource_name()
            found = await resource.recover(XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)
        except XAException as error:
            report.unreachable.append(error)
            return set()
        unheard = set()
        for xid in found:
            if xids.is_own(xid) and xid.gtrid not in under_way | shared.live:
                branch = Branch(resource, xid, name)
                if await self._resolve(branch, report) is Answer.UNHEARD:
                    unheard.add((xid.gtrid, xid.bqual))
        if not unheard:
            shared.settled.add(name)
        return {
            (decision.gtrid, branch.bqual)
            for decision in waiting
            for branch in decision.branches
            if branch.resource == name
        } - unheard

    async def _resolve(self, branch: Branch, report: Recovery) -> Answer:
        shared, _ = self._open_state()
        second_phase = SecondPhase(shared)
        if shared.log.is_decided(branch.xid.gtrid):
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
        shared, _ = self._open_state()
        return [each for each in shared.log.decisions() if each.gtrid not in shared.live]

    def heuristics(self) -> list[HeuristicOutcome]:
        """Branches that somebody else decided about, otherwise: kept until they are forgotten."""
        return self._open_state()[0].log.heuristics()

    async def forget(self, gtrid: bytes) -> None:
        """Take note of a transaction's heuristic outcomes, or give up an unfinished transaction.

        Branches of it that are still prepared will be rolled back by the next recovery.
        """
        await self._waits.result_of(self._open_state()[0].log.forget(gtrid))

    def _open_state(self) -> tuple[Shared, XidMaker]:
        if self._opened is None:
            raise IllegalStateException("the transaction manager is not open")
        return self._opened
