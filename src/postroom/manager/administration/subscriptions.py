"""Topics and subscriptions: made, found, replaced and ended, by the rules of JMS."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

from postroom.manager.administration import deletion as administration
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations import routing
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.destinations.topic import Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.errors import (
    NotAllowed,
    QueueExists,
    QueueInUse,
    QueueNotFound,
    SubscriptionInUse,
)
from postroom.manager.kernel.name_rules import SUBSCRIPTION_MARK, check_pattern, is_pattern
from postroom.manager.kernel.options import KIND_SUBSCRIPTION, KIND_TOPIC
from postroom.manager.queues.queue import Queue, Subscription
from postroom.model import numbers as n

DOOMED_CHECK_US: Final = 1_000_000
"""How often a subscription that nobody uses is looked at while something of it is held."""


@dataclass(frozen=True)
class Subscribing:
    """What somebody who subscribes wants."""

    topic: str
    """A topic's name, or a pattern of names."""
    client: str
    """Container id of the client; "" for a subscription that is not a client's own (global)."""
    name: str = ""
    """"" for a subscription that only its one consumer knows."""
    durable: bool = False
    shared: bool = False
    selector: str = ""
    no_local: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of a new one, where they aren't to be as its topic has them."""

    def text(self) -> str:
        """For errors."""
        whose = f" of client {self.client!r}" if self.client else ""
        return f"subscription {self.name!r}{whose}"


# Topics.


def find(core: Core, name: str) -> Topic:
    """The topic of that name; raises QueueNotFound."""
    topic = destinations_of(core).topics.get(name)
    if topic is None:
        raise QueueNotFound(f"there is no topic {name!r}")
    return topic


def delete(core: Core, topic: Topic, if_unused: bool, forced: bool, user: str) -> int:
    """Delete a topic with the subscriptions to it (not those to patterns); returns how many those were."""
    subscribed = subscriptions_of(core).patterns.exactly(topic.name)
    consumers = sum(len(queue.attached.consumers) for queue in subscribed)
    if consumers and (if_unused or topic.definition.temporary):
        raise QueueInUse(f"topic {topic.name!r} has {consumers} consumers")
    if not forced:
        for queue in subscribed:
            _check_not_held(queue)
    for queue in subscribed:
        administration.delete(core, queue, False, False, forced, user)
    queues.remove(core, topic)
    return len(subscribed)


def _check_not_held(queue: Queue) -> None:
    if queue.held:
        raise QueueInUse(
            f"subscription {queue.name!r} has {len(queue.held)} messages held by transactions: "
            "decide those first, or force it"
        )
    if queue.packed_holders:
        raise QueueInUse(
            f"subscription {queue.name!r} has Spark subscriptions: delete those first, or force it"
        )


# Subscriptions.


def subscribe(core: Core, wanted: Subscribing) -> Subscription:
    """The subscription's queue: the one that is there, or a new one.

    One of that client and name to another topic, or with another selector or no-local, is replaced unless
    somebody uses it. Raises SubscriptionInUse; NotAllowed where a durable one of that name is shared and the
    one wanted isn't, or the other way round; QueueNotFound for a topic that isn't there; NameNotAllowed.
    """
    check_pattern(wanted.topic)
    if not is_pattern(wanted.topic):
        queues.find_or_create_topic(core, wanted.topic)
    existing = (
        subscriptions_of(core).named.get((wanted.client, wanted.name, wanted.durable))
        if wanted.name
        else None
    )
    if existing is not None:
        if _same(existing, wanted):
            return existing
        administration.delete(core, existing, False, False)
    return _create(core, wanted)


