"""How far one selector has come on one queue: what it has judged, and what it wants of that.

All consumers of a queue that say the same selector share one cursor. Everything in the live head and the
backlog up to its position has been judged, each entry once; what was wanted and hasn't been taken yet is
remembered by its place, and so is what came (back) without having been judged. An entry that is an object
carries the verdicts on it; for a packed one the position says it.
"""

import heapq
from typing import Final, cast, final

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.queues.ascending_heap import AscendingHeap
from postroom.manager.queues.band import LIVE, Band
from postroom.model.selector.selector import Selector

_PRIORITIES: Final = 10
_PRUNE_AT: Final = 1024
_COMPACT_AT: Final = 1024

Key = tuple[int, ...]
"""(place, ordinal): where an entry of a queue stands; no other has it. Not of the type of a pair, which
compiled code takes apart and makes anew wherever one is kept or looked up."""


@final
class SearchMemory:
    """Bodies that all cursors together have in memory, or on their way."""

    def __init__(self, max_bytes: i64) -> None:
        self.max_bytes: i64 = max_bytes
        """Of each of the two; one batch more may be on its way."""
        self.reading_bytes: i64 = 0
        self.kept_bytes: i64 = 0
        self.last_cursor_id: i64 = 0
        self.waiting: dict[int, Destination] = {}
        """Queues, by id, on which a search goes on when less is on its way."""

    def keep(self, size: i64, needed: bool) -> bool:
        """Whether a body may be kept until its entry is taken; one that is ``needed`` now may."""
        if not needed and self.kept_bytes + size > self.max_bytes:
            return False
        self.kept_bytes += size
        return True


@final
class WantedLine:
    """Wanted objects of one priority's live head, in their order. One that leaves the live head for whatever
    reason counts no more; should it come back, it stands elsewhere."""

    def __init__(self) -> None:
        self._entries: list[Entry | None] = []
        self._head: i64 = 0
        """Index of the first; those before it have been taken."""

    def __len__(self) -> int:
        return len(self._entries) - int(self._head)

    def append(self, entry: Entry) -> None:
        """It stands behind all others."""
        self._entries.append(entry)

    def first(self) -> Entry | None:
        """The first that is still there, which stays; those that have gone are dropped."""
        while self._head < len(self._entries):
            entry = self._entries[self._head]
            if entry is not None and entry.band_part == LIVE:
                return entry
            self.pop()
        return None

    def pop(self) -> None:
        """The first is taken, or has gone."""
        entries = self._entries
        entries[self._head] = None
        self._head += 1
        if self._head == len(entries):
            entries.clear()
            self._head = 0
        elif self._head >= _COMPACT_AT and self._head * 2 > len(entries):
            del entries[: self._head]
            self._head = 0


