"""What a client asks of a source or target, and what it is granted: the attach reply tells the truth."""

from typing import Final

from postroom.amqp.errors import INVALID_FIELD, NOT_IMPLEMENTED, AmqpError
from postroom.amqp.outcomes import RELEASED, DeliveryState, Modified, Rejected, Released
from postroom.amqp.performatives import Source, Target
from postroom.amqp.termini import (
    DISTRIBUTION_COPY,
    DISTRIBUTION_MOVE,
    DURABILITY_NONE,
    EXPIRY_CONNECTION_CLOSE,
    EXPIRY_LINK_DETACH,
    EXPIRY_NEVER,
    EXPIRY_SESSION_END,
)
from postroom.amqp.types import Described

OUTCOMES: Final = [
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
]
"""Every outcome of part 3, section 3.4: a source here knows what to do with each."""

SELECTOR_NAME: Final = "apache.org:selector-filter:string"
SELECTOR_CODE: Final = 0x0000468C00000004
EXPIRY_POLICIES: Final = (EXPIRY_LINK_DETACH, EXPIRY_SESSION_END, EXPIRY_CONNECTION_CLOSE, EXPIRY_NEVER)
QUEUE_CAPABILITIES: Final = ("queue", "temporary-queue")
TOPIC_CAPABILITIES: Final = ("topic", "temporary-topic", "shared", "global")


def granted_source(asked: Source, address: str, max_timeout_s: int) -> Source:
    """The source as it will be served.

    Unsettled state never outlives a restart of the broker (durability none), filters are not applied (none is
    echoed), and the time-out is bounded.
    """
    return Source(
        address=address,
        durable=DURABILITY_NONE,
        expiry_policy=_policy(asked.expiry_policy),
        timeout=min(asked.timeout, max_timeout_s),
        dynamic=asked.dynamic,
        dynamic_node_properties=asked.dynamic_node_properties if asked.dynamic else None,
        distribution_mode=DISTRIBUTION_COPY if is_copy(asked) else DISTRIBUTION_MOVE,
        default_outcome=default_outcome(asked),
        outcomes=OUTCOMES,
        capabilities=_granted_capabilities(asked.capabilities),
    )


def granted_target(asked: Target, address: str | None, max_timeout_s: int) -> Target:
    """The target as it will be served; see `granted_source`."""
    return Target(
        address=address,
        durable=DURABILITY_NONE,
        expiry_policy=_policy(asked.expiry_policy),
        timeout=min(asked.timeout, max_timeout_s),
        dynamic=asked.dynamic,
        dynamic_node_properties=asked.dynamic_node_properties if asked.dynamic else None,
        capabilities=_granted_capabilities(asked.capabilities),
    )


def is_copy(source: Source) -> bool:
    """Whether the client browses: it gets copies, and what it browses stays."""
    return source.distribution_mode == DISTRIBUTION_COPY


def default_outcome(source: Source) -> DeliveryState:
    """What becomes of a delivery that is settled without an outcome (part 3, section 3.5.3): released if
    unset.
    """
    outcome = source.default_outcome
    return outcome if isinstance(outcome, (Modified, Released, Rejected)) else RELEASED


def check_distribution_mode(source: Source) -> None:
    """Raises `AmqpError` where the mode is neither move nor copy."""
    if source.distribution_mode not in (None, DISTRIBUTION_MOVE, DISTRIBUTION_COPY):
        raise AmqpError(
            INVALID_FIELD,
            f"distribution-mode {source.distribution_mode!r} is neither move nor copy",
            {"invalid-field": "source.distribution-mode"},
        )


def check_filter(source: Source) -> None:
    """Raises `AmqpError` where the client wants a selector: without it, it would take what isn't meant for
    it.
    """
    for key, wanted in (source.filter or {}).items():
        descriptor = wanted.descriptor if isinstance(wanted, Described) else None
        if key == SELECTOR_NAME or descriptor in (SELECTOR_NAME, SELECTOR_CODE):
            raise AmqpError(NOT_IMPLEMENTED, "selectors are not there yet: attach without a selector filter")


def check_capabilities(capabilities: list[str]) -> None:
    """Raises `AmqpError` for a terminus that must be a topic: there are queues only."""
    for capability in capabilities:
        if capability in TOPIC_CAPABILITIES:
            raise AmqpError(
                NOT_IMPLEMENTED, f"terminus capability {capability!r}: this broker has queues only"
            )


def _policy(asked: str) -> str:
    return asked if asked in EXPIRY_POLICIES else EXPIRY_SESSION_END


def _granted_capabilities(asked: list[str]) -> list[str]:
    return [capability for capability in asked if capability in QUEUE_CAPABILITIES] or ["queue"]
