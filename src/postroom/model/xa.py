"""XA: names of transaction branches, flags, codes, and the one table of verbs and states.

A *branch* is the share that this queue manager has in a global transaction: what was put in it and what was
received in it. A transaction manager outside drives it with the verbs of X/Open XA and names it by its `Xid`.
What its messages go through meanwhile is the ordinary life of entries (`lifecycle`) under the holders
XA_BRANCH and XA_PREPARED; the table here says only which verb a branch may hear when.

``start`` makes a branch and gives it to a session, ``end`` takes it away again and decides what was received
in it; between the two it is ACTIVE. A session works on one branch at a time, but several sessions may work on
one branch: they join it, and it is ACTIVE until the last has ended it. ``end`` with TMSUSPEND leaves it
SUSPENDED, to be resumed by whichever session; with TMSUCCESS it becomes IDLE, which is the only state from
which it can be prepared or committed in one phase. A branch that did nothing answers ``prepare`` with
XA_RDONLY and is gone.

PREPARED is a promise: the branch is on disk with all that was put and received in it, survives everything,
and only ``commit``, ``rollback`` or an administrator decides about it. No time-out, lost session, limit or
restart does.

What goes wrong before that (end with TMFAIL, the limit of messages, a lost session, too long a silence) rolls
the work back at once. Of the branch nothing is left but its name and the reason, in state ROLLBACK_ONLY, so
that whoever asks later is told XA_RBTIMEOUT and not that there never was such a branch: for a commit in one
phase, which is sent again when its answer was lost, that is the difference between "rolled back" and
"unknown, perhaps committed". Such memories are bounded and not written down; XAER_NOTA means as much.

An administrator may decide for the transaction manager, of branches that nobody works on. The outcome is kept
and shown to every further verb, until the transaction manager forgets the branch, or an administrator does.

A cell says what the caller is told and what state the branch has then. XAER_ codes change nothing, and the
XA_HEUR codes don't either. XA_RBROLLBACK stands for the branch's own reason, any code from 100 to 107; after
``prepare`` and a commit in one phase that answer ends the branch, as X/Open has it. Two checks come before
the table, for they are about the session and not the branch: a session that has a branch can't start, join or
resume another (XAER_PROTO), and one that has local transactions open can't either (XAER_OUTSIDE); and an
ACTIVE branch can be ended only by a session that works on it (XAER_PROTO).

Sources: X/Open CAE Specification XA, chapters 3 and 6; Solace, "Consuming Messages in XA Transactions".
"""

from binascii import unhexlify
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, final

MAX_PART_BYTES: Final = 64
"""Of a gtrid or bqual; the least is 1."""
MAX_XID_CHARACTERS: Final = 266
"""Of an Xid in print."""
MAX_TIMEOUT_S: Final = (1 << 31) - 1
"""Within what a branch is to be prepared, at most."""
NULL_FORMAT_ID: Final = -1
"""In X/Open's structure this says that there is no Xid."""

_FORMAT_DIGITS: Final = 8
_FORMATS: Final = 1 << 32
_LARGEST_FORMAT: Final = (1 << 31) - 1


class XidInvalid(ValueError):
    """That is no Xid; the text says what is wrong with it. To an XA verb it is XAER_INVAL."""


