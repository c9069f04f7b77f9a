"""Records told apart by what they say: in C and with numpy the same, and the same as one by one."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.format import record_kinds
from postroom.ledger.format.expand import ARRIVALS, CHANGES
from postroom.ledger.format.layout import ARRIVAL_DTYPE, TRANSITION_DTYPE, Array
from postroom.ledger.format.record_kinds import Kind, Layout, Split
from postroom.ledger.format.records import RecordType

BLOCK = 512
"""Of the C version."""

AWRY_DTYPE = np.dtype(
    {
        "names": ["colour", "size", "name", "far"],
        "formats": ["u1", "u1", "<u2", "<u8"],
        "offsets": [17, 13, 2, 4],
        "itemsize": 18,
    }
)
"""A layout whose fields lie awry, those of the key at its end."""
AWRY = Layout(AWRY_DTYPE, key=("size", "colour"), taken=("name", "far", "size"))

layouts = st.sampled_from(
    [
        (TRANSITION_DTYPE, CHANGES, ("type", "event", "flags"), None),
        (TRANSITION_DTYPE, CHANGES, ("type", "event", "flags"), int(RecordType.ENTRY_EVENT)),
        (ARRIVAL_DTYPE, ARRIVALS, ("message_id_type", "event", "priority"), None),
        (AWRY_DTYPE, AWRY, ("size", "colour"), None),
    ]
)
counts = st.one_of(st.integers(0, 20), st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]))


def records_of(dtype: np.dtype[Any], varied: tuple[str, ...], count: int, values: int, seed: int) -> Array:
    """Random records that differ but little in the `varied` fields."""
    random = np.random.default_rng(seed)
    records = np.zeros(count, dtype)
    for name in dtype.names or ():
        few = values if name in varied else 256
        if name in varied or dtype[name].itemsize > 1:
            records[name] = random.integers(0, few, count)
    if "type" in (dtype.names or ()):
        records["type"] += int(RecordType.ENTRY_EVENT)
    return records


def one_by_one(records: Array, key: tuple[str, ...], only: int | None) -> dict[Any, list[int]]:
    """Which records say what, in the order of the first of each."""
    found: dict[Any, list[int]] = {}
    for index, record in enumerate(records):
        if only is None or record["type"] == only:
            found.setdefault(tuple(int(record[name]) for name in key), []).append(index)
    return found


def check(split: Split, records: Array, layout: Layout, most: int, only: int | None) -> None:
    key = tuple(layout.key_values(Kind(0, 0, {})))
    expected = one_by_one(records, key, only)
    if only is not None:
        assert split.types.tolist() == records["type"].tolist()
    if len(expected) > most:
        assert split.kinds is None
        return
    assert split.kinds is not None
    assert [tuple(layout.key_values(kind).values()) for kind in split.kinds] == list(expected)
    for kind, indexes in zip(split.kinds, expected.values(), strict=True):
        own = records[indexes]
        assert kind.count == len(own)
        assert (layout.of_kind(records, kind) == own).all()
        assert kind.taken
        for name, values in kind.taken.items():
            assert values.dtype == records.dtype[name]
            assert values.flags.c_contiguous
            assert values.tolist() == own[name].tolist()


@given(layouts, counts, st.integers(1, 4), st.integers(0, 8), st.integers(0, 1 << 30))
def test_records_of_a_kind_say_the_same(what: Any, count: int, values: int, most: int, seed: int) -> None:
    dtype, layout, varied, only = what
    records = records_of(dtype, varied, count, values, seed)
    check(layout.split(records, most, only), records, layout, most, only)
    check(layout.split_by_numpy(records, most, only), records, layout, most, only)


def test_one_kind_alone_makes_no_other() -> None:
    records = records_of(TRANSITION_DTYPE, (), 2 * BLOCK, 1, 1)
    (kind,) = CHANGES.split(records, 1).kinds or []
    assert kind.count == len(records)
    records["flags"][-1] = 1
    assert CHANGES.split(records, 1).kinds is None


def test_the_c_version_refuses_sizes_that_do_not_fit() -> None:
    if not record_kinds.is_native():
        pytest.skip("the C version isn't built: this is the interpreted run")
    from postroom.ledger.format._split import split

    records, words, sizes = np.zeros(4, "V16"), np.zeros(2, np.uint64), np.zeros(2, np.int64)
    types, out = np.zeros(4, np.uint8), np.zeros(2 * 4 * 8, np.uint8)
    right = (records, 16, 0, 255, 0, types, words, sizes, ((8, 8, out),))
    assert split(*right) == 1
    assert words[0] == 0
    assert sizes[0] == len(records)
    wrong: list[tuple[int, Any]] = [
        *((1, size) for size in (-16, 0, 7, 15, 17, sys.maxsize)),
        *((2, at) for at in (-1, 9)),
        *((4, only) for only in (-2, 256)),
        (5, types[:3]),
        (7, sizes[:1]),
        (8, ((8, 8, out[:-1]),)),
        (8, ((9, 8, out),)),
        (8, ((-1, 8, out),)),
        (8, ((8, 3, out),)),
        (8, ((8, 8, out),) * 17),
    ]
    for index, value in wrong:
        arguments: Any = (*right[:index], value, *right[index + 1 :])
        with pytest.raises(ValueError, match=r"don't fit together|more than 16 fields"):
            split(*arguments)
    with pytest.raises(ValueError, match="contiguous"):
        arguments = (np.zeros((4, 2), "V16")[:, 0], *right[1:])
        split(*arguments)
