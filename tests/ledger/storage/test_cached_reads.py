"""Bodies read without waiting for a disk: in C and in Python the same, and what a plain model gives."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isal.isal_zlib import crc32

from postroom.ledger.format.layout import BLOCK_ROW_DTYPE, PACKED_ROW_DTYPE, Array
from postroom.ledger.storage import cached_reads
from postroom.ledger.storage.body_file import block_starts, packed_starts, piece_starts
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.cached_reads import (
    ALONE_BYTES,
    MAX_CACHED_GAP_BYTES,
    STRETCH_BYTES,
    CachedBodies,
    read_pieces,
)
from postroom.ledger.storage.disk import RealDisk, RealFile

SIZES = (0, 1, 100, 1000, ALONE_BYTES - 5, ALONE_BYTES - 4, ALONE_BYTES, STRETCH_BYTES + 1)
GAPS = (0, 1, 50, MAX_CACHED_GAP_BYTES, MAX_CACHED_GAP_BYTES + 1, STRETCH_BYTES)
NOWHERE = -1

native = pytest.mark.skipif(not cached_reads.is_native(), reason="the C version isn't built")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFile]:
    made = RealDisk(tmp_path_factory.mktemp("bodies")).create("file")
    yield made
    made.close()


def packed(starts: list[int]) -> bytes:
    return packed_starts(np.array(starts, np.int64))


def piece(body: bytes) -> bytes:
    return body + crc32(body).to_bytes(4, "little")


def eventually(file: RealFile, wanted: list[BodyPlace], starts: bytes, gap_bytes: int) -> CachedBodies | None:
    """What the page cache gives, which may be busy with a page: asked again then."""
    for _ in range(1000):
        found = file.read_cached(wanted, starts, gap_bytes)
        if found is not None:
            return found
        file.read_at(0, file.size_bytes())
    return None


def by_model(data: bytes, wanted: list[BodyPlace], starts: list[int]) -> CachedBodies | None:
    bodies, damaged, ends = [b""] * len(wanted), [], [0]
    for row, ((_, _, length), start) in enumerate(zip(wanted, starts, strict=True)):
        if start == NOWHERE:
            continue
        end = start + length + 4
        if end > len(data):
            return None
        if piece(data[start : end - 4]) == data[start:end]:
            bodies[row] = data[start : end - 4]
        else:
            damaged.append(row)
        ends.append(end)
    return bodies, damaged, min([start for start in starts if start >= 0], default=0), max(ends)


@st.composite
def batches(draw: st.DrawFn) -> tuple[bytes, list[BodyPlace], list[int]]:
    """A file's bytes, and what is wanted of it: in any order, some twice, some overlapping others, damaged,
    absent, or behind the file's end."""
    data = bytearray()
    there: list[tuple[int, int]] = []
    for number in range(draw(st.integers(1, 12))):
        data += bytes(draw(st.sampled_from(GAPS)))
        body = bytes([number + 1]) * draw(st.sampled_from(SIZES))
        there.append((len(data), len(body)))
        data += piece(body)
    if draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] ^= 0x10
    if draw(st.integers(0, 9)) == 0:
        del data[-draw(st.integers(1, 5)) :]
    odd = st.tuples(st.integers(0, len(data) - 1), st.integers(0, 300))
    chosen = draw(st.lists(st.one_of(st.sampled_from(there), st.sampled_from(there), odd), max_size=20))
    if draw(st.booleans()):
        chosen.sort()
    starts = [NOWHERE if draw(st.integers(0, 9)) == 0 else start for start, _ in chosen]
    return bytes(data), [(row, 7 * row, length) for row, (_, length) in enumerate(chosen)], starts


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(batches(), st.sampled_from((0, 1, 100, MAX_CACHED_GAP_BYTES)))
def test_any_bodies_of_a_file(
    file: RealFile, batch: tuple[bytes, list[BodyPlace], list[int]], gap: int
) -> None:
    data, wanted, starts = batch
    os.ftruncate(file.fileno(), 0)
    file.write_at(0, [data])
    expected = by_model(data, wanted, starts)
    in_memory = read_pieces(lambda at, size: data[at : at + size], wanted, packed(starts), gap)
    for found in (eventually(file, wanted, packed(starts), gap), in_memory):
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found[0] == expected[0]
            assert sorted(found[1]) == expected[1]
            assert found[2:] == expected[2:]


