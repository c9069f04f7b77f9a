"""Requests that the queue manager answers when it can: what stands between it and the asking link."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.manager import QueueManager
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.queues.queue import Queue
from postroom.server.management.arguments import Arguments
from postroom.server.management.entity_type import Operation
from postroom.server.management.request import OK, Attributes, Later, Request, Response, refusal

Show = Callable[[object, int], Attributes]
"""Makes the body of an answer, given what the queue manager says and the time."""


class Ticket(Asker):
    """Stands for a request in the queue manager, and passes its answer on."""

    def __init__(self, shown: Show) -> None:
        super().__init__()
        self._shown: Final = shown
        self._later: Later | None = None

    def submit(self, manager: QueueManager, request: StoreRequest, now_us: int) -> Later:
        """Have ``request``, of which this is the target, carried out."""
        self._later = Later(lambda: manager.cancel_request(request))
        manager.submit_request(request, now_us)
        return self._later

    def answered(self, payload: object, now_us: int) -> None:
        assert self._later is not None
        if isinstance(payload, ManagerError):
            self._later.answer(refusal(payload), now_us)
        else:
            self._later.answer(Response(OK, "OK", self._shown(payload, now_us)), now_us)


Make = Callable[[Queue, Ticket, Arguments], StoreRequest]
"""What to ask the queue manager; may raise `RequestError` or a ``ManagerError``."""


Find = Callable[[str], Queue]
"""The queue of a name; may raise a ``ManagerError``."""


def asking_operations(
    manager: QueueManager, shown: Show, makers: Mapping[str, Make], find: Find | None = None
) -> Mapping[str, Operation]:
    """An operation for each of ``makers``: it asks for what that makes. A request's name is the queue's, one
    here unless ``find`` finds others."""
    here = find or partial(_here, manager)
    return {verb: partial(_submit, manager, shown, make, here) for verb, make in makers.items()}


def _here(manager: QueueManager, name: str) -> Queue:
    manager.names.check_readable(name)
    return manager.queue(manager.names.local(name))


def _submit(
    manager: QueueManager, shown: Show, make: Make, find: Find, request: Request, now_us: int
) -> Later:
    ticket = Ticket(shown)
    queue = find(request.required_name())
    wanted = make(queue, ticket, Arguments(request, now_us))
    wanted.user = request.user
    return ticket.submit(manager, wanted, now_us)
