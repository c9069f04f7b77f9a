"""CRC-32s of many bodies, each with its own behind it, by few calls.

Two neighbours A and B together have the CRC crc(A)·x^(8·|B|) + crc(B), over GF(2) and modulo its polynomial.
Of whatever ends with its own CRC, that is always the same number, `RESIDUE`. So what is said of a run of
such neighbours, all of them sound, depends on nothing but how long each is: one call tells of all.
"""

from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from postroom.ledger.format.block import BODY_TRAILER_BYTES

RESIDUE: Final = 0x2144DF1C
"""CRC-32 of any bytes and their CRC-32 behind them, the lowest byte first."""

SECTION_BYTES: Final = 1 << 15
"""Neighbours whose ends lie in the same part of this size are looked at together."""

_MASK: Final = 0xFFFFFFFF

Array = npt.NDArray[Any]


def crcs_of(data: Array, starts: Array, ends: Array) -> npt.NDArray[np.uint32]:
    """CRC-32 of bodies in `data`, some bytes with 8 more behind them: each from its start up to
    `BODY_TRAILER_BYTES` before its end, where its CRC-32 should be. Quick where that is so and most are
    neighbours; where not, by going through the bodies."""
    words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    found: npt.NDArray[np.uint32] = words[np.maximum(ends - BODY_TRAILER_BYTES, starts)]
    crcs = found
    view, starts_of, ends_of = data.data, starts.tolist(), ends.tolist()
    edges = _sections(starts, ends)
    expected = _expected(ends, edges)
    for (first, last), crc in zip(pairwise(edges.tolist()), expected, strict=True):
        if crc32(view[starts_of[first] : ends_of[last - 1]]) != crc:
            for row in range(first, last):
                body_end = max(starts_of[row], ends_of[row] - BODY_TRAILER_BYTES)
                crcs[row] = crc32(view[starts_of[row] : body_end])
    return crcs


def _sections(starts: Array, ends: Array) -> Array:
    """Where runs of neighbours begin, and how many rows there are."""
    parts = ends // SECTION_BYTES
    begins = np.ones(len(starts) + 1, np.bool_)
    begins[1:-1] = (starts[1:] != ends[:-1]) | (parts[1:] != parts[:-1])
    return np.flatnonzero(begins)


def _expected(ends: Array, edges: Array) -> list[int]:
    """The CRC of each section, if all in it is sound."""
    if not len(ends):
        return []
    behind = np.repeat(ends[edges[1:] - 1], np.diff(edges)) - ends
    expected: list[int] = np.bitwise_xor.reduceat(_shifted()[behind], edges[:-1]).tolist()
    return expected


@cache
def _shifted() -> npt.NDArray[np.uint32]:
    """`RESIDUE`·x^(8·n), by n."""
    found = np.empty(SECTION_BYTES, np.uint32)
    value = RESIDUE
    for number in range(SECTION_BYTES):
        found[number] = value
        value = crc32(b"\0", value ^ _MASK) ^ _MASK
    return found