@final
@dataclass(frozen=True)
class Xid:
    """The name of a branch: global transaction id and branch qualifier, 1 to 64 bytes each. Raises
    XidInvalid."""

    format_id: int
    """How the transaction manager writes the other two: signed 32 bits, not −1."""
    gtrid: bytes
    bqual: bytes

    def __post_init__(self) -> None:
        if not -_LARGEST_FORMAT - 1 <= self.format_id <= _LARGEST_FORMAT or self.format_id == NULL_FORMAT_ID:
            raise XidInvalid(
                f"format id {self.format_id} of an Xid must be a signed number of 32 bits, not −1"
            )
        for name, part in (("gtrid", self.gtrid), ("bqual", self.bqual)):
            if not 1 <= len(part) <= MAX_PART_BYTES:
                raise XidInvalid(
                    f"{name} of an Xid must have 1 to {MAX_PART_BYTES} bytes; it has {len(part)}"
                )

    def __str__(self) -> str:
        """In hex, as format-gtrid-bqual: at most 266 characters."""
        return f"{self.format_id % _FORMATS:0{_FORMAT_DIGITS}x}-{self.gtrid.hex()}-{self.bqual.hex()}"

    @staticmethod
    def parse(text: str) -> "Xid":
        """The Xid that `str` prints so; raises XidInvalid."""
        parts = text.split("-")
        if len(text) > MAX_XID_CHARACTERS or len(parts) != 3 or len(parts[0]) != _FORMAT_DIGITS:
            raise XidInvalid(
                f"{text[:MAX_XID_CHARACTERS]!r} is no Xid: format-gtrid-bqual in hex, the format with "
                f"{_FORMAT_DIGITS} digits"
            )
        try:
            format_id, gtrid, bqual = (unhexlify(part) for part in parts)
        except ValueError as error:
            raise XidInvalid(f"{text!r} is no Xid: {error}") from error
        return Xid(int.from_bytes(format_id, "big", signed=True), gtrid, bqual)

    @staticmethod
    def from_wire(value: object) -> "Xid":
        """The Xid of a list of int, binary, binary; raises XidInvalid."""
        if not isinstance(value, (list, tuple)) or len(value) != 3:
            raise XidInvalid(f"an Xid is a list of int, binary, binary; this is {value!r:.100}")
        format_id, gtrid, bqual = value
        if isinstance(format_id, bool) or not isinstance(format_id, int):
            raise XidInvalid(f"the format id of an Xid is an int; this is {format_id!r:.100}")
        if not isinstance(gtrid, bytes) or not isinstance(bqual, bytes):
            raise XidInvalid("gtrid and bqual of an Xid are binary")
        return Xid(int(format_id), bytes(gtrid), bytes(bqual))


class XaFlag(IntFlag):
    """What a verb is asked to do, with X/Open's values."""

    TMNOFLAGS = 0
    TMJOIN = 0x00200000
    TMENDRSCAN = 0x00800000
    TMSTARTRSCAN = 0x01000000
    TMSUSPEND = 0x02000000
    TMSUCCESS = 0x04000000
    TMRESUME = 0x08000000
    TMFAIL = 0x20000000
    TMONEPHASE = 0x40000000


class XaCode(IntEnum):
    """What a verb answers, with X/Open's values. XA_OK and XA_RDONLY are successes, the others errors."""

    XA_OK = 0
    XA_RDONLY = 3
    """Prepared, and nothing to commit: the branch is gone."""
    XA_RETRY = 4
    XA_HEURMIX = 5
    XA_HEURRB = 6
    XA_HEURCOM = 7
    XA_HEURHAZ = 8
    XA_NOMIGRATE = 9
    XA_RBROLLBACK = 100
    XA_RBCOMMFAIL = 101
    XA_RBDEADLOCK = 102
    XA_RBINTEGRITY = 103
    XA_RBOTHER = 104
    XA_RBPROTO = 105
    XA_RBTIMEOUT = 106
    XA_RBTRANSIENT = 107
    XAER_ASYNC = -2
    XAER_RMERR = -3
    XAER_NOTA = -4
    XAER_INVAL = -5
    XAER_PROTO = -6
    XAER_RMFAIL = -7
    XAER_DUPID = -8
    XAER_OUTSIDE = -9


def is_rolled_back(code: int) -> bool:
    """Whether ``code`` is one of XA_RB*: the branch has been rolled back, or can only be."""
    return XaCode.XA_RBROLLBACK <= code <= XaCode.XA_RBTRANSIENT


class BranchState(IntEnum):
    """Where a branch is in its life."""

    NONEXISTENT = 0
    ACTIVE = 1
    """Some session works on it."""
    SUSPENDED = 2
    IDLE = 3
    """Ended with success, by all who worked on it."""
    PREPARED = 4
    ROLLBACK_ONLY = 5
    """Rolled back already; remembered for whoever asks."""
    HEURISTICALLY_COMMITTED = 6
    HEURISTICALLY_ROLLED_BACK = 7


