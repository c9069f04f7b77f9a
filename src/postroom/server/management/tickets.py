"""Requests that the queue manager answers when it can: what stands between it and the asking link."""

from collections.abc import Callable
from typing import Final

from postroom.manager.asking import StoreRequest
from postroom.manager.effects import Asker
from postroom.manager.errors import ManagerError
from postroom.manager.manager import QueueManager
from postroom.server.management.request import OK, Attributes, Later, Response, refusal


class Ticket(Asker):
    """Stands for a request in the queue manager, and passes its answer on."""

    def __init__(self, shown: Callable[[object, int], Attributes]) -> None:
        """``shown`` makes the body of the answer, given what the queue manager says and the time."""
        super().__init__()
        self._shown: Final = shown
        self._later: Later | None = None

    def ask(self, manager: QueueManager, request: StoreRequest, now_us: int) -> Later:
        """Have ``request``, of which this is the target, carried out."""
        self._later = Later(lambda: manager.cancel_request(request))
        manager.ask_store(request, now_us)
        return self._later

    def answered(self, payload: object, now_us: int) -> None:
        assert self._later is not None
        if isinstance(payload, ManagerError):
            self._later.answer(refusal(payload), now_us)
        else:
            self._later.answer(Response(OK, "OK", self._shown(payload, now_us)), now_us)
