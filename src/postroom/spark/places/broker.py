"""The broker itself, which serves its ledger over HTTP(S): sealed files as they are, its journal's records up
to what is durable. So a cluster that shares no disk with the broker reads its live tail.

A replicated queue manager has an address for each member, of which the active one answers. They have the same
records at the same positions; who took over a moment ago may have less of it sealed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import events_name
from postroom.ledger.format.headers import Seal
from postroom.ledger.reading.body_reader import NOTHING, FoundArrivals, check_bodies
from postroom.ledger.reading.carried_entries import Carried
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.message_image import MAX_SERIALS, decode_messages
from postroom.ledger.reading.segments import Segment
from postroom.ledger.storage.events_image import EventsImage, decode_image
from postroom.spark.places.cache import FileCache, default_folder
from postroom.spark.places.http_client import HttpClient
from postroom.spark.places.images import cache_key, carried_from, checked_image, read_image
from postroom.spark.places.manifest import PLAIN_FIELDS
from postroom.spark.places.place import Messages, Place, Serials, Slice, Snapshot, messages_of, snapshot_of

MESSAGES_PATH: Final = "/ledger/messages"
ARRIVALS_PATH: Final = f"{MESSAGES_PATH}?bodies=false"
NO_SERIAL: Final = np.uint64(0)
"""No message has it."""
SMALL_BYTES: Final = 16 << 20
"""Of records: less than that of a sealed file is asked for as records, unless the file is here already."""


class BrokerPlace(Place):
    """A ledger that its broker serves. Looks are for one thread."""

    def __init__(self, url: str, token: str = "", cache: str = "") -> None:
        """`url`: of the broker, or of all members with commas between them."""
        self.uri = url.rstrip("/")
        self._token: Final = token
        self._cache_folder: Final = cache
        self._client: Final = HttpClient(self.uri, token)
        self._cache: Final = FileCache(Path(cache) if cache else default_folder())

    def __reduce__(self) -> tuple[type["BrokerPlace"], tuple[str, str, str]]:
        return BrokerPlace, (self.uri, self._token, self._cache_folder)

    def __repr__(self) -> str:
        return f"BrokerPlace({self.uri!r})"

    def snapshot(self) -> Snapshot:
        shown = self._client.json("/ledger")
        ledger_id = UUID(shown["ledger_id"]).bytes
        segments = [
            Segment(
                ledger_id=ledger_id,
                seal=None if each["seal"] is None else Seal(**each["seal"]),
                epoch_id=bytes.fromhex(each["epoch_id"]),
                **{name: each[name] for name in ("is_sealed", *PLAIN_FIELDS)},
            )
            for each in shown["segments"]
        ]
        return snapshot_of(segments, int(shown["durable_through"]))

    def read(self, slice: Slice) -> Iterator[tuple[Chunk, Definitions]]:
        segment = slice.segment
        key = cache_key(segment)
        if segment.is_sealed and (slice.records_bytes >= SMALL_BYTES or self._cache.holds(key)):
            image = self._sealed(segment, key)
            if image is not None:
                yield from read_image(image, slice.first, slice.last)
                return
        first = slice.first
        while first <= slice.last:
            image = self._records(segment, first, slice.last)
            yield from read_image(image, first, image.last_position)
            first = image.last_position + 1

    def carried(self, snapshot: Snapshot, through: int) -> Carried | None:
        try:
            return self._carried(snapshot, through)
        except FileNotFoundError:  # a newer checkpoint may just have let it go
            return self._carried(snapshot, through)

    def messages(
        self, snapshot: Snapshot | None, serials: Serials, check: bool = True, max_bytes: int | None = None
    ) -> Messages:
        """See `Place.messages`. The broker bounds every answer, whatever `max_bytes` is: there may be fewer
        messages than asked for."""
        requested = np.ascontiguousarray(serials[:MAX_SERIALS], "<u8")
        if snapshot is not None:
            requested = np.where(requested <= snapshot.durable_through, requested, NO_SERIAL)
        if not len(requested):
            return messages_of(NOTHING)
        found = decode_messages(
            self._client.body(MESSAGES_PATH, requested.tobytes()), self.uri + MESSAGES_PATH
        )
        if not 0 < len(found.found) <= len(requested):
            what = f"{len(found.found)} messages are answered where {len(requested)} were asked for"
            raise LedgerCorrupt(self.uri + MESSAGES_PATH, 0, what)
        return messages_of(check_bodies(found) if check else found)

    def arrivals(self, serials: Serials, through: int) -> Messages:
        """See `Place.arrivals`: as many requests as the bound on serials takes."""
        wanted, order = np.unique(np.asarray(serials, "<u8"), return_inverse=True)
        if not len(wanted):
            return messages_of(NOTHING)
        found = FoundArrivals(wanted)
        for first in range(0, len(wanted), MAX_SERIALS):
            requested = wanted[first : first + MAX_SERIALS]
            some = decode_messages(
                self._client.body(ARRIVALS_PATH, requested.tobytes()), self.uri + MESSAGES_PATH
            )
            if len(some.found) != len(requested):
                what = f"{len(some.found)} arrivals are answered where {len(requested)} were asked for"
                raise LedgerCorrupt(self.uri + MESSAGES_PATH, 0, what)
            if some.found.any():
                own = some.arrivals.compress(some.found)
                found.take(own, np.frombuffer(some.names, np.uint8), first, first + len(requested))
        return messages_of(found.without_bodies(order))

    def _carried(self, snapshot: Snapshot, through: int) -> Carried | None:
        shown = self._client.json("/ledger")
        checkpoints = [int(name.partition(".")[0]) for name in shown["checkpoints"]]

        def fetch(name: str) -> bytes:
            return self._client.body(f"/ledger/files/{name}")

        return carried_from(fetch, checkpoints, snapshot.ledger_id, snapshot.first_position, through)

    def _records(self, segment: Segment, first: int, last: int) -> EventsImage:
        path = f"/ledger/records?first={first}&last={last}"
        where = self.uri + path
        image = checked_image(memoryview(self._client.body(path)), segment, where)
        if not image.first_position == first <= image.last_position <= last:
            what = f"records {image.first_position} to {image.last_position}"
            raise LedgerCorrupt(where, 0, what)
        return image

    def _sealed(self, segment: Segment, key: str) -> EventsImage | None:
        """The file; None where it isn't: it has gone, or who took over hasn't sealed it yet."""
        path = f"/ledger/files/{events_name(segment.number)}"
        try:
            data = self._cache.get(
                key,
                lambda out: self._client.download(path, out),
                lambda data: checked_image(data, segment, self.uri + path),
            )
        except FileNotFoundError:
            return None
        return decode_image(data, key, segment.number, check=False)
