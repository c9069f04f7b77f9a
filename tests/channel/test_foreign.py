"""What outcomes of a foreign broker mean for a channel to it."""

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, DeliveryState, Modified, Rejected
from postroom.channel.foreign import refusal_of
from postroom.model.channel import ChannelDefinition
from postroom.model.mq import Reason, is_transient

CHANNEL = ChannelDefinition(
    "OUT",
    protocol="amqp",
    connection="amqp://there:5672",
    transmission_queue="OUT",
    remote_address="/queue/orders",
)


def test_accepted_is_no_refusal() -> None:
    assert refusal_of(ACCEPTED, CHANNEL) is None


@pytest.mark.parametrize(
    ("state", "reason", "transient"),
    [
        (None, Reason.PUT_INHIBITED, True),
        (RELEASED, Reason.PUT_INHIBITED, True),
        (Modified(delivery_failed=True), Reason.PUT_INHIBITED, True),
        (Modified(delivery_failed=True, undeliverable_here=True), Reason.UNEXPECTED_ERROR, False),
        (Rejected(), Reason.UNEXPECTED_ERROR, False),
        (Rejected(Error("amqp:resource-limit-exceeded", "full")), Reason.Q_FULL, True),
        (Rejected(Error("amqp:illegal-state", "paused")), Reason.PUT_INHIBITED, True),
        (Rejected(Error("amqp:not-found", "gone")), Reason.UNKNOWN_OBJECT_NAME, False),
        (Rejected(Error("amqp:link:message-size-exceeded")), Reason.MSG_TOO_BIG_FOR_Q, False),
        (Rejected(Error("their:own", "whatever")), Reason.UNEXPECTED_ERROR, False),
    ],
)
def test_refusals(state: DeliveryState | None, reason: Reason, transient: bool) -> None:
    refused = refusal_of(state, CHANNEL)
    assert refused is not None
    assert (refused[0], is_transient(refused[0])) == (reason, transient)


def test_what_the_partner_says_is_told() -> None:
    refused = refusal_of(Rejected(Error("amqp:not-found", "no such exchange")), CHANNEL)
    assert refused is not None
    assert refused[1].endswith("it was rejected: amqp:not-found: no such exchange")
    assert "'/queue/orders' at amqp://there:5672" in refused[1]
