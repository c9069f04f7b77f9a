"""The verbs of Spark sinks: what tasks and drivers say of branches and batches.

Nobody's word is believed but what is recorded here. A batch is decided once: its commit names the branches
that win; they become available, every other branch of the app up to that batch is rolled back, and the app's
state records the batch, all in one block. A run that was never seen before ends all earlier ones: their
branches are rolled back and their requests refused, so that a driver that was only slow can't commit what
another has taken over.
"""

from typing import TYPE_CHECKING, Any, Final, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.effects import Alarm
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import (
    LimitExceeded,
    RequestInvalid,
    SinkBatchReplaced,
    SinkBranchOpen,
    SinkBranchSpoiled,
    SinkBranchUnknown,
    SinkFenced,
    SinkQueryReplaced,
    SinkUnknown,
)
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.queues.duplicate_detection import HAS_TWIN, has_twin
from postroom.manager.spark.sink import (
    MAX_REMEMBERED_RUNS,
    SinkAdmission,
    SinkApp,
    SinkBranch,
    SinkContact,
    detail_of,
    record_forgotten,
    record_state,
    restored_app,
    sinks_of,
)
from postroom.manager.transactions import commit as transactions
from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import HolderRow, Recovered

LEASE_ENDED: Final = "sink-lease-ended"
"""The alarm's name in the log."""


def find(core: Core, name: str) -> SinkApp:
    """The app of that name; raises SinkUnknown."""
    app = sinks_of(core).apps.get(name)
    if app is None:
        raise SinkUnknown(f"there is no sink {name!r}")
    return app


# --- tasks ----------------------------------------------------------------------------------------


def begin(core: Core, contact: SinkContact, partition: int, attempt: int) -> SinkBranch | None:
    """A branch for an attempt of a task; None: its batch is decided, there is nothing to send."""
    sinks = sinks_of(core)
    app = _hear(core, contact)
    if _is_decided(app, contact):
        return None
    limit = core.options.max_sink_branches
    if len(sinks.branches) >= limit:
        raise LimitExceeded(
            f"{limit} undecided sink branches are the limit (max_sink_branches): commit with fewer tasks, or "
            "roll back what is left of other sinks"
        )
    entries = core.options.max_sink_branch_messages
    transaction = Transaction(core.holders.ids.take(), core.now_us, n.SPARK_BRANCH, entries, b"")
    transaction.admission = SinkAdmission(core)
    branch = SinkBranch(app, contact, partition, attempt, transaction, core.now_us)
    transaction.detail = detail_of(branch)
    sinks.add(branch)
    return branch


def _is_decided(app: SinkApp, contact: SinkContact) -> bool:
    """Whether nothing is to be sent for this batch. Raises SinkBatchReplaced where what was decided under
    its id is known to be another one."""
    batch_id, digest = contact.batch_id, contact.digest
    if batch_id > app.last_batch() or (contact.above and app.position is not None):
        return False
    if contact.accept_duplicates:
        return digest != "" and app.batches.get(batch_id) == digest
    if digest != "" and app.batches.get(batch_id) != digest:
        _refuse_batch(app, contact)
    return True


def seal(core: Core, name: str, branch_name: str) -> SinkBranch:
    """The branch takes nothing more, and can be committed when this is durable; again: the same answer.

    Raises SinkBranchUnknown; SinkBranchSpoiled (it has been rolled back) where something of it was refused.
    """
    branch = _find_branch(core, name, branch_name)
    transaction = branch.transaction
    if branch.sealed:
        return branch
    if transaction.failed == "" and has_twin(transaction):
        transaction.failed = HAS_TWIN
    if transaction.failed != "":
        why, condition = transaction.failed, transaction.condition
        _roll_back(core, branch, why)
        raise SinkBranchSpoiled(f"branch {branch_name!r} has been rolled back: {why}", condition)
    transaction.ended = True
    branch.sealed = True
    sinks_of(core).begin_lease(branch, core.now_us)
    transaction.detail = detail_of(branch)
    transaction.recorded = True
    core.holders.open(transaction.id, n.SPARK_BRANCH, transaction.detail)
    return branch


