"""Topics and subscriptions, as the management node shows and changes them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from postroom.manager.administration.subscriptions import Subscribing, queue_name
from postroom.manager.destinations.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.manager.destinations.topic import Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.errors import QueueNotFound
from postroom.manager.kernel.options import KIND_SUBSCRIPTION, KIND_TOPIC, QUEUE_SETTINGS
from postroom.manager.queues.queue import Subscription
from postroom.model.entity_types import SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.model.names import DYNAMIC_PREFIX
from postroom.model.selector import SelectorInvalid, parse
from postroom.server.management.arguments import Arguments, new_message
from postroom.server.management.entities.destinations import SETTABLE, Destinations, MessageHolders
from postroom.server.management.entity_type import Columns, Operation, same_named
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    NO_CONTENT,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
    check_not_reserved,
)

_COUNTERS: Final = ("messages_received", "bytes_received", "counting_since_us")
"""Of the topic itself: what was published, once, and since when that counts."""
_SUMS: Final = (
    *("messages_current", "messages_pending", "bytes_current", "bytes_pending"),
    *("messages_consumed", "messages_expired", "messages_dead_lettered"),
)
"""Over the subscriptions to it, each with entries of its own; not over those to patterns."""
_MADE_WITH: Final = {
    **dict.fromkeys(("topic", "client", "subscription", "selector"), str),
    **dict.fromkeys(("shared", "no_local"), bool),
}
"""What a subscription is from its beginning, and the types of that."""


class Topics(Destinations[Topic]):
    """The topics of one broker."""

    type: Final = TOPIC_TYPE

    def make_columns(self) -> Columns[Topic]:
        patterns = subscriptions_of(self.manager.core).patterns
        return {
            **same_named(*QUEUE_SETTINGS, "auto_created", "temporary", "durably_paused", of="definition"),
            "dynamic": lambda topic: topic.name.startswith(DYNAMIC_PREFIX),
            "messages_unrouted": lambda topic: int(topic.unrouted),
            "subscriptions": lambda topic: len(patterns.matching(topic.name)),
            "consumers": lambda topic: sum(
                len(queue.attached.consumers) for queue in patterns.matching(topic.name)
            ),
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {"CREATE": self._create, "PUBLISH": self._publish, **super().make_operations()}

    def attribute_names(self) -> list[str]:
        return [*self.columns, *SWITCH_ATTRIBUTES, *_COUNTERS, *_SUMS]

    def all(self) -> Iterable[Topic]:
        return self.manager.topics.values()

    def find(self, request: Request) -> Topic:
        return self.manager.topic(request.required_name())

    def shown(self, thing: Topic) -> Attributes:
        counters = thing.statistics.snapshot()
        counted = {name: counters[name] for name in _COUNTERS}
        sums = _sums(subscriptions_of(self.manager.core).patterns.exactly(thing.name))
        return super().shown(thing) | switches_of(thing) | counted | sums

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        return self.created(name, KIND_TOPIC, self.manager.topics, request, now_us)

    def _publish(self, request: Request, now_us: int) -> Response:
        """The message of the body's `message`, as a client would send it; refused where there is no room."""
        topic = self.find(request)
        head, sections = new_message(self.broker, Arguments(request, now_us))
        producer = self.manager.open_producer("management", request.container, request.user)
        try:
            takers = self.manager.publish(producer, topic, head, sections, now_us)
        finally:
            self.manager.close_producer(producer, now_us)
        return Response(OK, "published", {"subscriptions": takers})

    def delete(self, request: Request, now_us: int) -> Response:
        topic = self.find(request)
        if_unused = request.flag("if-unused") or topic.definition.temporary
        forced = request.flag("force")
        ended = self.manager.delete_topic(topic.name, if_unused, now_us, forced, request.user)
        return Response(OK, "deleted", {"subscriptions": ended})


def _sums(queues: list[Subscription]) -> Attributes:
    found: Attributes = dict.fromkeys(_SUMS, 0)
    for queue in queues:
        counters = queue.statistics.snapshot()
        for name in _SUMS:
            found[name] += counters[name]
    return found


class Subscriptions(MessageHolders[Subscription]):
    """The subscriptions of one broker, each with the settings and counters of a queue."""

    type: Final = SUBSCRIPTION_TYPE

    def make_columns(self) -> Columns[Subscription]:
        return {"durable": lambda queue: not queue.definition.temporary}

    def make_operations(self) -> Mapping[str, Operation]:
        return {"CREATE": self._create, **super().make_operations()}

    def all(self) -> Iterator[Subscription]:
        return (queue for queue in self.manager.queues.values() if isinstance(queue, Subscription))

    def find(self, request: Request) -> Subscription:
        """By its full name, as QUERY shows it."""
        name = request.required_name()
        queue = self.manager.queues.get(name)
        if not isinstance(queue, Subscription):
            raise QueueNotFound(f"there is no subscription {name!r}")
        return queue

    def _create(self, request: Request, now_us: int) -> Response:
        """A durable one, as a client that attaches would have it made."""
        wanted = _wanted(request)
        name = queue_name(self.manager.core, wanted)
        if request.required_name() != name:  # by which its right was asked
            raise RequestError(
                BAD_REQUEST, f"the name must be {name!r}, as topic, client and subscription say"
            )
        named = subscriptions_of(self.manager.core).named
        if (wanted.client, wanted.name, True) in named:
            raise RequestError(CONFLICT, f"{wanted.text()} exists already")
        made = self.manager.subscribe(wanted, now_us)
        return Response(CREATED, "created", self.shown(made))

    def delete(self, request: Request, now_us: int) -> Response:
        self.manager.unsubscribe(self.find(request), now_us, request.flag("force"), request.user)
        return Response(NO_CONTENT, "deleted", {})


def _wanted(request: Request) -> Subscribing:
    settings = request.settings(KIND_SUBSCRIPTION, {**SETTABLE, **_MADE_WITH})
    made_with = {key: settings.pop(key) for key in _MADE_WITH if key in settings}
    wanted = Subscribing(
        topic=made_with.get("topic", ""),
        client=made_with.get("client", ""),
        name=made_with.get("subscription", ""),
        durable=True,
        shared=made_with.get("shared", False),
        selector=made_with.get("selector", ""),
        no_local=made_with.get("no_local", False),
        settings=settings,
    )
    if not wanted.topic or not wanted.name:
        raise RequestError(BAD_REQUEST, "a subscription needs a `topic`, and its name as `subscription`")
    if not wanted.client and (not wanted.shared or wanted.no_local):
        raise RequestError(
            BAD_REQUEST, "without a `client` a subscription is `shared`, and has no `no_local`"
        )
    check_not_reserved(wanted.topic)
    try:
        parse(wanted.selector)
    except SelectorInvalid as error:
        raise RequestError(BAD_REQUEST, f"selector: {error}") from error
    return wanted
