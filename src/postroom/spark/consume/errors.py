"""What stops a query that consumes, each with what to do about it."""

from typing import Final

from postroom.ledger.errors import LedgerError


class ConsumeError(LedgerError):
    """Base of these errors."""


class CheckpointReplaced(ConsumeError):
    """The subscription knows another checkpoint than this query's.

    ``registered`` is the one that it knows, ``confirmed`` the position up to which everything is confirmed.
    """

    def __init__(self, subscription: str, registered: str, confirmed: int) -> None:
        super().__init__(
            f"subscription {subscription}: checkpoint {registered} is registered, not this query's;"
            f" what was assigned up to position {confirmed} is confirmed. Start the query that has that"
            " checkpoint; or, if that checkpoint is lost, give a new one and"
            " onNewCheckpoint=confirmed: everything that is not confirmed is read again"
        )
        self.subscription: Final = subscription
        self.registered: Final = registered
        self.confirmed: Final = confirmed

    def __reduce__(self) -> tuple[type["CheckpointReplaced"], tuple[str, str, int]]:
        return CheckpointReplaced, (self.subscription, self.registered, self.confirmed)


class SubscriptionEnded(ConsumeError):
    """The subscription's lease ended, or somebody deleted it: what it held has gone back to the queue."""

    def __init__(self, subscription: str, why: str) -> None:
        super().__init__(
            f"subscription {subscription} has ended: {why}. What it held and was not confirmed is on the"
            " queue again, and may have gone elsewhere. Create it anew and begin with a new checkpoint"
        )
        self.subscription: Final = subscription


class BrokerUnreachable(ConsumeError):
    """The broker gave no answer within the time allowed."""


class LedgerBehind(ConsumeError):
    """The ledger under ``path`` doesn't show what the broker says that it has written."""


class WindowFull(ConsumeError):
    """Everything that the window lets through was read and nothing of it is confirmed: nothing can come."""


class TableBehind(ConsumeError):
    """The table has less than what was confirmed in its name."""


class PositionGap(ConsumeError):
    """A batch begins behind what the table has: the rows between would be missing for good."""


class AppendRefused(ConsumeError):
    """The rows don't fit the table, or it is none that can be appended to."""


class OffsetsUnreadable(ConsumeError):
    """The checkpoint has no offsets of a batch, or they are none of this source."""
