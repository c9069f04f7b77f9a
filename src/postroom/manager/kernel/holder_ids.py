"""The ids of holders and producers: 32 bits in the ledger.

They ascend, so that for as long as can be none is used twice. A broker with very many transactions or batches
comes to the end of them within days: from there on those serve again that were given back, the oldest first,
and the next start begins at 1 again, leaving out who is still there.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.errors import LimitExceeded

LAST_ID: Final = 0xFFFF_FFFF
MAX_GIVEN_BACK: Final = 1 << 16
"""Ids that are remembered for the time when no new ones are left: so many holders can be there beside those
that never end."""


@final
class HolderIds:
    """Which id is next."""

    def __init__(self, last: i64 = LAST_ID) -> None:
        self._last: i64 = last
        self._next: i64 = 1
        self._taken: set[int] = set()
        """Ids from `_next` on that are not free."""
        self._given_back: deque[int] = deque(maxlen=MAX_GIVEN_BACK)

    def take(self) -> i64:
        """An id that nobody has; raises LimitExceeded where all are taken."""
        while self._next <= self._last:
            id = self._next
            self._next = id + 1
            if not self._taken or int(id) not in self._taken:
                return id
            self._taken.discard(int(id))
        if not self._given_back:
            raise LimitExceeded(
                f"all {self._last} ids of holders and producers are in use: close consumers or producers, or "
                "restart the broker"
            )
        return self._given_back.popleft()

    def give_back(self, id: i64) -> None:
        """Its holder or producer is no more, and the ledger has been told so."""
        self._given_back.append(int(id))

    def go_on(self, next_id: i64, taken: set[int]) -> None:
        """After a restart: the first id that has never been used, and those of who is still there."""
        if next_id > self._last // 2:
            self._next = 1
            self._taken = set(taken)
        else:
            self._next = max(self._next, next_id)