def _find_branch(core: Core, name: str, branch_name: str) -> SinkBranch:
    app = sinks_of(core).apps.get(name)
    branch = None if app is None else app.branches.get(branch_name)
    if branch is None:
        raise SinkBranchUnknown(
            f"sink {name!r} has no branch {branch_name!r} (any more): it was decided, or its lease has ended",
            {"branches": [branch_name]},
        )
    return branch


def rollback(core: Core, name: str, branch_name: str) -> int:
    """Nothing of this branch, or ("") of any of the app's, takes effect; how many there were."""
    app = sinks_of(core).apps.get(name)
    found: list[SinkBranch] = []
    if app is not None:
        found = [branch for branch in app.branches.values() if branch_name in ("", branch.name)]
    for branch in found:
        _roll_back(core, branch, f"branch {branch.name!r} has been rolled back")
    return len(found)


def lose(core: Core, transaction: Transaction, why: str) -> None:
    """Of the branch that has this transaction something is taken away: its batch can't be committed."""
    branch = sinks_of(core).branches.get(int(transaction.id))
    if branch is not None:
        _roll_back(core, branch, why)


def _roll_back(core: Core, branch: SinkBranch, why: str) -> None:
    transaction = branch.transaction
    sinks_of(core).remove(branch)
    transaction.failed = why
    transactions.decide_against(core, transaction, n.EVENT_UNDO)
    transactions.close(core, transaction)


# --- drivers --------------------------------------------------------------------------------------


def commit(
    core: Core, contact: SinkContact, offsets: str, position: int | None, names: list[str]
) -> tuple[bool, int]:
    """Decide for the branches of these names, in this order, and against all others of the app up to this
    batch. (True, messages), or (False, 0) where the batch was decided before as it is.

    Raises SinkFenced, SinkQueryReplaced, SinkBatchReplaced, SinkBranchUnknown, SinkBranchOpen,
    SinkBranchSpoiled, RequestInvalid; then nothing is decided.
    """
    app = _hear(core, contact)
    batch_id = contact.batch_id
    if batch_id in app.batches and app.batches[batch_id] == contact.digest:
        _lose(core, app, batch_id)
        return False, 0
    if batch_id <= app.last_batch() and not _may_repeat(app, contact):
        _refuse_batch(app, contact)
    winners = _winners(core, app, contact, names)
    _refuse_twins(core, winners)
    messages = 0
    for branch in winners:
        messages += len(branch.transaction.puts)
        sinks_of(core).remove(branch)
        transactions.decide_for(core, branch.transaction)
        transactions.close(core, branch.transaction)
    _lose(core, app, batch_id)
    _remember(core, app, contact, offsets, position)
    return True, messages


def _winners(core: Core, app: SinkApp, contact: SinkContact, names: list[str]) -> list[SinkBranch]:
    if len(set(names)) != len(names):
        raise RequestInvalid(f"a branch is named twice among the {len(names)} of the commit")
    gone: list[str] = []
    found: list[SinkBranch] = []
    for name in names:
        branch = app.branches.get(name)
        if branch is None or branch.run_id != contact.run_id or branch.batch_id != contact.batch_id:
            gone.append(name)
        elif not branch.sealed:
            raise SinkBranchOpen(f"branch {name!r} has not been sealed: not all of it may have come")
        else:
            found.append(branch)
    if gone:
        raise SinkBranchUnknown(
            f"sink {app.name!r} has no branch {gone[0]!r} (any more) of batch {contact.batch_id} of this run "
            f"({len(gone)} of {len(names)} are gone): run the batch again",
            {"branches": gone},
        )
    return found


def _refuse_twins(core: Core, winners: list[SinkBranch]) -> None:
    """Nothing is taken twice: raises SinkBranchSpoiled, the branch rolled back, where something would be."""
    seen: set[object] = set()
    for branch in winners:
        ids = branch.transaction.message_ids
        if has_twin(branch.transaction) or not seen.isdisjoint(ids):
            _roll_back(core, branch, HAS_TWIN)
            raise SinkBranchSpoiled(f"branch {branch.name!r} has been rolled back: {HAS_TWIN}", "")
        seen.update(ids)


