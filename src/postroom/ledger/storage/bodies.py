"""Reading bodies in few, large reads.

The `BodyStore` knows every `BodyFile` by the positions that it holds, and is the only one who does. Only what
is durable can be read. Reading is safe in any thread beside the writer, sealing and compaction: the list of
files is replaced, never changed, and a file that was removed under a reader is looked up again.
"""

import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, cast, final

import numpy as np
from isal.isal_zlib import crc32
from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.ledger.format.block import (
    BODY_TRAILER_BYTES,
    CHUNK_LIST_HEADER_BYTES,
    CHUNK_REFERENCE_BYTES,
    CHUNKED_OFFSET,
)
from postroom.ledger.storage.body_file import BodyFile
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.ledger.storage.body_room import BodyRoom
from postroom.ledger.storage.cached_reads import MAX_CACHED_GAP_BYTES, START_BYTES
from postroom.ledger.storage.disk import Disk, DiskFile
from postroom.ledger.storage.read_ahead import ReadAhead

MAX_READ_BYTES: Final = 1 << 20
"""One read takes at most this much, unless a single piece is larger."""

ALONE_BYTES: Final = 256 << 10
"""A body from here on is read by itself, to where it stays: cutting it out of what was read with its
neighbours would copy it."""

MAX_LOOKUPS: Final = 5
"""How often a reader looks again for a file that was replaced under it."""

_OFFSET_MASK: Final = CHUNKED_OFFSET - 1
_CRC_MASK: Final = 0xFFFF_FFFF


@final
class _Reading:
    """What is wanted, and what has been found of it."""

    def __init__(self, wanted: Sequence[BodyPlace], parts: list[memoryview] | None = None) -> None:
        """``parts``: each goes into its own; else it gets memory of its own."""
        self.wanted: Final = wanted
        self.parts: Final = parts
        self.found: Final[list[Body]] = [b""] * len(wanted)
        """Of those that go into ``parts`` only what is wrong with them."""
        self.filled_bytes = 0
        """Of ``parts``."""

    def goes_alone(self, size: int) -> bool:
        """Whether a stretch of the file is read by itself."""
        return self.parts is not None or size >= ALONE_BYTES


