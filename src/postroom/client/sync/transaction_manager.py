"""A transaction manager: two-phase commit over the broker and other resource managers: the sync face.

Generated from aio/transaction_manager.py by tools/async_to_sync.py: change that, and run the tool.

.. code-block:: python

    with TransactionManager("transactions") as manager:
        manager.recover(session.xa_resource, database)
        with manager.transaction(session.xa_resource, database):
            order = consumer.receive(timeout_s=5)
            connection.execute("INSERT INTO orders VALUES (%s)", [order.body])
            producer.send(Message(order.body))
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from postroom.client.aio import transaction_manager as aio
from postroom.client.aio.transaction import OnStep
from postroom.client.aio.transaction_manager import pass_over
from postroom.client.sync.caller import Driven, awaited, waiting_here
from postroom.client.sync.transaction import Resource, Transaction
from postroom.client.transactions.decision_log import DEFAULT_MAX_UNFINISHED
from postroom.client.transactions.decision_records import Decision, HeuristicOutcome
from postroom.client.transactions.two_phase import Recovery

__all__ = ["TransactionManager"]


class TransactionManager(Driven[aio.TransactionManager]):
    """Makes transactions over any number of resource managers, and ends those that a crash has left open.

    ``folder`` holds its decision log; no other manager can use it meanwhile. Its transactions have ids that
    begin with the log's own, so several managers may share resource managers: none touches a branch of
    another. ``max_unfinished`` bounds the transactions that wait for a recovery. ``on_step`` is called before
    and after each step of each transaction, with the name of the resource manager ("" for the log's).
    """

    def __init__(
        self, folder: str | Path, *, max_unfinished: int = DEFAULT_MAX_UNFINISHED, on_step: OnStep = pass_over
    ) -> None:
        self._inner = waiting_here(
            aio.TransactionManager(folder, max_unfinished=max_unfinished, on_step=on_step)
        )

    def __enter__(self) -> TransactionManager:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Open the decision log. Raises DecisionLogException: in use, damaged, or not to be written."""
        self._portal.call(self._inner.open())

    def close(self) -> None:
        """Close the decision log; transactions that haven't decided yet can't commit any more."""
        self._portal.call(self._inner.close())

    def transaction(self, *resources: Resource) -> Transaction:
        """A new transaction over ``resources``, which begins with ``with``."""
        return Transaction(self._inner.transaction(*map(awaited, resources)))

    def recover(self, *resources: Resource) -> Recovery:
        """End what a crash, or a resource manager that couldn't be reached, has left open in ``resources``.

        Branches of transactions that the log says are decided are committed, all others of this manager are
        rolled back; branches of others, and of transactions under way, are left alone. To be called at every
        start, with a resource for each resource manager. A transaction does it by itself for those that were
        not recovered since, or couldn't be told something.
        """
        return self._portal.call(self._inner.recover(*map(awaited, resources)))

    def unfinished(self) -> list[Decision]:
        """Transactions that are decided, and of which some branch may not have heard."""
        return self._inner.unfinished()

    def heuristics(self) -> list[HeuristicOutcome]:
        """Branches that somebody else decided about, otherwise: kept until they are forgotten."""
        return self._inner.heuristics()

    def forget(self, gtrid: bytes) -> None:
        """Take note of a transaction's heuristic outcomes, or give up an unfinished transaction.

        Branches of it that are still prepared will be rolled back by the next recovery.
        """
        self._portal.call(self._inner.forget(gtrid))
