"""Structures copied as bytes are what numpy's own copies are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.format.layout import TRANSITION_DTYPE, Array, rows_together, set_rows


def rows(count: int, seed: int) -> Array:
    data = np.random.default_rng(seed).bytes(count * TRANSITION_DTYPE.itemsize)
    return np.frombuffer(data, TRANSITION_DTYPE)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_pieces_together(counts: list[int]) -> None:
    pieces = [rows(count, seed) for seed, count in enumerate(counts)]
    pieces.append(rows(8, 9)[::2])
    joined = rows_together(pieces)
    assert joined.dtype == TRANSITION_DTYPE
    assert joined.tobytes() == np.concatenate(pieces).tobytes()
    joined["serial"] = 0  # it is its own


@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_rows_set_by_mask_index_or_slice(mask: list[bool]) -> None:
    chosen = np.array(mask)
    others = rows(int(chosen.sum()), 2)
    for at in (chosen, np.flatnonzero(chosen)):
        own, expected = rows(6, 1).copy(), rows(6, 1).copy()
        set_rows(own, at, others)
        expected[at] = others
        assert own.tobytes() == expected.tobytes()
    own, expected = rows(6, 1).copy(), rows(6, 1).copy()
    set_rows(own[1:5], slice(1, 3), rows(2, 3))
    expected[2:4] = rows(2, 3)
    assert own.tobytes() == expected.tobytes()