@final
class BodyStore:
    """Finds and reads bodies wherever they are."""

    def __init__(self, disk: Disk, read_gap_bytes: int) -> None:
        self._disk = disk
        self._gap_bytes: Final = read_gap_bytes
        self._files: list[BodyFile] = []
        self._lock = threading.Lock()
        self._ahead = ReadAhead()

    def files(self) -> list[BodyFile]:
        """All files, by position."""
        return list(self._files)

    def replace(self, old: list[BodyFile], new: list[BodyFile]) -> None:
        """Forget some files and learn others, at once."""
        with self._lock:
            kept = [file for file in self._files if file not in old]
            self._files = sorted([*kept, *new], key=_span)

    def holds(self, position: int) -> bool:
        """Whether some file covers the position."""
        files = self._files
        at = _index_of(files, position)
        return at >= 0 and position <= files[at].last_position

    def read(self, wanted: Sequence[BodyPlace]) -> list[Body]:
        """Bodies in that order; b"" where compaction took one away, LedgerCorrupt in its place where one is
        damaged, BodyUnreadable where the disk didn't give it.

        Only bodies of entries that have ended are taken away. Raises LedgerCorrupt for a file of which
        nothing can be found any more.
        """
        reading = _Reading(wanted)
        plain: list[int] = []
        for row, (serial, offset, length) in enumerate(wanted):
            if offset & CHUNKED_OFFSET:
                reading.found[row] = self._read_chunked(serial, offset & _OFFSET_MASK, length)
            else:
                plain.append(row)
        self._read_plain(reading, plain)
        return reading.found

    def read_cached(self, wanted: list[BodyPlace]) -> list[Body] | None:
        """The same where no disk has to be waited for; None where one has to be, or can't be told, and for
        bodies in chunks.
        """
        for _, offset, _ in wanted:
            if offset & CHUNKED_OFFSET:
                return None
        files = self._files
        at = _index_of_all(files, wanted)
        if at >= 0:
            return self._cached_of(files[at], wanted)
        by_file = _by_file(files, wanted, list(range(len(wanted))))
        found: list[Body] = [b""] * len(wanted)
        for at, rows in by_file.items():
            bodies = self._cached_of(files[at], [wanted[row] for row in rows]) if at >= 0 else None
            if bodies is None:
                return None
            for row, body in zip(rows, bodies, strict=True):
                found[row] = body
        return found

    def _cached_of(self, file: BodyFile, wanted: list[BodyPlace]) -> list[Body] | None:
        """Of one file; None also where it has gone, or the disk fails: who may wait finds out why."""
        if not file.ready():
            return None
        try:
            starts = file.places(wanted)
            opened = file.open()
            read = opened.read_cached(wanted, starts, min(self._gap_bytes, MAX_CACHED_GAP_BYTES))
        except OSError:
            return None
        if read is None:
            return None
        bodies, damaged, first, end = read
        if end:
            self._ahead.have_read(file.name(), opened, first, end)
        found = cast("list[Body]", bodies)
        for row in damaged:
            found[row] = self._damaged(file, read_i64_le(starts, row * START_BYTES), wanted[row][0])
        return found

    def chunk_list(self, serial: int, offset: int) -> list[BodyPlace]:
        """Where the chunks of a large body are; empty if it was taken away. Raises LedgerCorrupt."""
        head = self._stretch(serial, offset, CHUNK_LIST_HEADER_BYTES)
        if not head:
            return []
        count, crc = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
        size = CHUNK_LIST_HEADER_BYTES + count * CHUNK_REFERENCE_BYTES
        references = self._stretch(serial, offset, size)[CHUNK_LIST_HEADER_BYTES:]
        if len(references) != count * CHUNK_REFERENCE_BYTES or crc32(references) != crc:
            raise self._bad_chunks(serial, "the list of its chunks")
        rows = np.frombuffer(references, np.dtype([("key", "<u8"), ("offset", "<u4"), ("size", "<u4")]))
        return list(zip(rows["key"].tolist(), rows["offset"].tolist(), rows["size"].tolist(), strict=True))

    def _read_chunked(self, serial: int, offset: int, length: int) -> Body:
        try:
            places = self.chunk_list(serial, offset)
        except LedgerCorrupt as damage:
            return damage
        except OSError as error:
            return BodyUnreadable(self._disk.describe(""), 0, _unread(serial, error))
        sizes = [size for _, _, size in places]
        if places and sum(sizes) != length:
            return self._bad_chunks(serial, f"it has {sum(sizes)} bytes in chunks instead of {length}")
        room = BodyRoom(length if places else 0)
        lacking = self._fill(places, room.parts(sizes))
        return room.take() if lacking is None else lacking

    def _fill(self, places: list[BodyPlace], parts: list[memoryview]) -> Body | None:
        """Read the chunks of a body into ``parts``. None: all are there; b"": one was taken away
        meanwhile."""
        reading = _Reading(places, parts)
        self._read_plain(reading, list(range(len(places))))
        for chunk in reading.found:
            if isinstance(chunk, LedgerCorrupt):
                return chunk
        return None if reading.filled_bytes == sum([len(part) for part in parts]) else b""

    def _bad_chunks(self, serial: int, what: str) -> LedgerCorrupt:
        return LedgerCorrupt(self._disk.describe(""), 0, f"the body of message {serial} is damaged: {what}")

    def _stretch(self, key: int, offset: int, size: int) -> bytes:
        """Bytes of a heap, unchecked; b"" where no file has them any more."""
        for _ in range(MAX_LOOKUPS):
            files = self._files
            at = _index_of(files, key)
            if at < 0:
                continue
            try:
                start: int = read_i64_le(files[at].places([(key, offset, size)]), 0)
                return files[at].open().read_at(start, size) if start >= 0 else b""
            except FileNotFoundError:
                continue
        return b""

    def _read_plain(self, reading: _Reading, rows: list[int]) -> None:
        """Bodies in one piece, those of ``rows``; what is not there any more stays as it is in ``found``."""
        for _ in range(MAX_LOOKUPS):
            if not rows:
                return
            rows = self._read_from_files(reading, rows)

    def _read_from_files(self, reading: _Reading, rows: list[int]) -> list[int]:
        """Read what the present files have; returns the rows that have to be looked up again."""
        files = self._files
        missing: list[int] = []
        for at, rows_there in _by_file(files, reading.wanted, rows).items():
            if at < 0 or not self._read_file(files[at], reading, rows_there):
                missing += rows_there
        return missing

    def _read_file(self, file: BodyFile, reading: _Reading, rows: list[int]) -> bool:
        """Read from one file in order of place, nearby bodies together; False if the file has gone."""
        wanted = reading.wanted
        try:
            places = file.places([wanted[row] for row in rows])
            opened = file.open()
        except FileNotFoundError:
            return False
        except OSError as error:
            for row in rows:
                reading.found[row] = self._unreadable(file, 0, wanted[row][0], error)
            return True
        stretches: list[tuple[int, int, int]] = []
        for number, row in enumerate(rows):
            start: int = read_i64_le(places, number * START_BYTES)
            if start >= 0:
                stretches.append((start, wanted[row][2] + BODY_TRAILER_BYTES, row))
        stretches.sort()
        self._read_stretches(file, opened, stretches, reading)
        if stretches:
            last_start, last_size, _ = stretches[-1]
            self._ahead.have_read(file.name(), opened, stretches[0][0], last_start + last_size)
        return True

    def _read_stretches(
        self, file: BodyFile, opened: DiskFile, stretches: list[tuple[int, int, int]], reading: _Reading
    ) -> None:
        """(start, size, row) each, in order of their starts."""
        at = 0
        while at < len(stretches):
            if reading.goes_alone(stretches[at][1]):
                self._read_alone(file, opened, stretches[at], reading)
                at += 1
            else:
                stop = _run_from(stretches, at, self._gap_bytes)
                self._read_run(file, opened, stretches[at:stop], reading)
                at = stop

    def _read_alone(
        self, file: BodyFile, opened: DiskFile, stretch: tuple[int, int, int], reading: _Reading
    ) -> None:
        """One body or chunk, and then its CRC, which lies behind it."""
        start, _, row = stretch
        serial, _, size = reading.wanted[row]
        try:
            if reading.parts is None:
                body = opened.read_at(start, size)
                crc, count = crc32(body), len(body)
            else:
                part = reading.parts[row]
                body, count = b"", opened.read_into(start, part)
                crc = crc32(part)
            trailer = opened.read_at(start + size, BODY_TRAILER_BYTES)
        except OSError as error:
            reading.found[row] = self._unreadable(file, start, serial, error)
            return
        if count == size and trailer == crc.to_bytes(BODY_TRAILER_BYTES, "little"):
            reading.found[row] = body
            reading.filled_bytes += 0 if reading.parts is None else size
        else:
            reading.found[row] = self._damaged(file, start, serial)

    def _read_run(
        self, file: BodyFile, opened: DiskFile, run: list[tuple[int, int, int]], reading: _Reading
    ) -> None:
        """Neighbours by one read; each alone where the disk doesn't give all of them."""
        first, end = run[0][0], _end_of_run(run)
        try:
            data = opened.read_at(first, end - first)
        except OSError as error:
            if len(run) > 1:
                for one in run:
                    self._read_run(file, opened, [one], reading)
            else:
                row = run[0][2]
                reading.found[row] = self._unreadable(file, first, reading.wanted[row][0], error)
            return
        for start, row in _cut(data, first, run, reading.found):
            reading.found[row] = self._damaged(file, start, reading.wanted[row][0])

    def _damaged(self, file: BodyFile, start: int, serial: int) -> LedgerCorrupt:
        why = f"the body of message {serial} is damaged: its CRC is wrong"
        return LedgerCorrupt(self._disk.describe(file.name()), start, why)

    def _unreadable(self, file: BodyFile, start: int, serial: int, error: OSError) -> LedgerCorrupt:
        return BodyUnreadable(self._disk.describe(file.name()), start, _unread(serial, error))


