"""Serials as ranges, for records that tell of many entries at once."""

from typing import Any

import numpy as np

from postroom.ledger.records import GROUP


def runs(serials: list[int]) -> list[tuple[int, int]]:
    """Serials as exact ranges (first, last), ascending: every integer in a range is one of them."""
    found: list[tuple[int, int]] = []
    first = last = 0
    for serial in sorted(serials):
        if first and serial == last + 1:
            last = serial
            continue
        if first:
            found.append((first, last))
        first = last = serial
    if first:
        found.append((first, last))
    return found


def group_of_many(queue: int, from_state: int, to_state: int, outcome: int, serials: Any) -> bytes:
    """One encoded group (`records.GROUP` and its ranges) for a numpy array of serials."""
    ordered = np.sort(serials.astype("<u8"))
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    firsts = ordered[np.concatenate(([0], breaks + 1))]
    lasts = ordered[np.concatenate((breaks, [len(ordered) - 1]))]
    head = GROUP.struct.pack(queue, len(firsts), from_state, to_state, outcome, 0, 0, 0, 0)
    return bytes(head + np.column_stack((firsts, lasts)).tobytes())
