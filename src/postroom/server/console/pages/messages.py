"""Finding a message, also one that has ended long ago: by its message id or its serial."""

from typing import Any, Final, cast

from starlette.responses import Response

from postroom.model.entity_types import LEDGER_TYPE
from postroom.server.console.formats import path_of
from postroom.server.console.life import Life, lines_of, lives_of
from postroom.server.console.page import Page
from postroom.server.console.visit import Visit
from postroom.server.http.api.arguments import IdType
from postroom.server.http.api.messages import typed_id
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

SERIAL: Final = "serial"
KINDS: Final = ("string", "uuid", "ulong", "binary")
MAX_ID_CHARS: Final = 1000
MAX_PIECES: Final = 8
"""Pieces of the ledger that one search goes through; then it offers to go on."""
MAX_FOUND: Final = 200
"""Messages of one id that are shown."""


class FindMessage(Page, path="/messages"):
    """The search, and what it found."""

    async def show(self, visit: Visit) -> Response:
        wanted, kind = visit.parameter("id")[:MAX_ID_CHARS].strip(), visit.parameter("kind", "string")
        values: dict[str, Any] = {"wanted": wanted, "kind": kind, "kinds": (*KINDS, SERIAL), "lives": []}
        values |= {"problem": "", "next": 0, "is_all": True}
        if not wanted:
            return visit.page("messages.html", **values)
        if kind == SERIAL:
            return visit.go(path_of("messages", wanted))
        try:
            lives, after = await _found(visit, wanted, kind)
        except Refusal as refusal:
            if refusal.status == 403:
                raise
            return visit.page("messages.html", refusal.status, **{**values, "problem": refusal.body["what"]})
        if len(lives) == 1 and not after:
            return visit.go(path_of("messages", lives[0].serial))
        return visit.page("messages.html", **{**values, "lives": lives[:MAX_FOUND], "next": after})


async def _found(visit: Visit, wanted: str, kind: str) -> tuple[list[Life], int]:
    """The lives of the messages of that id, and where to go on; 0: that was all. Raises `Refusal`."""
    if kind not in KINDS:
        raise Refusal(400, "bad-query", f"{kind!r:.40} is no kind of id")
    message_id = typed_id(wanted, cast(IdType, kind), "message id")
    first = visit.parameter("first", "1")
    after, serials = (
        int(first) if first.isascii() and first.isdecimal() and len(first) < 19 else 1,
        set[int](),
    )
    for _ in range(MAX_PIECES):
        place: Attributes = {"message_id": message_id, "first": after}
        part = await visit.manage("FIND-MESSAGES", LEDGER_TYPE, "", place)
        serials.update(map(int, part["serials"]))
        after = int(part["next"])
        if not after:
            break
    if not serials:
        return [], after
    lines, _ = await lines_of(visit, sorted(serials)[:MAX_FOUND])
    return lives_of(lines), after