def _run_from(stretches: list[tuple[int, int, int]], at: int, gap_bytes: i64) -> int:
    """The first behind the neighbours from ``at`` on that one read takes, with so much at most between."""
    start: i64 = stretches[at][0]
    end: i64 = start + stretches[at][1]
    stop = at + 1
    while stop < len(stretches):
        next_start: i64 = stretches[stop][0]
        next_end: i64 = next_start + stretches[stop][1]
        if next_start > end + gap_bytes or next_end - start > MAX_READ_BYTES:
            break
        if next_end > end:
            end = next_end
        stop += 1
    return stop


def _end_of_run(run: list[tuple[int, int, int]]) -> int:
    """Where the last byte of all lies, one further."""
    end: i64 = 0
    for start, size, _ in run:
        behind: i64 = start + size
        if behind > end:
            end = behind
    return end


def _unread(serial: int, error: OSError) -> str:
    return f"the body of message {serial} can't be read: {error.strerror or error}"


def _span(file: BodyFile) -> tuple[int, int]:
    """The order of files: one without any position comes before the one that begins there, too."""
    return file.first_position, file.last_position


def _index_of(files: list[BodyFile], position: int) -> int:
    """Which file holds it; −1 if none can."""
    at = bisect_right(files, position, key=lambda file: file.first_position) - 1
    return at if at >= 0 and position <= files[at].last_position else -1


