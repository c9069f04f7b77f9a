"""Two-phase commit, what both faces of the transaction manager share: names, answers and what they mean."""

from __future__ import annotations

import hashlib
import itertools
import time
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

from postroom.client.durations import MS_A_SECOND
from postroom.client.exceptions import (
    HeuristicCommitException,
    HeuristicMixedException,
    HeuristicRollbackException,
    JMSException,
    XAException,
)
from postroom.client.transactions.decision_records import HeuristicOutcome
from postroom.model.xa import XaCode, Xid, is_rolled_back

FORMAT_ID: Final = 0x504F5354
"""Of the Xids that this transaction manager makes: "POST"."""
EPOCH_BYTES: Final = 4
COUNTER_BYTES: Final = 8
DIGEST_BYTES: Final = 8


class TransactionStatus(IntEnum):
    """Where a transaction is; names and numbers are those of Jakarta Transactions."""

    ACTIVE = 0
    MARKED_ROLLBACK = 1
    """It can only be rolled back."""
    PREPARED = 2
    COMMITTED = 3
    ROLLED_BACK = 4
    UNKNOWN = 5
    """Nobody here knows: the answer to a commit in one phase, or of the decision log's disk, is lost."""
    NO_TRANSACTION = 6
    """It has not begun."""
    PREPARING = 7
    COMMITTING = 8
    ROLLING_BACK = 9


class Step(Enum):
    """What a transaction manager is about to do, or has done; what is about to be done may fail."""

    STARTING = "starting"
    STARTED = "started"
    ENDING = "ending"
    ENDED = "ended"
    PREPARING = "preparing"
    PREPARED = "prepared"
    DECIDING = "deciding"
    """The decision to commit goes to the log."""
    DECIDED = "decided"
    """It is on disk."""
    COMMITTING = "committing"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"
    FINISHED = "finished"
    """All branches have heard."""


class Answer(Enum):
    """What came of telling a branch the decision."""

    HEARD = "heard"
    UNHEARD = "unheard"
    """Recovery tells it again."""
    HEURISTIC = "heuristic"
    """It was decided otherwise, or nobody knows."""


COMPLETED_HEURISTICALLY: Final = frozenset(
    {XaCode.XA_HEURMIX, XaCode.XA_HEURRB, XaCode.XA_HEURCOM, XaCode.XA_HEURHAZ}
)
"""What the resource manager remembers until it is told to forget."""
COMMIT: Final = "commit"
ROLLBACK: Final = "rollback"

_COMMIT_IS_HEURISTIC: Final = frozenset(
    {XaCode.XA_HEURMIX, XaCode.XA_HEURRB, XaCode.XA_HEURHAZ, XaCode.XAER_RMERR}
)
_ROLLBACK_IS_HEURISTIC: Final = frozenset({XaCode.XA_HEURMIX, XaCode.XA_HEURCOM, XaCode.XA_HEURHAZ})


def after_commit(code: XaCode, again: bool) -> Answer:
    """What ``code``, the answer to the second phase of a commit, means; ``again``: it was said before.

    A branch that is not known has heard it before, or else somebody has decided about it who left no trace.
    """
    if code == XaCode.XAER_NOTA:
        return Answer.HEARD if again else Answer.HEURISTIC
    if code in _COMMIT_IS_HEURISTIC:
        return Answer.HEURISTIC
    return Answer.HEARD if code in (XaCode.XA_OK, XaCode.XA_HEURCOM) else Answer.UNHEARD


def after_rollback(code: XaCode) -> Answer:
    """What ``code``, the answer to a rollback, means: a branch that isn't known has been rolled back."""
    if code in _ROLLBACK_IS_HEURISTIC:
        return Answer.HEURISTIC
    gone = code in (XaCode.XA_OK, XaCode.XAER_NOTA, XaCode.XA_HEURRB) or is_rolled_back(code)
    return Answer.HEARD if gone else Answer.UNHEARD


def heuristic_exception(decision: str, branch_count: int, outcomes: list[HeuristicOutcome]) -> JMSException:
    """The exception for a transaction of which ``branch_count`` branches were told the decision."""
    described = ", ".join(f"{outcome.branch.resource}: {XaCode(outcome.code).name}" for outcome in outcomes)
    text = f"the decision was {decision}, but branches were decided otherwise: {described}"
    against = XaCode.XA_HEURRB if decision == COMMIT else XaCode.XA_HEURCOM
    if len(outcomes) < branch_count or any(outcome.code != against for outcome in outcomes):
        return HeuristicMixedException(text)
    return HeuristicRollbackException(text) if decision == COMMIT else HeuristicCommitException(text)


class XidMaker:
    """Makes the Xids of one life of a transaction manager, and knows those of all its lives."""

    def __init__(self, owner_id: bytes, epoch: int) -> None:
        self._owner_id = owner_id
        self._epoch = epoch
        self._counter = itertools.count(1)

    def new_gtrid(self) -> bytes:
        """A global transaction id that was never given before."""
        epoch = self._epoch.to_bytes(EPOCH_BYTES, "big")
        return self._owner_id + epoch + next(self._counter).to_bytes(COUNTER_BYTES, "big")

    def is_own(self, xid: Xid) -> bool:
        """Whether this transaction manager made it, now or in an earlier life."""
        return xid.format_id == FORMAT_ID and xid.gtrid.startswith(self._owner_id)


def branch_xid(gtrid: bytes, index: int, resource: str) -> Xid:
    """The Xid of branch number ``index`` (0 to 255) of a transaction, in resource manager ``resource``."""
    digest = hashlib.sha256(resource.encode()).digest()[:DIGEST_BYTES]
    return Xid(FORMAT_ID, gtrid, bytes([index]) + digest)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * MS_A_SECOND)


@dataclass(frozen=True)
class Recovery:
    """What a recovery found and did."""

    committed: list[Xid] = field(default_factory=list)
    """Branches of transactions that the log says are decided."""
    rolled_back: list[Xid] = field(default_factory=list)
    """Branches of transactions that were never decided."""
    heuristics: list[HeuristicOutcome] = field(default_factory=list)
    """Branches that somebody else had decided about, otherwise."""
    unreachable: list[XAException] = field(default_factory=list)
    """What kept branches from being told: another recovery is needed."""
