"""Is every body there that a live entry needs? Told from tables and indexes, without reading bodies.

A file of bodies is held against its events file, and must reach as far as that says. Then each live piece
must have a place in the file that covers its position; what arrived in the very file that is held against its
events has one. Whether the bytes are right, their CRCs tell.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.fold.fold import survives
from postroom.ledger.fold.state import Arrivals, FoldState
from postroom.ledger.format.block import BODY_TRAILER_BYTES, CHUNK_LIST_HEADER_BYTES, CHUNKED_OFFSET
from postroom.ledger.format.file_names import bodies_name, packed_name
from postroom.ledger.format.headers import FileHeader
from postroom.ledger.format.layout import Array
from postroom.ledger.storage.body_file import BodyFile, PackedBodies, SealedBodies
from postroom.ledger.storage.completeness import OTHER_LEDGER, OTHER_NUMBER
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import EventsImage

Pieces = tuple[Array, Array, Array]
"""Of bodies, chunks or lists of chunks: key, offset in the heap of its block, bytes with the trailer."""


def whole_files(files: Sequence[BodyFile], images: Mapping[int, EventsImage]) -> set[int]:
    """Numbers of the files that still have every body that arrived in them: they were held against their
    events, by `check_sealed` or by the scan that these were made by."""
    return {
        file.first_file
        for file in files
        if not isinstance(file, PackedBodies)
        and file.first_file in images
        and file.last_position >= images[file.first_file].last_position
    }


def live_pieces(state: FoldState, source: Arrivals, whole: Container[int] = ()) -> Iterator[Pieces]:
    """What the live entries of a state need of the files of bodies; not of those that are ``whole``."""
    rows = state.explicit[survives(state.explicit["arrival_flags"])]
    yield _pieces(rows["body_serial"], rows["body_offset"], rows["body_len"])
    for (file_number, _), indexes in state.plain.items():
        if file_number in whole:
            continue
        arrivals = source(file_number)
        indexes = indexes[survives(arrivals["flags"][indexes])]
        yield _pieces(*(arrivals[name][indexes] for name in ("position", "body_offset", "body_len")))
    chunks = state.chunks
    yield _pieces(chunks["position"], chunks["offset"], chunks["length"])


def _pieces(keys: Array, offsets: Array, lengths: Array) -> Pieces:
    chunked = (offsets & CHUNKED_OFFSET) != 0
    sizes = np.where(chunked, CHUNK_LIST_HEADER_BYTES, lengths.astype(np.int64) + BODY_TRAILER_BYTES)
    return keys, (offsets & (CHUNKED_OFFSET - 1)).astype(np.int64), sizes


def check_bodies(
    disk: Disk, files: Sequence[BodyFile], pieces: Iterable[Pieces], number_of: Callable[[int], int]
) -> None:
    """Whether files of bodies, ascending by position, have these pieces. Raises LedgerCorrupt.

    `number_of` tells which file had a position, as far as that is known.
    """
    firsts = np.array([file.first_position for file in files], np.uint64)
    lasts = np.array([file.last_position for file in files], np.uint64)
    sizes = [file.open().size_bytes() for file in files]
    for keys, offsets, lengths in pieces:
        if not len(keys):
            continue
        at = np.searchsorted(firsts, keys, "right") - 1
        gone = (at < 0) | (keys > lasts[at]) if len(files) else np.ones(len(keys), np.bool_)
        if gone.any():
            raise _missing(disk, int(keys[gone][0]), number_of)
        for index in np.unique(at).tolist():
            own = at == index
            _check_places(disk, files[index], sizes[index], (keys[own], offsets[own], lengths[own]))


def _check_places(disk: Disk, file: BodyFile, size_bytes: int, pieces: Pieces) -> None:
    keys, offsets, lengths = pieces
    starts = file.starts(keys, offsets)
    wrong = (starts < 0) | (starts + lengths > size_bytes)
    if wrong.any():
        at = int(np.argmax(wrong))
        what = "is missing in it" if starts[at] < 0 else f"is missing: the file ends at byte {size_bytes}"
        raise LedgerCorrupt(
            disk.describe(file.name()), max(0, int(starts[at])), f"the body of message {keys[at]} {what}"
        )


def _missing(disk: Disk, serial: int, number_of: Callable[[int], int]) -> LedgerCorrupt:
    number = number_of(serial)
    where = disk.describe(bodies_name(number) if number else "")
    return LedgerCorrupt(where, 0, f"the file with the body of message {serial} is missing")


def check_sealed(
    disk: Disk, ledger_id: bytes, file: SealedBodies, header: FileHeader, image: EventsImage | None
) -> None:
    """Whether a .bodies file is the journal of its events file (None: that was dropped), and all there.

    Raises LedgerCorrupt.
    """
    where = disk.describe(bodies_name(file.first_file))
    if header.ledger_id != ledger_id:
        raise LedgerCorrupt(where, 0, OTHER_LEDGER)
    if header.file_number != file.first_file:
        raise LedgerCorrupt(where, 0, OTHER_NUMBER)
    if image is None:
        return
    recorded = (image.epoch, image.epoch_id, image.first_position, image.time_us, image.sealed)
    if (header.epoch, header.epoch_id, header.first_position, header.time_us, header.seal) != recorded:
        raise LedgerCorrupt(where, 0, "it isn't the file that its events file was made of")
    if len(image.blocks):
        last, size = image.blocks[-1], file.open().size_bytes()
        end = int(last["bodies_offset"]) + int(last["bodies_bytes"])
        if size < end:
            raise LedgerCorrupt(where, size, f"the file ends here, its last block at byte {end}")


def check_packed(disk: Disk, file: PackedBodies) -> None:
    """Whether a packed file's index is whole, and its pieces are within the file. Raises LedgerCorrupt."""
    index, where = file.index(), disk.describe(packed_name(file.packed))
    if len(index):
        ends = index["offset"] + index["length"].astype(np.uint64)
        if int(ends.max()) > file.span.index_offset:
            raise LedgerCorrupt(where, file.span.index_offset, "a piece reaches into the index")
