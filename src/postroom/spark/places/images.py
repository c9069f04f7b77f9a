"""What places have in common that read sealed files from far away."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.fold.checkpoint import load_checkpoint
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import checkpoint_name, events_name
from postroom.ledger.reading.carried_entries import Carried, carried
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.segments import Segment, SegmentReader
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.events_image import EventsImage, decode_image


def read_image(image: EventsImage, first: int, last: int) -> Iterator[tuple[Chunk, Definitions]]:
    """The records of an image from first to last, as `Place.read` gives them."""
    return read_segment(SegmentReader(image), first, last)


def read_segment(source: SegmentReader, first: int, last: int) -> Iterator[tuple[Chunk, Definitions]]:
    """The same of a file that is open."""
    known = source.definitions(first - 1)
    for chunk in source.chunks(first, last):
        known = known.and_those_of(chunk)
        yield chunk, known


def checked_image(data: memoryview, segment: Segment, where: str) -> EventsImage:
    """An image that is whole, and of the file that a look has told of. Raises ``LedgerCorrupt``."""
    image = decode_image(data, where, segment.number)
    if (image.ledger_id, image.epoch_id) != (segment.ledger_id, segment.epoch_id):
        what = (
            f"it is of ledger {image.ledger_id.hex()}, epoch {image.epoch} ({image.epoch_id.hex()}), not of"
            f" ledger {segment.ledger_id.hex()}, epoch {segment.epoch} ({segment.epoch_id.hex()})"
        )
        raise LedgerCorrupt(where, 0, what)
    return image


def cache_key(segment: Segment) -> str:
    """Where the file of a segment is kept: by ledger and epoch id, so that no two are mixed up."""
    ledger, epoch = UUID(bytes=segment.ledger_id), segment.epoch_id.hex()
    return f"{ledger}/{segment.epoch}-{epoch}/{events_name(segment.number)}"


def carried_from(
    fetch: Callable[[str], bytes],
    checkpoints: Sequence[int],
    ledger_id: str,
    first_position: int,
    through: int,
) -> Carried | None:
    """What the newest checkpoint at or before `through` tells, from files that are fetched by name.

    Raises ``LedgerCorrupt``, and FileNotFoundError if one has gone since it was listed.
    """
    usable = [position for position in checkpoints if first_position - 1 <= position <= through]
    if not usable:
        return None
    position, id = max(usable), UUID(ledger_id).bytes
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / checkpoint_name(position)).write_bytes(fetch(checkpoint_name(position)))
        for number in _needed(folder, position, id, first_position):
            (folder / events_name(number)).write_bytes(fetch(events_name(number)))
        return carried(folder, id, first_position, through)


def _needed(folder: Path, position: int, ledger_id: bytes, first_position: int) -> list[int]:
    """Files before the history that the checkpoint refers to."""
    disk = RealDisk(folder)
    try:
        state = load_checkpoint(disk, position, ledger_id)
    finally:
        disk.unlock()
    return [int(span.number) for span in state.needs if span.last_position < first_position]
