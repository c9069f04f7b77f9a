"""What tests of XA have in common: a session, an Xid, and a branch brought into any state."""

from collections.abc import Callable

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.errors import XaError
from postroom.manager.manager import QueueManager
from postroom.manager.transactions.xa_branch import Branch, XaSession
from postroom.model.xa import BranchState, XaCode, XaFlag, Xid
from tests.manager.world import World

XID = Xid(1, b"global", b"branch")
OTHER = Xid(1, b"global", b"other")

NOFLAGS, JOIN, RESUME = int(XaFlag.TMNOFLAGS), int(XaFlag.TMJOIN), int(XaFlag.TMRESUME)
SUCCESS, FAIL, SUSPEND = int(XaFlag.TMSUCCESS), int(XaFlag.TMFAIL), int(XaFlag.TMSUSPEND)
START_SCAN, END_SCAN = int(XaFlag.TMSTARTRSCAN), int(XaFlag.TMENDRSCAN)


class Xa:
    """One session's view of a world's queue manager."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session = self.manager.open_xa_session("container", "user")

    @property
    def manager(self) -> QueueManager:
        return self.world.manager

    def start(self, xid: Xid = XID, flags: int = NOFLAGS, timeout_s: int = 0) -> Branch:
        return self.manager.xa_start(self.session, xid, flags, self.world.now_us, timeout_s)

    def end(self, xid: Xid = XID, flags: int = SUCCESS, consumer: Consumer | None = None) -> None:
        """What the consumer holds was received."""
        received = [] if consumer is None else [(consumer, entry) for entry in self.world.held(consumer)]
        self.manager.xa_end(self.session, xid, flags, received, self.world.now_us)

    def prepare(self, xid: Xid = XID) -> XaCode:
        return self.manager.xa_prepare(xid, self.world.now_us)

    def commit(self, xid: Xid = XID, one_phase: bool = False) -> None:
        self.manager.xa_commit(xid, one_phase, self.world.now_us)

    def rollback(self, xid: Xid = XID) -> None:
        self.manager.xa_rollback(xid, self.world.now_us)

    def forget(self, xid: Xid = XID) -> None:
        self.manager.xa_forget(xid, self.world.now_us)

    def recover(self, flags: int = START_SCAN | END_SCAN) -> list[Xid]:
        return self.manager.xa_recover(self.session, flags, self.world.now_us)

    def heuristic_commit(self, xid: Xid = XID) -> None:
        self.manager.heuristic_commit(xid, self.world.now_us)

    def heuristic_rollback(self, xid: Xid = XID) -> None:
        self.manager.heuristic_rollback(xid, self.world.now_us)

    def delete(self, xid: Xid = XID) -> None:
        self.manager.delete_branch(xid, self.world.now_us)

    def close(self, session: XaSession | None = None, lost: bool = False) -> None:
        self.manager.close_xa_session(session or self.session, lost, self.world.now_us)

    def state(self, xid: Xid = XID) -> BranchState:
        return state_of(self.manager, xid)


def state_of(manager: QueueManager, xid: Xid) -> BranchState:
    for row in manager.branches():
        if row.xid == xid:
            return row.state
    return BranchState.NONEXISTENT


def code_of(verb: Callable[[], object]) -> XaCode:
    """What a verb answers, as a return code."""
    try:
        answer = verb()
    except XaError as error:
        return error.code
    return answer if isinstance(answer, XaCode) else XaCode.XA_OK


def bring(xa: Xa, state: BranchState) -> None:
    """A branch of that state, with one message put in it before; ``xa``'s session works on nothing."""
    if state == BranchState.NONEXISTENT:
        return
    queue = xa.world.queue("xa")
    branch = xa.start()
    xa.world.put(queue, b"in the branch", transaction=branch.transaction)
    _END_IN[state](xa)
    assert xa.state() == state


def _left_active(xa: Xa) -> None:
    """ACTIVE, but somebody else works on it."""
    helper = xa.manager.open_xa_session()
    xa.manager.xa_start(helper, XID, JOIN, xa.world.now_us)
    xa.end()


def _prepared(xa: Xa) -> None:
    xa.end()
    xa.prepare()


def _heuristically(decide: Callable[[Xa], None]) -> Callable[[Xa], None]:
    def bring_there(xa: Xa) -> None:
        xa.end()
        decide(xa)

    return bring_there


_END_IN: dict[BranchState, Callable[[Xa], None]] = {
    BranchState.ACTIVE: _left_active,
    BranchState.SUSPENDED: lambda xa: xa.end(flags=SUSPEND),
    BranchState.IDLE: lambda xa: xa.end(),
    BranchState.PREPARED: _prepared,
    BranchState.ROLLBACK_ONLY: lambda xa: xa.end(flags=FAIL),
    BranchState.HEURISTICALLY_COMMITTED: _heuristically(lambda xa: xa.heuristic_commit()),
    BranchState.HEURISTICALLY_ROLLED_BACK: _heuristically(lambda xa: xa.heuristic_rollback()),
}
