"""What queues, topics and subscriptions have in common, which are all queues to the queue manager."""

from collections.abc import Container
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final, TypeVar

from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.options import IDENTITY_FIELDS, USAGE_NORMAL, QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll, Statistics
from postroom.manager.queues.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.server.configuration.config import is_reserved
from postroom.server.management.entity_type import ListedEntityType
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    FORBIDDEN,
    NAMING,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker

D = TypeVar("D", bound=Destination)

_SETTABLE: Final[dict[str, type]] = {
    name: type(value)
    for name, value in QueueDefinition(name="").to_record().items()
    if name not in IDENTITY_FIELDS
}


class Destinations(ListedEntityType[D]):
    """One of these entity types: the operations that all of them have alike."""

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager

    def created(self, name: str, kind: str, taken: Container[str], request: Request, now_us: int) -> Response:
        """Create a queue or topic with the request's settings, unless its name is ``taken``."""
        if is_reserved(name):
            raise RequestError(FORBIDDEN, f"{name!r} is reserved for the broker itself")
        if name in taken:
            raise RequestError(CONFLICT, f"{kind} {name!r} exists already")
        usage = str(request.attributes().get("usage", USAGE_NORMAL))
        plain = self._manager.options.new_queue(name, kind, usage)
        self._manager.create_queue(_changed(plain, request), now_us)
        return Response(CREATED, "created", self.shown(self.find(request)))

    def update(self, request: Request, now_us: int) -> Response:
        """The operation UPDATE."""
        queue = self.find(request)
        _check_free(queue.definition.kind, request)
        definition = _changed(queue.definition, request)
        if definition != queue.definition:  # it doesn't go with its settings when it is idle
            definition = replace(definition, auto_created=False)
        self._manager.update_queue(definition, now_us)
        return Response(OK, "OK", self.shown(queue))

    def purge(self, request: Request, now_us: int) -> Response:
        """The operation PURGE."""
        purged = self._manager.purge_queue(self.find(request).name, now_us)
        return Response(OK, "purged", {"purged": purged})


def queue_attribute_names(*own: str) -> list[str]:
    """Of `shown_queue`."""
    definition = [each.name for each in fields(QueueDefinition)]
    return ["identity", "type", *definition, *own, *SWITCH_ATTRIBUTES, *Statistics(HeldByAll()).snapshot()]


def shown_queue(queue: Destination, type_name: str, own: Attributes) -> Attributes:
    """Definition and counters of one queue, with ``own``, which only this entity type has."""
    return {
        "identity": queue.name,
        "type": type_name,
        **queue.definition.to_record(),
        **own,
        **switches_of(queue),
        **queue.statistics.snapshot(),
    }


def _check_free(kind: str, request: Request) -> None:
    """Raise `RequestError` for what is as it is from the beginning."""
    for key in request.attributes():
        if key in IDENTITY_FIELDS and key not in NAMING:
            raise RequestError(BAD_REQUEST, f"{key} can't be changed: it is no setting of a {kind}")


def _changed(definition: QueueDefinition, request: Request) -> QueueDefinition:
    """``definition`` with the request's settings put in. Raises `RequestError`, ``DefinitionInvalid``."""
    new = replace(definition, **request.settings(definition.kind, _SETTABLE))
    new.check()
    return new
