"""Replays of many dead letters: they go piece by piece beside the pages, which show how far they are."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from postroom.server.http.errors import Refusal

MAX_REPLAYS: Final = 8
"""Under way at a time; one more is refused."""
MAX_KEPT: Final = 100
"""That are over, and still told of."""
KEY_BYTES: Final = 9

Piece = Callable[[], Awaitable[dict[str, Any]]]
"""Replays some: `count` of them, whether there are `more`, and how many are `without_origin`."""


class Replay:
    """One, from its start to its end."""

    def __init__(self, queue: str, total: int, user: str) -> None:
        self.queue: Final = queue
        self.total: Final = total
        """Meant when it began."""
        self.user: Final = user
        self.done = 0
        self.without_origin = 0
        """That stay: they were put on this queue itself."""
        self.problem = ""
        """Why it ended before its end."""
        self.is_over = False
        self.is_stopping = False
        self.task: asyncio.Task[None] | None = None

    @property
    def percent(self) -> int:
        """Of what was meant; 100 once it is over without a problem."""
        if self.is_over and not (self.problem or self.is_stopping):
            return 100
        return min(100, self.done * 100 // self.total) if self.total else 0

    async def run(self, pieces: list[Piece]) -> None:
        """One after the other, each as long as there is more of it."""
        try:
            for piece in pieces:
                more = True
                while more and not self.is_stopping:
                    found = await piece()
                    self.done += int(found["count"])
                    self.without_origin += int(found.get("without_origin", 0))
                    more = bool(found.get("more"))
        except Refusal as refusal:
            self.problem = str(refusal.body["what"])
        finally:
            self.is_over = True


class Replays:
    """Those of one console, by their keys."""

    def __init__(self) -> None:
        self._by_key: Final[OrderedDict[str, Replay]] = OrderedDict()

    def start(self, replay: Replay, pieces: list[Piece]) -> str:
        """Begin, beside the request; its key. Raises `Refusal` where too many are under way."""
        if sum(not each.is_over for each in self._by_key.values()) >= MAX_REPLAYS:
            what = f"{MAX_REPLAYS} replays are under way: wait for one of them, or stop it"
            raise Refusal(429, "too-many-replays", what)
        while len(self._by_key) >= MAX_KEPT:
            del self._by_key[next(key for key, each in self._by_key.items() if each.is_over)]
        key = secrets.token_urlsafe(KEY_BYTES)
        self._by_key[key] = replay
        replay.task = asyncio.create_task(replay.run(pieces))
        return key

    def find(self, queue: str, key: str) -> Replay | None:
        """That of a queue's page."""
        replay = self._by_key.get(key)
        return replay if replay is not None and replay.queue == queue else None
