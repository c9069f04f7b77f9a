"""Queues, as the management node shows and changes them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.options import IDENTITY_FIELDS, KIND_QUEUE, QueueDefinition
from postroom.manager.queues.queue import Queue, Subscription
from postroom.model.entity_types import QUEUE_TYPE
from postroom.model.names import DYNAMIC_PREFIX
from postroom.server.management.entities.destinations import Destinations, queue_attribute_names, shown_queue
from postroom.server.management.entities.holders import holders_operation
from postroom.server.management.entities.switches import switch_operations
from postroom.server.management.entity_type import Operation
from postroom.server.management.request import (
    BAD_REQUEST,
    NO_CONTENT,
    Attributes,
    Request,
    RequestError,
    Response,
)

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker

_CONFIGURED: Final = ("configured", "unlike_configuration")


class Queues(Destinations[Queue]):
    """The queues of one broker."""

    type: Final = QUEUE_TYPE

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker)
        options = broker.manager.options
        self._configured: Final = {each.name: each.definition(options) for each in broker.config.queue}
        """As the configuration has them, which they take again at each start."""
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self.update,
            "DELETE": self._delete,
            "PURGE": self.purge,
            "HOLDERS": holders_operation(broker, self.find),
            **switch_operations(broker.manager, self.find),
        }

    def attribute_names(self) -> list[str]:
        return queue_attribute_names("dynamic", *_CONFIGURED)

    def all(self) -> Iterator[Queue]:
        """Subscriptions are an entity type of their own."""
        return (queue for queue in self._manager.queues.values() if not isinstance(queue, Subscription))

    def find(self, request: Request) -> Queue:
        return self._manager.queue(request.required_name())

    def shown(self, queue: Queue) -> Attributes:
        own: Attributes = {"dynamic": queue.name.startswith(DYNAMIC_PREFIX)}
        return shown_queue(queue, QUEUE_TYPE, own | self._as_configured(queue.definition))

    def _as_configured(self, definition: QueueDefinition) -> Attributes:
        """Whether it is in the configuration, and which settings are others now."""
        configured = self._configured.get(definition.name)
        others: list[str] = []
        if configured is not None:
            now, then = definition.to_record(), configured.to_record()
            others = [name for name in now if now[name] != then[name] and name not in IDENTITY_FIELDS]
        return dict(zip(_CONFIGURED, (configured is not None, others), strict=True))

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.name or str(request.attributes().get("name", ""))
        if not name:
            raise RequestError(BAD_REQUEST, "CREATE needs a `name`")
        return self.created(name, KIND_QUEUE, self._manager.queues, request, now_us)

    def _delete(self, request: Request, now_us: int) -> Response:
        queue = self.find(request)
        if_unused = request.flag("if-unused") or queue.definition.temporary
        if_empty, forced = request.flag("if-empty"), request.flag("force")
        self._manager.delete_queue(queue.name, if_unused, if_empty, now_us, forced, request.user)
        return Response(NO_CONTENT, "deleted", {})
