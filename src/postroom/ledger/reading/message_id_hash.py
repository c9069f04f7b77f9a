"""Hashes of message ids, many at a time: what an index of millions of them holds instead of the ids."""

from typing import Final

import numpy as np

from postroom.ledger.format.layout import Array

_WORD_BYTES: Final = 8
_BATCH_ROWS: Final = 1 << 15
"""Few enough for the processor's cache."""
_MASK: Final = (1 << 64) - 1
_FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND: Final = np.uint64(0xBF58476D1CE4E5B9)
_THIRD: Final = np.uint64(0x94D049BB133111EB)


def hash_ids(names: Array, offsets: Array, lengths: Array, types: Array) -> Array:
    """A 64-bit hash of each stretch of `names` (bytes) and its type. Different ids may have one hash."""
    found = np.empty(len(offsets), np.uint64)
    for start in range(0, len(offsets), _BATCH_ROWS):
        part = slice(start, start + _BATCH_ROWS)
        found[part] = _hash(
            names, offsets[part].astype(np.int64), lengths[part].astype(np.int64), types[part]
        )
    return found


def hash_id(id: bytes, type: int) -> int:
    """The same for one id, without numpy's fixed costs."""
    mixed = _mix_one(type * int(_FIRST) + len(id) & _MASK)
    for at in range(0, len(id), _WORD_BYTES):
        word = int.from_bytes(id[at : at + _WORD_BYTES], "little")
        mixed = _mix_one(mixed ^ (word + int(_FIRST) & _MASK))
    return mixed


def _mix_one(number: int) -> int:
    """As `_mix`."""
    number = (number ^ number >> 30) * int(_SECOND) & _MASK
    number = (number ^ number >> 27) * int(_THIRD) & _MASK
    return number ^ number >> 31


def _hash(names: Array, offsets: Array, lengths: Array, types: Array) -> Array:
    with np.errstate(over="ignore"):
        mixed = _mix(types.astype(np.uint64) * _FIRST + lengths.astype(np.uint64))
        for at in range(0, int(lengths.max(initial=0)), _WORD_BYTES):
            rows = np.flatnonzero(lengths > at)
            word = _words(names, offsets[rows] + at, lengths[rows] - at)
            mixed[rows] = _mix(mixed[rows] ^ (word + _FIRST))
    return mixed


def _words(names: Array, offsets: Array, left: Array) -> Array:
    """The next eight bytes of each id as a number; zeros behind its end."""
    word = np.zeros(len(offsets), np.uint64)
    last = len(names) - 1
    for byte in range(_WORD_BYTES):
        value = names[np.minimum(offsets + byte, last)].astype(np.uint64)
        word |= np.where(left > byte, value, 0) << np.uint64(8 * byte)
    return word


def _mix(number: Array) -> Array:
    """Spread every bit over all (splitmix64)."""
    number = (number ^ (number >> np.uint64(30))) * _SECOND
    number = (number ^ (number >> np.uint64(27))) * _THIRD
    return np.asarray(number ^ (number >> np.uint64(31)))
