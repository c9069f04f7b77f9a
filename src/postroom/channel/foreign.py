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
from postroom.amqp.frames.outcomes import Accepted, DeliveryState, Modified, Rejected
from postroom.model.channel import ChannelDefinition
from postroom.model.mq import Reason

REASONS: Final = {
    NOT_FOUND: Reason.UNKNOWN_OBJECT_NAME,
    RESOURCE_DELETED: Reason.Q_DELETED,
    RESOURCE_LIMIT_EXCEEDED: Reason.Q_FULL,
    LINK_MESSAGE_SIZE_EXCEEDED: Reason.MSG_TOO_BIG_FOR_Q,
    UNAUTHORIZED_ACCESS: Reason.NOT_AUTHORIZED,
    ILLEGAL_STATE: Reason.PUT_INHIBITED,
}
"""What the error of a rejected message is called in IBM MQ; any other is MQRC_UNEXPECTED_ERROR."""


def refusal_of(state: DeliveryState | None, definition: ChannelDefinition) -> tuple[int, str] | None:
    """Why the partner doesn't take a message of this outcome, as (MQRC_, sentence); None: it has taken it.

    A delivery that was settled without an outcome was released.
    """
    if isinstance(state, Accepted):
        return None
    where = f"sent to {definition.remote_address!r} at {definition.connection}: it"
    if isinstance(state, Rejected):
        reason, what = _rejected(state)
        return reason, f"{where} {what}"
    if isinstance(state, Modified) and state.undeliverable_here:
        return int(Reason.UNEXPECTED_ERROR), f"{where} is undeliverable there"
    return int(Reason.PUT_INHIBITED), f"{where} was released"


def _rejected(state: Rejected) -> tuple[int, str]:
    error = state.error
    if error is None:
        return int(Reason.UNEXPECTED_ERROR), "was rejected without a reason"
    reason = REASONS.get(error.condition, Reason.UNEXPECTED_ERROR)
    return int(reason), f"was rejected: {error.condition}: {error.description or ''}"
