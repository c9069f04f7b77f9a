"""PAUSE, RESUME and RESET-STATISTICS, the same for queues, topics and subscriptions."""

from collections.abc import Callable, Mapping
from functools import partial

from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.switches import switches_of
from postroom.server.management.entity_type import Operation
from postroom.server.management.request import BAD_REQUEST, OK, Request, RequestError, Response

Find = Callable[[Request], Queue]


def switch_operations(manager: QueueManager, find: Find) -> Mapping[str, Operation]:
    """The operations; ``find`` gives what a request is about. PAUSE and RESUME ask for a property ``switch``:
    "production", "insertion" or "consumption"; PAUSE with ``durable`` (true) holds beyond a restart."""
    return {
        "PAUSE": partial(_pause, manager, find),
        "RESUME": partial(_resume, manager, find),
        "RESET-STATISTICS": partial(_reset, find),
    }


def _pause(manager: QueueManager, find: Find, request: Request, now_us: int) -> Response:
    queue, durable = find(request), request.properties.get("durable", False)
    if not isinstance(durable, bool):
        raise RequestError(BAD_REQUEST, f"durable is {durable!r:.100}, must be true or false")
    manager.pause(queue, request.text("switch"), now_us, durable)
    return _switches(queue)


def _resume(manager: QueueManager, find: Find, request: Request, now_us: int) -> Response:
    queue = find(request)
    manager.resume(queue, request.text("switch"), now_us)
    return _switches(queue)


def _switches(queue: Queue) -> Response:
    switches = {**switches_of(queue), "durably_paused": queue.definition.durably_paused}
    return Response(OK, "OK", switches)


def _reset(find: Find, request: Request, now_us: int) -> Response:
    """What runs since the start or the last reset begins again; the answer has the counters from before."""
    statistics = find(request).statistics
    before = statistics.snapshot()
    statistics.reset(now_us)
    return Response(OK, "reset", before)
