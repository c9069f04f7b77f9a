"""What the queue manager refuses, each with the AMQP error condition that a client is told."""

from typing import ClassVar

from postroom.model.xa import XaCode


class ManagerError(Exception):
    """Something was refused. ``condition`` is an AMQP error symbol, ``description`` a sentence that says
    what was wrong, where, and what to do.
    """

    condition: ClassVar[str] = "amqp:internal-error"

    def __init__(self, description: str, info: dict[str, object] | None = None) -> None:
        super().__init__(description)
        self.description = description
        self.info: dict[str, object] = info if info is not None else {}
        """What a program needs to know of it: the body of a management node's refusal."""


class QueueNotFound(ManagerError):
    condition = "amqp:not-found"


class QueueDeleted(ManagerError):
    """A sender still has a queue or topic that is no more."""

    condition = "amqp:resource-deleted"


class QueueExists(ManagerError):
    """A queue of that name exists with another definition."""

    condition = "amqp:precondition-failed"


class ReportOptionsInvalid(ManagerError):
    """A message asks for reports that can't be."""

    condition = "amqp:invalid-field"


class QueueInUse(ManagerError):
    """Deletion was conditional (unused, empty), or somebody holds what may not be decided for them."""

    condition = "amqp:precondition-failed"


class SubscriptionInUse(ManagerError):
    """A durable or shared subscription has a consumer that stands in the way."""

    condition = "amqp:resource-locked"


class NameUnknown(ManagerError):
    """A name leads nowhere, or to a queue manager that nothing here leads to (MQRC_UNKNOWN_…)."""

    condition = "amqp:not-found"


class NameUnusable(ManagerError):
    """What a name leads through is defined otherwise than it is used."""

    condition = "amqp:precondition-failed"


class NotForInput(ManagerError):
    """A queue at another queue manager can be sent to, not received from."""

    condition = "amqp:not-allowed"


class QuotaNotFound(ManagerError):
    condition = "amqp:not-found"


class QuotaExists(ManagerError):
    """A quota of that name exists with another definition."""

    condition = "amqp:precondition-failed"


class QuotaInUse(ManagerError):
    """Destinations are under it."""

    condition = "amqp:precondition-failed"


class SwitchUnknown(ManagerError):
    """There is nothing of that name to pause."""

    condition = "amqp:invalid-field"


class DestinationPaused(ManagerError):
    """It takes no messages: production or insertion is paused."""

    condition = "amqp:illegal-state"


class NameNotAllowed(ManagerError):
    """Empty, too long, reserved, or with characters that a name may not have."""

    condition = "amqp:invalid-field"


class DefinitionInvalid(ManagerError):
    """A value of a definition is out of its range; ``key`` names the setting where it is one."""

    condition = "amqp:invalid-field"

    def __init__(self, description: str, key: str = "") -> None:
        super().__init__(description)
        self.key = key


class LimitExceeded(ManagerError):
    """A bound of the queue manager or of a queue is reached."""

    condition = "amqp:resource-limit-exceeded"


class MessageTooLarge(ManagerError):
    condition = "amqp:link:message-size-exceeded"


class AccessRefused(ManagerError):
    """The queue is taken exclusively, or has all the consumers it may have."""

    condition = "amqp:resource-locked"


class SelectorRefused(ManagerError):
    """The text is no selector; the description says where and what was expected."""

    condition = "amqp:invalid-field"


class NotAllowed(ManagerError):
    """The queue or entry is in a state in which this can't be done."""

    condition = "amqp:illegal-state"


class NotHeld(ManagerError):
    """An outcome for an entry that this consumer doesn't hold (any more)."""

    condition = "amqp:illegal-state"


class TransactionUnknown(ManagerError):
    condition = "amqp:transaction:unknown-id"


class TransactionRolledBack(ManagerError):
    condition = "amqp:transaction:rollback"


class TransactionTimedOut(TransactionRolledBack):
    """It was open too long, and has been rolled back."""

    condition = "amqp:transaction:timeout"


class XaError(ManagerError):
    """An XA verb was refused, or told how the branch has ended; ``code`` is X/Open's."""

    condition = "postroom:xa-error"

    def __init__(self, code: XaCode, description: str) -> None:
        super().__init__(f"{code.name}: {description}")
        self.code = code


class SinkFenced(ManagerError):
    """Another run of the query has begun since."""

    condition = "postroom:sink-fenced"


class SinkQueryReplaced(ManagerError):
    """The app is written to by another query: this one's checkpoint is not the one that was used."""

    condition = "postroom:sink-query-replaced"


class SinkBatchReplaced(ManagerError):
    """The batch was decided with other offsets."""

    condition = "postroom:sink-batch-replaced"


class SinkBranchUnknown(ManagerError):
    """A branch is not there (any more): decided, fenced, or its lease has ended."""

    condition = "postroom:sink-branch-unknown"


class SinkBranchOpen(ManagerError):
    """A branch is to be committed that was not sealed."""

    condition = "postroom:sink-branch-open"


class SinkBranchFull(ManagerError):
    """A branch holds as much as one may; the branch is as it was."""

    condition = "postroom:sink-branch-full"


class SinkBranchSpoiled(ManagerError):
    """Something of a branch was refused, so that it has been rolled back; ``refused`` is the condition by
    which it was, "" where it was none's."""

    condition = "amqp:transaction:rollback"

    def __init__(self, description: str, refused: str) -> None:
        super().__init__(description)
        self.refused = refused


class SinkUnknown(ManagerError):
    condition = "amqp:not-found"


class NoMatchingMessage(ManagerError):
    """The message store has no such message that the caller may see (Except_Q_NoMatchingMsg)."""

    condition = "postroom:no-matching-message"


class DuplicateMessage(ManagerError):
    """The message store has a message of that unique id already."""

    condition = "postroom:duplicate-message"


class CursorUnknown(ManagerError):
    """The cursor of a query is closed, or belongs to another queue."""

    condition = "amqp:not-found"


class OriginGone(ManagerError):
    """A message can't go back to where it came from: the queue has been deleted."""

    condition = "amqp:not-found"


class RequestInvalid(ManagerError):
    """Something that the request needs is missing, or can't be so."""

    condition = "amqp:invalid-field"


class ChannelNotFound(ManagerError):
    condition = "amqp:not-found"


class ChannelExists(ManagerError):
    """A channel of that name exists with another definition."""

    condition = "amqp:precondition-failed"


class ChannelInUse(ManagerError):
    """It is running, or has a batch in doubt: stop or resolve it first."""

    condition = "amqp:resource-locked"


class ChannelNotInDoubt(ManagerError):
    """There is nothing to resolve."""

    condition = "amqp:illegal-state"


class ChannelSequenceError(ManagerError):
    """The two ends of a channel don't agree on the number of the last message (MQ's AMQ9526)."""

    condition = "postroom:sequence-error"


class SparkSubscriptionNotFound(ManagerError):
    condition = "amqp:not-found"


class SparkSubscriptionExists(ManagerError):
    """A Spark subscription of that name exists with another definition."""

    condition = "amqp:precondition-failed"


class CheckpointReplaced(ManagerError):
    """A Spark query comes with another checkpoint than the one that its subscription has registered."""

    condition = "postroom:checkpoint-replaced"


class SubscriptionEnded(ManagerError):
    """The lease of a Spark subscription has ended: what it held has gone back."""

    condition = "postroom:subscription-ended"


class PositionRefused(ManagerError):
    """A position that can't be confirmed: not assigned yet, or of another ledger."""

    condition = "postroom:position-refused"
