"""Rows sorted by key, and within a key by the order of their events: with one sort of integers where they
fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from postroom.ledger.format.layout import Array

WORD_BITS: Final = 64

SPARSE: Final = 8
"""Ranks may go so many times as high as there are rows: a table of that size costs less than another sort."""


@dataclass(frozen=True)
class Groups:
    """Which rows have the same key. ``order``: row numbers, sorted; ``starts``: where in it each group
    begins."""

    order: Array
    starts: Array

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def first(self) -> Array:
        """Each group's first row."""
        first: Array = self.order[self.starts]
        return first

    @cached_property
    def last(self) -> Array:
        """Each group's last row."""
        last: Array = self.order[self.ends]
        return last

    @cached_property
    def ends(self) -> Array:
        """Where in ``order`` each group ends: its last row."""
        if not len(self.starts):
            return self.starts
        return np.append(self.starts[1:], len(self.order)) - 1

    @cached_property
    def of_sorted(self) -> Array:
        """The group of each row in sorted order."""
        begins = np.zeros(len(self.order), np.int64)
        begins[self.starts[1:]] = 1
        return np.cumsum(begins)

    @cached_property
    def of_row(self) -> Array:
        """The group of each row."""
        groups = np.empty(len(self.order), np.int64)
        groups[self.order] = self.of_sorted
        return groups


@dataclass(frozen=True, slots=True)
class Rank:
    """A number for each row that orders rows as their events are ordered. ``row_of``: the row of each number;
    None where they are the rows' own numbers."""

    ranks: Array
    row_of: Array | None

    @property
    def width(self) -> int:
        """Bits of the highest."""
        highest = len(self.ranks) if self.row_of is None else len(self.row_of)
        return highest.bit_length()

    def rows(self, ranks: Array) -> Array:
        """The rows of many ranks."""
        if self.row_of is None:
            return ranks
        rows: Array = self.row_of[ranks]
        return rows


def rank(positions: Array, ordinals: Array) -> Rank:
    """Ranks of rows by (position, ordinal)."""
    count = len(positions)
    if count < 2 or _ascends(positions, ordinals):
        return Rank(np.arange(count), None)
    low, width = int(positions.min()), int(ordinals.max()) + 1
    span = (int(positions.max()) - low + 1) * width
    if span <= SPARSE * count:
        ranks = (positions - low) * width + ordinals if width > 1 else positions - low
        row_of = np.full(span, -1, np.int64)
        row_of[ranks] = np.arange(count)
        if np.count_nonzero(row_of >= 0) == count:  # else two rows have the same place
            return Rank(ranks, row_of)
    row_of = np.lexsort((ordinals, positions))
    ranks = np.empty(count, np.int64)
    ranks[row_of] = np.arange(count)
    return Rank(ranks, row_of)


def _ascends(positions: Array, ordinals: Array) -> bool:
    step = np.diff(positions)
    if (step > 0).all():
        return True
    return bool(((step > 0) | ((step == 0) & (np.diff(ordinals) >= 0))).all())


def group(keys: Sequence[Array], ranked: Rank) -> Groups:
    """Rows grouped by keys of whole numbers; groups ascend by key, rows within a group by rank."""
    count = len(ranked.ranks)
    if count == 0:
        return Groups(np.zeros(0, np.int64), np.zeros(0, np.int64))
    codes = [key - key.min() for key in keys]
    widths = [int(code.max()).bit_length() for code in codes]
    while sum(widths) + ranked.width > WORD_BITS:
        widest = int(np.argmax(widths))
        distinct, dense = np.unique(codes[widest], return_inverse=True)
        if (len(distinct) - 1).bit_length() == widths[widest]:
            return _group_by_comparing(codes, ranked)
        codes[widest], widths[widest] = dense, (len(distinct) - 1).bit_length()
    return _group_packed(codes, widths, ranked)


def _group_packed(codes: list[Array], widths: list[int], ranked: Rank) -> Groups:
    packed = np.zeros(len(ranked.ranks), np.uint64)
    for code, width in zip(codes, widths, strict=True):
        if width:
            packed = (packed << np.uint64(width)) | code.astype(np.uint64)
    packed = (packed << np.uint64(ranked.width)) | ranked.ranks.astype(np.uint64)
    packed.sort()
    order = ranked.rows((packed & np.uint64((1 << ranked.width) - 1)).astype(np.int64))
    packed >>= np.uint64(ranked.width)
    return Groups(order, _starts(packed[1:] != packed[:-1]))


def _group_by_comparing(codes: list[Array], ranked: Rank) -> Groups:
    """For keys that don't fit into one word even when they are numbered."""
    order = np.lexsort((ranked.ranks, *reversed(codes)))
    differs = np.zeros(len(order) - 1, bool)
    for code in codes:
        ordered = code[order]
        differs |= ordered[1:] != ordered[:-1]
    return Groups(order, _starts(differs))


def _starts(differs: Array) -> Array:
    """Where groups begin, from whether each row but the first differs from the one before it."""
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(differs) + 1])
