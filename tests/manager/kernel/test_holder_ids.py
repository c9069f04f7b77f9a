"""Ids of holders: never two at a time with one id, however many there have been."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.manager.kernel.errors import LimitExceeded
from postroom.manager.kernel.holders import HolderIds


def test_ids_ascend_from_one() -> None:
    ids = HolderIds()
    assert [ids.take() for _ in range(3)] == [1, 2, 3]


def test_what_was_given_back_serves_only_when_no_new_ones_are_left() -> None:
    ids = HolderIds(3)
    first = ids.take()
    ids.give_back(first)
    assert [ids.take(), ids.take(), ids.take()] == [2, 3, first]
    with pytest.raises(LimitExceeded, match="all 3 ids"):
        ids.take()


def test_a_restart_goes_on_behind_the_last_one() -> None:
    ids = HolderIds(100)
    ids.go_on(40, {7})
    assert ids.take() == 40


def test_a_restart_late_in_the_range_begins_anew_and_leaves_out_who_is_there() -> None:
    ids = HolderIds(100)
    ids.go_on(60, {1, 2, 4})
    assert [ids.take() for _ in range(3)] == [3, 5, 6]


@given(
    last=st.integers(1, 12),
    next_id=st.integers(1, 13),
    there=st.sets(st.integers(1, 12)),
    steps=st.lists(st.integers(-1, 5), max_size=80),
)
def test_nobody_has_the_id_of_another(last: int, next_id: int, there: set[int], steps: list[int]) -> None:
    """−1 takes, a number gives back the so-many-th of those that are out."""
    out = sorted(id for id in there if id < next_id and id <= last)
    ids = HolderIds(last)
    ids.go_on(min(next_id, last + 1), set(out))
    for step in steps:
        if step >= 0:
            if step < len(out):
                ids.give_back(out.pop(step))
            continue
        try:
            taken = ids.take()
        except LimitExceeded:
            continue
        assert 1 <= taken <= last
        assert taken not in out
        out.append(taken)
