"""PAUSE and RESUME, the same for queues, topics and subscriptions."""

from collections.abc import Callable, Mapping
from functools import partial

from postroom.manager.manager import QueueManager
from postroom.manager.queue import Queue
from postroom.manager.switches import switches_of
from postroom.server.management.noun import Operation
from postroom.server.management.request import OK, Request, Response

Find = Callable[[Request], Queue]


def switch_operations(manager: QueueManager, find: Find) -> Mapping[str, Operation]:
    """The operations; ``find`` gives what a request is about. They ask for a property ``switch``:
    "production", "insertion" or "consumption"."""
    return {
        "PAUSE": partial(_turn, manager.pause, find),
        "RESUME": partial(_turn, manager.resume, find),
    }


def _turn(turn: Callable[[Queue, str, int], None], find: Find, request: Request, now_us: int) -> Response:
    queue = find(request)
    turn(queue, request.text("switch"), now_us)
    return Response(OK, "OK", switches_of(queue))
