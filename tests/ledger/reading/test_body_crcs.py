"""CRCs of many bodies by few calls are those of each body, whatever lies between them or is damaged."""

from random import Random
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.format.block import BODY_TRAILER_BYTES
from postroom.ledger.reading import body_crcs
from postroom.ledger.reading.body_crcs import SECTION_BYTES, crcs_of

sizes = st.one_of(st.integers(0, 40), st.sampled_from([1000, SECTION_BYTES - 4, SECTION_BYTES, 70_000]))
pieces = st.lists(st.tuples(sizes, st.integers(0, 3), st.booleans()), max_size=12)


def laid_out(some: list[tuple[int, int, bool]], random: Random) -> tuple[bytearray, list[int], list[int]]:
    """Bodies with their CRCs, here and there a gap before one; where each begins and where its CRC ends."""
    data, starts, ends = bytearray(), [], []
    for size, gap, _ in some:
        data += random.randbytes(gap if gap < 3 else 0)
        starts.append(len(data))
        body = random.randbytes(size)
        data += body + crc32(body).to_bytes(BODY_TRAILER_BYTES, "little")
        ends.append(len(data))
    return data, starts, ends


@given(pieces, st.integers(0, 1 << 30), st.booleans())
def test_they_are_those_of_each_body(some: list[tuple[int, int, bool]], seed: int, in_order: bool) -> None:
    random = Random(seed)
    data, starts, ends = laid_out(some, random)
    for (_, _, is_harmed), start, end in zip(some, starts, ends, strict=True):
        if is_harmed:
            data[random.randrange(start, end)] ^= 1 << random.randrange(8)
    rows = list(range(len(some)))
    if not in_order:
        rows = random.choices(rows, k=2 * len(rows)) if rows else []
    data += random.randbytes(8)
    own_starts, own_ends = np.array([[starts[r], ends[r]] for r in rows], np.int64).reshape(-1, 2).T
    found = crcs_of(np.frombuffer(data, np.uint8), own_starts, own_ends)
    expected = [crc32(data[starts[r] : ends[r] - BODY_TRAILER_BYTES]) for r in rows]
    assert found.tolist() == expected


def test_a_piece_that_is_cut_short_or_empty_harms_no_other() -> None:
    data, starts, ends = laid_out([(100, 0, False)] * 5, Random(1))
    ends[2], ends[3] = starts[2] + 2, starts[3]
    data += bytes(8)
    found = crcs_of(np.frombuffer(data, np.uint8), np.array(starts), np.array(ends))
    whole = [crc32(data[a : b - BODY_TRAILER_BYTES]) for a, b in zip(starts, ends, strict=True)]
    assert [found[row] for row in (0, 1, 4)] == [whole[row] for row in (0, 1, 4)]
    assert found[3] == crc32(b"")


def test_sound_neighbours_take_a_call_for_each_section_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(piece: memoryview) -> int:
        calls.append(len(piece))
        return crc32(piece)

    data, starts, ends = laid_out([(1000, 0, False)] * 300, Random(2))
    data += bytes(8)
    crcs_of(np.frombuffer(data, np.uint8), np.array(starts), np.array(ends))
    monkeypatch.setattr(body_crcs, "crc32", counted)
    crcs_of(np.frombuffer(data, np.uint8), np.array(starts), np.array(ends))
    sections = {end // SECTION_BYTES for end in ends}
    assert len(calls) == len(sections)
    assert sum(calls) == ends[-1]
