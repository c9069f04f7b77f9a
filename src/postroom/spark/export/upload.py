"""Sealed files of a ledger into an object store, each once: `postroom ledger upload`.

A file's CRCs are checked, then it is made in the store, then its entry in the manifest; nothing there is ever
overwritten. So it can be stopped anywhere and run again, and two that run at once do no harm. What the store
has must be this ledger's own history: a restored backup that ran on is refused.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final
from uuid import UUID

import msgspec
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.fold.checkpoint import load_checkpoint
from postroom.ledger.format.file_names import Listing, checkpoint_name, events_name
from postroom.ledger.reading.segments import Segment, folder_of
from postroom.ledger.reading.tail import Watch
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import decode_image
from postroom.spark.filesystems.objects import PIECE_BYTES, Objects
from postroom.spark.places.manifest import (
    CHECKPOINT,
    EVENTS,
    OLDER,
    Entry,
    entry_of_checkpoint,
    entry_of_image,
)
from postroom.spark.places.store import Manifest

WATCH_EVERY_S: Final = 10.0
"""How often a running upload looks for files that have been sealed."""


class UploadRefused(LedgerError):
    """What the store has and what the folder has don't belong together."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """One file that is in the store now and wasn't before."""

    name: str
    size_bytes: int
    first_position: int
    last_position: int


class Upload:
    """A ledger's folder and a store. One thread."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder: Final = folder
        self._objects: Final = Objects(uri)
        self._watch: Final = Watch(folder)

    def run(self) -> Iterator[Uploaded]:
        """Upload what is sealed and not there yet, oldest first.

        Raises ``UploadRefused``, ``LedgerCorrupt`` for a file that is damaged here, OSError.
        """
        segments = [each for each in self._watch.snapshot().segments if each.is_sealed]
        if not segments:
            return
        ledger_id = str(UUID(bytes=segments[0].ledger_id))
        manifest = Manifest(self._objects, ledger_id)
        known = {entry.number: entry for entry in manifest.history()}
        _check_same_history(segments, known, f"{self._objects.uri}/{ledger_id}", self._folder)
        with folder_of(self._folder) as disk:
            for segment in segments:
                if segment.number not in known:
                    yield from self._put_events(disk, segment.number, EVENTS)
            first = min([*known, segments[0].number])
            if first == segments[0].number and segments[0].first_position > 1:
                yield from self._put_opening(disk, segments, manifest)

    def watch(
        self, stop: Event, on_uploaded: Callable[[Uploaded], None], every_s: float = WATCH_EVERY_S
    ) -> None:
        """`run` again and again, until `stop`. A look that a broker's own work disturbs is repeated."""
        while not stop.is_set():
            # A file may go, or be renamed, between the look and the reading: the next look sees it.
            with contextlib.suppress(FileNotFoundError):
                for each in self.run():
                    on_uploaded(each)
            stop.wait(every_s)

    def _put_events(self, disk: Disk, number: int, kind: str) -> Iterator[Uploaded]:
        name = events_name(number)
        data = memoryview(disk.open(name).view())
        image = decode_image(data, disk.describe(name), number)
        entry = entry_of_image(image, kind, len(data), crc32(data))
        if self._put(entry, data):
            yield Uploaded(name, len(data), image.first_position, image.last_position)

    def _put_opening(self, disk: Disk, segments: list[Segment], manifest: Manifest) -> Iterator[Uploaded]:
        """The newest checkpoint of the history that the store begins with, and what it refers to."""
        if any(entry.kind == CHECKPOINT for entry in manifest.read()):
            return
        first, last, id = segments[0].first_position, segments[-1].last_position, segments[0].ledger_id
        for position in reversed(Listing(disk.names()).checkpoints):
            if not first - 1 <= position <= last:
                continue
            try:
                state = load_checkpoint(disk, position, id)
            except LedgerCorrupt:
                continue  # an older one serves as well
            for span in state.needs:
                if span.last_position < first:
                    yield from self._put_events(disk, int(span.number), OLDER)
            data = memoryview(disk.open(checkpoint_name(position)).view())
            entry = entry_of_checkpoint(str(UUID(bytes=id)), position, len(data), crc32(data))
            if self._put(entry, data):
                yield Uploaded(entry.name, len(data), 0, position)
            return

    def _put(self, entry: Entry, data: memoryview) -> bool:
        """The object, then its entry; whether the entry is new."""
        pieces = (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))
        if not self._objects.create(entry.object_name, pieces):
            self._check_equal(entry)
        text = msgspec.json.format(msgspec.json.encode(entry), indent=2)
        if self._objects.create(entry.entry_name, [text]):
            return True
        if self._objects.read(entry.entry_name) != text:
            raise UploadRefused(f"{self._objects.uri}/{entry.entry_name}: another entry is there already")
        return False

    def _check_equal(self, entry: Entry) -> None:
        """An object of that name is there: left by an upload that ended early, or it is something else."""
        there = self._objects.read(entry.object_name)
        if len(there) != entry.size_bytes or crc32(there) != entry.crc:
            raise UploadRefused(
                f"{self._objects.uri}/{entry.object_name}: another content is there already ({len(there)}"
                f" bytes, CRC {crc32(there):08x}; here {entry.size_bytes} bytes, CRC {entry.crc:08x}):"
                " it is left alone; find out whose it is, or upload to another place"
            )


def _check_same_history(segments: list[Segment], known: dict[int, Entry], where: str, folder: Path) -> None:
    """Whether the folder's files go on where the store's end. Raises ``UploadRefused``."""
    for segment in segments:
        entry = known.get(segment.number)
        if entry is not None and (entry.epoch_id, entry.last_position) != (
            segment.epoch_id.hex(),
            segment.last_position,
        ):
            raise UploadRefused(
                f"{where}: {entry.name} there is of epoch {entry.epoch} ({entry.epoch_id}) and ends at"
                f" position {entry.last_position}; in {folder} it is of epoch {segment.epoch}"
                f" ({segment.epoch_id.hex()}) and ends at {segment.last_position}: one of them was restored"
                " from a backup and ran on. Nothing is overwritten: upload this folder to another place"
            )
    newest = max(known, default=0)
    if known and segments[0].number > newest + 1:
        raise UploadRefused(
            f"{where}: ends with {events_name(newest)}, and {folder} begins with {segments[0].name}: what was"
            " between has been dropped by retention before it was uploaded. Upload to another place, and"
            " hold a lease (`postroom ledger lease`) while uploading"
        )
    if known and segments[-1].number < min(known):
        raise UploadRefused(f"{where}: begins behind everything in {folder}: this is an older copy of it")
