"""The life of an entry: one transition table for the whole product.

An *entry* is one message on one queue or subscription. Every way in which a message can be "in flight" in
the systems whose rules Postroom follows (unacknowledged, uncommitted, prepared, got under a confirm id,
locked by a browse, sent in a channel batch, read by a Spark job) is the same small state machine with
another *holder*: the one who must confirm before the entry can go on. So there are eight states and eleven
kinds of holder, and no machine beside this one.

A put makes an entry out of nothing (START). Without a holder it is AVAILABLE at once, or DELAYED while it
has causes to wait: not born yet, in its redelivery delay, paused, or ordered behind another. With a holder
it is PUT_UNCONFIRMED, invisible until the holder confirms. Whoever takes an available entry and must
confirm holds it in GET_UNCONFIRMED; a browse can lock it first (LOCKED_FOR_BROWSE) and then get it through
the lock (BROWSE_GET_UNCONFIRMED). All ends in DELETED, with an outcome that says how.

What comes back comes back to its place, and that place is AVAILABLE if no cause to wait is left, else
DELAYED. The table writes this target as READY: it is the only choice that a cell leaves to data. Expiry and
deletion don't break into a holder's right: they are NOTED and act when the entry returns, so that a
prepared branch can still commit. Under the confirm ids and locks of MQ Everyplace they act at once, as that
system has it.

When a link is lost or the broker restarts, the holder decides what happens: consumers and unprepared
transactions lose what they hold, prepared branches, confirm ids, in-doubt batches, locks and Spark's
holders keep it (KEPT: nothing happens and nothing is recorded). A restart also ends every entry whose
message was not stored, unless it is in a prepared branch or a sink's: such cells say ``lost``.

Two counts say how often an entry has come back. The delivery count travels on the wire and rises for every
delivery that was sent and came back other than released; the failure count is charged to limits and rises
only when somebody failed: rollback, recover, modified(delivery-failed), and a lost link where the queue
says so.

Every cell (state, holder, event) is one of five things: a `Move`, a `Refusal` with the error that the
caller gets, NOTED, KEPT, or UNREACHABLE (no caller can bring it about; meeting it is a defect and stops the
turn). The rows below name each of the 27 events exactly once; the module refuses to load otherwise.
"""

from typing import Final

from postroom.model.cells import (
    KEPT,
    KEPT_OR_LOST,
    NOTED,
    READY,
    UNREACHABLE,
    Cell,
    Count,
    Error,
    Move,
    Place,
    Refusal,
)
from postroom.model.codes import (
    EVENT_COUNT,
    HOLDER_KIND_COUNT,
    STATE_COUNT,
    Event,
    HolderKind,
    Outcome,
    State,
)

E = Event
H = HolderKind
O = Outcome  # noqa: E741
S = State

_Part = tuple[tuple[Event, ...], Cell]

_NO_MATCH: Final = Refusal(Error.NO_MATCH)
_NOT_HELD: Final = Refusal(Error.NOT_HELD)
_HELD: Final = Refusal(Error.HELD)
_BRANCH: Final = Refusal(Error.BRANCH_DECIDES)
_GONE: Final = Refusal(Error.GONE)


def _ends(outcome: Outcome) -> Move:
    return Move(S.DELETED, outcome)


_BORN: Final = Move(READY, place=Place.NEW)
_CONSUMED: Final = _ends(O.CONSUMED)
_ROLLED_BACK: Final = _ends(O.ROLLED_BACK)
_EXPIRED: Final = _ends(O.EXPIRED)
_DELETED: Final = _ends(O.DELETED)
_DEAD_LETTERED: Final = _ends(O.DEAD_LETTERED)
_DISCARDED: Final = _ends(O.DISCARDED)
_RETURNED: Final = _ends(O.RETURNED_TO_SENDER)
_FORWARDED: Final = _ends(O.FORWARDED)

