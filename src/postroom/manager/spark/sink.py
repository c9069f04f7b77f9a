"""Spark jobs that write to queues, as the queue manager keeps them: apps and their undecided branches.

An *app* is the name under which a streaming query, or a series of batch writes, writes exactly once. Each
task sends in a *branch* of its own, a transaction that is kept over lost links and restarts; one commit
decides all branches of a batch (see `sinks`). What must outlive them is the app's `state`: which query and
run it belongs to now, and which batches have been decided.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.kernel.errors import LimitExceeded, SinkBranchFull
from postroom.manager.kernel.transaction import Admission, Transaction

if TYPE_CHECKING:
    from postroom.manager.kernel.core import Core

MAX_REMEMBERED_RUNS: Final = 32
"""Earlier runs of one app whose requests are refused; of one that is older nothing is known any more."""
MAX_TEXT_CHARS: Final = 255
"""Of an app's name, and of the ids of queries and runs."""
MAX_DIGEST_CHARS: Final = 128
MAX_OFFSETS_BYTES: Final = 16 << 10
"""Of the text that describes the offsets of a batch."""

_STATE: Final = int(RecordType.SINK_STATE)
_FORGOTTEN: Final = int(RecordType.SINK_FORGOTTEN)


@final
@dataclass(frozen=True)
class SinkContact:
    """Who speaks, and of which batch."""

    app: str
    query_id: str
    run_id: str
    batch_id: int
    digest: str = ""
    """Of what the batch consists of; "" where it isn't known."""
    above: bool = False
    """Rows at or below the recorded position are left out: any batch may be written again."""
    accept_duplicates: bool = False
    """Likewise, and what was written before may be there twice."""
    user: str = ""
    container: str = ""


@final
class SinkApp:
    """One app: what is known of it as long as it isn't forgotten."""

    def __init__(self, id: i64, name: str, query_id: str, run_id: str, user: str, now_us: i64) -> None:
        self.id: i64 = id
        """In the ledger, from the numbers of holders."""
        self.name: Final = name
        self.query_id = query_id
        self.run_id = run_id
        """The one whose requests count."""
        self.past_runs: list[str] = []
        """Earlier ones, the oldest first."""
        self.batches: dict[int, str] = {}
        """The batches of this query that were decided last, in order: digests by id."""
        self.offsets = ""
        """Of the last batch that was decided, whichever query's."""
        self.position: int | None = None
        """The highest that a commit has named."""
        self.user = user
        """Who spoke last."""
        self.since_us: i64 = now_us
        """When it was first heard of."""
        self.decided_us: i64 = 0
        """When its last batch was decided; 0 none was."""
        self.branches: dict[str, SinkBranch] = {}
        """Undecided ones by name, the oldest first."""

    def last_batch(self) -> int:
        """The id of the batch of this query that was decided last; −1: none."""
        return next(reversed(self.batches)) if self.batches else -1


@final
class SinkBranch:
    """What one attempt of a task has sent: its messages are those of its transaction."""

    def __init__(
        self,
        app: SinkApp,
        contact: SinkContact,
        partition: int,
        attempt: int,
        transaction: Transaction,
        now_us: i64,
    ) -> None:
        self.app = app
        self.transaction = transaction
        self.name: str = f"{contact.batch_id}-{partition}-{attempt}-{transaction.id}"
        self.run_id: str = contact.run_id
        self.batch_id: int = contact.batch_id
        self.partition: Final = partition
        self.attempt: Final = attempt
        self.user: str = contact.user
        self.container: str = contact.container
        self.sealed = False
        """Takes nothing more, and can be committed."""
        self.since_us: i64 = now_us
        """When it began or, later, was sealed: its lease runs from here."""
        self.sent: i64 = 0
        """Messages that came, one to a topic counted once, however many subscribe to that."""
        self.bytes: i64 = 0
        """Of the entries in it."""


@final
@dataclass(frozen=True)
class SinkBranchRow:
    """A branch as administrators see it."""

    name: str
    run_id: str
    batch_id: int
    partition: int
    attempt: int
    sealed: bool
    messages: int
    bytes: int
    since_us: int
    until_us: int
    """When its lease ends, µs since 1970."""
    user: str
    container: str


