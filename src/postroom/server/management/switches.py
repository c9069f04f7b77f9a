"""PAUSE, RESUME and RESET-STATISTICS, the same for queues, topics and subscriptions."""

from collections.abc import Callable, Mapping
from functools import partial

from postroom.manager.manager import QueueManager
from postroom.manager.queue import Queue
from postroom.manager.switches import switches_of
from postroom.server.management.noun import Operation
from postroom.server.management.request import OK, Request, Response

Find = Callable[[Request], Queue]


def switch_operations(manager: QueueManager, find: Find) -> Mapping[str, Operation]:
    """The operations; ``find`` gives what a request is about. PAUSE and RESUME ask for a property ``switch``:
    "production", "insertion" or "consumption"."""
    return {
        "PAUSE": partial(_turn, manager.pause, find),
        "RESUME": partial(_turn, manager.resume, find),
        "RESET-STATISTICS": partial(_reset, find),
    }


def _turn(turn: Callable[[Queue, str, int], None], find: Find, request: Request, now_us: int) -> Response:
    queue = find(request)
    turn(queue, request.text("switch"), now_us)
    return Response(OK, "OK", switches_of(queue))


def _reset(find: Find, request: Request, now_us: int) -> Response:
    """What runs since the start or the last reset begins again; the answer has the counters from before."""
    statistics = find(request).statistics
    before = statistics.snapshot()
    statistics.reset(now_us)
    return Response(OK, "reset", before)
