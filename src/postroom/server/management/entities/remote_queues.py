"""Remote queues and aliases, as the management node shows and changes them."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.errors import NameUnknown, NameUnusable
from postroom.manager.names.remote_queues import RemoteQueue, RemoteQueueDefinition
from postroom.model.entity_types import REMOTE_QUEUE_TYPE
from postroom.model.names import full_address
from postroom.server.configuration.config import is_reserved
from postroom.server.management.entity_type import ListedEntityType, Operation
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

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


_DEFINITION: Final = tuple(each.name for each in fields(RemoteQueueDefinition))
_SETTABLE: Final[Mapping[str, type]] = {name: str for name in _DEFINITION if name != "name"}
_ATTRIBUTES: Final = ("identity", "type", *_DEFINITION, "alias", "leads_to", "waits_on", "problem")


class RemoteQueues(ListedEntityType[RemoteQueue]):
    """The remote queues and aliases of one broker."""

    type: Final = REMOTE_QUEUE_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._names: Final = broker.manager.names
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self._delete,
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterable[RemoteQueue]:
        return self._names.definitions.values()

    def find(self, request: Request) -> RemoteQueue:
        return self._names.find(request.required_name())

    def shown(self, remote: RemoteQueue) -> Attributes:
        """The definition, and where it leads now."""
        definition = remote.definition
        return {
            "identity": definition.name,
            "type": REMOTE_QUEUE_TYPE,
            **definition.to_record(),
            "alias": not definition.remote_queue,
            **self._led(definition),
        }

    def _led(self, definition: RemoteQueueDefinition) -> Attributes:
        """Of a remote queue: the queue, and the transmission queue where its messages wait; or the problem.

        What an alias leads to depends on the queue that is asked for.
        """
        led: Attributes = {"leads_to": "", "waits_on": "", "problem": ""}
        if not definition.remote_queue:
            return led
        try:
            destination = self._names.destination(definition.name)
        except (NameUnknown, NameUnusable) as error:
            return {**led, "problem": error.description}
        header = destination.header
        if header is None:
            return {**led, "leads_to": destination.queue.name}
        address = full_address(header.queue, header.queue_manager)
        return {**led, "leads_to": address, "waits_on": destination.queue.name}

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        if is_reserved(name):
            raise RequestError(FORBIDDEN, f"{name!r} is reserved for the broker itself")
        if name in self._names.definitions:
            raise RequestError(CONFLICT, f"remote queue {name!r} exists already")
        definition = RemoteQueueDefinition(name, **request.settings("remote queue", _SETTABLE))
        return Response(CREATED, "created", self.shown(self._names.define(definition, now_us)))

    def _update(self, request: Request, now_us: int) -> Response:
        known = self.find(request).definition
        changed = replace(known, **request.settings("remote queue", _SETTABLE))
        return Response(OK, "OK", self.shown(self._names.alter(changed, now_us)))

    def _delete(self, request: Request, now_us: int) -> Response:
        self._names.delete(request.required_name(), now_us)
        return Response(NO_CONTENT, "deleted", {})
