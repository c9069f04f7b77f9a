"""Texts by number, however many there are of one and however they lie in memory."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.spark.ledger_source.names import SHARED_BITS, SHARED_CHARS, Names

KIND = pa.dictionary(pa.int32(), pa.string())
NAMES = {0: None, 1: "one", 2: "two", 7: "x" * (SHARED_CHARS + 1)}


@given(st.lists(st.sampled_from([0, 1, 2, 3, 7, 99]), max_size=40), st.sampled_from([1, 1000]), st.booleans())
def test_each_number_has_its_text(numbers: list[int], apart: int, is_strided: bool) -> None:
    """Also where the numbers are far apart, and so no table."""
    names = {number * apart: text for number, text in NAMES.items()}
    column = np.repeat(np.array(numbers, np.int64) * apart, 2)[:: 2 if is_strided else 1]
    expected = [names.get(number) for number in column.tolist()]
    found = Names(names).of(column)
    assert found.plain().to_pylist() == expected
    assert found.coded(KIND).to_pylist() == expected


@pytest.mark.parametrize("number", [0, 1, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 1000, (1 << SHARED_BITS) + 1])
def test_one_number_many_times(number: int, count: int) -> None:
    for column in (np.full(count, number, np.uint8), np.broadcast_to(np.uint8(number), count)):
        plain = Names(NAMES).of(column).plain()
        assert (len(plain), set(plain.to_pylist())) == (count, {NAMES.get(number)})
        plain.validate(full=True)