class XaVerb(IntEnum):
    """What is said to a branch, by its transaction manager, by an administrator, or by events."""

    START = 0
    """start with TMNOFLAGS."""
    JOIN = 1
    """start with TMJOIN."""
    RESUME = 2
    """start with TMRESUME."""
    END = 3
    """end with TMSUCCESS."""
    FAIL = 4
    """end with TMFAIL."""
    SUSPEND = 5
    """end with TMSUSPEND."""
    PREPARE = 6
    COMMIT = 7
    """commit in two phases."""
    COMMIT_ONE_PHASE = 8
    """commit with TMONEPHASE."""
    ROLLBACK = 9
    FORGET = 10
    HEURISTIC_COMMIT = 11
    """An administrator decides, as with the next two."""
    HEURISTIC_ROLLBACK = 12
    DELETE = 13
    """An administrator forgets a heuristic outcome."""
    TIME_OUT = 14
    """Nothing has happened in it for too long."""
    GIVE_UP = 15
    """It has too many messages, or one of them was lost."""
    SESSION_CLOSED = 16
    """The only session that works on it was closed in good order."""
    SESSION_LOST = 17
    """The session that works on it, or was the last to, is gone without a word."""
    RESTART = 18


@final
class Cell:
    """What a verb answers in a state, and the state afterwards."""

    def __init__(self, code: XaCode, to: BranchState) -> None:
        self.code: Final = code
        self.to: Final = to


B = BranchState
C = XaCode
V = XaVerb

_NOBODY: Final = (B.NONEXISTENT,)
_WORKING: Final = (B.ACTIVE, B.SUSPENDED)
_UNPREPARED: Final = (B.ACTIVE, B.SUSPENDED, B.IDLE)
_HEURISTIC: Final = (B.HEURISTICALLY_COMMITTED, B.HEURISTICALLY_ROLLED_BACK)
_DECIDED: Final = (B.ROLLBACK_ONLY, *_HEURISTIC)

STAYS: Final = None
"""In a row of the table: the branch is afterwards what it was before."""

_Row = list[tuple[tuple[BranchState, ...], XaCode, BranchState | None]]

