"""A thread that follows the broker's own ledger and makes spans of what happened to traced messages.

It reads what is durable, some time later, as any reader would. While no traced message lives nothing is read.
Where it stands, and what it knows of messages that live, is kept in the data folder; after a crash the bodies
of the messages that came since the last note are read for their contexts. The ids of spans follow from the
records, so that a span that is made again is the same.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.segments import Segment, folder_of, open_segment
from postroom.ledger.reading.tail import Watch, journal_chunks
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.manager.kernel.trace_contexts import MAX_OPENING_BYTES, TraceContexts, context_of
from postroom.server.logs import log
from postroom.server.threads import TendedThread
from postroom.server.tracing.lives import Lives, last_position
from postroom.server.tracing.span_queue import SpanQueue
from postroom.server.tracing.state_file import StateFile, TraceState

POSITIONS_AT_A_TIME: Final = 1 << 18
"""Records that are made spans of between two notes of where it stands."""
MAX_BODIES_READ: Final = 20_000
"""After a crash the contexts of so many messages, the newest that weren't noted, are read from their
bodies."""
SAVE_S: Final = 5.0
SAVED_A_SECOND: Final = 2000
"""Between two notes of what is known, at least; where many messages live longer, so many of them a second."""

ReadBodies = Callable[[Sequence[BodyPlace]], list[Body]]


class TraceFollower:
    """Follows one ledger, from `start` to `stop`."""

    def __init__(
        self,
        folder: Path,
        ledger_id: bytes,
        contexts: TraceContexts,
        lives: Lives,
        queue: SpanQueue,
        durable_through: Callable[[], int],
        read_bodies: ReadBodies,
        interval_s: float,
    ) -> None:
        """``durable_through`` gives the end of the ledger without reading it, ``read_bodies`` stored bodies,
        in any thread."""
        self._ledger_id: Final = ledger_id.hex()
        self._contexts: Final = contexts
        self._lives: Final = lives
        self._queue: Final = queue
        self._durable_through: Final = durable_through
        self._read_bodies: Final = read_bodies
        self._interval_s: Final = interval_s
        self._file: Final = StateFile(folder)
        self._watch: Final = Watch(folder)
        self._folder: Final = folder
        self._position = 0
        self._crashed_through = 0
        """Up to there records may be of messages whose contexts nobody has noted."""
        self._saved_position = -1
        self._failure = ""
        self._stopping: Final = threading.Event()
        self.thread: Final = TendedThread("postroom-traces", self._run)

    @property
    def behind(self) -> int:
        """Durable records that no spans have been made of yet."""
        return max(0, self._durable_through() - self._position)

    def start(self) -> None:
        """From where it stood, or from now on, which is noted: a crash soon after is one, too."""
        through = self._durable_through()
        state = self._file.read(self._ledger_id)
        self._position = through
        if state is not None and state.position <= through:
            self._position = state.position
            self._lives.messages.update(state.messages)
            self._crashed_through = through
        self._save()
        self.thread.start()

    def stop(self) -> None:
        """Make spans of the rest, and end."""
        self._stopping.set()
        self.thread.join()
        self.poll()
        self._save()

    def _run(self) -> None:
        waited_s = 0.0
        while not self._stopping.wait(self._interval_s):
            self.poll()
            waited_s += self._interval_s
            if waited_s >= max(SAVE_S, len(self._lives.messages) / SAVED_A_SECOND):
                waited_s = 0.0
                self._save()

    def poll(self) -> None:
        """Make spans of what is new. What goes wrong is logged, and tried again at the next look."""
        try:
            self._read_new()
            self._failure = ""
        except (LedgerError, OSError) as error:
            if str(error) != self._failure:
                self._failure = str(error)
                log(logging.ERROR, "tracing-failed", reason=self._failure)

    def _read_new(self) -> None:
        through = self._durable_through()
        self._lives.note(self._contexts.take())  # behind the look at the end: all of them that came before
        if self._position >= self._crashed_through and self._lives.is_idle:
            self._position = through
            return
        if self._position >= through:
            return
        for segment in self._watch.snapshot(through).segments:
            last = min(segment.last_position, through)
            first = max(self._position + 1, segment.first_position)
            while first <= last:
                end = min(last, first + POSITIONS_AT_A_TIME - 1)
                for chunk, known in self._chunks(segment, first, end):
                    self._read_contexts(chunk)
                    self._queue.add(self._lives.read(chunk, known))
                    self._position = last_position(chunk)  # what fails now goes on from here
                self._position = end
                first = end + 1

    def _chunks(self, segment: Segment, first: int, last: int) -> Iterator[tuple[Chunk, Definitions]]:
        """The records of these positions, which are in that file."""
        hint = self._watch.hint(segment, first, last)
        if hint is not None:
            with folder_of(self._folder) as disk:
                data = memoryview(disk.open(segment.name).view())[hint.start : hint.end]
                yield from journal_chunks(segment.name, data, segment, hint, first, last)
            return
        source = open_segment(self._folder, segment)
        for chunk in source.chunks(first, last):
            yield chunk, source.definitions(segment.last_position)

    def _read_contexts(self, chunk: Chunk) -> None:
        """Of messages that came before a crash and that nobody has noted: from their bodies."""
        arrivals = chunk.arrivals[chunk.arrivals["position"] <= self._crashed_through]
        stored = (arrivals["flags"] & ArrivalFlag.BODY_STORED) != 0
        shared = (arrivals["flags"] & ArrivalFlag.BODY_SHARED) != 0
        wanted = arrivals[stored & ~shared][-MAX_BODIES_READ:]
        for record, body in zip(wanted, self._read_bodies(_places(wanted)), strict=True):
            if isinstance(body, LedgerCorrupt):
                continue
            context = context_of(bytes(body[:MAX_OPENING_BYTES]))
            if context is not None and self._contexts.chooses(context):
                self._lives.note([(int(record["position"]), context)])

    def _save(self) -> None:
        """Note where it stands, if it has moved. A note that can't be written is made the next time."""
        if self._position == self._saved_position:
            return
        state = TraceState(self._ledger_id, self._position, self._lives.messages)
        try:
            self._file.write(state)
            self._saved_position = state.position
        except OSError as error:
            log(logging.WARNING, "trace-state-not-saved", reason=str(error))


def _places(arrivals: Array) -> list[BodyPlace]:
    columns = [arrivals[name].tolist() for name in ("body_serial", "body_offset", "body_len")]
    return list(zip(*columns, strict=True))
