"""What of the ledger's folder is shown to readers over HTTP.

Sealed ``.events`` files and checkpoints as they are; of the journal, records in images (`records`). Bodies of
messages come by serial, to who may have them: files with bodies are shown to nobody but members that copy
all. The shelf reads as any
reader beside the broker would, and knows from the broker how far all is durable, which is ahead of what the
blocks say. For one thread at a time.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from postroom.ledger.copying.frozen import Frozen, freeze
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import Listing, checkpoint_name, events_name
from postroom.ledger.format.headers import header_crc_of
from postroom.ledger.format.layout import Array
from postroom.ledger.reading.body_reader import BodyReader
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.message_image import encode_messages
from postroom.ledger.reading.segments import CHUNK_RECORDS, Segment, folder_of, open_segment
from postroom.ledger.reading.tail import Watch, journal_chunks
from postroom.ledger.storage.disk import Bytes, RealFile
from postroom.replication.folder_state import BESIDE
from postroom.server.http.errors import Refusal
from postroom.server.http.records import encode_range, known_before

RECORD_BYTES: Final = 256
"""Of one record with its names, about: how many are tried in one answer."""
HEAD_BYTES: Final = 8
"""Of a file: magic and header_crc."""

_SHOWN: Final = re.compile(r"\d{8}\.events|\d{20}\.checkpoint", re.ASCII)
_WITH_BODIES: Final = re.compile(r"\d{8}\.(journal|bodies)|\d{8}-\d{8}\.\d{4,}\.packed", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shown:
    """One look: the files in force, and how far they may be read."""

    ledger_id: str
    segments: tuple[Segment, ...]
    checkpoints: tuple[int, ...]
    """Their positions."""
    older: tuple[int, ...]
    """Numbers of events files before the history, kept for arrivals that a checkpoint refers to."""
    durable_through: int

    def as_json(self) -> dict[str, object]:
        """As `GET /ledger` answers."""
        newest = self.segments[-1]
        return {
            "ledger_id": self.ledger_id,
            "epoch": newest.epoch,
            "epoch_id": newest.epoch_id.hex(),
            "first_position": self.segments[0].first_position,
            "durable_through": self.durable_through,
            "last_time_us": newest.last_time_us,
            "segments": [segment_json(each) for each in self.segments],
            "checkpoints": [checkpoint_name(position) for position in self.checkpoints],
            "older": [events_name(number) for number in self.older],
        }


def segment_json(segment: Segment) -> dict[str, object]:
    """One file of the ledger; ``seal`` is what the next file says of its end."""
    seal = segment.seal
    return {
        "number": segment.number,
        "epoch": segment.epoch,
        "epoch_id": segment.epoch_id.hex(),
        "first_position": segment.first_position,
        "last_position": segment.last_position,
        "is_sealed": segment.is_sealed,
        "first_time_us": segment.first_time_us,
        "last_time_us": segment.last_time_us,
        "records_bytes": segment.records_bytes,
        "seal": None if seal is None else seal._asdict(),
    }


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file that is open for one answer; ``tag`` changes with its content."""

    file: RealFile
    size_bytes: int
    tag: str


class LedgerView:
    """The ledger in a folder, beside the broker that writes it."""

    def __init__(self, folder: Path, durable_through: Callable[[], int]) -> None:
        """`durable_through`: how far the broker knows its ledger to be durable; asked in any thread."""
        self._folder: Final = folder
        self._durable_through: Final = durable_through
        self._seen: tuple[int, int] | None = None
        self._shown: Shown | None = None
        self._watch: Final = Watch(folder)
        self._bodies: Final = BodyReader(folder)

    def current(self) -> Shown:
        """The ledger now; the same again while nothing has come and no file has come or gone."""
        seen = self._durable_through(), self._folder.stat().st_mtime_ns
        if self._shown is None or seen != self._seen:
            self._shown, self._seen = self._refreshed(seen[0]), seen
        return self._shown

    def _refreshed(self, durable_through: int) -> Shown:
        segments = self._watch.snapshot(durable_through).segments
        listing = Listing([each.name for each in self._folder.iterdir()])
        return Shown(
            str(UUID(bytes=segments[0].ledger_id)),
            tuple(segments),
            tuple(listing.checkpoints),
            tuple(number for number in listing.events if number < segments[0].number),
            segments[-1].last_position,
        )

    def records(self, first: int, last: int, max_bytes: int) -> tuple[int, list[Bytes]]:
        """The image of the records from `first` on, and the last position in it: `last`, or less where one
        file or the bytes end before. One record is given whatever its size.

        Raises `Refusal` for positions that are not there.
        """
        segment = self._segment_of(self.current(), first)
        last = min(last, segment.last_position, first + _most_records(max_bytes) - 1)
        while True:
            chunk, known = self._read(segment, first, last)
            parts = encode_range(segment, known_before(known, first), known.names, chunk)
            last = first + chunk.record_count - 1
            if first == last or sum(map(len, parts)) <= max_bytes:
                return last, parts
            last = (first + last) // 2

    def _read(self, segment: Segment, first: int, last: int) -> tuple[Chunk, Definitions]:
        """Records from `first` on, to `last` at most, and the definitions that they speak of."""
        hint = self._watch.hint(segment, first, last)
        if hint is not None:
            with folder_of(self._folder) as disk:
                data = memoryview(disk.open(segment.name).view())[hint.start : hint.end]
            return next(journal_chunks(segment.name, data, segment, hint, first, last))
        source = open_segment(self._folder, segment)
        return next(source.chunks(first, last)), source.definitions(first - 1)

    def messages(self, serials: Array, with_bodies: bool, max_bytes: int) -> list[Bytes]:
        """The messages of these serials, as many from the first on as `max_bytes` of bodies allow, as
        `message_image` has them. CRCs are left to the reader. In one thread of its own."""
        through = self._durable_through()
        found = self._bodies.read(serials, through, with_bodies, check=False, max_bytes=max_bytes)
        return encode_messages(found)

    def open(self, name: str) -> ShownFile:
        """A sealed file or a checkpoint, to be closed. Raises `Refusal`."""
        if _WITH_BODIES.fullmatch(name):
            what = f"{name} has bodies of messages in it: records are at /ledger/records, whatever the file"
            raise Refusal(403, "has-bodies", what)
        if not _SHOWN.fullmatch(name):
            raise Refusal(404, "no-such-file", f"{name!r} is the name of no sealed file or checkpoint")
        try:
            file = RealFile(self._folder / name, os.O_RDONLY)
        except FileNotFoundError:
            what = f"{name} is not there: retention has dropped it, or it has never been"
            raise Refusal(404, "no-such-file", what) from None
        size, crc = file.size_bytes(), header_crc_of(file.read_at(0, HEAD_BYTES))
        return ShownFile(file, size, f'"{crc:08x}-{size}"')

    def freeze(self) -> Frozen:
        """The whole ledger now, for a copy; to be closed."""
        return freeze(self._folder, BESIDE)

    def _segment_of(self, shown: Shown, position: int) -> Segment:
        if position > shown.durable_through:
            what = f"position {position} is not durable yet: the ledger ends at {shown.durable_through}"
            raise Refusal(416, "not-yet", what, durable_through=shown.durable_through)
        for segment in shown.segments:
            if segment.first_position <= position <= segment.last_position:
                return segment
        begin = shown.segments[0].first_position
        what = f"position {position} is not there any more: the history begins at {begin}"
        raise Refusal(410, "gone", what, first_position=begin)


def _most_records(max_bytes: int) -> int:
    return min(max(1, max_bytes // RECORD_BYTES), CHUNK_RECORDS)
