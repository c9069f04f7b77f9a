"""Remote queues and aliases, as the management node shows and changes them."""

from collections.abc import Iterable
from typing import Final

from postroom.manager.kernel.errors import NameUnknown, NameUnusable
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.names.remote_queues import RemoteQueue
from postroom.model.entity_types import REMOTE_QUEUE_TYPE
from postroom.model.names import full_address
from postroom.model.settings import types_of
from postroom.server.management.entity_type import Columns, DefinedEntityType, same_named
from postroom.server.management.request import Attributes, Request, Response, check_not_reserved

_UNLED: Final = {"leads_to": "", "waits_on": "", "problem": ""}


class RemoteQueues(DefinedEntityType[RemoteQueue, RemoteQueueDefinition]):
    """The remote queues and aliases of one broker."""

    type: Final = REMOTE_QUEUE_TYPE
    kind = "remote queue"
    definition = RemoteQueueDefinition
    settable = types_of(RemoteQueueDefinition)

    def make_columns(self) -> Columns[RemoteQueue]:
        return {
            **same_named(*self.settable, of="definition"),
            "alias": lambda remote: not remote.definition.remote_queue,
        }

    def all(self) -> Iterable[RemoteQueue]:
        return self.manager.names.definitions.values()

    def find(self, request: Request) -> RemoteQueue:
        return self.manager.names.find(request.required_name())

    def name_of(self, thing: RemoteQueue) -> str:
        return thing.definition.name

    def attribute_names(self) -> list[str]:
        return [*super().attribute_names(), *_UNLED]

    def shown(self, thing: RemoteQueue) -> Attributes:
        """The definition, and where it leads now."""
        return super().shown(thing) | self._led(thing.definition)

    def _led(self, definition: RemoteQueueDefinition) -> Attributes:
        """Of a remote queue: the queue, and the transmission queue where its messages wait; or the problem.

        What an alias leads to depends on the queue that is asked for.
        """
        if not definition.remote_queue:
            return _UNLED
        try:
            destination = self.manager.names.destination(definition.name)
        except (NameUnknown, NameUnusable) as error:
            return {**_UNLED, "problem": error.description}
        header = destination.header
        if header is None:
            return {**_UNLED, "leads_to": destination.queue.name}
        address = full_address(header.queue, header.queue_manager)
        return {**_UNLED, "leads_to": address, "waits_on": destination.queue.name}

    def create(self, request: Request, now_us: int) -> Response:
        check_not_reserved(request.required_name())
        return super().create(request, now_us)

    def define(self, definition: RemoteQueueDefinition, now_us: int) -> RemoteQueue:
        return self.manager.names.define(definition, now_us)

    def alter(self, definition: RemoteQueueDefinition, now_us: int) -> RemoteQueue:
        return self.manager.names.alter(definition, now_us)

    def drop(self, name: str, now_us: int) -> None:
        self.manager.names.delete(name, now_us)
