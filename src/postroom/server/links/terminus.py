"""What a client asks of a source or target, and what it is granted: the attach reply tells the truth."""

from typing import Final

from postroom.amqp.encoding.types import Described
from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, AmqpError
from postroom.amqp.extensions import (
    CREATE_CAPABILITY,
    GLOBAL_CAPABILITY,
    NO_LOCAL_DESCRIPTOR,
    QUEUE_CAPABILITY,
    REJECTED_OUTCOME,
    SELECTOR_DESCRIPTOR,
    SEND_TIMEOUT_PROPERTY,
    SHARED_CAPABILITY,
    TEMPORARY_QUEUE_CAPABILITY,
    TEMPORARY_TOPIC_CAPABILITY,
    TOPIC_CAPABILITY,
    XA_PROPERTY,
)
from postroom.amqp.frames.outcomes import RELEASED, DeliveryState, Modified, Rejected, Released
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import (
    DISTRIBUTION_COPY,
    DISTRIBUTION_MOVE,
    DURABILITY_CONFIGURATION,
    DURABILITY_NONE,
    EXPIRY_CONNECTION_CLOSE,
    EXPIRY_LINK_DETACH,
    EXPIRY_NEVER,
    EXPIRY_SESSION_END,
    Source,
    Target,
)
from postroom.model.selector import SelectorInvalid, parse

OUTCOMES: Final = [
    "amqp:accepted:list",
    REJECTED_OUTCOME,
    "amqp:released:list",
    "amqp:modified:list",
]
"""Every outcome of part 3, section 3.4: a source here knows what to do with each."""

MAX_PROPERTY_MS: Final = 2**53
SELECTOR_CODE: Final = 0x0000468C00000004
NO_LOCAL_CODE: Final = 0x0000468C00000003
EXPIRY_POLICIES: Final = (EXPIRY_LINK_DETACH, EXPIRY_SESSION_END, EXPIRY_CONNECTION_CLOSE, EXPIRY_NEVER)
QUEUE_CAPABILITIES: Final = (QUEUE_CAPABILITY, TEMPORARY_QUEUE_CAPABILITY)
TOPIC_CAPABILITIES: Final = (TOPIC_CAPABILITY, TEMPORARY_TOPIC_CAPABILITY)


class Filters:
    """What a source lets through."""

    def __init__(self) -> None:
        self.selector = ""
        """Of JMS; "" for all."""
        self.no_local = False
        """Not what the client itself publishes."""
        self.granted: dict[object, object] = {}
        """Those that are applied, as they are echoed in the attach reply."""
        self.no_local_key: object = None

    def leave_out_no_local(self) -> None:
        """The source is a queue: whoever consumes takes what anybody has put."""
        self.no_local = False
        self.granted.pop(self.no_local_key, None)


def granted_source(
    requested: Source, address: str, max_timeout_s: int, filters: Filters, topic: bool = False
) -> Source:
    """The source as it will be served.

    Unsettled state never outlives a restart of the broker: durability is none, or, of a durable subscription,
    configuration. The filters that are applied are echoed, and the time-out is bounded.
    """
    durable = topic and requested.durable != DURABILITY_NONE and requested.expiry_policy == EXPIRY_NEVER
    return Source(
        address=address,
        durable=DURABILITY_CONFIGURATION if durable else DURABILITY_NONE,
        expiry_policy=_policy(requested.expiry_policy),
        timeout=min(requested.timeout, max_timeout_s),
        dynamic=requested.dynamic,
        dynamic_node_properties=requested.dynamic_node_properties if requested.dynamic else None,
        distribution_mode=DISTRIBUTION_COPY if is_copy(requested) else DISTRIBUTION_MOVE,
        filter=filters.granted or None,
        default_outcome=default_outcome(requested),
        outcomes=OUTCOMES,
        capabilities=_granted_capabilities(requested.capabilities, topic),
    )


