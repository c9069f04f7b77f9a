"""Topics and subscriptions, as the management node shows and changes them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.errors import QueueNotFound
from postroom.manager.kernel.options import IDENTITY_FIELDS, KIND_TOPIC, QueueDefinition
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.model.entity_types import SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.model.names import DYNAMIC_PREFIX
from postroom.server.management.entities.destinations import Destinations, queue_attribute_names, shown_queue
from postroom.server.management.entities.holders import holders_operation
from postroom.server.management.entities.switches import switch_operations
from postroom.server.management.entity_type import Operation
from postroom.server.management.request import NO_CONTENT, OK, Attributes, Request, Response

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


_SETTINGS: Final = tuple(each.name for each in fields(QueueDefinition) if each.name not in IDENTITY_FIELDS)
_TOPIC_FIELDS: Final = ("name", *_SETTINGS, "auto_created", "temporary", "durably_paused")
_COUNTERS: Final = ("messages_received", "bytes_received", "counting_since_us")
"""Of the topic itself: what was published, once, and since when that counts."""
_SUMS: Final = (
    *("messages_current", "messages_pending", "bytes_current", "bytes_pending"),
    *("messages_consumed", "messages_expired", "messages_dead_lettered"),
)
"""Over the subscriptions to it, each with entries of its own; not over those to patterns."""


class Topics(Destinations):
    """The topics of one broker."""

    type: Final = TOPIC_TYPE

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker)
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self.update,
            "DELETE": self._delete,
            **switch_operations(broker.manager, self.find),
        }

    def attribute_names(self) -> list[str]:
        counted = (*_COUNTERS, "messages_unrouted", "subscriptions", "consumers", *_SUMS)
        return ["identity", "type", *_TOPIC_FIELDS, "dynamic", *SWITCH_ATTRIBUTES, *counted]

    def all(self) -> Iterable[Queue]:
        return self._manager.topics.values()

    def find(self, request: Request) -> Queue:
        return self._manager.topic(request.required_name())

    def shown(self, node: Queue) -> Attributes:
        topic = node.topic
        assert topic is not None
        record, counters = node.definition.to_record(), node.statistics.snapshot()
        subscribed = self._manager.core.patterns.matching(node.name)
        attributes: Attributes = {"identity": node.name, "type": TOPIC_TYPE}
        attributes |= {name: record[name] for name in _TOPIC_FIELDS}
        attributes["dynamic"] = node.name.startswith(DYNAMIC_PREFIX)
        attributes |= switches_of(node)
        attributes |= {name: counters[name] for name in _COUNTERS}
        attributes["messages_unrouted"] = int(topic.unrouted)
        attributes["subscriptions"] = len(subscribed)
        attributes["consumers"] = sum(len(queue.attached.consumers) for queue in subscribed)
        return attributes | _sums(self._manager.core.patterns.exactly(node.name))

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        return self.created(name, KIND_TOPIC, self._manager.topics, request, now_us)

    def _delete(self, request: Request, now_us: int) -> Response:
        node = self.find(request)
        if_unused = request.flag("if-unused") or node.definition.temporary
        forced = request.flag("force")
        ended = self._manager.delete_topic(node.name, if_unused, now_us, forced, request.user)
        return Response(OK, "deleted", {"subscriptions": ended})


def _sums(queues: list[Queue]) -> Attributes:
    found: Attributes = dict.fromkeys(_SUMS, 0)
    for queue in queues:
        counters = queue.statistics.snapshot()
        for name in _SUMS:
            found[name] += counters[name]
    return found


class Subscriptions(Destinations):
    """The subscriptions of one broker, each with the settings and counters of a queue."""

    type: Final = SUBSCRIPTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker)
        self.operations: Final[Mapping[str, Operation]] = {
            "READ": self.read,
            "UPDATE": self.update,
            "DELETE": self._delete,
            "PURGE": self.purge,
            "HOLDERS": holders_operation(broker, self.find),
            **switch_operations(broker.manager, self.find),
        }

    def attribute_names(self) -> list[str]:
        return queue_attribute_names("durable")

    def all(self) -> Iterator[Queue]:
        return (queue for queue in self._manager.queues.values() if queue.subscription is not None)

    def find(self, request: Request) -> Queue:
        """By its full name, as QUERY shows it."""
        name = request.required_name()
        queue = self._manager.queues.get(name)
        if queue is None or queue.subscription is None:
            raise QueueNotFound(f"there is no subscription {name!r}")
        return queue

    def shown(self, queue: Queue) -> Attributes:
        return shown_queue(queue, SUBSCRIPTION_TYPE, {"durable": not queue.definition.temporary})

    def _delete(self, request: Request, now_us: int) -> Response:
        self._manager.unsubscribe(self.find(request), now_us, request.flag("force"), request.user)
        return Response(NO_CONTENT, "deleted", {})
