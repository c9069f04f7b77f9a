"""Topics and subscriptions, as the management node shows and changes them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Final

from postroom.manager.errors import QueueNotFound
from postroom.manager.options import IDENTITY_FIELDS, KIND_TOPIC, QueueDefinition
from postroom.manager.queue import Queue
from postroom.manager.statistics import Statistics
from postroom.manager.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.server.config import is_reserved
from postroom.server.dynamic import DYNAMIC_PREFIX
from postroom.server.management.noun import Operation
from postroom.server.management.queues import changed
from postroom.server.management.request import (
    CONFLICT,
    CREATED,
    FORBIDDEN,
    NO_CONTENT,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)
from postroom.server.management.switches import switch_operations

if TYPE_CHECKING:
    from postroom.server.broker import Broker

TOPIC_TYPE: Final = "postroom.topic"
SUBSCRIPTION_TYPE: Final = "postroom.subscription"

_SETTINGS: Final = tuple(each.name for each in fields(QueueDefinition) if each.name not in IDENTITY_FIELDS)
_TOPIC_FIELDS: Final = ("name", *_SETTINGS, "auto_created", "temporary")
_COUNTERS: Final = ("messages_received", "bytes_received")
"""Of the topic itself: what was published, once."""
_SUMS: Final = (
    *("messages_current", "messages_pending", "bytes_current", "bytes_pending"),
    *("messages_consumed", "messages_expired", "messages_dead_lettered"),
)
"""Over the subscriptions to it, each with entries of its own; not over those to patterns."""


class Topics:
    """The topics of one broker."""

    type: Final = TOPIC_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self._read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            **switch_operations(broker.manager, self._node),
        }

    def attribute_names(self) -> list[str]:
        counted = (*_COUNTERS, "messages_unrouted", "subscriptions", "consumers", *_SUMS)
        return ["identity", "type", *_TOPIC_FIELDS, "dynamic", *SWITCH_ATTRIBUTES, *counted]

    def count(self) -> int:
        return len(self._manager.topics)

    def rows(self, offset: int, count: int) -> list[Attributes]:
        return [
            self._attributes(node) for node in islice(self._manager.topics.values(), offset, offset + count)
        ]

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        if is_reserved(name):
            raise RequestError(FORBIDDEN, f"{name!r} is reserved for the broker itself")
        if name in self._manager.topics:
            raise RequestError(CONFLICT, f"topic {name!r} exists already")
        definition = changed(QueueDefinition(name=name, kind=KIND_TOPIC), request)
        return Response(CREATED, "created", self._attributes(self._manager.create_queue(definition, now_us)))

    def _read(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", self._attributes(self._node(request)))

    def _update(self, request: Request, now_us: int) -> Response:
        node = self._node(request)
        self._manager.update_queue(changed(node.definition, request), now_us)
        return Response(OK, "OK", self._attributes(node))

    def _delete(self, request: Request, now_us: int) -> Response:
        node = self._node(request)
        if_unused = request.flag("if-unused") or node.definition.temporary
        ended = self._manager.delete_topic(node.name, if_unused, now_us)
        return Response(OK, "deleted", {"subscriptions": ended})

    def _node(self, request: Request) -> Queue:
        return self._manager.topic(request.required_name())

    def _attributes(self, node: Queue) -> Attributes:
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
        attributes["consumers"] = sum(len(queue.consumers) for queue in subscribed)
        return attributes | _sums(self._manager.core.patterns.exactly(node.name))


def _sums(queues: list[Queue]) -> Attributes:
    found: Attributes = dict.fromkeys(_SUMS, 0)
    for queue in queues:
        counters = queue.statistics.snapshot()
        for name in _SUMS:
            found[name] += counters[name]
    return found


class Subscriptions:
    """The subscriptions of one broker, each with the settings and counters of a queue."""

    type: Final = SUBSCRIPTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager
        self.operations: Final[Mapping[str, Operation]] = {
            "READ": self._read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "PURGE": self._purge,
            **switch_operations(broker.manager, self._subscription),
        }

    def attribute_names(self) -> list[str]:
        definition = [each.name for each in fields(QueueDefinition)]
        return ["identity", "type", *definition, "durable", *SWITCH_ATTRIBUTES, *Statistics().snapshot()]

    def count(self) -> int:
        return sum(1 for _ in self._all())

    def rows(self, offset: int, count: int) -> list[Attributes]:
        return [_attributes(queue) for queue in islice(self._all(), offset, offset + count)]

    def _all(self) -> Iterator[Queue]:
        return (queue for queue in self._manager.queues.values() if queue.subscription is not None)

    def _read(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", _attributes(self._subscription(request)))

    def _update(self, request: Request, now_us: int) -> Response:
        queue = self._subscription(request)
        self._manager.update_queue(changed(queue.definition, request), now_us)
        return Response(OK, "OK", _attributes(queue))

    def _delete(self, request: Request, now_us: int) -> Response:
        self._manager.unsubscribe(self._subscription(request), now_us)
        return Response(NO_CONTENT, "deleted", {})

    def _purge(self, request: Request, now_us: int) -> Response:
        purged = self._manager.purge_queue(self._subscription(request).name, now_us)
        return Response(OK, "purged", {"purged": purged})

    def _subscription(self, request: Request) -> Queue:
        """By its full name, as QUERY shows it."""
        name = request.required_name()
        queue = self._manager.queues.get(name)
        if queue is None or queue.subscription is None:
            raise QueueNotFound(f"there is no subscription {name!r}")
        return queue


def _attributes(queue: Queue) -> Attributes:
    attributes: Attributes = {"identity": queue.name, "type": SUBSCRIPTION_TYPE}
    attributes.update(queue.definition.to_record())
    attributes["durable"] = not queue.definition.temporary
    attributes.update(switches_of(queue))
    attributes.update(queue.statistics.snapshot())
    return attributes