def _lose(core: Core, app: SinkApp, batch_id: int) -> None:
    """The batch is decided: what is left of it, or of those before, has lost."""
    losers = [branch for branch in app.branches.values() if branch.batch_id <= batch_id]
    for branch in losers:
        _roll_back(core, branch, f"batch {batch_id} of sink {app.name!r} has been committed without it")


def _remember(core: Core, app: SinkApp, contact: SinkContact, offsets: str, position: int | None) -> None:
    """This batch is the last that was decided: one of its id, and those behind it, are written anew."""
    before = {batch_id: digest for batch_id, digest in app.batches.items() if batch_id < contact.batch_id}
    before[contact.batch_id] = contact.digest
    while len(before) > core.options.sink_batches_remembered:
        del before[next(iter(before))]
    app.batches = before
    app.offsets = offsets
    if position is not None and (app.position is None or position > app.position):
        app.position = position
    app.user = contact.user
    app.decided_us = core.now_us
    record_state(core, app)


def forget(core: Core, name: str) -> int:
    """Nothing is known of the app any more, its branches are rolled back; how many those were. Raises
    SinkUnknown."""
    app = find(core, name)
    count = rollback(core, name, "")
    del sinks_of(core).apps[name]
    record_forgotten(core, app)
    return count


# --- queries and runs -----------------------------------------------------------------------------


def _hear(core: Core, contact: SinkContact) -> SinkApp:
    """The app, if it listens to this query and run: a new one begins here. Raises SinkFenced,
    SinkQueryReplaced, LimitExceeded."""
    app = sinks_of(core).apps.get(contact.app)
    if app is None:
        return _new_app(core, contact)
    if contact.run_id in app.past_runs:
        raise SinkFenced(
            f"run {contact.run_id!r} of sink {app.name!r} is over: run {app.run_id!r} has taken its place",
            {"app": app.name, "run_id": app.run_id},
        )
    is_other_query = contact.query_id != app.query_id
    if is_other_query and not _may_repeat(app, contact):
        raise SinkQueryReplaced(
            f"sink {app.name!r} is written to by query {app.query_id!r}, not by {contact.query_id!r}: was "
            "its checkpoint lost? Say abovePosition, or acceptDuplicates, or take another app",
            _record_of(app),
        )
    if is_other_query or contact.run_id != app.run_id:
        _take_over(core, app, contact)
    return app


def _new_app(core: Core, contact: SinkContact) -> SinkApp:
    sinks = sinks_of(core)
    limit = core.options.max_sinks
    if len(sinks.apps) >= limit:
        raise LimitExceeded(f"{limit} sinks are the limit (max_sinks): forget those that write no more")
    id = core.holders.ids.take()
    app = SinkApp(id, contact.app, contact.query_id, contact.run_id, contact.user, core.now_us)
    sinks.apps[contact.app] = app
    record_state(core, app)
    return app


def _may_repeat(app: SinkApp, contact: SinkContact) -> bool:
    """Whether what was decided before may be written over: nothing was, or the user has said how."""
    if app.decided_us == 0 or contact.accept_duplicates:
        return True
    return contact.above and app.position is not None


def _take_over(core: Core, app: SinkApp, contact: SinkContact) -> None:
    """Another run, or query, writes from now on: what the one before has not committed is rolled back."""
    for branch in list(app.branches.values()):
        _roll_back(core, branch, f"another run of sink {app.name!r} has begun: {contact.run_id!r}")
    if contact.run_id != app.run_id:
        app.past_runs = [*app.past_runs, app.run_id][-MAX_REMEMBERED_RUNS:]
        app.run_id = contact.run_id
    if contact.query_id != app.query_id:
        app.query_id = contact.query_id
        app.batches = {}
    app.user = contact.user
    record_state(core, app)