_ROWS: Final[dict[XaVerb, _Row]] = {
    V.START: [
        (_NOBODY, C.XA_OK, B.ACTIVE),
        ((*_UNPREPARED, B.PREPARED, *_DECIDED), C.XAER_DUPID, STAYS),
    ],
    V.JOIN: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.ACTIVE, B.IDLE), C.XA_OK, B.ACTIVE),
        ((B.SUSPENDED, B.PREPARED, *_HEURISTIC), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, STAYS),
    ],
    V.RESUME: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.SUSPENDED,), C.XA_OK, B.ACTIVE),
        ((B.ACTIVE, B.IDLE, B.PREPARED, *_HEURISTIC), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, STAYS),
    ],
    V.END: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        (_WORKING, C.XA_OK, B.IDLE),  # ACTIVE as long as others work on it
        ((B.IDLE, B.PREPARED, *_HEURISTIC), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, STAYS),
    ],
    V.FAIL: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        (_WORKING, C.XA_OK, B.ROLLBACK_ONLY),
        ((B.IDLE, B.PREPARED, *_HEURISTIC), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, STAYS),
    ],
    V.SUSPEND: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.ACTIVE,), C.XA_OK, B.SUSPENDED),  # XAER_PROTO while others work on it
        ((B.SUSPENDED, B.IDLE, B.PREPARED, *_HEURISTIC), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, STAYS),
    ],
    V.PREPARE: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.IDLE,), C.XA_OK, B.PREPARED),  # XA_RDONLY and gone if it did nothing
        ((*_WORKING, B.PREPARED, *_HEURISTIC), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, B.NONEXISTENT),
    ],
    V.COMMIT: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.PREPARED,), C.XA_OK, B.NONEXISTENT),
        # Not XA_RB*, which X/Open does not allow here: who wasn't prepared can't be asked to commit so.
        ((*_UNPREPARED, B.ROLLBACK_ONLY), C.XAER_PROTO, STAYS),
        ((B.HEURISTICALLY_COMMITTED,), C.XA_HEURCOM, STAYS),
        ((B.HEURISTICALLY_ROLLED_BACK,), C.XA_HEURRB, STAYS),
    ],
    V.COMMIT_ONE_PHASE: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.IDLE,), C.XA_OK, B.NONEXISTENT),
        ((*_WORKING, B.PREPARED), C.XAER_PROTO, STAYS),
        ((B.ROLLBACK_ONLY,), C.XA_RBROLLBACK, B.NONEXISTENT),
        ((B.HEURISTICALLY_COMMITTED,), C.XA_HEURCOM, STAYS),
        ((B.HEURISTICALLY_ROLLED_BACK,), C.XA_HEURRB, STAYS),
    ],
    V.ROLLBACK: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.IDLE, B.PREPARED, B.ROLLBACK_ONLY), C.XA_OK, B.NONEXISTENT),
        (_WORKING, C.XAER_PROTO, STAYS),
        ((B.HEURISTICALLY_COMMITTED,), C.XA_HEURCOM, STAYS),
        ((B.HEURISTICALLY_ROLLED_BACK,), C.XA_HEURRB, STAYS),
    ],
    V.FORGET: [
        (_HEURISTIC, C.XA_OK, B.NONEXISTENT),
        ((*_NOBODY, *_UNPREPARED, B.PREPARED, B.ROLLBACK_ONLY), C.XAER_NOTA, STAYS),
    ],
    V.HEURISTIC_COMMIT: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.IDLE, B.PREPARED), C.XA_OK, B.HEURISTICALLY_COMMITTED),
        ((*_WORKING, *_DECIDED), C.XAER_PROTO, STAYS),
    ],
    V.HEURISTIC_ROLLBACK: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        ((B.IDLE, B.PREPARED), C.XA_OK, B.HEURISTICALLY_ROLLED_BACK),
        ((*_WORKING, *_DECIDED), C.XAER_PROTO, STAYS),
    ],
    V.DELETE: [
        (_NOBODY, C.XAER_NOTA, STAYS),
        (_HEURISTIC, C.XA_OK, B.NONEXISTENT),
        ((*_UNPREPARED, B.PREPARED, B.ROLLBACK_ONLY), C.XAER_PROTO, STAYS),
    ],
    # Nobody is told of these; the code is what later verbs are told.
    V.TIME_OUT: [
        (_UNPREPARED, C.XA_RBTIMEOUT, B.ROLLBACK_ONLY),
        ((*_NOBODY, B.PREPARED, *_DECIDED), C.XA_OK, STAYS),
    ],
    # Not XA_RBROLLBACK, which says that no reason is given: there is one, and X/Open has no name for it.
    V.GIVE_UP: [
        (_UNPREPARED, C.XA_RBOTHER, B.ROLLBACK_ONLY),
        ((*_NOBODY, B.PREPARED, *_DECIDED), C.XA_OK, STAYS),
    ],
    V.SESSION_CLOSED: [
        ((B.ACTIVE,), C.XA_OK, B.SUSPENDED),
        ((*_NOBODY, B.SUSPENDED, B.IDLE, B.PREPARED, *_DECIDED), C.XA_OK, STAYS),
    ],
    V.SESSION_LOST: [
        (_UNPREPARED, C.XA_RBCOMMFAIL, B.ROLLBACK_ONLY),
        ((*_NOBODY, B.PREPARED, *_DECIDED), C.XA_OK, STAYS),
    ],
    V.RESTART: [
        ((*_UNPREPARED, B.ROLLBACK_ONLY), C.XAER_NOTA, B.NONEXISTENT),
        ((*_NOBODY, B.PREPARED, *_HEURISTIC), C.XA_OK, STAYS),
    ],
}

IN_DOUBT: Final = frozenset({B.PREPARED, *_HEURISTIC})
"""What ``recover`` tells of, and what a restart keeps."""
UNPREPARED: Final = frozenset(_UNPREPARED)
"""What a silence that is too long rolls back."""


def _spread() -> list[Cell]:
    """One cell for every verb and state; raises AssertionError where a row names a state twice or never."""
    cells: list[Cell] = []
    for verb in XaVerb:
        row: dict[BranchState, Cell] = {}
        for states, code, to in _ROWS[verb]:
            for state in states:
                if state in row:
                    raise AssertionError(f"cell ({verb.name}, {state.name}) is given twice")
                row[state] = Cell(code, state if to is None else to)
        for state in BranchState:
            if state not in row:
                raise AssertionError(f"({verb.name}, {state.name}) is missing")
            cells.append(row[state])
    return cells


_CELLS: Final = _spread()


def cell(verb: XaVerb, state: BranchState) -> Cell:
    """What ``verb`` does to a branch in ``state``."""
    return _CELLS[verb * len(BranchState) + state]
