"""What an object store has of a ledger: one entry for each uploaded file, made once and never changed.

    <ledger id>/<epoch>-<epoch id>/00000012.events
    <ledger id>/manifest/00000012.events.json

An entry is made after its file is whole, so what the manifest lists is there. Readers list the manifest and
nothing else.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from postroom.ledger.errors import LedgerError
from postroom.ledger.format.file_names import checkpoint_name, events_name
from postroom.ledger.format.headers import Seal
from postroom.ledger.reading.segments import Segment, sealed_segment
from postroom.ledger.storage.events_image import EventsImage

MANIFEST_VERSION: Final = 1
MANIFEST_FOLDER: Final = "manifest"
EVENTS: Final = "events"
OLDER: Final = "older"
CHECKPOINT: Final = "checkpoint"

PLAIN_FIELDS: Final = (
    *("number", "epoch", "first_position", "last_position"),
    *("first_time_us", "last_time_us", "records_bytes"),
)
"""Of a `Segment`, those that are the same in JSON."""

U64 = Annotated[int, Meta(ge=0)]


class SealEntry(Struct, frozen=True):
    """Where a file ends (`headers.Seal`)."""

    file_number: U64
    epoch: U64
    position: U64
    crc: U64


class Entry(Struct, frozen=True, kw_only=True):
    """One file of a ledger in the store. Positions and times of a checkpoint: what it covers."""

    version: int = MANIFEST_VERSION
    kind: str
    """"events": history; "older": kept for arrivals alone, before the history; "checkpoint"."""
    name: str
    ledger_id: str
    size_bytes: U64
    crc: U64
    """CRC-32 of the file."""
    number: U64 = 0
    epoch: U64 = 0
    epoch_id: str = ""
    first_position: U64 = 0
    last_position: U64 = 0
    first_time_us: int = 0
    last_time_us: int = 0
    records_bytes: U64 = 0
    end: SealEntry = SealEntry(0, 0, 0, 0)
    before: SealEntry = SealEntry(0, 0, 0, 0)
    """How the file before ended."""

    @property
    def object_name(self) -> str:
        """Where the file lies, under the store's root."""
        folder = CHECKPOINT if self.kind == CHECKPOINT else f"{self.epoch}-{self.epoch_id}"
        return f"{self.ledger_id}/{folder}/{self.name}"

    @property
    def entry_name(self) -> str:
        return f"{self.ledger_id}/{MANIFEST_FOLDER}/{self.name}.json"

    def segment(self) -> Segment:
        """The file's positions, as a look tells them."""
        return Segment(
            ledger_id=UUID(self.ledger_id).bytes,
            is_sealed=True,
            seal=Seal(*msgspec.structs.astuple(self.end)),
            epoch_id=bytes.fromhex(self.epoch_id),
            **{name: getattr(self, name) for name in PLAIN_FIELDS},
        )


def entry_of_image(image: EventsImage, kind: str, size_bytes: int, crc: int) -> Entry:
    """The entry of an .events file."""
    segment = sealed_segment(image, image.seal())
    return Entry(
        kind=kind,
        name=events_name(image.file_number),
        ledger_id=str(UUID(bytes=image.ledger_id)),
        size_bytes=size_bytes,
        crc=crc,
        epoch_id=image.epoch_id.hex(),
        end=SealEntry(*image.seal()),
        before=SealEntry(*image.sealed),
        **{name: getattr(segment, name) for name in PLAIN_FIELDS},
    )


def entry_of_checkpoint(ledger_id: str, position: int, size_bytes: int, crc: int) -> Entry:
    """The entry of a checkpoint."""
    name = checkpoint_name(position)
    return Entry(
        kind=CHECKPOINT,
        name=name,
        ledger_id=ledger_id,
        size_bytes=size_bytes,
        crc=crc,
        last_position=position,
    )


class StoreUnusable(LedgerError):
    """What lies in an object store is no ledger of ours, or not one that can be read."""


def decode_entry(data: bytes, where: str) -> Entry:
    """Raises ``StoreUnusable``."""
    try:
        entry = msgspec.json.decode(data, type=Entry)
    except msgspec.DecodeError as error:
        raise StoreUnusable(f"{where}: no entry of a manifest ({error})") from error
    if entry.version != MANIFEST_VERSION:
        what = f"an entry of version {entry.version}; this postroom reads version {MANIFEST_VERSION}"
        raise StoreUnusable(f"{where}: {what}: upgrade the reader")
    return entry


def check_chain(entries: Sequence[Entry], where: str) -> None:
    """Whether each file of a history follows on the one before. Raises ``StoreUnusable``."""
    for older, newer in pairwise(entries):
        if newer.before != older.end:
            raise StoreUnusable(
                f"{where}: {newer.name} does not follow on {older.name}: it says that {newer.before} is"
                f" before it, but that ends as {older.end}; an entry between is missing, or is of another"
                " history"
            )
