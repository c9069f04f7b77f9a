"""Bodies that are in memory already, the page cache's or a test's: read without waiting for a disk, cut out
and checked, a batch of one file in one call.

In C (``_cached_reads.c``) where that was built, else in Python: both give the same.
"""

from collections.abc import Callable
from typing import Any, Final

from isal.isal_zlib import crc32

from postroom.ledger.format.block import BODY_TRAILER_BYTES
from postroom.ledger.storage.body_requests import BodyPlace

try:
    from postroom.ledger.storage import _cached_reads
except ImportError:  # built without a C compiler
    _cached_reads = None  # type: ignore[assignment]

MAX_CACHED_GAP_BYTES: Final = 4 << 10
"""What lies between two bodies and is read with them: copying more takes longer than another call of the
system."""

STRETCH_BYTES: Final = 64 << 10
"""Neighbours are read so much at a time: it is cut up while the processor's cache has it."""

ALONE_BYTES: Final = 8 << 10
"""A body that is as large is read by itself."""

START_BYTES: Final = 8
"""Of each place in a file, packed: an i64, little-endian; −1 where there is nothing."""

CachedBodies = tuple[list[bytes], list[int], int, int]
"""The bodies, b"" where there is none; the rows of those whose CRC is wrong; where in the file the first
byte and the last one, one further, of all that was wanted lie."""


def is_native() -> bool:
    """Whether C does the work."""
    return _cached_reads is not None


def find_starts(wanted: list[BodyPlace], rows: Any, exact: bool) -> bytes:
    """Where in a file each begins, packed, by the rows of a block table or, ``exact``, of a packed file's
    index. Only where `is_native`."""
    return _cached_reads.find_starts(wanted, rows, exact)


def read_descriptor(fd: int, wanted: list[BodyPlace], starts: bytes, gap_bytes: int) -> CachedBodies | None:
    """The bodies that begin at these ``starts`` of a file of the system, if the page cache has all of them.

    So much at most may lie between two that are read by one call. None: it hasn't, or can't tell, or the
    file ends within one. Raises OSError where the disk fails. Only where `is_native`.
    """
    return _cached_reads.read(fd, wanted, starts, gap_bytes, crc32)


def read_pieces(
    read: Callable[[int, int], bytes | None], wanted: list[BodyPlace], starts: bytes, gap_bytes: int
) -> CachedBodies | None:
    """The same of any file: ``read`` takes offset and size, and gives None where it would have to wait."""
    pieces: list[tuple[int, int, int]] = []
    for row, (_, _, length) in enumerate(wanted):
        start = int.from_bytes(starts[row * START_BYTES : (row + 1) * START_BYTES], "little", signed=True)
        if start >= 0:
            pieces.append((start, length + BODY_TRAILER_BYTES, row))
    pieces.sort()
    bodies, damaged = [b""] * len(wanted), list[int]()
    at = end = 0
    while at < len(pieces):
        stop, run_end = _run_from(pieces, at, gap_bytes)
        first = pieces[at][0]
        data = read(first, run_end - first)
        if data is None or len(data) < run_end - first:
            return None
        for start, size, row in pieces[at:stop]:
            body_end = start - first + size - BODY_TRAILER_BYTES
            body = data[start - first : body_end]
            trailer = data[body_end : body_end + BODY_TRAILER_BYTES]
            if crc32(body) == int.from_bytes(trailer, "little"):
                bodies[row] = body
            else:
                damaged.append(row)
        at, end = stop, max(end, run_end)
    return bodies, damaged, pieces[0][0] if pieces else 0, end


def _run_from(pieces: list[tuple[int, int, int]], at: int, gap_bytes: int) -> tuple[int, int]:
    """The first behind the neighbours that one read takes, and where in the file they end."""
    start, size, _ = pieces[at]
    end, stop = start + size, at + 1
    while size < ALONE_BYTES and stop < len(pieces):
        next_start, next_size, _ = pieces[stop]
        further = max(end, next_start + next_size)
        if next_size >= ALONE_BYTES or next_start > end + gap_bytes or further - start > STRETCH_BYTES:
            break
        end = further
        stop += 1
    return stop, end
