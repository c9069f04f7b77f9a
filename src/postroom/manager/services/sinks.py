"""Spark sinks of one queue manager, for the tasks and drivers that write and for administrators."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.spark import sink_verbs as sinks
from postroom.manager.spark.sink import SinkApp, SinkBranch, SinkBranchRow, SinkContact, sinks_of
from postroom.manager.turn import Command


@final
class SinkService:
    """Apps by name, and their branches. What is refused, `sinks` says."""

    def __init__(self, core: Core) -> None:
        self._core: Final = core

    def begin(self, contact: SinkContact, partition: int, attempt: int, now_us: i64) -> SinkBranch | None:
        """A branch for an attempt of a task: puts are in it when they name its transaction. None: its batch
        is decided. Raises SinkFenced, SinkQueryReplaced, SinkBatchReplaced, LimitExceeded."""
        with Command(self._core, now_us):
            return sinks.begin(self._core, contact, partition, attempt)

    def seal(self, app: str, branch: str, now_us: i64) -> SinkBranch:
        """It takes nothing more; once durable it can be committed, whatever fails. Raises SinkBranchUnknown,
        SinkBranchSpoiled."""
        with Command(self._core, now_us):
            return sinks.seal(self._core, app, branch)

    def commit(
        self, contact: SinkContact, offsets: str, position: int | None, names: list[str], now_us: i64
    ) -> tuple[bool, int]:
        """Decide a batch in one block, for the branches of these names and against the others: (True,
        messages); (False, 0): it was decided before. Raises SinkError, RequestInvalid."""
        with Command(self._core, now_us):
            return sinks.commit(self._core, contact, offsets, position, names)

    def rollback(self, app: str, branch: str, now_us: i64) -> int:
        """Decide against one branch, "" all of the app's; how many there were: none where it is decided."""
        with Command(self._core, now_us):
            return sinks.rollback(self._core, app, branch)

    def forget(self, app: str, now_us: i64) -> int:
        """Nothing is known of the app any more; how many branches that rolled back. Raises SinkUnknown."""
        with Command(self._core, now_us):
            return sinks.forget(self._core, app)

    def find(self, app: str) -> SinkApp:
        """The app of that name; raises SinkUnknown."""
        return sinks.find(self._core, app)

    def all(self) -> list[SinkApp]:
        """Every app, the oldest first."""
        return list(sinks_of(self._core).apps.values())

    def holder_of(self, app: str, branch: str) -> int:
        """The number of an undecided branch as a holder; 0 where there is no such branch."""
        known = sinks_of(self._core).apps.get(app)
        found = None if known is None else known.branches.get(branch)
        return 0 if found is None else int(found.transaction.id)

    def branches(self, app: SinkApp) -> list[SinkBranchRow]:
        """Its undecided branches."""
        lease_us = self._core.options.sink_branch_lease_ms * 1000
        return [_row(branch, lease_us) for branch in app.branches.values()]


def _row(branch: SinkBranch, lease_us: int) -> SinkBranchRow:
    return SinkBranchRow(
        name=branch.name,
        run_id=branch.run_id,
        batch_id=branch.batch_id,
        partition=branch.partition,
        attempt=branch.attempt,
        sealed=branch.sealed,
        messages=len(branch.transaction.puts),
        bytes=int(branch.bytes),
        since_us=int(branch.since_us),
        until_us=int(branch.since_us) + lease_us,
        user=branch.user,
        container=branch.container,
    )
