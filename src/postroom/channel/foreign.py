"""Channels to and from brokers that know nothing of channels: what AMQP's outcomes mean for one.

There is no partner agent: nobody confirms batches, knows a LUWID or keeps a sequence number. What the partner
says is one outcome a message, so a message that was sent and has no outcome when the link is lost is sent
again: at least once.

- accepted: the partner has it; it leaves the transmission queue.
- released, and modified without undeliverable-here: not now. It is sent again by the rules of message retry.
- rejected: the partner doesn't want it. What its error says may pass (a queue is full) is tried again, too.
- modified with undeliverable-here: never there.

What is not tried again, or no more, goes the way of every message that a channel can't deliver.
"""

from typing import Final

from postroom.amqp.errors import (
    ILLEGAL_STATE,
    LINK_MESSAGE_SIZE_EXCEEDED,
    NOT_FOUND,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from postroom.amqp.outcomes import Accepted, DeliveryState, Modified, Rejected
from postroom.model.channel import ChannelDefinition
from postroom.model.mq import Reason, Undelivered

REASONS: Final = {
    NOT_FOUND: Reason.UNKNOWN_OBJECT_NAME,
    RESOURCE_DELETED: Reason.Q_DELETED,
    RESOURCE_LIMIT_EXCEEDED: Reason.Q_FULL,
    LINK_MESSAGE_SIZE_EXCEEDED: Reason.MSG_TOO_BIG_FOR_Q,
    UNAUTHORIZED_ACCESS: Reason.NOT_AUTHORIZED,
    ILLEGAL_STATE: Reason.PUT_INHIBITED,
}
"""What the error of a rejected message is called in IBM MQ; any other is MQRC_UNEXPECTED_ERROR."""


def refusal_of(state: DeliveryState | None, definition: ChannelDefinition) -> Undelivered | None:
    """Why the partner doesn't take a message that has this outcome; None: he has taken it.

    A delivery that was settled without an outcome was released (part 3, section 3.4: the default outcome of a
    source; of a target there is none).
    """
    if isinstance(state, Accepted):
        return None
    if isinstance(state, Rejected):
        return _rejected(state, definition)
    if isinstance(state, Modified) and state.undeliverable_here:
        return _undelivered(Reason.UNEXPECTED_ERROR, definition, "it is undeliverable there")
    return _undelivered(Reason.PUT_INHIBITED, definition, "it was released")


def _rejected(state: Rejected, definition: ChannelDefinition) -> Undelivered:
    error = state.error
    if error is None:
        return _undelivered(Reason.UNEXPECTED_ERROR, definition, "it was rejected without a reason")
    reason = REASONS.get(error.condition, Reason.UNEXPECTED_ERROR)
    return _undelivered(reason, definition, f"it was rejected: {error.condition}: {error.description or ''}")


def _undelivered(reason: Reason, definition: ChannelDefinition, what: str) -> Undelivered:
    where = f"{definition.remote_address!r} at {definition.connection}"
    return Undelivered(reason, definition.remote_address, definition.connection, f"sent to {where}: {what}")
