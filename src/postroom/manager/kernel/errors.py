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


class NotFound(ManagerError):
    """Something isn't there, under the name by which it was asked for."""

    condition = "amqp:not-found"


class PreconditionFailed(ManagerError):
    """It can't be as things are defined, or used, now."""

    condition = "amqp:precondition-failed"


class InvalidField(ManagerError):
    """Something that was said can't be so."""

    condition = "amqp:invalid-field"


class IllegalState(ManagerError):
    """It can't be done in this state."""

    condition = "amqp:illegal-state"


class ResourceLocked(ManagerError):
    """Somebody else has it."""

    condition = "amqp:resource-locked"


class QueueNotFound(NotFound):
    pass


class QueueDeleted(ManagerError):
    """A sender still has a queue or topic that is no more."""

    condition = "amqp:resource-deleted"


class QueueExists(PreconditionFailed):
    """A queue of that name exists with another definition."""


class ReportOptionsInvalid(InvalidField):
    """A message asks for reports that can't be."""


class QueueInUse(PreconditionFailed):
    """Deletion was conditional (unused, empty), or somebody holds what may not be decided for them."""


class SubscriptionInUse(ResourceLocked):
    """A durable or shared subscription has a consumer that stands in the way."""


class NameUnknown(NotFound):
    """A name leads nowhere, or to a queue manager that nothing here leads to (MQRC_UNKNOWN_…)."""


class NameUnusable(PreconditionFailed):
    """What a name leads through is defined otherwise than it is used."""


class NotForInput(ManagerError):
    """A queue at another queue manager can be sent to, not received from."""

    condition = "amqp:not-allowed"


class QuotaNotFound(NotFound):
    pass


class QuotaExists(PreconditionFailed):
    """A quota of that name exists with another definition."""


class QuotaInUse(PreconditionFailed):
    """Destinations are under it."""


class SwitchUnknown(InvalidField):
    """There is nothing of that name to pause."""


class DestinationPaused(IllegalState):
    """It takes no messages: production or insertion is paused."""


class NameNotAllowed(InvalidField):
    """Empty, too long, reserved, or with characters that a name may not have."""


class DefinitionInvalid(InvalidField):
    """A value of a definition is out of its range; ``key`` names the setting where it is one."""

    def __init__(self, description: str, key: str = "") -> None:
        super().__init__(description)
        self.key = key


class LimitExceeded(ManagerError):
    """A bound of the queue manager or of a queue is reached."""

    condition = "amqp:resource-limit-exceeded"


class MessageTooLarge(ManagerError):
    condition = "amqp:link:message-size-exceeded"


class AccessRefused(ResourceLocked):
    """The queue is taken exclusively, or has all the consumers it may have."""


class SelectorRefused(InvalidField):
    """The text is no selector; the description says where and what was expected."""


class NotAllowed(IllegalState):
    """The queue or entry is in a state in which this can't be done."""


class NotHeld(IllegalState):
    """An outcome for an entry that this consumer doesn't hold (any more)."""


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


class SinkUnknown(NotFound):
    pass


class NoMatchingMessage(ManagerError):
    """The message store has no such message that the caller may see (Except_Q_NoMatchingMsg)."""

    condition = "postroom:no-matching-message"


class DuplicateMessage(ManagerError):
    """The message store has a message of that unique id already."""

    condition = "postroom:duplicate-message"


class CursorUnknown(NotFound):
    """The cursor of a query is closed, or belongs to another queue."""


class OriginGone(NotFound):
    """A message can't go back to where it came from: the queue has been deleted."""


class RequestInvalid(InvalidField):
    """Something that the request needs is missing, or can't be so."""


class ChannelNotFound(NotFound):
    pass


class ChannelExists(PreconditionFailed):
    """A channel of that name exists with another definition."""


class ChannelInUse(ResourceLocked):
    """It is running, or has a batch in doubt: stop or resolve it first."""


class PrincipalNotFound(NotFound):
    pass


class PrincipalExists(PreconditionFailed):
    """A user or role of that name exists."""


class PrincipalInUse(ResourceLocked):
    """Nobody could administer users any more, or it belongs to the configuration."""


class ChannelNotInDoubt(IllegalState):
    """There is nothing to resolve."""


class ChannelSequenceError(ManagerError):
    """The two ends of a channel don't agree on the number of the last message (MQ's AMQ9526)."""

    condition = "postroom:sequence-error"


class SparkSubscriptionNotFound(NotFound):
    pass


class SparkSubscriptionExists(PreconditionFailed):
    """A Spark subscription of that name exists with another definition."""


class CheckpointReplaced(ManagerError):
    """A Spark query comes with another checkpoint than the one that its subscription has registered."""

    condition = "postroom:checkpoint-replaced"


class SubscriptionEnded(ManagerError):
    """The lease of a Spark subscription has ended: what it held has gone back."""

    condition = "postroom:subscription-ended"


class PositionRefused(ManagerError):
    """A position that can't be confirmed: not assigned yet, or of another ledger."""

    condition = "postroom:position-refused"
