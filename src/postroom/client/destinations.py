"""Queues, topics and subscriptions, as sources and targets of links name them.

Link names and capabilities of subscriptions are those of Qpid JMS, which brokers know.
"""

from __future__ import annotations

import uuid
from dataclasses import KW_ONLY, dataclass
from typing import Final

from postroom.amqp.encoding.types import Described, Symbol, ULong
from postroom.amqp.extensions import (
    CREATE_CAPABILITY,
    GLOBAL_CAPABILITY,
    LIFETIME_POLICY,
    NO_LOCAL_DESCRIPTOR,
    QUEUE_CAPABILITY,
    SELECTOR_DESCRIPTOR,
    SHARED_CAPABILITY,
    TEMPORARY_QUEUE_CAPABILITY,
    TEMPORARY_TOPIC_CAPABILITY,
    TOPIC_CAPABILITY,
)
from postroom.amqp.frames.termini import (
    DELETE_ON_CLOSE,
    DISTRIBUTION_COPY,
    DURABILITY_UNSETTLED_STATE,
    EXPIRY_LINK_DETACH,
    EXPIRY_NEVER,
    Source,
    Target,
)
from postroom.client.exceptions import JMSException

SELECTOR_FILTER: Final = "jms-selector"
NO_LOCAL_FILTER: Final = "no-local"
NAME_DELIMITER: Final = "|"
GLOBAL_SUFFIX: Final = "global"


@dataclass(frozen=True)
class Queue:
    """A queue by its name; wherever a destination is asked for, a plain str means one, too."""

    name: str


@dataclass(frozen=True)
class Topic:
    """A topic by its name, or, for a consumer, a pattern of names (``orders.*``, ``orders.#``)."""

    name: str


@dataclass(frozen=True)
class TemporaryQueue(Queue):
    """A queue that a connection has made for itself, and that ends with it: its name is the broker's."""


@dataclass(frozen=True)
class TemporaryTopic(Topic):
    """A topic that a connection has made for itself, and that ends with it: its name is the broker's."""


Destination = str | Queue | Topic


def address_of(destination: Destination) -> str:
    """Its name."""
    return destination if isinstance(destination, str) else destination.name


def capability_of(destination: Destination) -> str:
    """What a terminus that is meant to be it is capable of."""
    return TOPIC_CAPABILITY if isinstance(destination, Topic) else QUEUE_CAPABILITY


def text_of(destination: Destination) -> str:
    """For errors."""
    return f"topic {destination.name}" if isinstance(destination, Topic) else address_of(destination)


def target_of(destination: Destination | None) -> Target:
    """Where a producer sends; None: to what each message names."""
    if destination is None:
        return Target()
    return Target(address=address_of(destination), capabilities=[capability_of(destination)])


def browsed(queue: str | Queue, selector: str | None) -> Source:
    """What a browser looks at."""
    return Source(
        address=address_of(queue),
        distribution_mode=DISTRIBUTION_COPY,
        filter=filters(selector),
        capabilities=[QUEUE_CAPABILITY],
    )


def temporary(kind: type[TemporaryQueue] | type[TemporaryTopic]) -> Target:
    """What the broker is to make and name; it lives as long as the link."""
    is_queue = issubclass(kind, TemporaryQueue)
    return Target(
        dynamic=True,
        dynamic_node_properties={Symbol(LIFETIME_POLICY): Described(ULong(DELETE_ON_CLOSE), [])},
        expiry_policy=EXPIRY_LINK_DETACH,
        capabilities=[TEMPORARY_QUEUE_CAPABILITY if is_queue else TEMPORARY_TOPIC_CAPABILITY],
    )


@dataclass(frozen=True)
class Wanted:
    """A consumer as ``Connection.consumer`` is asked for it; JMSException for what doesn't go together."""

    destination: Destination
    selector: str | None = None
    _: KW_ONLY
    no_local: bool = False
    subscription: str | None = None
    durable: bool = False
    shared: bool = False
    prefetch: int | None = None
    settle_second: bool = False
    exclusive: bool = False
    create: bool = False

    def __post_init__(self) -> None:
        if self.subscription is None:
            if self.durable or self.shared:
                raise JMSException('a durable or shared subscription has a name: subscription="…"')
            return
        if isinstance(self.destination, Queue):
            raise JMSException(f"subscription {self.subscription!r} is to a Topic, not to a queue")
        if not (self.durable or self.shared):
            raise JMSException(
                f"subscription {self.subscription!r} needs durable=True, shared=True, or both;"
                " without a name it lasts as long as its consumer"
            )
        if self.exclusive:
            raise JMSException(
                "exclusive=True is for queues; a subscription that isn't shared has one consumer"
            )
        if self.create:
            raise JMSException("create=True is for queues; a topic is there when it is subscribed to")
        if self.shared and self.no_local:
            raise JMSException("a shared subscription can't have no_local=True")


@dataclass(frozen=True)
class Subscription:
    """A subscription that is durable, or shared, or both."""

    wanted: Wanted
    name: str
    is_global: bool
    """It belongs to no client id."""

    def source(self) -> Source:
        """The terminus to attach to."""
        capabilities = [TOPIC_CAPABILITY]
        if self.wanted.shared:
            capabilities += [SHARED_CAPABILITY, *([GLOBAL_CAPABILITY] if self.is_global else [])]
        source = source_of(self.wanted, capabilities)
        source.expiry_policy = EXPIRY_NEVER if self.wanted.durable else EXPIRY_LINK_DETACH
        if self.wanted.durable:
            source.durable = DURABILITY_UNSETTLED_STATE
        return source

    def link_name(self) -> str:
        """The subscription's name; of a shared one with an ending that no other link has."""
        if not self.wanted.shared:
            return self.name
        scope = GLOBAL_SUFFIX if self.is_global else ""
        kind = "" if self.wanted.durable else "volatile"
        return f"{self.name}{NAME_DELIMITER}{scope}{kind}{uuid.uuid4()}"


def source_of(wanted: Wanted, capabilities: list[str] | None = None) -> Source:
    """Where a consumer takes from; ``capabilities`` None: those of what has no name of a subscription."""
    if capabilities is None:
        capabilities = [capability_of(wanted.destination), *([CREATE_CAPABILITY] if wanted.create else [])]
    return Source(
        address=address_of(wanted.destination),
        filter=filters(wanted.selector, wanted.no_local),
        capabilities=capabilities,
    )


def unsubscribing_link(name: str, is_global: bool) -> tuple[str, list[str]]:
    """Name and desired capabilities of a link that means a durable subscription by its name alone."""
    if not is_global:
        return name, []
    return f"{name}{NAME_DELIMITER}{GLOBAL_SUFFIX}", [SHARED_CAPABILITY, GLOBAL_CAPABILITY]


def check_subscription_name(name: str) -> None:
    """Raises JMSException for a name that no subscription can have."""
    if not name or NAME_DELIMITER in name:
        raise JMSException(f"a subscription's name is not empty and has no {NAME_DELIMITER!r}: {name!r}")


def link_name(address: str | None) -> str:
    """A link name of its own: two links with one name would be one link."""
    return f"{address or 'link'}-{uuid.uuid4()}"


def filters(selector: str | None, no_local: bool = False) -> dict[object, object] | None:
    """The source filters that Apache registered for JMS."""
    found: dict[object, object] = {}
    if selector is not None:
        found[Symbol(SELECTOR_FILTER)] = Described(SELECTOR_DESCRIPTOR, selector)
    if no_local:
        found[Symbol(NO_LOCAL_FILTER)] = Described(NO_LOCAL_DESCRIPTOR, [])
    return found or None
