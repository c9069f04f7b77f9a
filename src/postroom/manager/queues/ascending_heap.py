"""A heap for what mostly comes in its order: places, serials and times that grow."""

import heapq
from typing import Any, Final, final

from mypy_extensions import i64

Item = tuple[Any, ...]
"""What begins with two whole numbers, which are its order."""

_TAKEN: Final[Item] = ()
_COMPACT_AT: Final = 1024


@final
class AscendingHeap:
    """The smallest item first.

    An item that comes behind all others of the run is appended to it, and taken from its front, both without
    a comparison of others; only what comes out of order lies on a heap beside it.
    """

    def __init__(self) -> None:
        self._run: list[Item] = []
        self._head: i64 = 0
        """Index of the first of `_run`."""
        self._last: i64 = 0
        """The order of the last of `_run`, with `_last_second`."""
        self._last_second: i64 = 0
        self._others: list[Item] = []
        """A heap: what came out of order."""

    def __len__(self) -> int:
        return len(self._run) - int(self._head) + len(self._others)

    def __bool__(self) -> bool:
        return len(self._run) > 0 or len(self._others) > 0

    def push(self, item: Item) -> None:
        """Add an item; an equal one may be here."""
        order: i64 = item[0]
        second: i64 = item[1]
        run = self._run
        if run and (order < self._last or (order == self._last and second < self._last_second)):
            heapq.heappush(self._others, item)
            return
        run.append(item)
        self._last = order
        self._last_second = second

    def first(self) -> Item:
        """The smallest, which stays; there is one."""
        return self._others[0] if self._is_other() else self._run[self._head]

    def pop(self) -> Item:
        """Take out the smallest; there is one."""
        if self._is_other():
            return heapq.heappop(self._others)
        item = self._run[self._head]
        self._run[self._head] = _TAKEN
        self._head += 1
        if self._head == len(self._run):
            self._run.clear()
            self._head = 0
        elif self._head >= _COMPACT_AT and self._head * 2 > len(self._run):
            del self._run[: self._head]
            self._head = 0
        return item

    def remove(self, item: Item) -> None:
        """Take out an item that is here, wherever it stands."""
        left = self.items()
        left.remove(item)
        self.replace(left)

    def items(self) -> list[Item]:
        """All, the smallest first."""
        return sorted([*self._run[self._head :], *self._others])

    def replace(self, items: list[Item]) -> None:
        """Have these, in their order, in place of what is here."""
        self._run = items
        self._head = 0
        self._others = []
        if items:
            self._last = items[-1][0]
            self._last_second = items[-1][1]

    def _is_other(self) -> bool:
        """Whether the smallest came out of order."""
        if not self._others:
            return False
        if not self._run:
            return True
        other, ahead = self._others[0], self._run[self._head]
        order: i64 = other[0]
        ahead_order: i64 = ahead[0]
        if order != ahead_order:
            return order < ahead_order
        second: i64 = other[1]
        ahead_second: i64 = ahead[1]
        return second < ahead_second
