"""The codes that the ledger stores and every room shares: states, events, holders, outcomes, delay causes.

The numbers are part of the ledger format (``ledger/FORMAT.md``): they are never reused and never renumbered.
"""

from enum import IntEnum, IntFlag
from typing import Final


class State(IntEnum):
    """Where an entry (one message on one queue or subscription) is in its life."""

    START = 0
    PUT_UNCONFIRMED = 1
    DELAYED = 2
    AVAILABLE = 3
    LOCKED_FOR_BROWSE = 4
    GET_UNCONFIRMED = 5
    BROWSE_GET_UNCONFIRMED = 6
    DELETED = 7


class Outcome(IntEnum):
    """How an entry ended; NONE while it has not."""

    NONE = 0
    CONSUMED = 1
    EXPIRED = 2
    DELETED = 3
    PURGED = 4
    MOVED = 5
    DEAD_LETTERED = 6
    REDIRECTED = 7
    RETURNED_TO_SENDER = 8
    FORWARDED = 9
    DISCARDED = 10
    ROLLED_BACK = 11
    LOST = 12


class HolderKind(IntEnum):
    """Who must confirm before the entry can go on; NONE for an entry that nobody holds."""

    NONE = 0
    CONSUMER = 1
    SUSPENDED_LINK = 2
    LOCAL_TRANSACTION = 3
    XA_BRANCH = 4
    XA_PREPARED = 5
    CONFIRM_ID = 6
    CHANNEL_BATCH = 7
    BROWSE_LOCK = 8
    SPARK_SUBSCRIPTION = 9
    SPARK_BRANCH = 10


class Event(IntEnum):
    """What happens to an entry.

    The events that end an entry each have one outcome, so that (state, holder, event) alone decides the cell.
    """

    NONE = 0
    PUT = 1
    """Stored, no confirmation needed."""
    PUT_HELD = 2
    """Stored under a holder (confirm id, transaction, branch): invisible until confirmed."""
    DUE = 3
    """One delay cause has ended; the entry becomes available when none is left."""
    DELAY = 4
    """A delay cause is added to an entry that nobody holds (pause, order)."""
    GET = 5
    """Taken without need of a confirmation (pre-settled delivery, unassured get)."""
    ACQUIRE = 6
    """Taken under a holder that must confirm."""
    LOCK = 7
    UNLOCK = 8
    CONFIRM = 9
    """The holder confirms: accepted, acknowledged, committed."""
    UNDO = 10
    """The holder gives back by rollback, recover or undo."""
    RELEASE = 11
    """AMQP released: back, counts unchanged."""
    FAIL = 12
    """AMQP modified with delivery-failed: back, both counts up."""
    EXPIRE = 13
    DELETE = 14
    PURGE = 15
    DISCARD = 16
    """Over a limit, or undeliverable with nowhere to go."""
    MOVE = 17
    DEAD_LETTER = 18
    """Rejected, or over the redelivery limit, with a dead-letter queue to go to."""
    REDIRECT = 19
    RETURN_TO_SENDER = 20
    FORWARD = 21
    ASSIGN = 22
    """A receipt joins an XA branch at end."""
    PREPARE = 23
    SUSPEND = 24
    """The link is gone but its terminus is kept."""
    RESUME = 25
    LINK_LOST = 26
    RESTART = 27


class DelayCause(IntFlag):
    """Why a DELAYED entry is not available; a set."""

    NONE = 0
    UNBORN = 1
    REDELIVERY_DELAY = 2
    PAUSED = 4
    ORDERED = 8


class IdType(IntEnum):
    """How a message id or correlation id was encoded in AMQP."""

    NONE = 0
    STRING = 1
    BINARY = 2
    UUID = 3
    ULONG = 4


STATE_COUNT: Final = len(State)
HOLDER_KIND_COUNT: Final = len(HolderKind)
EVENT_COUNT: Final = len(Event)
