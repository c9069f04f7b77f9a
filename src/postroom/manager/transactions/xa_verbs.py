"""The verbs of XA. Which one a branch may hear when, and what is answered, stands in `model.xa`; here is what
they do."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.consuming.settlement import let_go, take_up
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import NotAllowed, XaError
from postroom.manager.kernel.transaction import Receipt, Transaction
from postroom.manager.producing.blocked_sends import refuse_transacted
from postroom.manager.queues.duplicate_detection import HAS_TWIN, has_twin
from postroom.manager.transactions import commit as transactions
from postroom.manager.transactions.xa_branch import (
    DECIDED_BY,
    HEURISTIC,
    HEURISTIC_STATES,
    Branch,
    XaAdmission,
    XaSession,
    branches_of,
    detail_of,
)
from postroom.manager.undeliverable.returned_entries import come_back, redelivery_delay_us
from postroom.model import numbers as n
from postroom.model.xa import (
    IN_DOUBT,
    MAX_TIMEOUT_S,
    BranchState,
    XaCode,
    XaFlag,
    XaVerb,
    Xid,
    cell,
    is_rolled_back,
)

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import HolderRow

_START_VERBS: Final = {
    int(XaFlag.TMNOFLAGS): XaVerb.START,
    int(XaFlag.TMJOIN): XaVerb.JOIN,
    int(XaFlag.TMRESUME): XaVerb.RESUME,
}
_END_VERBS: Final = {
    int(XaFlag.TMSUCCESS): XaVerb.END,
    int(XaFlag.TMFAIL): XaVerb.FAIL,
    int(XaFlag.TMSUSPEND): XaVerb.SUSPEND,
}
_SCAN_FLAGS: Final = int(XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)

Received = list[tuple[Consumer, Entry]]


# --- association ----------------------------------------------------------------------------------


def start(core: Core, session: XaSession, xid: Xid, flags: int, timeout_s: int) -> Branch:
    """Have ``session`` work on a branch: a new one, which is to be prepared within ``timeout_s`` (0: the
    default is for it), or as TMJOIN and TMRESUME say. Raises XaError."""
    branches = branches_of(core)
    verb = _START_VERBS.get(flags)
    if verb is None:
        raise XaError(XaCode.XAER_INVAL, f"flags {flags:#x} of start must be TMNOFLAGS, TMJOIN or TMRESUME")
    if not 0 <= timeout_s <= MAX_TIMEOUT_S:
        what = f"a transaction timeout of {timeout_s} s must be 0 (the default) to {MAX_TIMEOUT_S}"
        raise XaError(XaCode.XAER_INVAL, what)
    if session.branch is not None:
        raise XaError(XaCode.XAER_PROTO, f"the session works on branch {session.branch.xid}: end that first")
    if session.local_work:
        raise XaError(XaCode.XAER_OUTSIDE, "local transactions are open on the session: discharge them first")
    if verb == XaVerb.START:
        known = branches_of(core).by_xid.get(xid)
        answer = cell(XaVerb.START, BranchState.NONEXISTENT if known is None else known.state)
        if answer.code != XaCode.XA_OK:
            raise XaError(
                answer.code, f"there is a branch {xid} already: join or resume it, or take another Xid"
            )
        branch = _new(core, session, xid)
        if timeout_s > 0:
            branches.limit(branch, core.now_us + timeout_s * 1_000_000)
    else:
        branch = _hear(core, xid, verb)
        branches.unkeep(branch)
        branch.transaction.ended = False
        _change(core, branch, BranchState.ACTIVE)
    branch.sessions.append(session)
    session.branch = branch
    return branch


def _new(core: Core, session: XaSession, xid: Xid) -> Branch:
    branches, limit = branches_of(core), core.options.max_branches
    if len(branches.by_xid) - len(branches.rolled_back) >= limit:
        raise XaError(XaCode.XAER_RMERR, f"{limit} branches are the limit (max_branches)")
    transaction = Transaction(
        core.holders.ids.take(), core.now_us, n.XA_BRANCH, core.options.max_branch_messages, b""
    )
    transaction.admission = XaAdmission(core)
    branch = Branch(xid, transaction, session.container, session.user, core.now_us)
    transaction.detail = detail_of(branch)
    branches.add(branch)
    return branch


def end(core: Core, session: XaSession, xid: Xid, flags: int, received: Received) -> None:
    """``session`` works on the branch no longer. What it has ``received`` since it began to belongs to the
    branch from now on, or goes back if the branch has been rolled back. Raises XaError, NotHeld; NotAllowed
    while sends wait for room."""
    verb = _END_VERBS.get(flags)
    if verb is None:
        raise XaError(
            XaCode.XAER_INVAL, f"flags {flags:#x} of end must be one of TMSUCCESS, TMFAIL, TMSUSPEND"
        )
    for consumer, entry in received:
        take_up(core, consumer, entry)
    branch = branches_of(core).by_xid.get(xid)
    if branch is not None:
        _check_context(session, branch, verb)
    if branch is None or session.branch is not branch:
        received = []
    if branch is not None and branch.state == BranchState.ROLLBACK_ONLY:
        _leave(session, branch)
        _return(core, received)
    branch = _hear(core, xid, verb)
    if verb == XaVerb.FAIL:
        _leave(session, branch)
        _roll_back(core, branch, XaCode.XA_RBROLLBACK, "it was ended with TMFAIL")
        _return(core, received)
        return
    if branch.transaction.blocked:
        count = len(branch.transaction.blocked)
        raise NotAllowed(f"branch {xid} has {count} sends that wait for room")
    _assign(core, session, branch, received)
    _leave(session, branch)
    if not branch.sessions:
        branch.transaction.ended = True
        branches_of(core).unkeep(branch)
        branch.last_session = session
        session.ended[int(branch.transaction.id)] = branch
        _change(core, branch, cell(verb, branch.state).to)


def _check_context(session: XaSession, branch: Branch, verb: XaVerb) -> None:
    if branch.state != BranchState.ACTIVE:
        return
    if session.branch is not branch:
        raise XaError(XaCode.XAER_PROTO, f"branch {branch.xid} is another session's to end")
    if verb == XaVerb.SUSPEND and len(branch.sessions) > 1:
        raise XaError(XaCode.XAER_PROTO, f"branch {branch.xid} can't be suspended: other sessions work on it")


def _leave(session: XaSession, branch: Branch) -> None:
    if session.branch is branch:
        session.branch = None
        branch.sessions.remove(session)


def _assign(core: Core, session: XaSession, branch: Branch, received: Received) -> None:
    """Raises XaError where the branch has more than it may have; then it has been rolled back."""
    transaction = branch.transaction
    count = len(transaction.puts) + len(transaction.receipts) + len(received)
    if count > transaction.max_entries:
        why = f"{count} messages in it are more than {transaction.max_entries} (max_branch_messages)"
        _leave(session, branch)
        _roll_back(core, branch, cell(XaVerb.GIVE_UP, branch.state).code, why)
        _return(core, received)
        _refuse(branch)
    for consumer, entry in received:
        transactions.dispose(core, transaction, consumer, entry, n.EVENT_CONFIRM, True)


def _return(core: Core, received: Received) -> None:
    """What was received for a branch that is no more goes back."""
    for consumer, entry in received:
        core.ledger.boundary()
        let_go(core, consumer, entry)
        come_back(core, entry, n.EVENT_UNDO, redelivery_delay_us(entry, consumer))


# --- decisions ------------------------------------------------------------------------------------


def prepare(core: Core, xid: Xid) -> XaCode:
    """Promise to commit whenever told to: XA_OK; XA_RDONLY if there is nothing to commit. Raises XaError."""
    branch = _hear(core, xid, XaVerb.PREPARE)
    transaction = branch.transaction
    if not transaction.puts and not transaction.receipts:
        _finish(core, branch)
        return XaCode.XA_RDONLY
    _refuse_twins(core, branch)
    branches_of(core).unkeep(branch)
    _change(core, branch, BranchState.PREPARED)
    transaction.detail = detail_of(branch)
    transactions.prepare(core, transaction)
    return XaCode.XA_OK


def commit(core: Core, xid: Xid, one_phase: bool) -> None:
    """Raises XaError."""
    branch = _hear(core, xid, XaVerb.COMMIT_ONE_PHASE if one_phase else XaVerb.COMMIT)
    if one_phase:
        _refuse_twins(core, branch)
    transactions.decide_for(core, branch.transaction)
    _finish(core, branch)


def _refuse_twins(core: Core, branch: Branch) -> None:
    """Nothing is taken twice: raises XaError, the branch rolled back, where something of it would be."""
    if has_twin(branch.transaction):
        _roll_back(core, branch, cell(XaVerb.GIVE_UP, branch.state).code, HAS_TWIN)
        branches_of(core).remove(branch)
        _refuse(branch)


def rollback(core: Core, xid: Xid) -> None:
    """What was put in it is gone, what was received in it goes back, in one block. Raises XaError."""
    branch = _hear(core, xid, XaVerb.ROLLBACK)
    if branch.state != BranchState.ROLLBACK_ONLY:
        transactions.decide_against(core, branch.transaction, n.EVENT_UNDO)
    _finish(core, branch)


def recover(core: Core, session: XaSession, flags: int) -> list[Xid]:
    """The branches that are prepared or heuristically decided: all of them where a scan is begun, so that
    nothing is left for the calls that continue or end it. Raises XaError."""
    if flags & ~_SCAN_FLAGS:
        raise XaError(
            XaCode.XAER_INVAL, f"flags {flags:#x} of recover can only have TMSTARTRSCAN and TMENDRSCAN"
        )
    starts = flags & int(XaFlag.TMSTARTRSCAN) != 0
    if not starts and not session.scanning:
        raise XaError(XaCode.XAER_INVAL, "no scan is open: begin one with TMSTARTRSCAN")
    session.scanning = flags & int(XaFlag.TMENDRSCAN) == 0
    if not starts:
        return []
    return [branch.xid for branch in branches_of(core).by_xid.values() if branch.state in IN_DOUBT]


def forget(core: Core, xid: Xid, verb: XaVerb) -> None:
    """A heuristic outcome has been seen. ``verb``: FORGET, or DELETE by an administrator. Raises XaError."""
    _finish(core, _hear(core, xid, verb))


def decide_heuristically(core: Core, xid: Xid, verb: XaVerb, user: str) -> None:
    """An administrator, ``user``, decides: HEURISTIC_COMMIT or HEURISTIC_ROLLBACK. The outcome stays until
    forgotten. Raises XaError."""
    branch = _hear(core, xid, verb)
    branch.decided_by = user
    transaction, state = branch.transaction, cell(verb, branch.state).to
    if verb == XaVerb.HEURISTIC_COMMIT:
        transactions.decide_for(core, transaction)
    else:
        transactions.decide_against(core, transaction, n.EVENT_UNDO)
    transactions.let_go_of(core, transaction)
    branches_of(core).unkeep(branch)
    _change(core, branch, state)
    transaction.kind = n.XA_PREPARED
    transaction.detail = detail_of(branch)
    transaction.recorded = True
    core.holders.open(transaction.id, n.XA_PREPARED, transaction.detail)


def _finish(core: Core, branch: Branch) -> None:
    branch.transaction.decided = True
    if branch.state != BranchState.ROLLBACK_ONLY:
        transactions.close(core, branch.transaction)
    branches_of(core).remove(branch)


# --- what befalls branches ------------------------------------------------------------------------


def _roll_back(core: Core, branch: Branch, code: XaCode, why: str, event: i64 = n.EVENT_UNDO) -> None:
    """Undo its work at once, and remember ``code`` for whoever asks."""
    branches = branches_of(core)
    transaction = branch.transaction
    transaction.failed = f"branch {branch.xid} has been rolled back: {why}"
    transaction.decided = True
    refuse_transacted(core, transaction)
    transactions.decide_against(core, transaction, event)
    transactions.close(core, transaction)
    branch.code, branch.why = code, why
    branches.unkeep(branch)
    _change(core, branch, BranchState.ROLLBACK_ONLY)
    remembered = branches.rolled_back
    if len(remembered) > core.options.max_rolled_back_branches:
        branches.remove(next(iter(remembered.values())))
    core.ledger.boundary()


def lose(core: Core, transaction: Transaction, why: str, user: str) -> None:
    """Of the branch that has this transaction something is taken away, by ``user``: it is rolled back, and
    where it is prepared that is a heuristic outcome."""
    for branch in branches_of(core).by_xid.values():
        if branch.transaction is transaction:
            break
    else:
        return
    if branch.state == BranchState.PREPARED:
        decide_heuristically(core, branch.xid, XaVerb.HEURISTIC_ROLLBACK, user)
    else:
        _roll_back(core, branch, cell(XaVerb.GIVE_UP, branch.state).code, why)


def _silence_ends_us(core: Core) -> i64:
    """When the branch that has been silent the longest runs out; 0 never."""
    branches = branches_of(core)
    if not branches.silent or core.options.branch_idle_timeout_ms == 0:
        return 0
    branch = next(iter(branches.silent.values()))
    return branch.active_us + core.options.branch_idle_timeout_ms * 1000


def close_session(core: Core, session: XaSession, lost: bool) -> None:
    """The session is gone. ``lost``: without a word, and with it what it had not prepared; else its branches
    are left alone."""
    if session.closed:
        return
    session.closed = True
    own = list(session.ended.values())
    branch = session.branch
    if branch is not None:
        _leave(session, branch)
        if branch.state == BranchState.ACTIVE:
            own.append(branch)
    for branch in own:
        if lost:
            code = cell(XaVerb.SESSION_LOST, branch.state).code
            _roll_back(core, branch, code, "its session was lost", n.EVENT_LINK_LOST)
        else:
            branches_of(core).unkeep(branch)
            _leave_alone(core, branch)


def _leave_alone(core: Core, branch: Branch) -> None:
    if branch.sessions or branch.state != BranchState.ACTIVE:
        return
    if branch.transaction.blocked:
        code = cell(XaVerb.GIVE_UP, branch.state).code
        _roll_back(core, branch, code, "its session was closed while sends of it waited for room")
        return
    branch.transaction.ended = True
    _change(core, branch, cell(XaVerb.SESSION_CLOSED, branch.state).to)


# --- restarts -------------------------------------------------------------------------------------


def restore(core: Core, rows: "list[HolderRow]") -> dict[int, Transaction]:
    """The branches that were prepared or heuristically decided before the start, by their ids as holders."""
    found: dict[int, Transaction] = {}
    for row in rows:
        if row.holder_kind != n.XA_PREPARED:
            continue
        detail = row.detail
        limit = core.options.max_branch_messages
        transaction = Transaction(row.holder, core.now_us, n.XA_PREPARED, limit, b"")
        since_us = int(detail["since_us"])
        branch = Branch(
            Xid.parse(str(detail["name"])),
            transaction,
            str(detail["container"]),
            str(detail["user"]),
            since_us,
        )
        branch.state = BranchState.PREPARED
        if HEURISTIC in detail:
            branch.state = HEURISTIC_STATES[str(detail[HEURISTIC])]
            branch.decided_by = str(detail.get(DECIDED_BY, ""))
        transaction.detail = detail_of(branch)
        transaction.recorded = transaction.ended = True
        branches_of(core).add(branch)
        found[row.holder] = transaction
    return found


def restore_held(transaction: Transaction, entry: Entry) -> None:
    """Give an entry back to the prepared branch that held it."""
    entry.owner = transaction
    if entry.state == n.PUT_UNCONFIRMED:
        transaction.puts.append(entry)
    else:
        transaction.receipts.append(Receipt(None, entry, n.EVENT_CONFIRM, True))


# --- the table ------------------------------------------------------------------------------------


def _hear(core: Core, xid: Xid, verb: XaVerb) -> Branch:
    """The branch, if the table lets it hear ``verb`` now; else raises XaError as the table says."""
    branches = branches_of(core)
    branch = branches.by_xid.get(xid)
    if branch is None:
        code = cell(verb, BranchState.NONEXISTENT).code
        raise XaError(code, f"there is no branch {xid} (any more)")
    answer = cell(verb, branch.state)
    if answer.code == XaCode.XA_OK:
        branch.active_us = core.now_us
        branches.place(branch)
        return branch
    if answer.to == BranchState.NONEXISTENT:
        branches.remove(branch)
    if is_rolled_back(answer.code):
        _refuse(branch)
    verb_text, state = verb.name.lower().replace("_", " "), branch.state.name.lower().replace("_", " ")
    raise XaError(answer.code, f"branch {xid} is {state}: it can't hear {verb_text!r}")


def _refuse(branch: Branch) -> None:
    raise XaError(branch.code, f"branch {branch.xid} has been rolled back: {branch.why}")


def _change(core: Core, branch: Branch, state: BranchState) -> None:
    if branch.state != state:
        branch.state = state
        branch.since_us = core.now_us
    branch.active_us = core.now_us
    branches_of(core).place(branch)


@final
class XaPart(TurnPart):
    """Branches that can't be committed any more, or have timed out, are rolled back."""

    def finish(self, core: Core) -> None:
        """Roll back the branches that this command has made impossible to commit."""
        failed = core.transactions.failed_branches
        core.transactions.failed_branches = []
        for transaction in failed:
            branch = branches_of(core).unprepared(transaction.id)
            if branch is not None:
                _roll_back(core, branch, cell(XaVerb.GIVE_UP, branch.state).code, transaction.failed)

    def time_out(self, core: Core) -> None:
        """Roll back the branches of which nothing was heard for too long, and those over their time."""
        branches = branches_of(core)
        due_us = _silence_ends_us(core)
        while due_us != 0 and due_us <= core.now_us:
            branch = next(iter(branches.silent.values()))
            silence_ms = core.options.branch_idle_timeout_ms
            why = f"nothing was heard of it for {silence_ms} ms (branch_idle_timeout_ms)"
            _roll_back(core, branch, cell(XaVerb.TIME_OUT, branch.state).code, why)
            due_us = _silence_ends_us(core)
        limited = branches.first_limited()
        while limited is not None and limited.deadline_us <= core.now_us:
            why = "it was not prepared within its transaction timeout"
            _roll_back(core, limited, cell(XaVerb.TIME_OUT, limited.state).code, why)
            limited = branches.first_limited()

    def next_timeout_us(self, core: Core) -> i64:
        silence_us = _silence_ends_us(core)
        limited = branches_of(core).first_limited()
        if limited is not None and (silence_us == 0 or limited.deadline_us < silence_us):
            return limited.deadline_us
        return silence_us
