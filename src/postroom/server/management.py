"""What the management node does: the operations of the AMQP Management draft (working draft 9) on this
broker's nouns.

Types: ``postroom.queue`` (create, read, update, delete, purge), ``postroom.connection`` and
``postroom.broker`` (read). Requests and answers here are plain values; `management_links` carries them.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from postroom import __version__
from postroom.amqp import errors
from postroom.manager.errors import (
    AccessRefused,
    DefinitionInvalid,
    LimitExceeded,
    ManagerError,
    NameNotAllowed,
    QueueExists,
    QueueInUse,
    QueueNotFound,
)
from postroom.manager.options import QueueDefinition
from postroom.manager.queue import Queue
from postroom.server.config import is_reserved
from postroom.server.dynamic import DYNAMIC_PREFIX

if TYPE_CHECKING:
    from postroom.server.binding import ConnectionBinding
    from postroom.server.broker import Broker

QUEUE_TYPE: Final = "postroom.queue"
CONNECTION_TYPE: Final = "postroom.connection"
BROKER_TYPE: Final = "postroom.broker"
MANAGEMENT_TYPE: Final = "org.amqp.management"
BROKER_NAME: Final = "broker"

OK: Final = 200
CREATED: Final = 201
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
LIMIT: Final = 429
INTERNAL: Final = 500
NOT_IMPLEMENTED: Final = 501

MAX_QUERY_COUNT: Final = 10_000
"""Rows of one answer to QUERY; more are had with offset."""

_STATUS: Final[list[tuple[type[ManagerError], int]]] = [
    (QueueNotFound, NOT_FOUND),
    (QueueExists, CONFLICT),
    (QueueInUse, CONFLICT),
    (AccessRefused, CONFLICT),
    (NameNotAllowed, BAD_REQUEST),
    (DefinitionInvalid, BAD_REQUEST),
    (LimitExceeded, LIMIT),
]
_CONDITIONS: Final = {
    BAD_REQUEST: errors.INVALID_FIELD,
    FORBIDDEN: errors.NOT_ALLOWED,
    NOT_FOUND: errors.NOT_FOUND,
    CONFLICT: errors.PRECONDITION_FAILED,
    NOT_IMPLEMENTED: errors.NOT_IMPLEMENTED,
}
_DEFINABLE: Final = {
    each.name: each.type
    for each in fields(QueueDefinition)
    if each.name not in ("name", "auto_created", "temporary")
}
_PYTHON_TYPES: Final[dict[object, type]] = {
    "int": int,
    "str": str,
    "bool": bool,
    int: int,
    str: str,
    bool: bool,
}

Attributes = dict[str, Any]


class RequestError(Exception):
    """A request that can't be carried out: ``status`` as in HTTP, and why."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status: Final = status
        self.description: Final = description