def _index_of_all(files: list[BodyFile], wanted: list[BodyPlace]) -> int:
    """Which file holds all of them; −1 if that isn't one."""
    at = _index_of(files, wanted[0][0]) if wanted else -1
    if at < 0:
        return -1
    first, last = files[at].first_position, _end_of(files, at)
    for serial, _, _ in wanted:
        if not first <= serial <= last:
            return -1
    return at


def _by_file(files: list[BodyFile], wanted: Sequence[BodyPlace], rows: list[int]) -> dict[int, list[int]]:
    """The rows by index of the file that holds them, −1 for none. Neighbours mostly share a file."""
    found: dict[int, list[int]] = {}
    first, last = 1, 0
    there: list[int] = []
    for row in rows:
        serial = wanted[row][0]
        if not first <= serial <= last:
            at = _index_of(files, serial)
            there = found.setdefault(at, [])
            first = files[at].first_position if at >= 0 else serial
            last = _end_of(files, at) if at >= 0 else serial
        there.append(row)
    return found


def _end_of(files: list[BodyFile], at: int) -> int:
    """The last position for which a file is asked: the next one begins behind it."""
    last = files[at].last_position
    return last if at + 1 == len(files) else min(last, files[at + 1].first_position - 1)


def _cut(data: bytes, at: int, run: list[tuple[int, int, int]], found: list[Body]) -> list[tuple[int, int]]:
    """Take (start, size, row) out of what was read from `at` on; returns (start, row) of those whose CRC is
    wrong."""
    damaged: list[tuple[int, int]] = []
    before: i64 = at
    for start, size, row in run:
        begin: i64 = start - before
        end: i64 = begin + size - BODY_TRAILER_BYTES
        if end + BODY_TRAILER_BYTES > len(data):
            damaged.append((start, row))  # the file ends within it
            continue
        body = data[begin:end]
        signed: int = read_i32_le(data, end)
        if crc32(body) == signed & _CRC_MASK:
            found[row] = body
        else:
            damaged.append((start, row))
    return damaged
