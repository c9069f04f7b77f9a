"""Serials as ranges, for records that tell of many entries at once."""

from typing import Any

import numpy as np


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


def runs_of_array(serials: Any) -> list[tuple[int, int]]:
    """The same for a numpy array."""
    ordered = np.sort(serials)
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    firsts = ordered[np.concatenate(([0], breaks + 1))]
    lasts = ordered[np.concatenate((breaks, [len(ordered) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
