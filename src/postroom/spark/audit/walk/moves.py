"""What an event does to its entry, as one word: few different ones come again and again, so that what holds
of an event is found out once for each word and not for each event."""

from collections.abc import Callable
from typing import Final, NamedTuple

from postroom.spark.audit.rows import CARRIED_EVENT
from postroom.spark.ledger_source.state_names import HELD_STATES

TRANSACTIONS: Final = ("local_transaction", "xa_branch", "xa_prepared", "channel_batch", "spark_branch")
"""Holders that decide about all that they hold at once."""

BRANCH: Final = "spark_branch"
"""Of them, a branch of a Spark sink."""

SUBSCRIPTION: Final = "spark_subscription"
"""The holder that confirms all that it was given up to a position."""

_BETWEEN: Final = "/"
_NOTHING: Final = "-"


class Move(NamedTuple):
    """What an event does to its entry, in the words of the events table."""

    from_state: str | None
    to_state: str | None
    holder_kind: str | None
    event: str | None
    outcome: str | None
    causes: str | None

    @property
    def is_arrival(self) -> bool:
        return self.from_state == "start"

    @property
    def is_carried(self) -> bool:
        """It is no event: a checkpoint tells where the entry was."""
        return self.event == CARRIED_EVENT

    @property
    def is_end(self) -> bool:
        return self.to_state == "deleted"

    @property
    def holds(self) -> bool:
        """The entry waits for a holder's word afterwards."""
        return self.to_state in HELD_STATES

    @property
    def is_held(self) -> bool:
        """A transaction or batch has the entry afterwards."""
        return self.holds and self.holder_kind in TRANSACTIONS

    @property
    def is_assigned(self) -> bool:
        """A Spark subscription was given it."""
        return self.holder_kind == SUBSCRIPTION and self.event == "acquire"


Test = Callable[[Move], bool]


def text_of(move: Move) -> str:
    """A move as one text."""
    return _BETWEEN.join(_NOTHING if word is None else word for word in move)


def move_of(text: str) -> Move:
    """The inverse of `text_of`."""
    return Move(*(None if word == _NOTHING else word for word in text.split(_BETWEEN)))
