"""The available entries of one priority of one queue, in the order of their places.

Three parts: what has come back (few, sorted), the live head (objects, in order), the backlog (packed, in
order). What has come back was ahead of the live head when it was taken, so the next entry is the smaller of
two fronts.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.backlog import Backlog
from postroom.manager.entry import Entry

if TYPE_CHECKING:
    from postroom.manager.queue import Queue

COMPACT_AT: Final = 1024


@final
class Band:
    """One priority of one queue."""

    def __init__(self, queue: "Queue", priority: i64) -> None:
        self.priority: i64 = priority
        self.returned: list[Entry] = []
        """Last place first, so that the next one is taken from the end."""
        self.live: list[Entry | None] = []
        self.head: i64 = 0
        """Index of the first entry of `live`; what is before it has been taken."""
        self.backlog = Backlog(queue, priority)

    def live_count(self) -> i64:
        """Objects available here."""
        return len(self.live) - self.head + len(self.returned)

    def count(self) -> i64:
        """Entries available here."""
        return len(self.live) - self.head + len(self.returned) + self.backlog.count

    def first(self) -> Entry | None:
        """The next entry, left where it is; None when only the backlog has any, or nothing."""
        front: Entry | None = None
        if self.head < len(self.live):
            front = self.live[self.head]
        if self.returned:
            back = self.returned[-1]
            if front is None or back.before(front):
                return back
        return front

    def pop(self, entry: Entry) -> None:
        """Take out ``entry``, which is usually the first."""
        head = self.head
        if head < len(self.live) and self.live[head] is entry:
            self.live[head] = None
            self.head = head + 1
            if self.head == len(self.live):
                self.live.clear()
                self.head = 0
            elif self.head >= COMPACT_AT and self.head * 2 > len(self.live):
                del self.live[: self.head]
                self.head = 0
        elif self.returned and self.returned[-1] is entry:
            self.returned.pop()
        else:
            self._pop_inner(entry)

    def _pop_inner(self, entry: Entry) -> None:
        if entry in self.returned:
            self.returned.remove(entry)
        else:
            self.live.remove(entry)

    def push(self, entry: Entry) -> None:
        """Add an entry behind all others."""
        self.live.append(entry)

    def give_back(self, entry: Entry) -> None:
        """Put an entry to its place among those that have come back."""
        back = self.returned
        low: i64 = 0
        high: i64 = len(back)
        if high > 0 and entry.before(back[-1]):
            low = high
        while low < high:
            middle = (low + high) >> 1
            if entry.before(back[middle]):
                low = middle + 1
            else:
                high = middle
        back.insert(low, entry)

    def waiting(self) -> list[Entry]:
        """Every object available here, in order."""
        return self.after(-1, 0, len(self.live) + len(self.returned))

    def after(self, place: i64, ordinal: i64, limit: i64) -> list[Entry]:
        """Up to ``limit`` objects behind a place, in order."""
        back = self.returned
        at = self._live_after(place, ordinal)
        back_at = self._returned_after(place, ordinal)
        found: list[Entry] = []
        while len(found) < limit:
            entry = self.live[at] if at < len(self.live) else None
            if back_at >= 0 and (entry is None or back[back_at].before(entry)):
                found.append(back[back_at])
                back_at -= 1
            elif entry is not None:
                found.append(entry)
                at += 1
            else:
                break
        return found

    def _live_after(self, place: i64, ordinal: i64) -> i64:
        """Index of the first of `live` behind a place."""
        low = self.head
        high: i64 = len(self.live)
        while low < high:
            middle = (low + high) >> 1
            entry = self.live[middle]
            if entry is not None and entry.behind(place, ordinal):
                high = middle
            else:
                low = middle + 1
        return low

    def _returned_after(self, place: i64, ordinal: i64) -> i64:
        """Index of the first of `returned` behind a place; −1 if none is. Later ones have lower indexes."""
        low: i64 = 0
        high: i64 = len(self.returned)
        while low < high:
            middle = (low + high) >> 1
            if self.returned[middle].behind(place, ordinal):
                low = middle + 1
            else:
                high = middle
        return low - 1
