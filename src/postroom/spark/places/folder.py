"""The broker's own folder, or a copy of it that is mounted here."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from postroom.ledger.carried import Carried, carried
from postroom.ledger.definitions import Definitions
from postroom.ledger.expand import Chunk
from postroom.ledger.reader import LedgerReader
from postroom.ledger.segments import Segment, open_segment
from postroom.spark.places import Look, Slice, look_of


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A ledger in a folder of this machine."""

    folder: Path

    @property
    def uri(self) -> str:
        return str(self.folder)

    def look(self) -> Look:
        """See `Place.look`."""
        reader = LedgerReader(self.folder)
        return look_of(reader.segments, reader.durable_through)

    def hint(self, segment: Segment, first: int, last: int) -> bytes:
        """See `Place.hint`."""
        return b""

    def read(self, slice: Slice) -> Iterator[tuple[Chunk, Definitions]]:
        """See `Place.read`."""
        source = open_segment(self.folder, slice.segment)
        known = source.definitions(slice.first - 1)
        for chunk in source.chunks(slice.first, slice.last):
            known = known.and_those_of(chunk.transitions)
            yield chunk, known

    def carried(self, look: Look, through: int) -> Carried | None:
        """See `Place.carried`."""
        return carried(self.folder, UUID(look.ledger_id).bytes, look.first_position, through)
