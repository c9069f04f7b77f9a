"""Figures as they change, as server-sent events: ``GET /api/v1/events``.

An event ``figures`` each second, which is the heart beat, too. A stream ends with its client, its session or
token, and the broker.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from postroom.server.http.api import arguments
from postroom.server.http.api.operation import Call
from postroom.server.http.errors import Refusal
from postroom.server.http.figures import PERIOD_S
from postroom.server.http.route_group import LEAVE_WORK

MAX_QUEUES: Final = 20
CHECK_S: Final = 10.0
"""So often a bearer token is looked at again."""
RETRY_MS: Final = 3000
"""After so long a browser tries again."""


async def stream(call: Call) -> Response:
    """The stream. Raises `Refusal` where there are too many."""
    query: arguments.EventsOf = call.query
    if len(query.queue) > MAX_QUEUES:
        raise Refusal(400, "bad-query", f"one stream tells of {MAX_QUEUES} queues at most")
    counted = call.shared.waits.one_more()
    counted.__enter__()
    call.request.scope[LEAVE_WORK]()

    async def events() -> AsyncIterator[bytes]:
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            async for each in _figures(call, query.queue):
                yield each
        finally:
            counted.__exit__(None, None, None)

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events(), headers=headers, media_type="text/event-stream")


async def _figures(call: Call, names: list[str]) -> AsyncIterator[bytes]:
    requesters, request = call.shared.requesters, call.request
    session = requesters.session_of(request)
    loop = asyncio.get_running_loop()
    due_s = loop.time() + CHECK_S
    while not (call.shared.gateway.stopping or await request.is_disconnected()):
        if session is not None:
            if not requesters.lives(session):
                return
        elif loop.time() >= due_s:
            due_s = loop.time() + CHECK_S
            try:
                await requesters.requester_of(request)
            except Refusal:
                return
        shown = call.shared.figures.shown(call.requester, names)
        yield b"event: figures\ndata: " + msgspec.json.encode(shown) + b"\n\n"
        await asyncio.sleep(PERIOD_S)
