"""Answers that last: streams, and verbs that wait. They are bounded apart from the requests in work."""

import contextlib
from collections.abc import Iterator

from postroom.server.http.errors import Refusal


class Waits:
    """How many there are, in the thread that serves HTTP."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one for as long as it lasts. Raises `Refusal` for one too many."""
        if self._count >= self._most:
            what = f"{self._most} streams and waits are open, as many as max_streams allows"
            raise Refusal(429, "too-many-streams", what, {"retry-after": "5"})
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