def granted_target(requested: Target, address: str | None, max_timeout_s: int, topic: bool = False) -> Target:
    """The target as it will be served; see `granted_source`."""
    return Target(
        address=address,
        durable=DURABILITY_NONE,
        expiry_policy=_policy(requested.expiry_policy),
        timeout=min(requested.timeout, max_timeout_s),
        dynamic=requested.dynamic,
        dynamic_node_properties=requested.dynamic_node_properties if requested.dynamic else None,
        capabilities=_granted_capabilities(requested.capabilities, topic),
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


def read_filters(source: Source) -> Filters:
    """The filters of a source: a selector, no-local, by their names or codes; others are not applied.

    Raises `AmqpError` for a selector that is none, with the place of its mistake.
    """
    filters = Filters()
    for key, wanted in (source.filter or {}).items():
        descriptor = wanted.descriptor if isinstance(wanted, Described) else None
        if key == SELECTOR_DESCRIPTOR or descriptor in (SELECTOR_DESCRIPTOR, SELECTOR_CODE):
            filters.selector = _selector(wanted.value if isinstance(wanted, Described) else wanted)
        elif key == NO_LOCAL_DESCRIPTOR or descriptor in (NO_LOCAL_DESCRIPTOR, NO_LOCAL_CODE):
            filters.no_local = True
            filters.no_local_key = key
        else:
            continue
        filters.granted[key] = wanted
    return filters


def _selector(text: object) -> str:
    info: dict[object, object] = {"invalid-field": "source.filter"}
    if not isinstance(text, str):
        raise AmqpError(INVALID_FIELD, f"a selector must be a string, not {type(text).__name__}", info)
    try:
        parse(text)
    except SelectorInvalid as error:
        info["position"] = error.position
        raise AmqpError(INVALID_FIELD, str(error), info) from error
    return text


def means_topic(capabilities: list[str]) -> bool | None:
    """Whether the capabilities of a terminus say topic (True) or queue (False); None: neither.

    Raises `AmqpError` where they say both.
    """
    topic = any(capability in TOPIC_CAPABILITIES for capability in capabilities)
    queue = any(capability in QUEUE_CAPABILITIES for capability in capabilities)
    if topic and queue:
        raise AmqpError(
            INVALID_FIELD, f"terminus capabilities {capabilities} are those of a queue and a topic"
        )
    return topic if topic or queue else None


def _policy(requested: str) -> str:
    return requested if requested in EXPIRY_POLICIES else EXPIRY_SESSION_END


def _granted_capabilities(requested: list[str], topic: bool) -> list[str]:
    kinds = (
        (*TOPIC_CAPABILITIES, SHARED_CAPABILITY, GLOBAL_CAPABILITY)
        if topic
        else (*QUEUE_CAPABILITIES, CREATE_CAPABILITY)
    )
    granted = [capability for capability in requested if capability in kinds]
    kind = TOPIC_CAPABILITY if topic else QUEUE_CAPABILITY
    return granted if any(capability.endswith(kind) for capability in granted) else [kind, *granted]


def ms_property(attach: Attach, name: str, unset: int) -> int:
    """A link property that is a number of milliseconds, or ``unset``. Raises `AmqpError` for any other
    value."""
    value = (attach.properties or {}).get(name, unset)
    if value == unset and not isinstance(value, bool):
        return unset
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PROPERTY_MS:
        raise AmqpError(
            INVALID_FIELD,
            f"link property {name} is {value!r}, must be {unset} or milliseconds from 0 to {MAX_PROPERTY_MS}",
        )
    return value


def send_timeout_ms(attach: Attach) -> int:
    """How long a send on this link is to wait for room: its property, or −1 for the broker's default.

    Raises `AmqpError` for one that is no number of milliseconds.
    """
    return ms_property(attach, SEND_TIMEOUT_PROPERTY, -1)


def wants_branches(attach: Attach, browse: bool, presettled: bool) -> bool:
    """Whether what the client receives joins XA branches. Raises `AmqpError` where that is no boolean, or
    can't be."""
    wanted = (attach.properties or {}).get(XA_PROPERTY, False)
    if not isinstance(wanted, bool):
        raise AmqpError(INVALID_FIELD, f"{XA_PROPERTY} is a boolean, not {wanted!r:.100}")
    if wanted and (browse or presettled):
        what = "a browser takes nothing" if browse else "what is sent settled can't join one"
        raise AmqpError(NOT_ALLOWED, f"a link for XA branches must get its messages unsettled: {what}")
    return wanted


def may_reject(source: Source | None) -> bool:
    """Whether the source of a sender knows the outcome rejected; one that names none at all does (part 3,
    section 3.5.3)."""
    if source is None or (not source.outcomes and source.default_outcome is None):
        return True
    return REJECTED_OUTCOME in source.outcomes or isinstance(source.default_outcome, Rejected)
