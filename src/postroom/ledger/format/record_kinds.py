"""Records of one kind: told apart by what they say in fields of a byte, of which there are few combinations.

What all records of a kind say is then known once for all of them, and what they say in other fields is taken
out of the records while they are at hand. In C (``_split.c``) where that was built, else with numpy: both
give the same. Pure: arrays in, arrays out.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.format.layout import Array

try:
    from postroom.ledger.format import _split
except ImportError:  # built without a C compiler
    _split = None  # type: ignore[assignment]


def is_native() -> bool:
    """Whether C does the work."""
    return _split is not None


WORD_BYTES: Final = 8
_ANY_TYPE: Final = -1


@dataclass(frozen=True, slots=True)
class Kind:
    """The records of one kind, in their order."""

    word: int
    """What all of them say, as one number (`Layout.said`)."""
    count: int
    taken: dict[str, Array]
    """Other fields of theirs, each an array of its own."""


@dataclass(frozen=True, slots=True)
class Split:
    """Records told apart."""

    types: npt.NDArray[np.uint8]
    """The first of the fields that tell them apart, of each record; empty if all of them were wanted."""
    kinds: list[Kind] | None
    """By the first record of each; None if there are too many."""


class Layout:
    """How records of one layout are told apart: `key` are the fields of a byte that do so, all of them
    within eight bytes; `taken` are those to be taken out."""

    def __init__(self, record: np.dtype[Any], key: tuple[str, ...], taken: tuple[str, ...]) -> None:
        offsets = {name: _offset_of(record, name) for name in key}
        self._first: Final = min(*offsets.values(), record.itemsize - WORD_BYTES)
        self._shifts: Final = {name: 8 * (offset - self._first) for name, offset in offsets.items()}
        self._mask: Final = sum(0xFF << shift for shift in self._shifts.values())
        self._fields: Final = tuple((name, _offset_of(record, name), record[name]) for name in taken)
        self._word: Final = np.dtype(
            {"names": ["w"], "formats": ["<u8"], "offsets": [self._first], "itemsize": record.itemsize}
        )

    def key_values(self, kind: Kind) -> dict[str, int]:
        """What all records of a kind say."""
        return {name: kind.word >> shift & 0xFF for name, shift in self._shifts.items()}

    def of_kind(self, records: Array, kind: Kind) -> Array:
        """The records of a kind, whole: copies."""
        found: Array = records.compress(self._words(records) == kind.word)
        return found

    def split(self, records: Array, most: int, only: int | None = None) -> Split:
        """The kinds of records, if they are `most` at most. `only`: those that say this in the first of the
        eight bytes, which must then be one of `key`."""
        if not is_native():
            return self.split_by_numpy(records, most, only)
        count = len(records)
        types = np.empty(0 if only is None else count, np.uint8)
        words, counts = np.empty(most, np.uint64), np.empty(most, np.int64)
        taken = {name: np.empty((most, count), kind) for name, _, kind in self._fields}
        kinds = _split.split(
            records,
            self._word.itemsize,
            self._first,
            self._mask,
            _ANY_TYPE if only is None else only,
            types,
            words,
            counts,
            tuple((at, kind.itemsize, taken[name].view(np.uint8)) for name, at, kind in self._fields),
        )
        if kinds < 0:
            return Split(types, None)
        found = zip(words[:kinds].tolist(), counts[:kinds].tolist(), strict=True)
        return Split(
            types,
            [
                Kind(word, size, {name: values[number, :size] for name, values in taken.items()})
                for number, (word, size) in enumerate(found)
            ],
        )

    def split_by_numpy(self, records: Array, most: int, only: int | None = None) -> Split:
        """The same without C."""
        words = self._words(records)
        types = np.empty(0, np.uint8)
        left = np.ones(len(records), bool)
        if only is not None:
            types = (words & np.uint64(0xFF)).astype(np.uint8)
            left = types == only
        kinds: list[Kind] = []
        while left.any():
            if len(kinds) == most:
                return Split(types, None)
            word = words[np.argmax(left)]
            mask = words == word
            left &= ~mask
            own = records.compress(mask)
            taken = {name: np.ascontiguousarray(own[name]) for name, _, _ in self._fields}
            kinds.append(Kind(int(word), len(own), taken))
        return Split(types, kinds)

    def _words(self, records: Array) -> npt.NDArray[np.uint64]:
        words: npt.NDArray[np.uint64] = records.view(self._word)["w"] & np.uint64(self._mask)
        return words


def _offset_of(record: np.dtype[Any], field: str) -> int:
    assert record.fields is not None
    return int(record.fields[field][1])
