"""Room for messages: what a quota allows, what is used of it, and the line of sends that wait for it.

A pool belongs to one destination, to a shared quota, or to the broker; a destination is charged to exactly
one. The charge follows the destinations' statistics, so that whatever is counted as current or pending
occupies room.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

NO_LIMIT: Final = -1
STRETCH_SENDS: Final = 128


class PoolWaiter:
    """A send that waits for room in a pool."""

    def __init__(self, size: i64) -> None:
        self.size: i64 = size
        """Of the message, in bytes."""
        self.order: i64 = 0
        """When it began to wait, compared with others; 0: it doesn't yet."""
        self.stretch: _Stretch | None = None
        """Its part of the pool's line."""

    def is_next(self) -> bool:
        """Whether it is the first of its link: sends of one link don't overtake each other."""
        raise NotImplementedError


@final
class _Stretch:
    """A run of the line, with the smallest size in it, so that a search can pass over it.

    It begins with `STRETCH_SENDS` at most; those that come from another line may make it longer.
    """

    def __init__(self) -> None:
        self.sends: list[PoolWaiter] = []
        self.head: i64 = 0
        """Those before it wait no longer."""
        self.count: i64 = 0
        """Those that still wait."""
        self.min_bytes: i64 = 0
        """Not larger than the smallest that waits."""

    def add(self, send: "PoolWaiter") -> None:
        """Have it stand where it belongs."""
        if self.count == 0 or send.size < self.min_bytes:
            self.min_bytes = send.size
        at = self._place_of(send)
        if at == len(self.sends) or self.sends[at] is not send:  # else it has stood here before
            self.sends.insert(at, send)
        if at < self.head:
            self.head = at
        self.count += 1
        send.stretch = self

    def _place_of(self, send: "PoolWaiter") -> i64:
        """How many came before it."""
        low: i64 = 0
        high: i64 = len(self.sends)
        if high > 0 and self.sends[high - 1].order < send.order:
            return high
        while low < high:
            middle = (low + high) // 2
            if self.sends[middle].order < send.order:
                low = middle + 1
            else:
                high = middle
        return low

    def pass_over(self) -> None:
        """Find the first that still waits, of which there is one."""
        while self.sends[self.head].stretch is not self:
            self.head += 1


@final
class Line:
    """Blocked sends in the order in which they came."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque()
        self.count: i64 = 0

    def join(self, send: "PoolWaiter") -> None:
        """Stand behind those that came before it: at the end, but when it comes from another line."""
        self._stretch_for(send).add(send)
        self.count += 1

    def _stretch_for(self, send: "PoolWaiter") -> _Stretch:
        stretches = self._stretches
        at: i64 = len(stretches) - 1
        if at < 0 or (
            len(stretches[at].sends) >= STRETCH_SENDS and stretches[at].sends[-1].order < send.order
        ):
            stretches.append(_Stretch())
            return stretches[at + 1]
        while at > 0 and stretches[at].sends[0].order > send.order:
            at -= 1
        return stretches[at]

    def leave(self, send: "PoolWaiter") -> None:
        """``send`` waits here no longer."""
        stretch = send.stretch
        if stretch is None:
            return
        send.stretch = None
        stretch.count -= 1
        self.count -= 1
        while self._stretches and self._stretches[0].count == 0:
            self._stretches.popleft()

    def first(self) -> "PoolWaiter | None":
        """The one that came first."""
        if not self._stretches:
            return None
        stretch = self._stretches[0]
        stretch.pass_over()
        return stretch.sends[stretch.head]

    def has_before(self, order: i64) -> bool:
        """Whether somebody stands here who came before that."""
        head = self.first()
        return head is not None and head.order < order

    def first_that_fits(self, room_bytes: i64, passed: i64) -> "PoolWaiter | None":
        """In order, the first not larger than that whose turn it is on its own link, of those that came after
        ``passed``, as `PoolWaiter.order`."""
        for stretch in self._stretches:
            if stretch.count > 0 and stretch.min_bytes <= room_bytes and stretch.sends[-1].order > passed:
                found = _search(stretch, room_bytes, passed)
                if found is not None:
                    return found
        return None

    def sends(self) -> "list[PoolWaiter]":
        """Everyone, in order."""
        return [send for stretch in self._stretches for send in stretch.sends if send.stretch is stretch]


def _search(stretch: _Stretch, room_bytes: i64, passed: i64) -> "PoolWaiter | None":
    """Also finds the smallest size anew."""
    smallest: i64 = -1
    stretch.pass_over()
    at = stretch.head
    while at < len(stretch.sends):
        send = stretch.sends[at]
        at += 1
        if send.stretch is not stretch:
            continue
        if send.size <= room_bytes and send.order > passed and send.is_next():
            return send
        if smallest < 0 or send.size < smallest:
            smallest = send.size
    stretch.min_bytes = smallest
    return None


@final
class Pool:
    """What one quota allows and what is used of it. Limits of −1 are off."""

    def __init__(self, what: str, changed: "list[Pool]") -> None:
        """``what`` names it in refusals; ``changed`` collects the pools in which sends wait and room came."""
        self.what = what
        self.max_messages: i64 = NO_LIMIT
        self.max_bytes: i64 = NO_LIMIT
        self.preemptive = False
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.line = Line()
        self.marked = False
        """Among ``changed``."""
        self._changed = changed

    def limit(self, max_messages: i64, max_bytes: i64, preemptive: bool) -> None:
        """Set what is allowed. Nothing is evicted; those who wait are looked at again."""
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.preemptive = preemptive
        self.mark()

    def limited(self) -> bool:
        return self.max_messages >= 0 or self.max_bytes >= 0

    def fits(self, count: i64, size: i64) -> bool:
        """Whether there is room for ``count`` messages of ``size`` bytes together."""
        if self.max_messages >= 0 and self.messages + count > self.max_messages:
            return False
        return self.max_bytes < 0 or self.bytes + size <= self.max_bytes

    def could_fit(self, count: i64, size: i64) -> bool:
        """Whether so many fit when nothing else is stored."""
        if 0 <= self.max_messages < count:
            return False
        return self.max_bytes < 0 or size <= self.max_bytes

    def takes(self, size: i64) -> bool:
        """Whether a send that comes now may go in: there is room, and nobody whom it would overtake."""
        return self.fits(1, size) and (self.preemptive or self.line.count == 0)

    def next_send(self, passed: i64) -> "PoolWaiter | None":
        """Who may go in now; None while there is no room for whoever's turn it is.

        ``passed``: up to there, as `PoolWaiter.order`, they were looked at and need more room than there is;
        0 for nobody.
        """
        if self.line.count == 0 or (self.max_messages >= 0 and self.messages >= self.max_messages):
            return None
        if self.preemptive:
            room: i64 = self.max_bytes - self.bytes if self.max_bytes >= 0 else _UNBOUNDED
            return self.line.first_that_fits(room, passed)
        head = self.line.first()
        if head is None or head.order <= passed:
            return None
        return head if head.is_next() and self.fits(1, head.size) else None

    def charge(self, count: i64, size: i64) -> None:
        self.messages += count
        self.bytes += size

    def give_back(self, count: i64, size: i64) -> None:
        self.messages -= count
        self.bytes -= size
        if self.line.count > 0:
            self.mark()

    def mark(self) -> None:
        """Have those who wait looked at before the command ends."""
        if not self.marked and self.line.count > 0:
            self.marked = True
            self._changed.append(self)


_UNBOUNDED: Final = 0x7FFF_FFFF_FFFF_FFFF