_BACK_UNCHANGED: Final = Move(READY)
_BACK_FAILED: Final = Move(READY, delivery=Count.ONE_MORE, failure=Count.ONE_MORE)
_BACK_UNDONE: Final = Move(READY, delivery=Count.IF_SENT, failure=Count.ONE_MORE)
_BACK_LINK_LOST: Final = Move(READY, delivery=Count.IF_SENT, failure=Count.IF_QUEUE_COUNTS)
_BACK_TAKEN_BACK: Final = _BACK_LINK_LOST  # undo of the message store: nobody need have failed at it
_BACK_RESTART: Final = Move(READY, delivery=Count.IF_SENT, lost=True)
_BACK_IN_DOUBT: Final = Move(READY, delivery=Count.IF_SENT)

_VISIBLE_VERBS: Final = (E.GET, E.ACQUIRE, E.LOCK)
_PUT_HOLDERS: Final = (H.LOCAL_TRANSACTION, H.XA_BRANCH, H.CONFIRM_ID, H.SPARK_BRANCH)
_PUTS: Final = (E.PUT, E.PUT_HELD)
_LINK_VERBS: Final = (E.SUSPEND, E.RESUME)

_ROWS: Final[list[tuple[State, tuple[HolderKind, ...], list[_Part]]]] = [
    (
        S.START,
        (H.NONE,),
        [
            ((E.PUT,), _BORN),
            ((E.PUT_HELD,), Move(S.PUT_UNCONFIRMED, holders=_PUT_HOLDERS)),
            # Made by the queue manager of a parent: the same event that ends the parent begins the child.
            ((E.MOVE, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), _BORN),
            ((E.DUE, E.DELAY, *_VISIBLE_VERBS, E.UNLOCK, E.CONFIRM, E.UNDO, E.RELEASE, E.FAIL), UNREACHABLE),
            ((E.EXPIRE, E.DELETE, E.PURGE, E.DISCARD), UNREACHABLE),
            ((E.ASSIGN, E.PREPARE, *_LINK_VERBS, E.LINK_LOST, E.RESTART), UNREACHABLE),
        ],
    ),
    (
        S.PUT_UNCONFIRMED,
        (H.LOCAL_TRANSACTION,),
        [
            ((E.CONFIRM,), _BORN),
            ((E.UNDO, E.LINK_LOST, E.RESTART), _ROLLED_BACK),
            ((E.EXPIRE, E.DELETE), NOTED),
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((*_PUTS, E.DUE, E.DELAY, E.RELEASE, E.FAIL, E.ASSIGN, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.PUT_UNCONFIRMED,
        (H.XA_BRANCH,),
        [
            ((E.CONFIRM,), _BORN),  # one-phase
            ((E.PREPARE,), Move(S.PUT_UNCONFIRMED, holders=(H.XA_PREPARED,))),
            ((E.UNDO, E.LINK_LOST, E.RESTART), _ROLLED_BACK),
            ((E.EXPIRE, E.DELETE), NOTED),
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((*_PUTS, E.DUE, E.DELAY, E.RELEASE, E.FAIL, E.ASSIGN, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.PUT_UNCONFIRMED,
        (H.XA_PREPARED,),
        [
            ((E.CONFIRM,), _BORN),
            ((E.UNDO,), _ROLLED_BACK),
            ((E.PREPARE,), Refusal(Error.ALREADY_PREPARED)),
            ((E.LINK_LOST, E.RESTART), KEPT),  # written whatever its mode, so never lost
            ((E.EXPIRE, E.DELETE), NOTED),
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((*_PUTS, E.DUE, E.DELAY, E.RELEASE, E.FAIL, E.ASSIGN, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.PUT_UNCONFIRMED,
        (H.CONFIRM_ID,),
        [
            ((E.CONFIRM,), _BORN),
            ((E.UNDO,), _ROLLED_BACK),
            ((E.EXPIRE,), _EXPIRED),
            ((E.DELETE,), _DELETED),  # with its queue: deleteMessage can't see it
            ((E.LINK_LOST,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((*_PUTS, E.DUE, E.DELAY, E.RELEASE, E.FAIL, E.ASSIGN, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.PUT_UNCONFIRMED,
        (H.SPARK_BRANCH,),
        [
            ((E.CONFIRM,), _BORN),
            ((E.UNDO,), _ROLLED_BACK),  # another branch won, or its lease ended
            ((E.EXPIRE, E.DELETE), NOTED),
            ((E.LINK_LOST, E.RESTART), KEPT),  # written whatever its mode, so never lost
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((*_PUTS, E.DUE, E.DELAY, E.RELEASE, E.FAIL, E.ASSIGN, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.DELAYED,
        (H.NONE,),
        [
            ((E.DUE,), Move(READY, place=Place.NEW)),  # new only if it was never available
            ((E.DELAY,), Move(S.DELAYED)),
            ((E.EXPIRE,), _EXPIRED),
            ((E.DELETE,), _DELETED),
            ((E.PURGE,), _ends(O.PURGED)),
            ((E.DISCARD,), _DISCARDED),  # over the limit, judged when the delay ends
            ((E.DEAD_LETTER,), _DEAD_LETTERED),
            ((E.MOVE,), _ends(O.MOVED)),
            ((E.REDIRECT,), _ends(O.REDIRECTED)),
            ((E.CONFIRM,), KEPT),  # a repeated confirm of the put
            ((E.RESTART,), KEPT_OR_LOST),
            (_VISIBLE_VERBS, _NO_MATCH),
            ((E.RETURN_TO_SENDER, E.FORWARD), _NO_MATCH),
            ((E.UNLOCK, E.UNDO, E.RELEASE, E.FAIL, E.ASSIGN), _NOT_HELD),
            ((*_PUTS, E.PREPARE, *_LINK_VERBS, E.LINK_LOST), UNREACHABLE),
        ],
    ),
    (
        S.AVAILABLE,
        (H.NONE,),
        [
            ((E.GET,), _CONSUMED),
            (
                (E.ACQUIRE,),
                Move(
                    S.GET_UNCONFIRMED,
                    holders=(
                        H.CONSUMER,
                        H.LOCAL_TRANSACTION,
                        H.CONFIRM_ID,
                        H.CHANNEL_BATCH,
                        H.SPARK_SUBSCRIPTION,
                    ),
                ),
            ),
            ((E.LOCK,), Move(S.LOCKED_FOR_BROWSE, holders=(H.BROWSE_LOCK,))),
            ((E.DELAY,), Move(S.DELAYED)),
            ((E.EXPIRE,), _EXPIRED),
            ((E.DELETE,), _DELETED),
            ((E.PURGE,), _ends(O.PURGED)),
            ((E.DISCARD,), _DISCARDED),
            ((E.DEAD_LETTER,), _DEAD_LETTERED),
            ((E.MOVE,), _ends(O.MOVED)),
            ((E.REDIRECT,), _ends(O.REDIRECTED)),
            ((E.RETURN_TO_SENDER,), _RETURNED),
            ((E.CONFIRM,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((E.UNLOCK, E.UNDO, E.RELEASE, E.FAIL, E.ASSIGN), _NOT_HELD),
            ((*_PUTS, E.DUE, E.PREPARE, *_LINK_VERBS, E.LINK_LOST, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.LOCKED_FOR_BROWSE,
        (H.BROWSE_LOCK,),
        [
            ((E.UNLOCK, E.UNDO), _BACK_UNCHANGED),  # also the end of the lock's lease
            ((E.GET,), _CONSUMED),  # with the lock id, like the next two
            ((E.ACQUIRE,), Move(S.BROWSE_GET_UNCONFIRMED, holders=(H.CONFIRM_ID,))),
            ((E.DELETE,), _DELETED),
            ((E.EXPIRE,), _EXPIRED),
            ((E.DELAY,), NOTED),
            ((E.LINK_LOST,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((E.LOCK, E.PURGE, E.MOVE, E.CONFIRM), _NO_MATCH),
            ((E.RELEASE, E.FAIL, E.ASSIGN), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.CONSUMER,),
        [
            ((E.CONFIRM,), _CONSUMED),
            ((E.UNDO,), _BACK_UNDONE),  # recover
            ((E.RELEASE,), _BACK_UNCHANGED),
            ((E.FAIL,), _BACK_FAILED),
            ((E.DEAD_LETTER,), _DEAD_LETTERED),  # rejected
            ((E.DISCARD,), _DISCARDED),  # rejected, and no dead-letter queue
            ((E.FORWARD,), _FORWARDED),  # outside a batch: a fast channel's non-persistent message
            ((E.RETURN_TO_SENDER,), _RETURNED),  # by such a channel, which can't send it
            ((E.ASSIGN,), Move(S.GET_UNCONFIRMED, holders=(H.LOCAL_TRANSACTION, H.XA_BRANCH))),
            ((E.SUSPEND,), Move(S.GET_UNCONFIRMED, holders=(H.SUSPENDED_LINK,))),
            ((E.LINK_LOST,), _BACK_LINK_LOST),
            ((E.RESTART,), _BACK_RESTART),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.UNLOCK, E.MOVE), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, E.RESUME, E.REDIRECT), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.SUSPENDED_LINK,),
        [
            ((E.RESUME,), Move(S.GET_UNCONFIRMED, holders=(H.CONSUMER,))),
            ((E.LINK_LOST,), _BACK_LINK_LOST),  # its time-out has run out
            ((E.RESTART,), _BACK_RESTART),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.UNLOCK, E.MOVE), _HELD),
            # An outcome that is said on the detached link comes after a RESUME of its own.
            ((E.CONFIRM, E.UNDO, E.RELEASE, E.FAIL, E.DEAD_LETTER, E.DISCARD, E.ASSIGN), UNREACHABLE),
            ((*_PUTS, E.DUE, E.PREPARE, E.SUSPEND), UNREACHABLE),
            ((E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.LOCAL_TRANSACTION,),
        [
            ((E.CONFIRM,), _CONSUMED),
            ((E.UNDO,), _BACK_UNDONE),
            ((E.RESUME,), Move(S.GET_UNCONFIRMED, holders=(H.CONSUMER,))),  # rollback of an unsettled one
            ((E.RELEASE,), _BACK_UNCHANGED),  # these four: outcomes within it, applied by its commit
            ((E.FAIL,), _BACK_FAILED),
            ((E.DEAD_LETTER,), _DEAD_LETTERED),
            ((E.DISCARD,), _DISCARDED),
            ((E.LINK_LOST,), _BACK_LINK_LOST),
            ((E.RESTART,), _BACK_RESTART),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.UNLOCK, E.MOVE, E.ASSIGN), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, E.SUSPEND), UNREACHABLE),
            ((E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.XA_BRANCH,),
        [
            ((E.CONFIRM,), _CONSUMED),  # one-phase
            ((E.UNDO,), _BACK_UNDONE),
            ((E.PREPARE,), Move(S.GET_UNCONFIRMED, holders=(H.XA_PREPARED,))),
            ((E.LINK_LOST,), _BACK_LINK_LOST),
            ((E.RESTART,), _BACK_RESTART),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.RELEASE, E.FAIL, E.ASSIGN), _BRANCH),
            ((E.UNLOCK, E.MOVE), _HELD),
            ((*_PUTS, E.DUE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.XA_PREPARED,),
        [
            ((E.CONFIRM,), _CONSUMED),
            ((E.UNDO,), _BACK_UNDONE),
            ((E.PREPARE,), Refusal(Error.ALREADY_PREPARED)),
            ((E.LINK_LOST, E.RESTART), KEPT),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.RELEASE, E.FAIL, E.ASSIGN), _BRANCH),
            ((E.UNLOCK, E.MOVE), _HELD),
            ((*_PUTS, E.DUE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.CONFIRM_ID,),
        [
            ((E.CONFIRM,), _CONSUMED),
            ((E.UNDO,), _BACK_TAKEN_BACK),
            ((E.EXPIRE,), _EXPIRED),
            ((E.DELETE,), _DELETED),  # with its queue: deleteMessage can't see it
            ((E.LINK_LOST,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((E.DELAY,), NOTED),
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((E.RELEASE, E.FAIL, E.ASSIGN), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.CHANNEL_BATCH,),
        [
            ((E.FORWARD,), _FORWARDED),  # the batch is confirmed, or resolved by commit
            ((E.UNDO,), _BACK_IN_DOUBT),  # backed out: the channel failed, not a consumer
            ((E.DEAD_LETTER,), _DEAD_LETTERED),
            ((E.RETURN_TO_SENDER,), _RETURNED),
            ((E.DISCARD,), _DISCARDED),
            ((E.LINK_LOST,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.UNLOCK, E.MOVE, E.CONFIRM, E.RELEASE, E.FAIL, E.ASSIGN), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, *_LINK_VERBS, E.REDIRECT), UNREACHABLE),
        ],
    ),
    (
        S.GET_UNCONFIRMED,
        (H.SPARK_SUBSCRIPTION,),
        [
            ((E.CONFIRM,), _CONSUMED),
            ((E.UNDO,), _BACK_UNDONE),
            ((E.RELEASE,), _BACK_UNCHANGED),  # also the end of its lease
            ((E.DEAD_LETTER,), _DEAD_LETTERED),
            ((E.DISCARD,), _DISCARDED),
            ((E.LINK_LOST,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((E.EXPIRE, E.DELETE, E.DELAY), NOTED),
            ((*_VISIBLE_VERBS, E.PURGE), _NO_MATCH),
            ((E.UNLOCK, E.MOVE, E.FAIL, E.ASSIGN), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.BROWSE_GET_UNCONFIRMED,
        (H.CONFIRM_ID,),
        [
            ((E.CONFIRM,), _CONSUMED),
            ((E.UNDO,), Move(S.LOCKED_FOR_BROWSE, holders=(H.BROWSE_LOCK,))),  # the state before the get
            ((E.EXPIRE,), _EXPIRED),
            ((E.DELETE,), _DELETED),
            ((E.LINK_LOST,), KEPT),
            ((E.RESTART,), KEPT_OR_LOST),
            ((E.DELAY,), NOTED),
            ((*_VISIBLE_VERBS, E.UNLOCK, E.PURGE, E.MOVE), _NO_MATCH),
            ((E.RELEASE, E.FAIL, E.ASSIGN), _HELD),
            ((*_PUTS, E.DUE, E.PREPARE, *_LINK_VERBS), UNREACHABLE),
            ((E.DISCARD, E.DEAD_LETTER, E.REDIRECT, E.RETURN_TO_SENDER, E.FORWARD), UNREACHABLE),
        ],
    ),
    (
        S.DELETED,
        (H.NONE,),
        [
            ((*_VISIBLE_VERBS, E.UNLOCK, E.CONFIRM, E.UNDO, E.RELEASE, E.FAIL, E.ASSIGN), _GONE),
            ((E.DELETE, E.PURGE, E.MOVE), _GONE),
            ((*_PUTS, E.DUE, E.DELAY, E.EXPIRE, E.DISCARD, E.DEAD_LETTER, E.REDIRECT), UNREACHABLE),
            ((E.RETURN_TO_SENDER, E.FORWARD, E.PREPARE, *_LINK_VERBS, E.LINK_LOST, E.RESTART), UNREACHABLE),
        ],
    ),
]


def cell_index(state: int, holder_kind: int, event: int) -> int:
    """Where (state, holder, event) stands in the flattened tables."""
    return (state * HOLDER_KIND_COUNT + holder_kind) * EVENT_COUNT + event


def _spread() -> list[Cell]:
    """One cell for every (state, holder, event); raises AssertionError where a row names an event twice
    or never."""
    cells: list[Cell] = [UNREACHABLE] * (STATE_COUNT * HOLDER_KIND_COUNT * EVENT_COUNT)
    seen: set[int] = set()
    for state, holders, parts in _ROWS:
        for holder in holders:
            for events, cell in parts:
                for event in events:
                    index = cell_index(state, holder, event)
                    if index in seen:
                        raise AssertionError(
                            f"cell ({state.name}, {holder.name}, {event.name}) is given twice"
                        )
                    seen.add(index)
                    cells[index] = cell
            for event in Event:
                if event != E.NONE and cell_index(state, holder, event) not in seen:
                    raise AssertionError(f"({state.name}, {holder.name}, {event.name}) is missing")
    return cells


CELLS: Final = _spread()
"""Every cell, at `cell_index`."""


def rows() -> list[tuple[State, HolderKind]]:
    """The pairs (state, holder) that can exist, in the order of the table."""
    return [(state, holder) for state, holders, _ in _ROWS for holder in holders]
