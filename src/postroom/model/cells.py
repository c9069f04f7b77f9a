"""What a cell of the life cycle can say: the words in which `lifecycle` writes its table."""

from enum import IntEnum, StrEnum
from typing import Final, final

from postroom.model.codes import STATE_COUNT, HolderKind, Outcome

READY: Final = STATE_COUNT
"""As a target: AVAILABLE if no delay cause is left, else DELAYED."""


class Error(StrEnum):
    """What a refused caller is told."""

    NO_MATCH = "no matching message"
    """The entry is invisible to this verb: for the caller it isn't there."""
    NOT_HELD = "not held"
    """Nobody holds the entry, so there is nothing to confirm, undo or return."""
    HELD = "held by another"
    """The entry would be there, but its holder has the say."""
    BRANCH_DECIDES = "decided by its branch"
    """Only commit or rollback of the transaction branch moves it now."""
    ALREADY_PREPARED = "already prepared"
    GONE = "gone"
    """The entry has ended."""


class Count(IntEnum):
    """What a move does to a count."""

    SAME = 0
    IF_SENT = 1
    """One more if the delivery had been put on the wire."""
    ONE_MORE = 2
    IF_QUEUE_COUNTS = 3
    """One more if it was sent and the queue charges lost links to the redelivery limit."""


class Place(IntEnum):
    """What a move does to the entry's place in the queue."""

    KEPT = 0
    NEW = 1
    """This event makes it available for the first time: the event's position is its place."""


@final
class Move:
    """The entry goes to state ``to`` (or READY)."""

    def __init__(
        self,
        to: int,
        outcome: Outcome = Outcome.NONE,
        *,
        holders: tuple[HolderKind, ...] = (),
        delivery: Count = Count.SAME,
        failure: Count = Count.SAME,
        place: Place = Place.KEPT,
        lost: bool = False,
    ) -> None:
        self.to: Final = to
        self.outcome: Final = outcome
        self.holders: Final = holders
        """Who may hold it afterwards; empty: nobody."""
        self.delivery: Final = delivery
        self.failure: Final = failure
        self.place: Final = place
        self.lost: Final = lost
        """At a restart, an entry whose message was not stored is DELETED with outcome LOST instead."""


@final
class Refusal:
    """The caller gets ``error``; nothing is recorded."""

    def __init__(self, error: Error) -> None:
        self.error: Final = error


@final
class Still:
    """Nothing is recorded now; `NOTED`, `KEPT`, `KEPT_OR_LOST` and `UNREACHABLE` are its only values."""

    def __init__(self, name: str, lost: bool) -> None:
        self.name: Final = name
        self.lost: Final = lost


NOTED: Final = Still("noted", False)
"""Remembered, and acts (as an event of its own) when the holder gives the entry back."""
KEPT: Final = Still("kept", False)
"""Nothing happens: the holder outlives this, or the call is a repeated one without effect."""
KEPT_OR_LOST: Final = Still("kept", True)
"""As KEPT for a stored message; one that was not stored is DELETED with outcome LOST."""
UNREACHABLE: Final = Still("unreachable", False)

Cell = Move | Refusal | Still
