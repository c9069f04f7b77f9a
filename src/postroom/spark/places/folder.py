"""The broker's own folder, or a copy of it that is mounted here."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import UUID

from postroom.ledger.format.expand import Chunk
from postroom.ledger.reading.body_reader import BodyReader
from postroom.ledger.reading.carried_entries import Carried, carried
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.segments import Segment, folder_of, open_segment
from postroom.ledger.reading.tail import JournalHint, Watch, journal_chunks
from postroom.ledger.verification.integrity import Covered, check
from postroom.spark.places.images import read_segment
from postroom.spark.places.place import Messages, Place, Serials, Slice, Snapshot, messages_of, snapshot_of

KNOWN_FOLDERS: Final = 8
"""So many folders a process remembers from one task to the next."""


class FolderPlace(Place):
    """A ledger in a folder of this machine. Looks remember what was seen, and are for one thread."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder)
        self.folder: Final = folder
        self._watch: Final = Watch(folder)

    def __reduce__(self) -> tuple[type["FolderPlace"], tuple[Path]]:
        return FolderPlace, (self.folder,)

    def snapshot(self) -> Snapshot:
        found = self._watch.snapshot()
        return snapshot_of(
            found.segments, found.durable_through(), found.durable_through(beyond_durable=True)
        )

    def check(self) -> Covered:
        """See `Place.check`: as the broker does at its start."""
        return check(self.folder)

    def hint(self, segment: Segment, first: int, last: int) -> bytes:
        """See `Place.hint`: of a journal where its blocks lie, a `JournalHint`."""
        hint = self._watch.hint(segment, first, last)
        return b"" if hint is None else hint.encode()

    def read(self, slice: Slice) -> Iterator[tuple[Chunk, Definitions]]:
        data = _journal(self.folder, slice)
        if data is not None:
            hint = JournalHint.decode(slice.hint)
            name = str(self.folder / slice.segment.name)
            yield from journal_chunks(
                name, data[hint.start : hint.end], slice.segment, hint, slice.first, slice.last
            )
            return
        yield from read_segment(open_segment(self.folder, slice.segment), slice.first, slice.last)

    def carried(self, snapshot: Snapshot, through: int) -> Carried | None:
        return carried(self.folder, UUID(snapshot.ledger_id).bytes, snapshot.first_position, through)

    def messages(
        self, snapshot: Snapshot | None, serials: Serials, check: bool = True, max_bytes: int | None = None
    ) -> Messages:
        reader, lock = _reader(self.folder)
        through = None if snapshot is None else snapshot.durable_through
        with lock:
            return messages_of(reader.read(serials, through, check=check, max_bytes=max_bytes))

    def arrivals(self, serials: Serials, through: int) -> Messages:
        reader, lock = _reader(self.folder)
        with lock:
            return messages_of(reader.read(serials, through, with_bodies=False))


@lru_cache(KNOWN_FOLDERS)
def _reader(folder: Path) -> tuple[BodyReader, Lock]:
    return BodyReader(folder), Lock()


def _journal(folder: Path, slice: Slice) -> memoryview | None:
    """The bytes of a slice's journal; None if it has no hint, or was sealed since."""
    if not slice.hint:
        return None
    try:
        with folder_of(folder) as disk:
            return memoryview(disk.open(slice.segment.name).view())
    except FileNotFoundError:
        return None
