"""Ranges are exact: every integer in one is a serial of the list, and none is missing."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.format.block import Group, encode_groups
from postroom.manager.kernel.group_transitions import group_of_many, runs

SERIALS = st.sets(st.integers(1, 60), min_size=1)


@given(SERIALS)
def test_runs_expand_to_what_was_given(serials: set[int]) -> None:
    ranges = runs(list(serials))
    assert [serial for first, last in ranges for serial in range(first, last + 1)] == sorted(serials)
    assert all(second[0] > first[1] + 1 for first, second in pairwise(ranges))


def test_no_serials_are_no_ranges() -> None:
    assert runs([]) == []


@given(SERIALS)
def test_a_group_of_many_is_encoded_like_any_other(serials: set[int]) -> None:
    array = np.array(list(serials), np.uint64)
    expected = encode_groups([Group(7, 3, 7, 4, 0, 0, 0, runs(list(serials)))])
    assert group_of_many(7, 3, 7, 4, array) == expected
