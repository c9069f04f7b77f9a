"""Looks into the ledger's history that clients ask for at the management node: where a message is, and what
happened to it.

They are made in a thread of their own, one at a time, and each looks at so many records at most: who wants
more asks again from where the last one ended. The event loop waits for none of them.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from postroom.ledger.errors import LedgerError
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.dump import Line
from postroom.ledger.reading.segments import Segment, folder_of, open_segment
from postroom.ledger.reading.tail import Watch, journal_chunks
from postroom.ledger.reading.trace import MessageId, Piece, TooManyMessages, find, follow

MAX_SEARCHED_RECORDS: Final = 1 << 20
"""Records of the ledger that one request looks at."""
MAX_ANSWERED_LINES: Final = 1000
MAX_ANSWERED_BYTES: Final = 512 << 10
"""Of the lines of one answer, unless a single line is longer."""
MAX_ATTEMPTS: Final = 3
"""Retention may drop a file between the look at the folder and the look into it."""


class WatchedHistory:
    """The ledger in a folder now; each look reads only what was written since the last one."""

    def __init__(self, watch: Watch, durable_through: int) -> None:
        self._watch: Final = watch
        self._segments: Final = watch.snapshot(durable_through).segments
        self.first_position: Final = self._segments[0].first_position
        self.durable_through: Final = self._segments[-1].last_position

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """The records with positions first to last, as far as they are there, ascending."""
        for segment in self._segments:
            start, end = max(first, segment.first_position), min(last, segment.last_position)
            if start <= end:
                yield from self._of(segment, start, end)

    def _of(self, segment: Segment, first: int, last: int) -> Iterator[Piece]:
        folder = self._watch.folder
        hint = self._watch.hint(segment, first, last)
        if hint is None:
            source = open_segment(folder, segment)
            known = cache(partial(source.definitions, segment.last_position))
            for chunk in source.chunks(first, last):
                yield Piece(chunk, known)
            return
        with folder_of(folder) as disk:
            data = memoryview(disk.open(segment.name).view())[hint.start : hint.end]
        for chunk, definitions in journal_chunks(segment.name, data, segment, hint, first, last):
            yield Piece(chunk, partial(_given, definitions))


def _given(definitions: Definitions) -> Definitions:
    return definitions


Answer = dict[str, Any]
QueryResult = Answer | Exception
Question = Callable[[WatchedHistory], Answer]
"""What is wanted of a ledger."""


class LedgerQuery:
    """One request, on its way to the thread and back."""

    def __init__(self, question: Question) -> None:
        self.cancelled = False
        """Nobody wants the answer any more."""
        self._question: Final = question
        self._then: Callable[[QueryResult, int], None] | None = None

    def then(self, action: Callable[[QueryResult, int], None]) -> None:
        """Have ``action`` called with the answer and the time."""
        self._then = action

    def run(self, tracer: "Tracer") -> QueryResult:
        """In the thread: the answer, or why there is none."""
        if self.cancelled:
            return {}
        try:
            return tracer.answer(self._question)
        except (LedgerError, OSError, TooManyMessages) as error:
            return error

    def answer(self, result: QueryResult, now_us: int) -> None:
        """On the loop again."""
        if self._then is not None and not self.cancelled:
            self._then(result, now_us)


class Tracer:
    """Answers the requests, in one thread."""

    def __init__(self, folder: Path, durable_through: Callable[[], int]) -> None:
        """`durable_through`: how far the broker knows its ledger to be durable; asked in any thread."""
        self._watch: Final = Watch(folder)
        self._durable_through: Final = durable_through

    def answer(self, question: Question) -> Answer:
        """Ask of the ledger as it is now. Raises ``LedgerError``, ``OSError``, ``TooManyMessages``."""
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return question(self._history())
            except FileNotFoundError:
                continue
        return question(self._history())

    def _history(self) -> WatchedHistory:
        return WatchedHistory(self._watch, self._durable_through())


def found(wanted: MessageId | int, first: int, history: WatchedHistory) -> Answer:
    """Which messages are meant, as far as one request looks from ``first`` on; ``next`` is where to go on,
    0: that was all."""
    first = max(first, history.first_position)
    last = min(history.durable_through, first + MAX_SEARCHED_RECORDS - 1)
    serials = find(history, wanted, first, last)
    is_all = isinstance(wanted, int) or last >= history.durable_through
    return {**_extent(history), "serials": sorted(serials), "next": 0 if is_all else last + 1}


def followed(serials: list[int], first: int, skip: int, history: WatchedHistory) -> Answer:
    """What happened to messages from ``first`` on, but for the first ``skip`` lines, as far as one request
    goes; ``next`` and ``skip`` are where to go on, 0: that was all."""
    first = max(first, history.first_position)
    last = min(history.durable_through, first + MAX_SEARCHED_RECORDS - 1)
    known = set(serials)
    page = Page(skip)
    for lines in follow(history, known, first, last):
        if not page.take(lines):
            break
    if page.next == 0 and last < history.durable_through:
        page.next, page.skip = last + 1, 0
    return {
        **_extent(history),
        "serials": sorted(known),
        "lines": page.lines,
        "next": page.next,
        "skip": page.skip,
    }


def _extent(history: WatchedHistory) -> Answer:
    return {"first_position": history.first_position, "durable_through": history.durable_through}


class Page:
    """The lines of one answer."""

    def __init__(self, skip: int) -> None:
        self.lines: Final[list[str]] = []
        """Each an object in JSON."""
        self.next = 0
        """The position at which the next page begins; 0 while this one isn't full."""
        self.skip = 0
        """How many lines of that position have been told."""
        self._left: int = skip
        self._position = -1
        self._of_position = 0
        self._size_bytes = 0

    def take(self, lines: list[Line]) -> bool:
        """Add lines in their order; False when the page is full, and not all have been taken."""
        for line in lines:
            position = int(line["position"])
            if position != self._position:
                self._position, self._of_position = position, 0
            if self._left:
                self._left -= 1
            elif not self._add(line):
                self.next, self.skip = position, self._of_position
                return False
            self._of_position += 1
        return True

    def _add(self, line: Line) -> bool:
        text = json.dumps(line, ensure_ascii=False)
        size = self._size_bytes + len(text.encode())
        if self.lines and (len(self.lines) == MAX_ANSWERED_LINES or size > MAX_ANSWERED_BYTES):
            return False
        self.lines.append(text)
        self._size_bytes = size
        return True
