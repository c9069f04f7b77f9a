"""Entries that wait for a time: unborn ones, and those in their redelivery delay."""

import heapq
from typing import final

from mypy_extensions import i64

from postroom.manager.entry import Entry


@final
class DelayedEntries:
    """A heap by due time; who leaves early is skipped when his time comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Entry]] = []
        self._waiting: set[Entry] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: Entry) -> None:
        """``entry`` waits until its ``due_us``."""
        heapq.heappush(self._heap, (entry.due_us, entry.serial, entry))
        self._waiting.add(entry)

    def discard(self, entry: Entry) -> None:
        """It waits no longer (expired, purged)."""
        self._waiting.discard(entry)

    def next_due_us(self) -> i64:
        """When the first is due; 0 if none waits."""
        while self._heap and self._heap[0][2] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else 0

    def pop_due(self, now_us: i64) -> Entry | None:
        """Take out the first that is due."""
        due = self.next_due_us()
        if due == 0 or due > now_us:
            return None
        entry = heapq.heappop(self._heap)[2]
        self._waiting.discard(entry)
        return entry

    def entries(self) -> list[Entry]:
        """All that wait, first due first."""
        return [item[2] for item in sorted(self._heap) if item[2] in self._waiting]
