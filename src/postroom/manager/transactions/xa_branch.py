"""An XA branch and the sessions that work on branches, as the queue manager keeps them (see `model.xa`)."""

import heapq
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.transaction import Admission, Transaction, check_bound
from postroom.model.xa import UNPREPARED, BranchState, XaCode, Xid

if TYPE_CHECKING:
    pass

HEURISTIC: Final = "heuristic"
"""In the detail of a branch as a holder: how an administrator has decided."""
DECIDED_BY: Final = "decided_by"
"""Likewise: who that was."""
HEURISTIC_STATES: Final = {
    "committed": BranchState.HEURISTICALLY_COMMITTED,
    "rolled back": BranchState.HEURISTICALLY_ROLLED_BACK,
}


SPARE_DEADLINES: Final = 64
"""So many deadlines may mean nothing any more, beside as many as there are, before they are dropped."""


@final
class XaSession:
    """Someone who works on branches, one at a time: an AMQP session."""

    def __init__(self, container: str, user: str) -> None:
        self.container: Final = container
        self.user: Final = user
        self.branch: Branch | None = None
        """What it works on."""
        self.ended: dict[int, Branch] = {}
        """Branches not prepared yet that it was the last to work on; they go with it if it is lost."""
        self.local_work = False
        """Whether local transactions are open beside; the server's."""
        self.scanning = False
        """Whether a scan of ``recover`` is open."""
        self.closed = False


@final
class Branch:
    """One branch: its messages are those of its transaction."""

    def __init__(self, xid: Xid, transaction: "Transaction", container: str, user: str, now_us: i64) -> None:
        self.xid: Final = xid
        self.transaction = transaction
        self.container: Final = container
        self.user: Final = user
        self.state = BranchState.ACTIVE
        self.since_us: i64 = now_us
        """When it came to its state."""
        self.active_us: i64 = now_us
        """When something last happened in it."""
        self.deadline_us: i64 = 0
        """When it is rolled back unless it is prepared, by the timeout that it was started with; 0: when
        nothing has been heard of it for too long."""
        self.code = XaCode.XA_OK
        """Rolled back: why, for whoever asks."""
        self.why = ""
        """Likewise, for people."""
        self.decided_by = ""
        """Heuristically decided: the user that did so."""
        self.sessions: list[XaSession] = []
        """Those that work on it."""
        self.last_session: XaSession | None = None
        """While none does and it is not prepared: the last one that did."""


@final
@dataclass(frozen=True)
class BranchRow:
    """A branch as administrators see it."""

    xid: Xid
    state: BranchState
    since_us: int
    """When it came to its state, µs since 1970."""
    active_us: int
    """When something last happened in it."""
    puts: int
    """Messages put in it and not decided; likewise the next."""
    receipts: int
    container: str
    user: str
    decided_by: str
    """Of a heuristic outcome: who decided; "" otherwise."""


def row_of(branch: Branch) -> BranchRow:
    transaction = branch.transaction
    return BranchRow(
        xid=branch.xid,
        state=branch.state,
        since_us=int(branch.since_us),
        active_us=int(branch.active_us),
        puts=len(transaction.puts),
        receipts=len(transaction.receipts),
        container=branch.container,
        user=branch.user,
        decided_by=branch.decided_by,
    )


def detail_of(branch: Branch) -> bytes:
    """What the ledger is told of it as a holder: its Xid as the name."""
    record: dict[str, object] = {"name": str(branch.xid), "container": branch.container, "user": branch.user}
    if branch.state not in UNPREPARED:
        record["since_us"] = int(branch.since_us)
    for word, state in HEURISTIC_STATES.items():
        if branch.state == state:
            record[HEURISTIC] = word
            record[DECIDED_BY] = branch.decided_by
    return json.dumps(record, ensure_ascii=False).encode()


@final
class Branches:
    """All branches of a queue manager."""

    def __init__(self) -> None:
        self.by_xid: dict[Xid, Branch] = {}
        self.silent: dict[int, Branch] = {}
        """Those that time out by silence, by the ids of their transactions, the longest silent first."""
        self.limited: dict[int, Branch] = {}
        """Those that have deadlines of their own, likewise, in no order."""
        self._deadlines: list[tuple[int, int]] = []
        """A heap of those deadlines and ids, and of some that mean nothing any more."""
        self.rolled_back: dict[int, Branch] = {}
        """Those that are only remembered, the oldest first."""

    def add(self, branch: Branch) -> None:
        """A new one, or one from before the start."""
        self.by_xid[branch.xid] = branch
        self.place(branch)

    def place(self, branch: Branch) -> None:
        """Its state has changed, or something has happened in it."""
        id = int(branch.transaction.id)
        self.silent.pop(id, None)
        self.limited.pop(id, None)
        if branch.state in UNPREPARED:
            if branch.deadline_us != 0:
                self.limited[id] = branch
            else:
                self.silent[id] = branch
        elif branch.state == BranchState.ROLLBACK_ONLY:
            self.rolled_back[id] = branch

    def limit(self, branch: Branch, deadline_us: i64) -> None:
        """It is to be prepared by then."""
        branch.deadline_us = deadline_us
        self.place(branch)
        if len(self._deadlines) > SPARE_DEADLINES + 2 * len(self.limited):
            self._deadlines = [(int(one.deadline_us), id) for id, one in self.limited.items()]
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, (int(deadline_us), int(branch.transaction.id)))

    def first_limited(self) -> Branch | None:
        """The one with the soonest deadline."""
        while self._deadlines:
            deadline_us, id = self._deadlines[0]
            branch = self.limited.get(id)
            if branch is not None and branch.deadline_us == deadline_us:
                return branch
            heapq.heappop(self._deadlines)
        return None

    def unprepared(self, transaction_id: i64) -> Branch | None:
        """The branch of that transaction, if it can time out."""
        id = int(transaction_id)
        branch = self.silent.get(id)
        return branch if branch is not None else self.limited.get(id)

    def touch(self, transaction_id: i64, now_us: i64) -> None:
        """Something was put or taken in it."""
        limited = self.limited.get(int(transaction_id))
        if limited is not None:
            limited.active_us = now_us
            return
        branch = self.silent.pop(int(transaction_id), None)
        if branch is not None:
            branch.active_us = now_us
            self.silent[int(transaction_id)] = branch

    def remove(self, branch: Branch) -> None:
        """Nothing is known of it any more."""
        id = int(branch.transaction.id)
        del self.by_xid[branch.xid]
        self.silent.pop(id, None)
        self.limited.pop(id, None)
        self.rolled_back.pop(id, None)
        for session in branch.sessions:
            session.branch = None
        branch.sessions = []
        self.unkeep(branch)

    def unkeep(self, branch: Branch) -> None:
        """It no longer goes with the session that was the last to work on it."""
        if branch.last_session is not None:
            del branch.last_session.ended[int(branch.transaction.id)]
            branch.last_session = None


def branches_of(core: Core) -> Branches:
    """Those of a queue manager."""
    return cast(Branches, core.state(Branches))


@final
class XaAdmission(Admission):
    """Whoever works in a branch is heard of; the bound is that of its entries."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def admit(self, transaction: Transaction, count: i64, size: i64) -> None:
        branches_of(self._core).touch(transaction.id, self._core.now_us)
        check_bound(self._core, transaction, count)
