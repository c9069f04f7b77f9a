"""Queues, as the management node shows and changes them."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from postroom.manager.kernel.options import IDENTITY_FIELDS, KIND_QUEUE, QueueDefinition
from postroom.manager.queues.queue import Queue, Subscription
from postroom.model.entity_types import QUEUE_TYPE
from postroom.model.names import DYNAMIC_PREFIX
from postroom.server.management.entities.destinations import MessageHolders
from postroom.server.management.entity_type import Columns, Operation
from postroom.server.management.request import BAD_REQUEST, NO_CONTENT, Request, RequestError, Response


class Queues(MessageHolders[Queue]):
    """The queues of one broker."""

    type: Final = QUEUE_TYPE

    @cached_property
    def _configured(self) -> Mapping[str, QueueDefinition]:
        """As the configuration has them, which they take again at each start."""
        return {each.name: each.definition(self.manager.options) for each in self.broker.config.queue}

    def make_columns(self) -> Columns[Queue]:
        return {
            "dynamic": lambda queue: queue.name.startswith(DYNAMIC_PREFIX),
            "configured": lambda queue: queue.name in self._configured,
            "unlike_configuration": lambda queue: self._unlike_configuration(queue.definition),
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {"CREATE": self._create, **super().make_operations()}

    def all(self) -> Iterator[Queue]:
        """Subscriptions are an entity type of their own."""
        return (queue for queue in self.manager.queues.values() if not isinstance(queue, Subscription))

    def find(self, request: Request) -> Queue:
        return self.manager.queue(request.required_name())

    def _unlike_configuration(self, definition: QueueDefinition) -> list[str]:
        """Which settings the configuration has otherwise."""
        configured = self._configured.get(definition.name)
        if configured is None:
            return []
        now, then = definition.to_record(), configured.to_record()
        return [name for name in now if now[name] != then[name] and name not in IDENTITY_FIELDS]

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.name or str(request.attributes().get("name", ""))
        if not name:
            raise RequestError(BAD_REQUEST, "CREATE needs a `name`")
        return self.created(name, KIND_QUEUE, self.manager.queues, request, now_us)

    def delete(self, request: Request, now_us: int) -> Response:
        queue = self.find(request)
        if_unused = request.flag("if-unused") or queue.definition.temporary
        if_empty, forced = request.flag("if-empty"), request.flag("force")
        self.manager.delete_queue(queue.name, if_unused, if_empty, now_us, forced, request.user)
        return Response(NO_CONTENT, "deleted", {})
