"""Queues, as the management node shows and changes them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from postroom.manager.options import IDENTITY_FIELDS, QueueDefinition
from postroom.manager.queue import Queue
from postroom.manager.statistics import Statistics
from postroom.manager.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.server.config import is_reserved
from postroom.server.dynamic import DYNAMIC_PREFIX
from postroom.server.management.noun import Operation
from postroom.server.management.request import (
    BAD_REQUEST,
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

QUEUE_TYPE: Final = "postroom.queue"

_SETTABLE: Final[dict[str, type]] = {
    name: type(value)
    for name, value in QueueDefinition(name="").to_record().items()
    if name not in IDENTITY_FIELDS
}


class Queues:
    """The queues of one broker."""

    type: Final = QUEUE_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self._read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "PURGE": self._purge,
            **switch_operations(broker.manager, self._queue),
        }

    def attribute_names(self) -> list[str]:
        definition = [each.name for each in fields(QueueDefinition)]
        return ["identity", "type", *definition, "dynamic", *SWITCH_ATTRIBUTES, *Statistics().snapshot()]

    def count(self) -> int:
        return sum(1 for _ in self._all())

    def rows(self, offset: int, count: int) -> list[Attributes]:
        queues = islice(self._all(), offset, offset + count)
        return [_attributes(queue) for queue in queues]

    def _all(self) -> Iterator[Queue]:
        """Subscriptions are a noun of their own."""
        return (queue for queue in self._manager.queues.values() if queue.subscription is None)

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.name or str(request.attributes().get("name", ""))
        if not name:
            raise RequestError(BAD_REQUEST, "CREATE needs a `name`")
        if is_reserved(name):
            raise RequestError(FORBIDDEN, f"{name!r} is reserved for the broker itself")
        if name in self._manager.queues:
            raise RequestError(CONFLICT, f"queue {name!r} exists already")
        definition = changed(QueueDefinition(name=name), request)
        return Response(CREATED, "created", _attributes(self._manager.create_queue(definition, now_us)))

    def _read(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", _attributes(self._queue(request)))

    def _update(self, request: Request, now_us: int) -> Response:
        queue = self._queue(request)
        self._manager.update_queue(changed(queue.definition, request), now_us)
        return Response(OK, "OK", _attributes(queue))

    def _delete(self, request: Request, now_us: int) -> Response:
        queue = self._queue(request)
        if_unused = request.flag("if-unused") or queue.definition.temporary
        if_empty = request.flag("if-empty")
        self._manager.delete_queue(queue.name, if_unused, if_empty, now_us)
        return Response(NO_CONTENT, "deleted", {})

    def _purge(self, request: Request, now_us: int) -> Response:
        purged = self._manager.purge_queue(self._queue(request).name, now_us)
        return Response(OK, "purged", {"purged": purged})

    def _queue(self, request: Request) -> Queue:
        return self._manager.queue(request.required_name())


def _attributes(queue: Queue) -> Attributes:
    """Definition and counters of one queue."""
    attributes: Attributes = {"identity": queue.name, "type": QUEUE_TYPE}
    attributes.update(queue.definition.to_record())
    attributes["dynamic"] = queue.name.startswith(DYNAMIC_PREFIX)
    attributes.update(switches_of(queue))
    attributes.update(queue.statistics.snapshot())
    return attributes


def changed(definition: QueueDefinition, request: Request) -> QueueDefinition:
    """``definition`` with the request's settings put in. Raises `RequestError`, ``DefinitionInvalid``."""
    new = replace(definition, **request.settings(definition.kind, _SETTABLE))
    new.check()
    return new
