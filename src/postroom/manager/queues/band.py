"""The available entries of one priority of one queue, in the order of their places.

Three parts: what has come back (few, sorted), the live head (objects, in order), the backlog (packed, in
order). What has come back was ahead of the live head when it was taken, so the next entry is the smaller of
two fronts.

An entry taken from the middle leaves its slot behind, as a gap: the entry itself says so (``band_part``);
gaps are swept out when they are as many as the entries, so taking costs the same wherever it is done.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry, by_place
from postroom.manager.queues.backlog import Backlog

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

COMPACT_AT: Final = 1024
SWEEP_AT: Final = 64
"""Gaps that are left alone."""

NOWHERE: Final = 0
LIVE: Final = 1
RETURNED: Final = 2


@final
class Band:
    """One priority of one queue."""

    def __init__(self, queue: "Destination", priority: i64, vacant: bool = False) -> None:
        self.priority: i64 = priority
        self.vacant = vacant
        """It stands for that of any queue on which this priority has never been used: nothing is ever put
        here."""
        self.returned: list[Entry] = []
        """Last place first, so that the next one is taken from the end; the last is no gap."""
        self.live: list[Entry | None] = []
        self.head: i64 = 0
        """Index of the first entry of `live`, which is no gap; what is before it has been taken."""
        self.backlog = Backlog(queue, priority)
        self.changes: i64 = 0
        """Counts what was taken out or has come back: all but what is added behind the others."""
        self._live_gaps: i64 = 0
        self._returned_gaps: i64 = 0

    def live_count(self) -> i64:
        """Objects available here."""
        live = len(self.live) - self.head - self._live_gaps
        return live + len(self.returned) - self._returned_gaps

    def count(self) -> i64:
        """Entries available here."""
        return self.live_count() + self.backlog.count

    def holds_any(self) -> bool:
        """Whether there is an entry here."""
        return self.head < len(self.live) or len(self.returned) > 0 or self.backlog.count > 0

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

    def first_serial(self) -> i64:
        """The serial of the next entry, which may be packed; 0 where there is none."""
        entry = self.first()
        if entry is not None:
            return entry.serial
        if self.backlog.count == 0:
            return 0
        chunk = self.backlog.front()
        return chunk.serial(chunk.first_living())

    def pop(self, entry: Entry) -> None:
        """Take out ``entry``, which is here and usually the first."""
        self.changes += 1
        head = self.head
        if entry.band_part == LIVE:
            entry.band_part = NOWHERE
            if self.live[head] is entry:
                self._pop_front()
            else:
                self._live_gaps += 1
                if self._live_gaps > SWEEP_AT and self._live_gaps * 2 > len(self.live) - head:
                    self.live = [each for each in self.live if each is not None and each.band_part == LIVE]
                    self.head = 0
                    self._live_gaps = 0
        else:
            entry.band_part = NOWHERE
            self._pop_returned(entry)

    def _pop_front(self) -> None:
        """Pass the first of `live`, and the gaps behind it."""
        live = self.live
        live[self.head] = None
        self.head += 1
        while self._live_gaps > 0 and self.head < len(live) and _is_gap(live[self.head]):
            live[self.head] = None
            self.head += 1
            self._live_gaps -= 1
        if self.head == len(live):
            live.clear()
            self.head = 0
        elif self.head >= COMPACT_AT and self.head * 2 > len(live):
            del live[: self.head]
            self.head = 0

    def _pop_returned(self, entry: Entry) -> None:
        back = self.returned
        if back[-1] is entry:
            back.pop()
            while self._returned_gaps > 0 and back and back[-1].band_part != RETURNED:
                back.pop()
                self._returned_gaps -= 1
            return
        self._returned_gaps += 1
        if self._returned_gaps > SWEEP_AT and self._returned_gaps * 2 > len(back):
            self.returned = [each for each in back if each.band_part == RETURNED]
            self._returned_gaps = 0

    def push(self, entry: Entry) -> None:
        """Add an entry behind all others."""
        entry.band_part = LIVE
        self.live.append(entry)

    def give_back(self, entry: Entry) -> None:
        """Put an entry to its place among those that have come back."""
        self.changes += 1
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
        entry.band_part = RETURNED
        if low < len(back) and back[low].at(entry.place, entry.ordinal):
            back[low] = entry  # in the gap that it left, perhaps as another object: it may have been packed
            self._returned_gaps -= 1
        else:
            back.insert(low, entry)

    def recover(self, entry: Entry) -> None:
        """Put an entry among those that have come back, anywhere: `sort` follows when all are there."""
        entry.band_part = RETURNED
        self.returned.append(entry)

    def sort(self) -> None:
        """Put what was recovered in order."""
        self.returned.sort(key=by_place, reverse=True)

    def find(self, place: i64, ordinal: i64) -> Entry | None:
        """The available object at a place; None if it is packed, or isn't here."""
        at = self._live_after(place, ordinal - 1)
        if at < len(self.live):
            entry = self.live[at]
            if entry is not None and entry.band_part == LIVE and entry.at(place, ordinal):
                return entry
        at = self._returned_after(place, ordinal - 1)
        if at >= 0:
            back = self.returned[at]
            if back.band_part == RETURNED and back.at(place, ordinal):
                return back
        return None

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
            if entry is not None and entry.band_part != LIVE:
                at += 1
            elif back_at >= 0 and back[back_at].band_part != RETURNED:
                back_at -= 1
            elif back_at >= 0 and (entry is None or back[back_at].before(entry)):
                found.append(back[back_at])
                back_at -= 1
            elif entry is not None:
                found.append(entry)
                at += 1
            else:
                break
        return found

    def live_after(self, place: i64, ordinal: i64, limit: i64) -> list[Entry]:
        """Up to ``limit`` of the live head behind a place, in order, without those that have come back."""
        at = self._live_after(place, ordinal)
        found: list[Entry] = []
        while at < len(self.live) and len(found) < limit:
            entry = self.live[at]
            if entry is not None and entry.band_part == LIVE:
                found.append(entry)
            at += 1
        return found

    def ends_at(self, place: i64, ordinal: i64) -> bool:
        """Whether neither live head nor backlog reach beyond a place."""
        if self.backlog.count > 0:
            return not self.backlog.reaches_beyond(place, ordinal)
        if self.head == len(self.live):
            return True
        last = self.live[-1]
        return last is None or not last.behind(place, ordinal)

    def _live_after(self, place: i64, ordinal: i64) -> i64:
        """Index of the first of `live`, gaps included, behind a place."""
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


def _is_gap(entry: Entry | None) -> bool:
    return entry is None or entry.band_part != LIVE
