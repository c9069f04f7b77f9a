"""The packed entry: one layout, seen as struct, as numpy dtype and by the compiled reader."""

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.model.packed import PACKED_BYTES, PACKED_FIELDS, PACKED_STRUCT, PackedEntry

U8, U16, U32 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32))
SERIAL, TIME = st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 62))
ROWS = st.tuples(SERIAL, SERIAL, TIME, U32, U32, U16, U16, U8, U16)


def packed(row: tuple[int, ...]) -> bytes:
    writer = BytesWriter()
    entry = PackedEntry()
    for (name, _), value in zip(PACKED_FIELDS, row, strict=False):
        setattr(entry, name, value)
    entry.write(writer)
    return writer.getvalue()


def test_the_layouts_are_one() -> None:
    dtype = np.dtype(PACKED_FIELDS)
    assert dtype.itemsize == struct.calcsize(PACKED_STRUCT) == PACKED_BYTES
    assert len(PACKED_FIELDS) == len(PACKED_STRUCT) - 1


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_what_is_written_is_read(rows: list[tuple[int, ...]]) -> None:
    data = b"".join(packed(row) for row in rows)
    entry = PackedEntry()
    as_numpy = np.frombuffer(data, np.dtype(PACKED_FIELDS))
    for index, row in enumerate(rows):
        assert struct.unpack_from(PACKED_STRUCT, data, index * PACKED_BYTES)[:-1] == row
        assert tuple(as_numpy[index].tolist())[:-1] == row
        entry.read(data, index)
        names = [name for name, _ in PACKED_FIELDS[:-1]]
        assert tuple(getattr(entry, name) for name in names) == row


def test_counts_are_held_at_their_largest_value() -> None:
    entry = PackedEntry()
    entry.read(packed((1, 1, 0, 0, 0, 70_000, 1 << 20, 4, 3)), 0)
    assert (entry.delivery_count, entry.failure_count) == (0xFFFF, 0xFFFF)
