"""Messages of a queue or subscription, chosen by selector and state, page by page."""

from typing import Any, Final
from urllib.parse import urlencode

from postroom.model.entity_types import MESSAGE_TYPE
from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

ROWS_PER_PAGE: Final = 50
CURSOR_TIMEOUT_S: Final = 60
"""So long the broker keeps what a browse has found for its next page."""
MAX_SELECTOR_CHARS: Final = 4000
STATES: Final = (
    "visible", "send", "receive", "transaction", "ordered", "delayed", "expired", "redelivery_count_exceeded",
    "paused", "locked",
)  # fmt: skip


async def browsed(visit: Visit, name: str) -> dict[str, Any]:
    """What the template `browse.html` shows: of the destination of that name, as the URL's parameters say."""
    selector, state = visit.parameter("selector")[:MAX_SELECTOR_CHARS], visit.parameter("state")
    first = _number(visit.parameter("first"))
    found: dict[str, Any] = {
        "selector": selector,
        "state": state,
        "states": STATES,
        "messages": [],
        "total": 0,
        "first": first,
        "problem": "",
        "previous_url": "",
        "next_url": "",
    }
    try:
        cursor, total, messages = await _page(visit, name, _which(selector, state), first)
    except Refusal as refusal:
        if refusal.status == 403:
            raise
        found["problem"] = str(refusal.body["what"])
        return found
    found |= {"messages": messages, "total": total}
    fixed = {"view": "messages", "selector": selector, "state": state, "cursor": cursor}
    if first > 0:
        found["previous_url"] = _url(fixed, max(0, first - ROWS_PER_PAGE))
    if first + len(messages) < total:
        found["next_url"] = _url(fixed, first + len(messages))
    return found


def _which(selector: str, state: str) -> Attributes:
    found: Attributes = {}
    if selector:
        found["selector"] = selector
    if state in STATES:
        found["states"] = [state]
    return found


async def _page(visit: Visit, name: str, which: Attributes, first: int) -> tuple[int, int, list[Attributes]]:
    """The cursor, how many messages it has, and those of the page. A cursor that has gone is opened anew."""
    cursor = _number(visit.parameter("cursor"))
    if cursor:
        try:
            return cursor, *await _read(visit, name, cursor, first)
        except Refusal as refusal:
            if refusal.status not in (400, 404):
                raise
    opened = await visit.manage("OPEN-CURSOR", MESSAGE_TYPE, name, {**which, "timeout_s": CURSOR_TIMEOUT_S})
    cursor = int(opened["cursor"])
    total, messages = await _read(visit, name, cursor, first)
    if total <= ROWS_PER_PAGE:
        await visit.manage("CLOSE-CURSOR", MESSAGE_TYPE, name, {"cursor": cursor})
        cursor = 0
    return cursor, total, messages


async def _read(visit: Visit, name: str, cursor: int, first: int) -> tuple[int, list[Attributes]]:
    place = {"cursor": cursor, "offset": first, "count": ROWS_PER_PAGE}
    read = await visit.manage("READ-CURSOR", MESSAGE_TYPE, name, place)
    return int(read["count"]), list(read["messages"])


def _url(fixed: Attributes, first: int) -> str:
    return "?" + urlencode({key: value for key, value in {**fixed, "first": first}.items() if value})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
