"""A log in memory with the port's contract, and an engine's faults: answers that are lost before or after an
append, engines that take what they should refuse, silence."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from postroom.replication.errors import EngineUnavailable, Overtaken
from postroom.replication.log import MemberNote

MOST_BYTES = 4096


@dataclass
class Stream:
    """What the engine has, whoever is connected."""

    is_conditional: bool = True
    """Whether it refuses what doesn't follow on its last entry, as NATS does; or takes it, as Kafka does."""
    entries: list[bytes] = field(default_factory=list)
    trimmed: int = 0
    """Entries that are gone."""
    notes: dict[str, MemberNote] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last(self) -> int:
        return self.trimmed + len(self.entries)

    def put(self, entry: bytes) -> int:
        self.entries.append(entry)
        self.changed.set()
        self.changed = asyncio.Event()
        return self.last

    def get(self, sequence: int) -> bytes:
        return self.entries[sequence - self.trimmed - 1]


class MemoryLog:
    """One member's connection to it."""

    most_bytes = MOST_BYTES
    identity = "memory"

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_cut = False
        """Nothing gets through."""
        self.lost_answers = 0
        """So many appends are done and not acknowledged."""

    async def open(self) -> None:
        self._check_connection()

    def _check_connection(self) -> None:
        if self.is_cut:
            raise EngineUnavailable("the log is cut off")

    async def append(self, after: int, entries: list[bytes]) -> int:
        await asyncio.sleep(0)
        self._check_connection()
        stream = self.stream
        if stream.is_conditional and stream.last != after:
            raise Overtaken(f"the last entry is {stream.last}, not {after}")
        got = [stream.put(entry) for entry in entries]
        await asyncio.sleep(0)
        if self.lost_answers:
            self.lost_answers -= 1
            raise EngineUnavailable("the answer is lost")
        if got[0] != after + 1:
            raise Overtaken(f"it became {got[0]}, not {after + 1}")
        return got[-1]

    async def last(self) -> int:
        self._check_connection()
        return self.stream.last

    async def first(self) -> int:
        self._check_connection()
        return self.stream.trimmed + 1

    async def read(self, after: int) -> AsyncGenerator[tuple[int, bytes], None]:
        while True:
            changed = self.stream.changed
            while not self.is_cut and max(after, self.stream.trimmed) < self.stream.last:
                after = max(after, self.stream.trimmed) + 1
                yield after, self.stream.get(after)
            await changed.wait()

    async def trim(self, through: int) -> None:
        stream = self.stream
        del stream.entries[: through - stream.trimmed]
        stream.trimmed = through

    async def size_bytes(self) -> int:
        return sum(map(len, self.stream.entries))

    async def note(self, note: MemberNote) -> None:
        self._check_connection()
        self.stream.notes[note.member] = note

    async def notes(self) -> list[MemberNote]:
        self._check_connection()
        return [note for _, note in sorted(self.stream.notes.items())]

    async def forget(self, member: str) -> None:
        self.stream.notes.pop(member, None)

    async def close(self) -> None:
        self.is_cut = True