class Request:
    """One management request, as its message said it."""

    def __init__(self, properties: Mapping[str, object], body: object) -> None:
        """``properties`` are the message's application properties."""
        self.properties: Final = properties
        self.body: Final = body
        self.operation: Final = _text(properties, "operation")
        self.type: Final = _text(properties, "type")
        self.name: Final = _text(properties, "name") or _text(properties, "identity")

    def attributes(self) -> Attributes:
        """The body as a map of attributes."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise RequestError(BAD_REQUEST, f"the body of {self.operation} must be a map of attributes")
        return {str(key): value for key, value in self.body.items()}

    def number(self, key: str, default: int) -> int:
        """A whole number among the properties."""
        value = self.properties.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise RequestError(BAD_REQUEST, f"{key} is {value!r}, must be a whole number of 0 or more")
        return int(value)


class Response:
    """The answer: a status as in HTTP, what it means, and a body."""

    def __init__(
        self, status: int, description: str, body: object, count: int = -1, condition: str = ""
    ) -> None:
        self.status: Final = status
        self.description: Final = description
        self.body: Final = body
        self.count: Final = count
        """Rows in the body of a QUERY; −1 for other operations."""
        self.condition: Final = condition
        """The AMQP error condition of a request that failed."""


class Management:
    """The management node of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._operations: Final[dict[tuple[str, str], Callable[[Request, int], Response]]] = {
            (QUEUE_TYPE, "CREATE"): self._create_queue,
            (QUEUE_TYPE, "READ"): self._read_queue,
            (QUEUE_TYPE, "UPDATE"): self._update_queue,
            (QUEUE_TYPE, "DELETE"): self._delete_queue,
            (QUEUE_TYPE, "PURGE"): self._purge_queue,
            (CONNECTION_TYPE, "READ"): self._read_connection,
            (BROKER_TYPE, "READ"): self._read_broker,
            (MANAGEMENT_TYPE, "QUERY"): self._query,
            (MANAGEMENT_TYPE, "GET-TYPES"): self._get_types,
            (MANAGEMENT_TYPE, "GET-OPERATIONS"): self._get_operations,
            (MANAGEMENT_TYPE, "GET-ATTRIBUTES"): self._get_attributes,
            (MANAGEMENT_TYPE, "GET-MGMT-NODES"): self._get_nodes,
        }

    def perform(self, request: Request, now_us: int) -> Response:
        """Carry out ``request``. What it changed is not durable yet: the answer must wait for that."""
        try:
            return self._find(request)(request, now_us)
        except RequestError as error:
            return Response(error.status, error.description, {}, condition=_CONDITIONS.get(error.status, ""))
        except ManagerError as error:
            return Response(_status_of(error), error.description, {}, condition=error.condition)

    def _find(self, request: Request) -> Callable[[Request, int], Response]:
        type_name = request.type
        if not request.operation:
            raise RequestError(BAD_REQUEST, "the application properties have no `operation`")
        if not type_name or request.operation in ("QUERY", "GET-TYPES", "GET-OPERATIONS", "GET-ATTRIBUTES"):
            type_name = MANAGEMENT_TYPE
        operation = self._operations.get((type_name, request.operation))
        if operation is not None:
            return operation
        if any(known == type_name for known, _ in self._operations):
            raise RequestError(NOT_IMPLEMENTED, f"type {type_name!r} has no operation {request.operation!r}")
        raise RequestError(NOT_IMPLEMENTED, f"there is no type {type_name!r}")

    # Queues.

    def _create_queue(self, request: Request, now_us: int) -> Response:
        attributes = request.attributes()
        name = request.name or str(attributes.get("name", ""))
        if not name:
            raise RequestError(BAD_REQUEST, "CREATE needs a `name`")
        if is_reserved(name):
            raise RequestError(FORBIDDEN, f"{name!r} is reserved for the broker itself")
        if name in self._broker.manager.queues:
            raise RequestError(CONFLICT, f"queue {name!r} exists already")
        definition = _changed(QueueDefinition(name=name), attributes)
        queue = self._broker.manager.create_queue(definition, now_us)
        return Response(CREATED, "created", self.queue_attributes(queue))

    def _read_queue(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", self.queue_attributes(self._queue(request)))

    def _update_queue(self, request: Request, now_us: int) -> Response:
        queue = self._queue(request)
        definition = _changed(queue.definition, request.attributes())
        self._broker.manager.update_queue(definition, now_us)
        return Response(OK, "OK", self.queue_attributes(queue))

    def _delete_queue(self, request: Request, now_us: int) -> Response:
        queue = self._queue(request)
        if_unused = request.properties.get("if-unused") is True
        if_empty = request.properties.get("if-empty") is True
        self._broker.manager.delete_queue(queue.name, if_unused, if_empty, now_us)
        return Response(NO_CONTENT, "deleted", {})

    def _purge_queue(self, request: Request, now_us: int) -> Response:
        purged = self._broker.manager.purge_queue(self._queue(request).name, now_us)
        return Response(OK, "purged", {"purged": purged})

    def _queue(self, request: Request) -> Queue:
        if not request.name:
            raise RequestError(BAD_REQUEST, f"{request.operation} needs a `name`")
        return self._broker.manager.queue(request.name)

    def queue_attributes(self, queue: Queue) -> Attributes:
        """Definition and counters of one queue."""
        attributes: Attributes = {"identity": queue.name, "type": QUEUE_TYPE}
        attributes.update(queue.definition.to_record())
        attributes["dynamic"] = queue.name.startswith(DYNAMIC_PREFIX)
        attributes.update(queue.statistics.snapshot())
        return attributes

    # Connections and the broker.

    def _read_connection(self, request: Request, now_us: int) -> Response:
        for binding in self._broker.connections:
            if binding.remote == request.name:
                return Response(OK, "OK", self.connection_attributes(binding))
        raise RequestError(NOT_FOUND, f"there is no connection from {request.name!r}")

    def connection_attributes(self, binding: "ConnectionBinding") -> Attributes:
        """Who is connected, since when, with how many links."""
        return {
            "name": binding.remote,
            "identity": binding.remote,
            "type": CONNECTION_TYPE,
            "container_id": binding.container_id,
            "user": binding.user,
            "opened_us": binding.opened_us,
            "links": len(binding.links),
            "transactions": len(binding.transactions),
        }

    def _read_broker(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", self.broker_attributes())

    def broker_attributes(self) -> Attributes:
        """Counts of the whole broker."""
        broker = self._broker
        return {
            "name": BROKER_NAME,
            "identity": BROKER_NAME,
            "type": BROKER_TYPE,
            "version": __version__,
            "container_id": broker.config.container_id,
            "queues": len(broker.manager.queues),
            "connections": len(broker.connections),
            "kept_links": broker.registry.kept_count(),
            "durable_through": broker.durable_through,
            "next_position": broker.ledger.builder.next_position,
            "unsynced_bytes": broker.unsynced_bytes(),
            "space_low": broker.ledger.space_low,
        }

    # About all of them.

    def _entities(self, type_name: str) -> list[Attributes]:
        entities: list[Attributes] = []
        if type_name in ("", QUEUE_TYPE):
            queues = self._broker.manager.queues
            entities += [self.queue_attributes(queues[name]) for name in sorted(queues)]
        if type_name in ("", CONNECTION_TYPE):
            bindings = sorted(self._broker.connections, key=lambda binding: binding.remote)
            entities += [self.connection_attributes(binding) for binding in bindings]
        if type_name in ("", BROKER_TYPE):
            entities.append(self.broker_attributes())
        return entities

    def _query(self, request: Request, now_us: int) -> Response:
        type_name = _text(request.properties, "entityType")
        if type_name not in ("", QUEUE_TYPE, CONNECTION_TYPE, BROKER_TYPE):
            raise RequestError(BAD_REQUEST, f"entityType {type_name!r} is none of GET-TYPES")
        offset = request.number("offset", 0)
        count = min(request.number("count", MAX_QUERY_COUNT), MAX_QUERY_COUNT)
        entities = self._entities(type_name)
        wanted = request.attributes().get("attributeNames")
        if wanted is not None and not isinstance(wanted, list):
            raise RequestError(BAD_REQUEST, "attributeNames must be a list of names")
        names = (
            [str(name) for name in wanted] if wanted else sorted({key for each in entities for key in each})
        )
        rows = [[each.get(name) for name in names] for each in entities[offset : offset + count]]
        return Response(OK, "OK", {"attributeNames": names, "results": rows}, len(rows))

    def _get_types(self, request: Request, now_us: int) -> Response:
        types = (QUEUE_TYPE, CONNECTION_TYPE, BROKER_TYPE)
        return Response(OK, "OK", {name: [] for name in types if _wanted(request, name)})

    def _get_operations(self, request: Request, now_us: int) -> Response:
        found: dict[str, list[str]] = {}
        for type_name, operation in self._operations:
            if _wanted(request, type_name):
                found.setdefault(type_name, []).append(operation)
        return Response(OK, "OK", found)

    def _get_attributes(self, request: Request, now_us: int) -> Response:
        found: dict[str, list[str]] = {}
        for entity in self._entities(""):
            if _wanted(request, entity["type"]):
                found.setdefault(entity["type"], sorted(entity))
        return Response(OK, "OK", found)

    def _get_nodes(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", [])


def _changed(definition: QueueDefinition, attributes: Attributes) -> QueueDefinition:
    """``definition`` with ``attributes`` put in. Raises `RequestError` for one that can't be set, or not
    so.
    """
    changes: Attributes = {}
    for key, value in attributes.items():
        if key in ("name", "identity", "type"):
            continue
        wanted = _PYTHON_TYPES.get(_DEFINABLE.get(key))
        if wanted is None:
            raise RequestError(BAD_REQUEST, f"a queue has no attribute {key!r} that can be set")
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise RequestError(BAD_REQUEST, f"{key} is {value!r}, must be of type {wanted.__name__}")
        changes[key] = wanted(value)
    changed = replace(definition, **changes)
    changed.check()
    return changed


def _status_of(error: ManagerError) -> int:
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return INTERNAL


def _text(properties: Mapping[str, object], key: str) -> str:
    value = properties.get(key)
    return value if isinstance(value, str) else ""


def _wanted(request: Request, type_name: str) -> bool:
    only = _text(request.properties, "entityType")
    return not only or only == type_name
