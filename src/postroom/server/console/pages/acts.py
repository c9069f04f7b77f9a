"""Acts: what administrators have done, and what was refused to whom, newest first."""

from collections import deque
from pathlib import Path
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from postroom.ledger.reading.acts import Act, read_acts
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE
from postroom.model.rights import Right
from postroom.server.console.page import Page
from postroom.server.console.visit import Visit

ACTS_PER_PAGE: Final = 100
FIRST_WINDOW: Final = 1 << 16
"""Positions of the ledger that are looked through at first; each time that isn't enough eight times more."""
MAX_WINDOW: Final = 1 << 26
"""Not more for one page: it says how far it has come, and goes on there."""
MAX_SEARCH_CHARS: Final = 200


class ActsFound:
    """Some acts before a position, newest first."""

    def __init__(self, acts: list[Act], searched_from: int) -> None:
        self.acts: Final = acts
        self.searched_from: Final = searched_from
        """Earlier positions weren't looked at; 1: there are none."""

    @property
    def older_before(self) -> int:
        """Where the next page ends; 0: this is the last."""
        if len(self.acts) == ACTS_PER_PAGE:
            return int(self.acts[-1]["position"])
        return self.searched_from if self.searched_from > 1 else 0


def acts_before(folder: Path, position: int, wanted: str) -> ActsFound:
    """The last ones before ``position`` that have ``wanted`` in them. Raises `LedgerError`."""
    needle, window = wanted.casefold(), FIRST_WINDOW
    while True:
        first = max(1, position - window)
        newest: deque[Act] = deque(maxlen=ACTS_PER_PAGE)
        newest.extend(act for act in read_acts(folder, first, position - 1) if _has(act, needle))
        if len(newest) == ACTS_PER_PAGE or first == 1 or window >= MAX_WINDOW:
            return ActsFound(list(reversed(newest)), first)
        window *= 8


def _has(act: Act, needle: str) -> bool:
    return not needle or any(needle in str(value).casefold() for value in act.values())


class Acts(Page, path="/acts"):
    """They outlive the history of messages."""

    async def show(self, visit: Visit) -> Response:
        shared = visit.console.shared
        await shared.gateway.require(visit.requester, Right.READ_LEDGER, "READ", self.path)
        broker = await visit.manage("READ", BROKER_TYPE, BROKER_NAME)
        end = int(broker["durable_through"]) + 1
        before = visit.parameter("before")
        if before.isascii() and before.isdecimal() and len(before) < 19:
            end = min(end, int(before))
        wanted = visit.parameter("q")[:MAX_SEARCH_CHARS]
        found = await run_in_threadpool(acts_before, shared.data_folder, end, wanted)
        return visit.page("acts.html", found=found, q=wanted, before=visit.parameter("before"))
