"""Ids out of the heap: the same text however they lie in it, and without a copy where they lie one behind the
other."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from postroom.model.codes import IdType
from postroom.spark.ledger_source.ids import heap_strings, id_text

Bytes = npt.NDArray[np.uint8]

IDS = st.lists(st.text(max_size=20).map(str.encode) | st.binary(max_size=20), max_size=20)


def heap_of(ids: list[bytes], gaps: list[int]) -> tuple[Bytes, npt.NDArray[np.uint32]]:
    """The ids with so many other bytes before each, and where each is."""
    heap, at = bytearray(), []
    for one, gap in zip(ids, gaps, strict=True):
        heap += b"#" * gap
        at.append(len(heap))
        heap += one
    return np.frombuffer(bytes(heap + b"##"), np.uint8), np.array(at, np.uint32)


def read(heap: Bytes, at: npt.NDArray[np.uint32], ids: list[bytes]) -> pa.Array:
    length = np.array([len(one) for one in ids], np.uint8)
    return id_text(heap, at, length, np.full(len(ids), IdType.STRING, np.uint8))


@given(IDS, st.data())
def test_however_they_lie(ids: list[bytes], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.sampled_from([0, 0, 0, 1, 7]), min_size=len(ids), max_size=len(ids)))
    heap, at = heap_of(ids, gaps)
    order = data.draw(st.permutations(range(len(ids))))
    moved = [ids[which] for which in order]
    found = read(heap, at[list(order)], moved)
    assert found.to_pylist() == [one.decode("utf-8", "replace") for one in moved]
    found.validate(full=True)


@given(IDS.filter(any), st.integers(0, 5))
def test_one_behind_the_other(ids: list[bytes], gap: int) -> None:
    heap, at = heap_of(ids, [gap] + [0] * (len(ids) - 1))
    length = np.array([len(one) for one in ids], np.uint8)
    found = heap_strings(heap, at, length, pa.binary())
    assert found.to_pylist() == ids
    values = found.buffers()[2]
    assert values.address == heap.ctypes.data + gap
    assert values.size == sum(map(len, ids))