@final
class SelectorCursor:
    """One selector on one queue; by priority where there are lists."""

    def __init__(
        self, queue: Destination, siblings: "SelectorUse", selector: Selector, memory: SearchMemory
    ) -> None:
        memory.last_cursor_id += 1
        self.id: i64 = memory.last_cursor_id
        self.queue = queue
        self.siblings = siblings
        """The selectors of the same queue, this one among them."""
        self.selector = selector
        self.memory = memory
        self.users: i64 = 0
        """Consumers that share it."""
        self.closed = False
        self.place: list[int] = [0] * _PRIORITIES
        self.ordinal: list[int] = [-1] * _PRIORITIES
        self.lines: list[WantedLine] = [WantedLine() for _ in range(_PRIORITIES)]
        """What is wanted of what was judged in its order, as objects."""
        self.matched: list[AscendingHeap] = [AscendingHeap() for _ in range(_PRIORITIES)]
        """Keys of what else is wanted; some may have been taken by others meanwhile."""
        self.bodies: dict[Key, bytes | None] = {}
        """What is in `matched`, with the bodies that were read for judging."""
        self.unjudged: list[list[Key]] = [[] for _ in range(_PRIORITIES)]
        """Heaps of what came back, or came out of order, and has not been judged."""
        self._prune_at: list[int] = [_PRUNE_AT] * _PRIORITIES
        """When `unjudged`, or `matched`, is so long, what has gone meanwhile is dropped from it."""
        self.requested: dict[Key, Entry | None] = {}
        """Bodies on their way, and the objects that are to be told the verdict; None: still packed."""
        self.requested_bytes: i64 = 0
        self.walking = False
        """Those on their way lie behind the position, which moves on when they are there. While any are on
        their way nothing is given out: what comes first isn't known."""
        self.busy = False
        """There may be more that matches: bodies are on their way, or this turn has done enough."""
        self.done = False
        """It has been through everything, nothing is wanted, and nothing has come since."""
        self.judgements: i64 = 0
        """Evaluations of the selector."""
        self.searches: i64 = 0
        """Times that it was gone through for somebody."""
        self._only_wanted: dict[int, bool] = {int(self.id): True}
        self._only_unwanted: dict[int, bool] = {int(self.id): False}

    def only_verdict(self, wanted: bool) -> dict[int, bool]:
        """What entries that no other selector has judged remember of its verdict: all of them this."""
        return self._only_wanted if wanted else self._only_unwanted

    def passed(self, priority: i64, place: i64, ordinal: i64) -> bool:
        """Whether the position is at that place, or behind it."""
        own = self.place[priority]
        return own > place or (own == place and self.ordinal[priority] >= ordinal)

    def at(self, priority: i64, place: i64, ordinal: i64) -> None:
        """Everything up to that place has been judged."""
        self.place[priority] = place
        self.ordinal[priority] = ordinal

    def ahead(self, priority: i64) -> i64:
        """How many wanted ones it knows of a priority; some may have gone."""
        return len(self.lines[priority]) + len(self.matched[priority])

    def wants_nothing(self) -> bool:
        """Whether it knows of none that is wanted."""
        return not self.bodies and all(len(line) == 0 for line in self.lines)

    def wants_next(self, entry: Entry) -> None:
        """``entry``, judged in its order, is wanted: it stands in the live head, or is about to."""
        self.done = False
        self.lines[entry.priority].append(entry)

    def wants(self, priority: i64, key: Key, body: bytes | None, needed: bool = False) -> None:
        """The entry at ``key`` is wanted; ``body`` if it has been read for this, ``needed`` at once."""
        self.done = False
        if body is not None and self.bodies.get(key) is None and not self.memory.keep(len(body), needed):
            body = None
        if key not in self.bodies:
            matched = self.matched[priority]
            matched.push(key)
            self.bodies[key] = body
            if len(matched) > self._prune_at[priority]:
                self._prune(priority)
        elif body is not None:
            self.bodies[key] = body

    def _drop(self, key: Key) -> None:
        """What stands at ``key`` is wanted no longer, or not to be had."""
        body = self.bodies.pop(key)
        if body is not None:
            self.memory.kept_bytes -= len(body)

    def forget(self, priority: i64, key: Key) -> None:
        """What is first of `matched`, at ``key``, is taken or gone."""
        self.matched[priority].pop()
        self._drop(key)

    def forget_first(self, priority: i64, key: Key) -> None:
        """What was found at ``key``, perhaps behind others that may not go to its taker, is taken."""
        matched = self.matched[priority]
        if matched.first() == key:
            matched.pop()
        else:
            matched.remove(key)
        self._drop(key)

    def rest(self) -> None:
        """Nobody uses it now: it remembers places, no bodies."""
        for key, body in self.bodies.items():
            if body is not None:
                self.memory.kept_bytes -= len(body)
                self.bodies[key] = None

    def came(self, priority: i64, key: Key) -> None:
        """An entry has come that is to be judged apart from the others."""
        self.done = False
        heapq.heappush(self.unjudged[priority], key)
        if len(self.unjudged[priority]) > self._prune_at[priority]:
            self._prune(priority)

    def _prune(self, priority: i64) -> None:
        """Nobody has asked for long: drop what has been taken by others."""
        band = self.siblings.bands[priority]
        here = sorted({key for key in self.unjudged[priority] if band.find(key[0], key[1]) is not None})
        self.unjudged[priority] = here
        kept: list[Key] = []
        for key in self.matched[priority].items():
            if band.find(key[0], key[1]) is not None or band.backlog.find(key[0], key[1]) is not None:
                kept.append(key)
            else:
                self._drop(key)
        self.matched[priority].replace(kept)
        self._prune_at[priority] = 2 * max(len(here), len(kept), _PRUNE_AT)