@pytest.mark.parametrize(
    ("between", "gap", "length", "reads"),
    [
        (3000, 4096, 10, [3 * 14 + 2 * 3000]),
        (6000, 4096, 10, [14, 14, 14]),
        (0, 4096, 30_000, [30_004, 30_004, 30_004]),
        (0, 0, ALONE_BYTES - 5, [3 * (ALONE_BYTES - 1)]),
        (STRETCH_BYTES // 2, STRETCH_BYTES, 100, [2 * 104 + STRETCH_BYTES // 2, 104]),
    ],
)
def test_what_one_read_takes(between: int, gap: int, length: int, reads: list[int]) -> None:
    """No more than lies near, than the processor's cache has, and nothing that is large by itself."""
    size = length + 4
    data = (piece(b"x" * length) + bytes(between)) * 3
    starts = [number * (size + between) for number in range(3)]
    sizes: list[int] = []

    def read(at: int, size: int) -> bytes:
        sizes.append(size)
        return data[at : at + size]

    found = read_pieces(read, [(1, 0, length)] * 3, packed(starts), gap)
    assert found is not None and found[0] == [b"x" * length] * 3
    assert sizes == reads


def test_one_that_is_not_in_memory_has_all_of_them_wait() -> None:
    data = piece(b"first") + bytes(9000) + piece(b"second")
    wanted, starts = [(1, 0, 5), (2, 0, 6)], packed([0, 9009])
    assert read_pieces(lambda at, _: None if at else data, wanted, starts, 4096) is None


@native
def test_a_file_that_cannot_be_read_at_once(tmp_path: Path) -> None:
    """A pipe can't be read at an offset: no reason to wait, an error."""
    reader, writer = os.pipe()
    with pytest.raises(OSError, match=os.strerror(errno.ESPIPE)):
        cached_reads.read_descriptor(reader, [(1, 0, 5)], packed([0]), 0)
    os.close(reader)
    os.close(writer)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        cached_reads.read_descriptor(reader, [(1, 0, 5)], packed([0]), 0)
    proc = os.open("/proc/self/status", os.O_RDONLY)
    assert cached_reads.read_descriptor(proc, [(1, 0, 5)], packed([0]), 0) is None, "it can't be told"
    os.close(proc)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO])
def test_without_c_who_would_wait_or_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", refuse)
    monkeypatch.setattr(cached_reads, "_cached_reads", None)
    file = RealDisk(tmp_path).create("file")
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            file.read_cached([(1, 0, 5)], packed([0]), 0)
    else:
        assert file.read_cached([(1, 0, 5)], packed([0]), 0) is None


@native
def test_arguments_that_do_not_fit_are_refused(file: RealFile) -> None:
    right: tuple[Any, ...] = (file.fileno(), [(1, 0, 5)], packed([NOWHERE]), 0)
    assert cached_reads.read_descriptor(*right) == ([b""], [], 0, 0)
    wrong: list[tuple[int, Any, type[Exception]]] = [
        (1, [], ValueError),
        (1, ((1, 0, 5),), TypeError),
        (2, packed([0, 0]), ValueError),
        (2, "12345678", TypeError),
        (2, packed([sys.maxsize]), ValueError),
        (3, -1, ValueError),
        (3, STRETCH_BYTES + 1, ValueError),
    ]
    for index, value, error in wrong:
        with pytest.raises(error):
            cached_reads.read_descriptor(*right[:index], value, *right[index + 1 :])
    odd: list[tuple[Any, type[Exception]]] = [
        ((1, 0), TypeError),
        (7, TypeError),
        ((1, 0, "5"), TypeError),
        ((1, 0, -5), OverflowError),
        ((1, 0, sys.maxsize), ValueError),
    ]
    for place, error in odd:
        with pytest.raises(error):
            cached_reads.read_descriptor(file.fileno(), [place], packed([0]), 0)


def rows_of(dtype: Any, keys: list[int], sizes: list[int]) -> Array:
    rows = np.zeros(len(keys), dtype)
    first, offset, size = (dtype.names[at] for at in range(3))
    rows[first], rows[size] = keys, sizes[: len(keys)]
    rows[offset] = np.cumsum(sizes)[: len(keys)]
    return rows


positions = st.integers(0, 40) | st.sampled_from([(1 << 64) - 2, (1 << 64) - 1])


@native
@given(st.lists(positions, max_size=9, unique=True).map(sorted), st.lists(positions, max_size=30), st.data())
def test_where_bodies_begin_is_what_numpy_finds(
    keys: list[int], serials: list[int], data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 90), min_size=9, max_size=9))
    offsets = [data.draw(st.integers(0, 99)) for _ in serials]
    wanted = [(serial, offset, 1) for serial, offset in zip(serials, offsets, strict=True)]
    columns = np.array(serials, np.uint64), np.array(offsets, np.int64)
    table = rows_of(BLOCK_ROW_DTYPE, keys, sizes)
    assert cached_reads.find_starts(wanted, table, False) == packed_starts(block_starts(table, *columns))
    index = rows_of(PACKED_ROW_DTYPE, keys, sizes)
    assert cached_reads.find_starts(wanted, index, True) == packed_starts(piece_starts(index, columns[0]))


@native
@pytest.mark.parametrize("place", [(1, 0), 7, ("1", 0, 5), (-1, 0, 5), (1, "0", 5), (1, -1, 5)])
def test_places_that_are_none_are_refused(place: Any) -> None:
    with pytest.raises((TypeError, OverflowError)):
        cached_reads.find_starts([place], rows_of(BLOCK_ROW_DTYPE, [0], [9]), False)