def _refuse_batch(app: SinkApp, contact: SinkContact) -> None:
    recorded = app.batches.get(contact.batch_id, "")
    raise SinkBatchReplaced(
        f"batch {contact.batch_id} of sink {app.name!r} was decided with other offsets (digest {recorded!r}, "
        f"not {contact.digest!r}): was the end of its checkpoint lost? Say abovePosition or acceptDuplicates",
        _record_of(app) | {"batch_id": contact.batch_id, "digest": recorded, "given_digest": contact.digest},
    )


def _record_of(app: SinkApp) -> dict[str, object]:
    """What is recorded, for who has to choose."""
    return {
        "app": app.name,
        "query_id": app.query_id,
        "batch_id": app.last_batch(),
        "offsets": app.offsets,
        "position": app.position,
    }


# --- time and restarts ----------------------------------------------------------------------------


def restore(core: Core, recovered: "Recovered") -> dict[int, Transaction]:
    """The apps, and the branches that were undecided before the start, by their ids as holders."""
    sinks = sinks_of(core)
    for id, record in recovered.sinks:
        app = restored_app(id, record)
        sinks.apps[app.name] = app
    rows = [row for row in recovered.holders if row.holder_kind == n.SPARK_BRANCH]
    rows.sort(key=lambda row: int(row.detail["since_us"]))
    found: dict[int, Transaction] = {}
    for row in rows:
        branch = _restored_branch(core, row)
        sinks.add(branch)
        found[row.holder] = branch.transaction
    return found


def _restored_branch(core: Core, row: "HolderRow") -> SinkBranch:
    record: dict[str, Any] = row.detail
    app = sinks_of(core).apps[str(record["app"])]
    limit = core.options.max_sink_branch_messages
    transaction = Transaction(row.holder, core.now_us, n.SPARK_BRANCH, limit, b"")
    transaction.admission = SinkAdmission(core)
    contact = SinkContact(
        app.name,
        app.query_id,
        str(record["run_id"]),
        int(record["batch_id"]),
        user=str(record["user"]),
        container=str(record["container"]),
    )
    partition, attempt, since_us = int(record["partition"]), int(record["attempt"]), int(record["since_us"])
    branch = SinkBranch(app, contact, partition, attempt, transaction, since_us)
    branch.sealed, branch.sent = bool(record["sealed"]), int(record["sent"])
    transaction.detail = detail_of(branch)
    transaction.recorded = True
    transaction.ended = branch.sealed
    return branch


def restore_held(core: Core, transaction: Transaction, entry: Entry) -> None:
    """Give an entry back to the branch that held it; those of one message come one after another."""
    sinks = sinks_of(core)
    branch = sinks.branches[int(transaction.id)]
    if not branch.sealed and (not transaction.puts or transaction.puts[-1].serial != entry.serial):
        branch.sent += 1
    entry.owner = transaction
    transaction.puts.append(entry)
    sinks.messages += 1
    sinks.bytes += entry.body_len
    branch.bytes += entry.body_len


@final
class SinkPart(TurnPart):
    """Sinks of which nothing is heard come to their end."""

    def time_out(self, core: Core) -> None:
        """Roll back branches that nobody has decided within their lease."""
        sinks = sinks_of(core)
        due_us = self.next_timeout_us(core)
        while due_us != 0 and due_us <= core.now_us:
            branch = next(iter(sinks.branches.values()))
            count, app = len(branch.transaction.puts), branch.app.name
            lease_ms = core.options.sink_branch_lease_ms
            why = f"nobody has committed it within {lease_ms} ms (sink_branch_lease_ms)"
            _roll_back(core, branch, why)
            sinks.leases_ended += 1
            text = f"branch {branch.name!r} with {count} messages has been rolled back: {why}"
            core.effects.alarms.append(Alarm(LEASE_ENDED, app, text))
            core.ledger.boundary()
            due_us = self.next_timeout_us(core)

    def next_timeout_us(self, core: Core) -> i64:
        sinks = sinks_of(core)
        if not sinks.branches:
            return 0
        return next(iter(sinks.branches.values())).since_us + core.options.sink_branch_lease_ms * 1000