def key_of(entry: Entry) -> Key:
    return (int(entry.place), int(entry.ordinal))


def note_verdict(entry: Entry, cursor: SelectorCursor, wanted: bool) -> None:
    """Have the object remember what a selector said of it; verdicts of those that are gone are dropped.

    A single verdict is one object for all entries (`SelectorCursor.only_verdict`), and never changed.
    """
    verdicts = entry.verdicts
    if verdicts is None:
        entry.verdicts = cursor.only_verdict(wanted)
        return
    if len(verdicts) == 1:
        verdicts = entry.verdicts = dict(verdicts)
    cursors = cursor.siblings.cursors
    if len(verdicts) > 2 * len(cursors) + 8:
        known = {int(each.id) for each in cursors.values()}
        verdicts = entry.verdicts = {id: verdict for id, verdict in verdicts.items() if id in known}
    verdicts[int(cursor.id)] = wanted


def forget_verdict(entry: Entry, cursor: SelectorCursor) -> None:
    """Have the object be judged anew."""
    verdicts = entry.verdicts
    if verdicts is not None and int(cursor.id) in verdicts:
        left = {id: verdict for id, verdict in verdicts.items() if id != cursor.id}
        entry.verdicts = left or None


def verdict_on(entry: Entry, cursor: SelectorCursor) -> i64:
    """1 wanted, 0 not wanted, −1 not judged (or to be judged anew)."""
    if entry.verdicts is None:
        return -1
    verdict = entry.verdicts.get(int(cursor.id))
    if verdict is None:
        return -1
    return 1 if verdict else 0


def search_memory_of(core: Core) -> SearchMemory:
    """That of a queue manager."""
    return cast(SearchMemory, core.state(SearchMemory))


def cursor_of(consumer: Consumer) -> SelectorCursor | None:
    """Where its selector is; None: it has none."""
    return cast(SelectorCursor | None, consumer.selector_cursor)


@final
class SelectorUse:
    """The selectors of one queue's consumers."""

    def __init__(self, bands: list[Band]) -> None:
        self.bands = bands
        """The queue's, by priority."""
        self.cursors: dict[str, SelectorCursor] = {}
        """By the selector's text; some that consumers have left."""
        self.in_use: i64 = 0
        """Those of them that consumers have."""
        self.exclusions: i64 = 0
        """Available entries that some consumer may not get."""

    def unpacked(self, entry: Entry) -> None:
        """``entry``, packed until now, is an object: it remembers what each cursor's position said of it."""
        key = key_of(entry)
        for cursor in self.cursors.values():
            if cursor.passed(entry.priority, entry.place, entry.ordinal):
                note_verdict(entry, cursor, key in cursor.bodies)
            elif cursor.requested and key in cursor.requested:
                cursor.requested[key] = entry

    def wanted_by_any(self, entry: Entry) -> bool:
        """Whether a selector has judged ``entry``, and wants it."""
        return any(verdict_on(entry, cursor) == 1 for cursor in self.cursors.values())

    def cannot_judge(self, entry: Entry) -> None:
        """The body of ``entry`` is damaged: those who would have judged by it don't want it."""
        for cursor in self.cursors.values():
            if cursor.selector.needs_sections and verdict_on(entry, cursor) < 0:
                note_verdict(entry, cursor, False)

    def came_back(self, entry: Entry) -> None:
        """``entry`` stands among those that have come back: each cursor wants it, doesn't, or will judge
        it."""
        key = key_of(entry)
        for cursor in self.cursors.values():
            verdict = -1 if cursor.selector.changes else verdict_on(entry, cursor)
            if verdict == 1:
                cursor.wants(entry.priority, key, None)
            elif verdict == -1 and key not in cursor.requested:
                cursor.came(entry.priority, key)
