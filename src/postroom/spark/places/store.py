"""An object store with the sealed files of ledgers, as `postroom ledger upload` fills it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.expand import Chunk
from postroom.ledger.reading.body_reader import FoundArrivals
from postroom.ledger.reading.carried_entries import Carried
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.segments import Segment
from postroom.ledger.storage.events_image import EventsImage, decode_image
from postroom.spark.filesystems.objects import Objects
from postroom.spark.places.cache import FileCache, default_folder
from postroom.spark.places.images import cache_key, carried_from, checked_image, read_image
from postroom.spark.places.manifest import (
    CHECKPOINT,
    EVENTS,
    MANIFEST_FOLDER,
    Entry,
    StoreUnusable,
    check_chain,
    decode_entry,
)
from postroom.spark.places.place import Messages, Place, Serials, Slice, Snapshot, messages_of, snapshot_of

LEDGER_MARK: Final = "#"
"""In a place's URI, before the id of one of several ledgers in a store."""


class Manifest:
    """The entries of one ledger, of which only new ones are read again."""

    def __init__(self, objects: Objects, ledger_id: str) -> None:
        self._objects: Final = objects
        self._ledger_id: Final = ledger_id
        self.entries: dict[str, Entry] = {}
        """Those read last, by the names of their files."""

    def read(self) -> list[Entry]:
        """All entries, by name. Raises ``StoreUnusable``."""
        folder = f"{self._ledger_id}/{MANIFEST_FOLDER}"
        names = self._objects.names(folder)
        for name in names:
            if name not in self.entries and not name.startswith("."):
                path = f"{folder}/{name}"
                self.entries[name] = decode_entry(self._objects.read(path), f"{self._objects.uri}/{path}")
        self.entries = {name: entry for name, entry in self.entries.items() if name in names}
        return list(self.entries.values())

    def history(self) -> list[Entry]:
        """The files of the history, oldest first. Raises ``StoreUnusable`` where one is missing."""
        found = sorted((each for each in self.read() if each.kind == EVENTS), key=lambda each: each.number)
        check_chain(found, f"{self._objects.uri}/{self._ledger_id}")
        return found


class StorePlace(Place):
    """A ledger in an object store. Looks remember the manifest, and are for one thread."""

    def __init__(self, root: str, ledger_id: str = "", cache: str = "") -> None:
        """Without `ledger_id` the store must hold one ledger only."""
        self.uri = f"store:{root}" + (LEDGER_MARK + ledger_id if ledger_id else "")
        self.root: Final = root
        self._given_id: Final = ledger_id
        self._cache_folder: Final = cache
        self._objects: Final = Objects(root)
        self._cache: Final = FileCache(Path(cache) if cache else default_folder())
        self._manifest: Manifest | None = None

    def __reduce__(self) -> tuple[type["StorePlace"], tuple[str, str, str]]:
        return StorePlace, (self.root, self._given_id, self._cache_folder)

    def snapshot(self) -> Snapshot:
        """See `Place.snapshot`. Raises ``StoreUnusable`` where no ledger is, or several are."""
        history = self._known_manifest().history()
        if not history:
            raise StoreUnusable(f"{self.uri}: nothing was uploaded yet")
        return snapshot_of([each.segment() for each in history], history[-1].last_position)

    def read(self, slice: Slice) -> Iterator[tuple[Chunk, Definitions]]:
        yield from read_image(self._image(slice.segment), slice.first, slice.last)

    def carried(self, snapshot: Snapshot, through: int) -> Carried | None:
        entries = self._known_manifest().read()
        checkpoints = [entry.last_position for entry in entries if entry.kind == CHECKPOINT]
        return carried_from(self._fetch, checkpoints, snapshot.ledger_id, snapshot.first_position, through)

    def messages(
        self, snapshot: Snapshot | None, serials: Serials, check: bool = True, max_bytes: int | None = None
    ) -> Messages:
        """See `Place.messages`. No body is ever uploaded: those that were stored are NOT_STORED here."""
        snapshot = self.snapshot() if snapshot is None else snapshot
        wanted, order = np.unique(serials, return_inverse=True)
        found = FoundArrivals(np.asarray(wanted, np.uint64))
        for segment in snapshot.segments:
            low, high = found.within(
                segment.first_position, min(segment.last_position, snapshot.durable_through)
            )
            if low < high:
                image = self._image(segment)
                found.take(image.arrivals, np.frombuffer(image.names, np.uint8), low, high)
        older = found.within(0, snapshot.first_position - 1)[1]
        carried = self.carried(snapshot, snapshot.durable_through) if older else None
        for rows in carried.blocks if carried is not None else ():
            if rows.arrivals is not None and len(rows.arrivals):
                _, first = np.unique(rows.arrivals["position"], return_index=True)
                found.take(rows.arrivals[first], rows.names, 0, older)
        return messages_of(found.without_bodies(order))

    def arrivals(self, serials: Serials, through: int) -> Messages:
        """See `Place.arrivals`: what was uploaded is durable, and has no bodies."""
        return self.messages(None, serials)

    def _image(self, segment: Segment) -> EventsImage:
        key = cache_key(segment)
        where = f"{self.root}/{key}"
        data = self._cache.get(
            key, lambda out: self._objects.copy_to(key, out), lambda data: checked_image(data, segment, where)
        )
        return decode_image(data, where, segment.number, False)

    def _fetch(self, name: str) -> bytes:
        entry = self._known_manifest().entries.get(f"{name}.json")
        if entry is None:
            raise LedgerCorrupt(f"{self.root}/{name}", 0, "missing, though a checkpoint needs it")
        return self._objects.read(entry.object_name)

    def _known_manifest(self) -> Manifest:
        if self._manifest is None:
            self._manifest = Manifest(self._objects, self._given_id or self._only_ledger())
        return self._manifest

    def _only_ledger(self) -> str:
        names = self._objects.folders("")
        found = [name for name in names if self._objects.names(f"{name}/{MANIFEST_FOLDER}")]
        if not found:
            raise StoreUnusable(f"{self.uri}: no ledger here; `postroom ledger upload` puts one there")
        if len(found) > 1:
            raise StoreUnusable(
                f"{self.uri}: several ledgers are here; name one: store:{self.root}{LEDGER_MARK}{found[0]}"
                f" ({', '.join(found)})"
            )
        return found[0]
