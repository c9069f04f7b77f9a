"""Figures that follow while a page is open: a stream of server-sent events, whose end the page notices.

``parts`` has HTML by element id, of those that have changed; ``samples`` what the charts add.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from postroom.server.console import security_headers
from postroom.server.console.page import Figures, Page
from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import LEAVE_WORK

MAX_STREAM_S: Final = 3600
"""Then the page opens another: a session that is over is noticed by that at the latest."""
STEP_S: Final = 0.25
"""A broker that stops doesn't wait longer for its streams."""


async def follow(page: Page, visit: Visit) -> Response:
    """The stream of a page's figures. Raises `Refusal` where there are too many, or nothing may be seen."""
    await page.figures(visit)  # a refusal is an answer, not the end of a stream
    counted = visit.console.shared.waits.one_more()
    counted.__enter__()
    visit.request.scope[LEAVE_WORK]()

    async def events() -> AsyncIterator[bytes]:
        try:
            async for event in _changes(page, visit):
                yield event
        finally:
            counted.__exit__(None, None, None)

    headers = {**security_headers.PAGE, "x-accel-buffering": "no"}
    return StreamingResponse(events(), headers=headers, media_type="text/event-stream")


async def _changes(page: Page, visit: Visit) -> AsyncIterator[bytes]:
    shared, loop, sent = visit.console.shared, asyncio.get_running_loop(), _Sent()
    session = shared.requesters.session_of(visit.request)
    end_s = loop.time() + MAX_STREAM_S
    while loop.time() < end_s:
        if session is not None and not shared.requesters.lives(session):
            yield _event("signed-out", {})
            return
        try:
            for event in sent.changes(await page.figures(visit), visit):
                yield event
        except Refusal as refusal:
            yield _event("refused", {"status": refusal.status, "what": refusal.body["what"]})
            if refusal.status < 429:
                return
        due_s = loop.time() + page.interval_s
        while loop.time() < due_s:
            if shared.gateway.stopping:
                return
            await asyncio.sleep(STEP_S)


class _Sent:
    """What a stream has sent."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self._time_ms = 0

    def changes(self, figures: Figures, visit: Visit) -> list[bytes]:
        """Events; one at least, by which the page knows that the broker is there."""
        changed = {key: html for key, html in figures.parts.items() if self._parts.get(key) != html}
        self._parts |= changed
        events = [_event("parts", changed)]
        series = visit.console.samples.find(figures.series) if figures.series else None
        if series is not None and series.times_ms and series.times_ms[-1] > self._time_ms:
            events.append(_event("samples", series.since(self._time_ms)))
            self._time_ms = series.times_ms[-1]
        return events


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
