"""Topics and subscriptions, as the management node shows and changes them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from postroom.manager.destinations.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.manager.destinations.topic import Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.errors import QueueNotFound
from postroom.manager.kernel.options import KIND_TOPIC, QUEUE_SETTINGS
from postroom.manager.queues.queue import Subscription
from postroom.model.entity_types import SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.model.names import DYNAMIC_PREFIX
from postroom.server.management.entities.destinations import Destinations, MessageHolders
from postroom.server.management.entity_type import Columns, Operation, same_named
from postroom.server.management.request import NO_CONTENT, OK, Attributes, Request, Response

_COUNTERS: Final = ("messages_received", "bytes_received", "counting_since_us")
"""Of the topic itself: what was published, once, and since when that counts."""
_SUMS: Final = (
    *("messages_current", "messages_pending", "bytes_current", "bytes_pending"),
    *("messages_consumed", "messages_expired", "messages_dead_lettered"),
)
"""Over the subscriptions to it, each with entries of its own; not over those to patterns."""


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
        return {"CREATE": self._create, **super().make_operations()}

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

    def all(self) -> Iterator[Subscription]:
        return (queue for queue in self.manager.queues.values() if isinstance(queue, Subscription))

    def find(self, request: Request) -> Subscription:
        """By its full name, as QUERY shows it."""
        name = request.required_name()
        queue = self.manager.queues.get(name)
        if not isinstance(queue, Subscription):
            raise QueueNotFound(f"there is no subscription {name!r}")
        return queue

    def delete(self, request: Request, now_us: int) -> Response:
        self.manager.unsubscribe(self.find(request), now_us, request.flag("force"), request.user)
        return Response(NO_CONTENT, "deleted", {})
