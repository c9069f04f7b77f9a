"""One message: what it says, and its life, whether it is still there or not."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from postroom.model.entity_types import MESSAGE_TYPE
from postroom.server.clock import wall_us
from postroom.server.console import bodies, security_headers
from postroom.server.console.formats import words
from postroom.server.console.life import Family, family_of
from postroom.server.console.life_picture import COLORS, drawn
from postroom.server.console.page import Page
from postroom.server.console.visit import Visit
from postroom.server.http.api.messages import as_json
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

DOWNLOAD: Final = "download"
MAX_SERIAL: Final = (1 << 63) - 1
MAX_PAIRS: Final = 200
"""Properties and annotations that a page shows."""
MAX_VALUE_CHARS: Final = 2000
FIELDS: Final = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type",
    "content_encoding", "absolute_expiry_time", "creation_time", "group_id", "group_sequence",
    "reply_to_group_id",
)  # fmt: skip


class OneMessage(Page, path="/messages/{name}"):
    """By its serial. ``?queue=NAME`` says where it is to whoever may not look into the ledger."""

    async def show(self, visit: Visit) -> Response:
        serial = _serial(visit.name)
        lives, life_problem = await _family(visit, serial)
        own = lives.own
        queue = own.queue if own is not None else visit.parameter("queue")
        row, problem = await _row(visit, queue, serial, own is not None and own.ended_us is not None)
        if visit.parameter(DOWNLOAD):
            return _downloaded(serial, row)
        now_us = wall_us()
        return visit.page(
            "message.html",
            serial=serial,
            queue=queue,
            lives=lives,
            life_problem=life_problem,
            picture=drawn(lives.lives, now_us),
            colors=COLORS,
            now_us=now_us,
            row=row,
            problem=problem,
            **_content(row),
        )


def _serial(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= MAX_SERIAL:
        return int(text[:20])
    raise Refusal(404, "not-found", f"{text!r:.40} is no serial of a message, a number from 1 on")


async def _family(visit: Visit, serial: int) -> tuple[Family, str]:
    """Its life; or why it isn't shown."""
    try:
        return await family_of(visit, serial), ""
    except Refusal as refusal:
        if refusal.status not in (403, 429):
            raise
        return Family(serial, [], 0, True), str(refusal.body["what"])


async def _row(visit: Visit, queue: str, serial: int, has_ended: bool) -> tuple[Attributes, str]:
    """The message as it is on its queue; or why it isn't shown."""
    if has_ended or not queue:
        return {}, "The message has ended: the ledger keeps its life, and no body." if has_ended else ""
    try:
        found = await visit.manage("READ", MESSAGE_TYPE, queue, {"serial": serial, "bodies": True})
    except Refusal as refusal:
        return {}, str(refusal.body["what"])
    rows = list(found["messages"])
    return (rows[0], "") if rows else ({}, "The message has ended meanwhile.")


def _content(row: Attributes) -> dict[str, Any]:
    """Fields, properties, annotations and body of the whole message."""
    raw = row.get("message")
    message = bodies.decoded(raw) if isinstance(raw, bytes) else None
    nothing: dict[str, Any] = {"fields": [], "properties": [], "annotations": [], "body": None}
    if message is None:
        return nothing
    properties = message.properties
    named = [] if properties is None else [(words(name), getattr(properties, name)) for name in FIELDS]
    return {
        "fields": [(name, _short(value)) for name, value in named if value is not None],
        "properties": _pairs(message.application_properties),
        "annotations": _pairs(message.message_annotations),
        "body": bodies.shown_body(message),
    }


def _pairs(found: Mapping[Any, Any] | None) -> list[tuple[str, str]]:
    return [
        (str(name)[:MAX_VALUE_CHARS], _short(value))
        for name, value in list((found or {}).items())[:MAX_PAIRS]
    ]


def _short(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else str(as_json(value))
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"


def _downloaded(serial: int, row: Attributes) -> Response:
    """The body as it is: never shown by the browser itself."""
    raw = row.get("message")
    message = bodies.decoded(raw) if isinstance(raw, bytes) else None
    if message is None:
        raise Refusal(404, "not-found", "the message has ended, or it can't be taken apart")
    headers = {
        **security_headers.PAGE,
        "content-type": "application/octet-stream",
        "content-disposition": f'attachment; filename="message-{serial}.bin"',
    }
    return Response(bodies.content_of(message), headers=headers)