def _same(existing: Subscription, wanted: Subscribing) -> bool:
    """Whether ``existing`` is what is wanted, and may be used; raises where it may neither be used nor
    replaced."""
    known = existing.definition
    if known.shared != wanted.shared:
        kinds = ("shared", "unshared") if known.shared else ("unshared", "shared")
        raise NotAllowed(
            f"{wanted.text()} is {kinds[0]}: it can't be used {kinds[1]}; unsubscribe it first, "
            "or take another name"
        )
    same = (
        known.topic == wanted.topic
        and known.selector == wanted.selector
        and known.no_local == wanted.no_local
    )
    if existing.attached.consumers and not (same and wanted.shared):
        what = "" if same else " with another topic, selector or no-local"
        raise SubscriptionInUse(
            f"{wanted.text()} is in use{what}, by {len(existing.attached.consumers)} consumers"
        )
    return same


def _create(core: Core, wanted: Subscribing) -> Subscription:
    destinations = destinations_of(core)
    node = destinations.topics.get(wanted.topic)
    template = core.options.new_queue(wanted.topic, KIND_TOPIC) if node is None else node.definition
    name = queue_name(core, wanted)
    if name in destinations.queues:
        raise QueueExists(f"{wanted.text()} can't be created: another has the queue name {name!r}")
    definition = replace(
        template,
        name=name,
        kind=KIND_SUBSCRIPTION,
        topic=wanted.topic,
        **{"duplicate_window": 0, **wanted.settings},
        client=wanted.client,
        subscription=wanted.name,
        shared=wanted.shared,
        selector=wanted.selector,
        no_local=wanted.no_local,
        temporary=not wanted.durable,
        auto_created=False,
        durably_paused="",
    )
    queue = queues.create(core, definition)
    assert isinstance(queue, Subscription)
    return queue


def queue_name(core: Core, wanted: Subscribing) -> str:
    """TOPIC::CLIENT/NAME, or TOPIC::NAME for a global one. One that isn't durable has "~" before its name, or
    is numbered."""
    name = wanted.name if wanted.durable else f"~{wanted.name or destinations_of(core).next_id}"
    client = f"{wanted.client}/" if wanted.client else ""
    return f"{wanted.topic}{SUBSCRIPTION_MARK}{client}{name}"


def durable(core: Core, client: str, name: str) -> Subscription:
    """The durable subscription of that client ("": global) and name; raises QueueNotFound."""
    queue = subscriptions_of(core).named.get((client, name, True))
    if queue is None:
        whose = f"client {client!r} has" if client else "there is"
        raise QueueNotFound(f"{whose} no durable subscription {name!r}")
    return queue


def unsubscribe(core: Core, queue: Queue, forced: bool, user: str) -> None:
    """End a subscription with what waits on it. Raises, unless it is ``forced``, SubscriptionInUse,
    QueueInUse."""
    if queue.attached.consumers and not forced:
        raise SubscriptionInUse(
            f"subscription {queue.name!r} is in use by {len(queue.attached.consumers)} consumers: "
            "close them first"
        )
    administration.delete(core, queue, False, False, forced, user)


# Subscriptions that go with their last consumer.


@final
class ForsakenPart(TurnPart):
    """Subscriptions that nobody uses end."""

    def finish(self, core: Core) -> None:
        """End the subscriptions that nobody uses, and temporary queues from before the start; one of which a
        transaction holds something, as soon as it is decided, one of which anybody else does, soon after that
        is let go."""
        subscriptions = subscriptions_of(core)
        forsaken = subscriptions.forsaken
        subscriptions.forsaken = []
        for queue in forsaken:
            if queue.deleted or queue.attached.consumers or queue.packed_holders:
                continue
            if queue.held:
                if isinstance(queue, Subscription):
                    routing.dismiss(core, queue)
                queues.update(core, replace(queue.definition, temporary=True))  # a restart ends it, too
                administration.clear(core, queue, n.EVENT_DELETE)
                core.agenda.set_alarm(queue, core.now_us + DOOMED_CHECK_US)
                if queue not in subscriptions.doomed:
                    subscriptions.doomed.append(queue)
            else:
                administration.delete(core, queue, False, False)
