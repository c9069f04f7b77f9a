"""What queues, topics and subscriptions have in common, which are all queues to the queue manager."""

from abc import abstractmethod
from collections.abc import Container, Mapping
from dataclasses import fields, replace
from typing import Final, TypeVar

from postroom.manager.destinations.switches import SWITCH_ATTRIBUTES, switches_of
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.options import IDENTITY_FIELDS, QUEUE_SETTINGS, USAGE_NORMAL, QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll, Statistics
from postroom.manager.queues.queue import Queue
from postroom.model.settings import types_of
from postroom.server.management.entities.holders import holders_of
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    NAMING,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
    check_not_reserved,
)

D = TypeVar("D", bound=Destination)
Q = TypeVar("Q", bound=Queue)

_TYPES: Final = types_of(QueueDefinition)
SETTABLE: Final = {name: _TYPES[name] for name in QUEUE_SETTINGS}


class Destinations(ListedEntityType[D]):
    """One of these entity types: the operations that all of them have alike."""

    def make_operations(self) -> Mapping[str, Operation]:
        return {
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self.delete,
            "PAUSE": self._pause,
            "RESUME": self._resume,
            "RESET-STATISTICS": self._reset,
        }

    @abstractmethod
    def delete(self, request: Request, now_us: int) -> Response:
        """The operation DELETE."""

    def created(self, name: str, kind: str, taken: Container[str], request: Request, now_us: int) -> Response:
        """Create a queue or topic with the request's settings, unless its name is ``taken``."""
        check_not_reserved(name)
        if name in taken:
            raise RequestError(CONFLICT, f"{kind} {name!r} exists already")
        usage = str(request.attributes().get("usage", USAGE_NORMAL))
        plain = self.manager.options.new_queue(name, kind, usage)
        self.manager.create_queue(_changed(plain, request), now_us)
        return Response(CREATED, "created", self.shown(self.find(request)))

    def _update(self, request: Request, now_us: int) -> Response:
        queue = self.find(request)
        _check_free(queue.definition.kind, request)
        definition = _changed(queue.definition, request)
        if request.attributes():  # it doesn't go when it is idle, with what somebody wants of it
            definition = replace(definition, auto_created=False)
        self.manager.update_queue(definition, now_us)
        return Response(OK, "OK", self.shown(queue))

    def _pause(self, request: Request, now_us: int) -> Response:
        """Asks for a property ``switch``: "production", "insertion" or "consumption"; with ``durable`` (true)
        it holds beyond a restart."""
        queue, durable = self.find(request), request.properties.get("durable", False)
        if not isinstance(durable, bool):
            raise RequestError(BAD_REQUEST, f"durable is {durable!r:.100}, must be true or false")
        self.manager.pause(queue, request.text("switch"), now_us, durable)
        return _switches(queue)

    def _resume(self, request: Request, now_us: int) -> Response:
        queue = self.find(request)
        self.manager.resume(queue, request.text("switch"), now_us)
        return _switches(queue)

    def _reset(self, request: Request, now_us: int) -> Response:
        """What runs since the start or the last reset begins again; the answer has the counters from
        before."""
        statistics = self.find(request).statistics
        before = statistics.snapshot()
        statistics.reset(now_us)
        return Response(OK, "reset", before)


class MessageHolders(Destinations[Q]):
    """Queues and subscriptions, on which messages are."""

    def make_operations(self) -> Mapping[str, Operation]:
        return {**super().make_operations(), "PURGE": self._purge, "HOLDERS": self._holders}

    def attribute_names(self) -> list[str]:
        definition = [each.name for each in fields(QueueDefinition) if each.name not in self.columns]
        return [*self.columns, *definition, *SWITCH_ATTRIBUTES, *Statistics(HeldByAll()).snapshot()]

    def shown(self, thing: Q) -> Attributes:
        """Definition and counters."""
        record, counters = thing.definition.to_record(), thing.statistics.snapshot()
        return super().shown(thing) | record | switches_of(thing) | counters

    def _purge(self, request: Request, now_us: int) -> Response:
        purged = self.manager.purge_queue(self.find(request).name, now_us)
        return Response(OK, "purged", {"purged": purged})

    def _holders(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", holders_of(self.broker, self.find(request)))


def _switches(queue: Destination) -> Response:
    switches = {**switches_of(queue), "durably_paused": queue.definition.durably_paused}
    return Response(OK, "OK", switches)


def _check_free(kind: str, request: Request) -> None:
    """Raise `RequestError` for what is as it is from the beginning."""
    for key in request.attributes():
        if key in IDENTITY_FIELDS and key not in NAMING:
            raise RequestError(BAD_REQUEST, f"{key} can't be changed: it is no setting of a {kind}")


def _changed(definition: QueueDefinition, request: Request) -> QueueDefinition:
    """``definition`` with the request's settings put in. Raises `RequestError`, ``DefinitionInvalid``."""
    new = replace(definition, **request.settings(definition.kind, SETTABLE))
    new.check()
    return new
