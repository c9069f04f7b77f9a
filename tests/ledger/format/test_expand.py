"""Records become rows: routing sets, single changes, groups and what breaks them."""

from typing import Any

import numpy as np
import pytest

from postroom.ledger.format import expand
from postroom.ledger.format.expand import Chunk, ExpandError, Rows
from postroom.ledger.format.layout import ARRIVAL_DTYPE, TRANSITION_DTYPE
from postroom.ledger.format.records import GROUP, RANGE, SET_BASE, RecordType
from postroom.model.codes import Event, HolderKind, Outcome, State


def _records(dtype: Any, *rows: dict[str, int]) -> Any:
    array = np.zeros(len(rows), dtype)
    for index, row in enumerate(rows):
        for name, value in row.items():
            array[index][name] = value
    return array


def _chunk(arrivals: list[dict[str, int]], transitions: list[dict[str, int]], names: bytes = b"") -> Chunk:
    return Chunk(
        _records(ARRIVAL_DTYPE, *arrivals),
        _records(TRANSITION_DTYPE, *transitions),
        np.frombuffer(names, np.uint8),
    )


def _group(queue: int, ranges: list[tuple[int, int]], from_state: int = State.AVAILABLE) -> bytes:
    head = GROUP.struct.pack(queue, len(ranges), from_state, State.DELETED, Outcome.PURGED, 0, 0, 1, 0)
    return head + b"".join(RANGE.struct.pack(*one) for one in ranges)


def _keys(blocks: list[Rows]) -> list[tuple[int, int, int, int]]:
    """(position, ordinal, serial, queue) of all rows."""
    keys = []
    for rows in blocks:
        keys += zip(
            rows["position"].tolist(),
            rows.ordinal.tolist(),
            rows["serial"].tolist(),
            rows["queue"].tolist(),
            strict=True,
        )
    return keys


def test_arrivals_follow_their_routing_set_in_its_order() -> None:
    chunk = _chunk(
        [
            {"position": 5, "routing_set": 7, "to_state": State.AVAILABLE},
            {"position": 6, "routing_set": SET_BASE + 1, "to_state": State.AVAILABLE},
            {"position": 8, "routing_set": SET_BASE + 2, "to_state": State.AVAILABLE},
        ],
        [],
    )
    sets = {SET_BASE + 1: np.array([9, 3, 4], np.uint32), SET_BASE + 2: np.array([], np.uint32)}
    rows = list(expand.expand(chunk, sets))
    assert _keys(rows) == [(5, 0, 5, 7), (6, 0, 6, 9), (6, 1, 6, 3), (6, 2, 6, 4)]
    assert rows[0].arrivals is not None
    assert rows[0].arrivals["position"].tolist() == [5, 6, 6, 6]


def test_an_undefined_routing_set_is_named_with_its_position() -> None:
    chunk = _chunk([{"position": 5, "routing_set": 7}, {"position": 6, "routing_set": SET_BASE + 9}], [])
    with pytest.raises(ExpandError, match="record 6: routing set 0x80000009 is not defined"):
        list(expand.expand(chunk, {}))


def test_other_records_make_no_rows() -> None:
    chunk = _chunk(
        [],
        [
            {"position": 1, "type": RecordType.QUEUE_DEFINED, "queue": 3},
            {"position": 2, "type": RecordType.ENTRY_EVENT, "serial": 1, "queue": 3, "event": Event.ACQUIRE},
        ],
    )
    assert _keys(list(expand.expand(chunk, {}))) == [(2, 0, 1, 3)]


def test_groups_are_spelled_out_with_ordinals_within_their_record() -> None:
    first = _group(3, [(10, 12), (20, 20)]) + _group(4, [(21, 22)], State.DELAYED)
    second = _group(3, [(30, 31)])
    chunk = _chunk(
        [],
        [
            {
                "position": 40,
                "type": RecordType.DECISION,
                "event": Event.CONFIRM,
                "holder": 77,
                "holder_kind": HolderKind.LOCAL_TRANSACTION,
                "detail_len": len(first),
            },
            {
                "position": 41,
                "type": RecordType.GROUP_EVENT,
                "event": Event.PURGE,
                "detail_offset": len(first),
                "detail_len": len(second),
            },
        ],
        first + second,
    )
    (rows,) = expand.expand(chunk, {})
    assert _keys([rows]) == [
        (40, 0, 10, 3),
        (40, 1, 11, 3),
        (40, 2, 12, 3),
        (40, 3, 20, 3),
        (40, 4, 21, 4),
        (40, 5, 22, 4),
        (41, 0, 30, 3),
        (41, 1, 31, 3),
    ]
    assert rows["holder"].tolist() == [77] * 6 + [0] * 2
    assert rows["from_state"].tolist() == [State.AVAILABLE] * 4 + [State.DELAYED] * 2 + [State.AVAILABLE] * 2
    assert set(rows["outcome"].tolist()) == {Outcome.PURGED}
    assert set(rows["failure_delta"].tolist()) == {1}


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, 100])
def test_large_groups_are_cut_into_blocks_without_a_seam(
    block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "MAX_GROUP_ROWS", block_rows)
    detail = _group(1, [(1, 4), (6, 6), (8, 12)]) + _group(2, []) + _group(3, [(2, 3)])
    chunk = _chunk(
        [], [{"position": 50, "type": RecordType.GROUP_EVENT, "detail_len": len(detail)}] * 2, detail
    )
    blocks = list(expand.expand(chunk, {}))
    entries = [(s, 1) for s in (1, 2, 3, 4, 6, 8, 9, 10, 11, 12)] + [(2, 3), (3, 3)]
    expected = [(50, ordinal, *entry) for ordinal, entry in enumerate(entries)] * 2
    assert _keys(blocks) == expected
    assert max(len(rows) for rows in blocks) <= block_rows


@pytest.mark.parametrize(
    ("detail", "length", "message"),
    [
        (b"", 16, "outside the names heap"),
        (b"x" * 20, 20, "the ranges of a group of its detail are cut short"),
        (_group(1, [(1, 2)]), 24, "the ranges of a group of its detail are cut short"),
        (_group(1, [(1, 2)]) + b"1234", 36, "a group of its detail is cut short"),
        (_group(1, [(3, 2)]), 32, "empty or upside down"),
        (_group(1, [(0, 2)]), 32, "empty or upside down"),
        (_group(1, [(1, 50)]), 32, "reaches its own position"),
    ],
)
def test_a_broken_detail_is_refused_with_its_position(detail: bytes, length: int, message: str) -> None:
    good = _group(1, [(1, 2)])
    chunk = _chunk(
        [],
        [
            {"position": 49, "type": RecordType.GROUP_EVENT, "detail_offset": len(detail), "detail_len": 32},
            {"position": 50, "type": RecordType.GROUP_EVENT, "detail_len": length},
        ],
        detail + good,
    )
    if len(detail) < length:
        chunk = Chunk(chunk.arrivals, chunk.transitions[1:], np.frombuffer(detail, np.uint8))
    with pytest.raises(ExpandError, match=f"record 50: .*{message}"):
        list(expand.expand(chunk, {}))