@final
class Sinks:
    """All apps of a queue manager, and what their branches hold together."""

    def __init__(self) -> None:
        self.apps: dict[str, SinkApp] = {}
        self.branches: dict[int, SinkBranch] = {}
        """By the ids of their transactions; the one whose lease ends first is the first."""
        self.messages: i64 = 0
        """Entries in all branches; likewise the next."""
        self.bytes: i64 = 0
        self.leases_ended: i64 = 0
        """Branches that were rolled back because nobody decided them in time."""

    def add(self, branch: SinkBranch) -> None:
        branch.app.branches[branch.name] = branch
        self.branches[int(branch.transaction.id)] = branch

    def remove(self, branch: SinkBranch) -> None:
        """It is decided: with its messages still in it."""
        del branch.app.branches[branch.name]
        del self.branches[int(branch.transaction.id)]
        self.messages -= len(branch.transaction.puts)
        self.bytes -= branch.bytes

    def begin_lease(self, branch: SinkBranch, now_us: i64) -> None:
        """Its lease begins anew."""
        id = int(branch.transaction.id)
        del self.branches[id]
        self.branches[id] = branch
        branch.since_us = now_us


def sinks_of(core: "Core") -> Sinks:
    """Those of a queue manager."""
    return cast(Sinks, core.state(Sinks))


def admit_to_branch(core: "Core", transaction: Transaction, count: i64, size: i64) -> None:
    """``count`` entries of one message, ``size`` bytes each, go into a branch. Raises SinkBranchFull, and
    LimitExceeded where all branches together hold as much as they may."""
    sinks, options = sinks_of(core), core.options
    if len(transaction.puts) + count > transaction.max_entries:
        raise SinkBranchFull(
            f"a sink branch holds {transaction.max_entries} messages (max_sink_branch_messages): seal it and "
            "begin another"
        )
    if sinks.messages + count > options.max_sink_messages:
        raise LimitExceeded(
            f"sink branches hold {options.max_sink_messages} undecided messages (max_sink_messages): commit "
            "smaller batches, or roll back what is left of others"
        )
    if sinks.bytes + count * size > options.max_sink_bytes:
        raise LimitExceeded(
            f"sink branches hold {options.max_sink_bytes} undecided bytes (max_sink_bytes): commit smaller "
            "batches, or roll back what is left of others"
        )
    sinks.messages += count
    sinks.bytes += count * size
    branch = sinks.branches[int(transaction.id)]
    branch.bytes += count * size
    branch.sent += 1


# --- the ledger -----------------------------------------------------------------------------------


def detail_of(branch: SinkBranch) -> bytes:
    """What the ledger is told of a branch as a holder; its name there says whose it is, too."""
    record: dict[str, object] = {
        "name": f"{branch.name}@{branch.app.name}",
        "app": branch.app.name,
        "run_id": branch.run_id,
        "batch_id": branch.batch_id,
        "partition": branch.partition,
        "attempt": branch.attempt,
        "container": branch.container,
        "user": branch.user,
        "since_us": int(branch.since_us),
        "sealed": branch.sealed,
        "sent": int(branch.sent),
    }
    return json.dumps(record, ensure_ascii=False).encode()


def record_state(core: "Core", app: SinkApp) -> None:
    """Write the app's state to the ledger: with a decision, in its block."""
    record: dict[str, object] = {
        "app": app.name,
        "query_id": app.query_id,
        "run_id": app.run_id,
        "past_runs": app.past_runs,
        "batches": [[batch_id, digest] for batch_id, digest in app.batches.items()],
        "offsets": app.offsets,
        "position": app.position,
        "user": app.user,
        "since_us": int(app.since_us),
        "decided_us": int(app.decided_us),
    }
    core.ledger.record(_STATE, 0, 0, app.id, 0, 0, json.dumps(record, ensure_ascii=False).encode())


def record_forgotten(core: "Core", app: SinkApp) -> None:
    core.ledger.record(_FORGOTTEN, 0, 0, app.id, 0, 0, b"")
    core.holders.ids.give_back(app.id)


def restored_app(id: i64, record: dict[str, Any]) -> SinkApp:
    """The app that `record_state` wrote."""
    since_us: i64 = int(record["since_us"])
    app = SinkApp(
        id, str(record["app"]), str(record["query_id"]), str(record["run_id"]), str(record["user"]), since_us
    )
    app.past_runs = [str(run) for run in record["past_runs"]]
    app.batches = {int(batch_id): str(digest) for batch_id, digest in record["batches"]}
    app.offsets = str(record["offsets"])
    position = record["position"]
    app.position = None if position is None else int(position)
    app.decided_us = int(record["decided_us"])
    return app


@final
class SinkAdmission(Admission):
    """What one branch, and all together, may hold."""

    def __init__(self, core: "Core") -> None:
        self._core = core

    def admit(self, transaction: Transaction, count: i64, size: i64) -> None:
        admit_to_branch(self._core, transaction, count, size)
