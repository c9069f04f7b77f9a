"""Where what lies in many encoded messages: their sections, the fields of their properties, the entries of
their maps. Step k passes the k-th section, field or entry of all messages at once.

Only usual encodings are walked. Rows in which something else is met, valid or not, are marked as *hard*;
nothing is said of them, and `whole` reads them one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.ledger.format.layout import Array
from postroom.spark.messages.heap import Heap, Mask, Values

SECTION_COUNT: Final = d.FOOTER - d.HEADER + 1
FIELD_COUNT: Final = 13
"""Of the properties section."""
MAX_ENTRIES: Final = 256
"""A map with more entries makes its row hard: every entry is a step for all rows."""

_WIDE: Final = 0x10
"""In the constructor of a list or map: its size and count have four bytes, not one."""


def codes(*some: int) -> Mask:
    """A table of constructors: those named, by their number."""
    table = np.zeros(256, np.bool_)
    table[list(some)] = True
    return table


LISTS: Final = codes(c.LIST_0, c.LIST_8, c.LIST_32)
MAPS: Final = codes(c.MAP_8, c.MAP_32)


class Sections:
    """Where the sections of messages lie. Of rows that are `hard` nothing is told."""

    def __init__(self, heap: Heap) -> None:
        count = len(heap.start)
        self.heap: Final = heap
        self.hard: Final[Mask] = np.zeros(count, np.bool_)
        self.start: Final = np.zeros((SECTION_COUNT, count), np.int64)
        """Of the descriptor, by section (its code less that of the header) and row."""
        self._code: Final = np.full((SECTION_COUNT, count), c.NULL, np.uint8)
        self._at: Final = np.zeros((SECTION_COUNT, count), np.int64)
        self._length: Final = np.zeros((SECTION_COUNT, count), np.int64)
        self._walk()

    def value(self, section: int) -> Values:
        """The value of a section by its descriptor's code; null without a length where there is none."""
        row = section - d.HEADER
        return Values(self._code[row], self._at[row], self._length[row])

    def has(self, section: int) -> Mask:
        """Which rows have a section. One whose value is null is hard where that is no value for it."""
        found: Mask = self.start[section - d.HEADER] != -1
        return found

    def _walk(self) -> None:
        self.start.fill(-1)
        heap, pos, end = self.heap, self.heap.start, self.heap.end
        rows = np.flatnonzero(pos < end)
        pos, end = pos[rows], end[rows]
        previous = np.zeros(len(rows), np.uint8)
        while len(rows):
            code = heap.byte(pos + 2)
            values = heap.values(pos + 3)
            after = values.end
            good = (heap.byte(pos) == c.DESCRIBED) & (heap.byte(pos + 1) == c.ULONG_8)
            good &= (code > previous) & (code >= d.HEADER) & (code <= d.FOOTER) & (after <= end)
            good &= (previous < d.DATA) | (code == d.FOOTER)
            if not good.all():
                self.hard[rows[~good]] = True
                rows, pos, end, code, after = rows[good], pos[good], end[good], code[good], after[good]
                values = values.where(good)
            self._note(rows, pos, code, values)
            more = after < end
            if more.all():
                pos, previous = after, code
            else:
                rows, pos, end, previous = rows[more], after[more], end[more], code[more]

    def _note(self, rows: Array, pos: Array, code: Array, values: Values) -> None:
        if not len(rows):
            return
        section: Any = code.astype(np.intp) - d.HEADER
        first = int(section[0])
        which: Any = rows
        if (section == first).all():  # mostly so: a slice is quicker than places
            section = first
            which = slice(None) if len(rows) == len(self.hard) else rows
        self.start[section, which] = pos
        self._code[section, which] = values.code
        self._at[section, which] = values.at
        self._length[section, which] = values.length


# --- what is in lists and maps ------------------------------------------------------------------------


def fields(sections: Sections, section: int) -> list[Values]:
    """The fields of a section that is a list, one after the other, null where they are absent; as many as
    some row has. Rows that are no such list become hard."""
    count = len(sections.hard)
    found: list[Values] = []
    for rows, values in _items(sections, section, LISTS, FIELD_COUNT):
        if len(rows) < count:
            of_all = Values.nulls(count)
            of_all.set(rows, values)
            values = of_all
        found.append(values)
    return found


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one map a row, those of a row behind one another."""

    ends: Array
    """Entries of row i: from ``ends[i]`` up to ``ends[i + 1]``."""
    keys: Values
    values: Values

    @property
    def rows(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))


def entries(sections: Sections, section: int) -> Entries:
    """The entries of a section that is a map. Rows that are no such map, or have very many entries, become
    hard."""
    steps = list(_items(sections, section, MAPS, 2 * MAX_ENTRIES))
    counts = np.zeros(len(sections.hard), np.int64)
    for rows, _ in steps[1::2]:
        counts[rows] += 1
    counts[sections.hard] = 0
    ends = np.concatenate([[0], np.cumsum(counts)])
    return Entries(
        ends, _gathered(steps[::2], ends, sections.hard), _gathered(steps[1::2], ends, sections.hard)
    )


def _gathered(steps: list[tuple[Array, Values]], ends: Array, hard: Mask) -> Values:
    """The k-th value of each step at the k-th place of its row."""
    found = Values.nulls(int(ends[-1]))
    any_hard = hard.any()
    for index, (rows, values) in enumerate(steps):
        if any_hard:
            good = ~hard[rows]
            rows, values = rows[good], values.where(good)
        found.set(ends[rows] + index, values)
    return found


def _items(sections: Sections, section: int, kinds: Mask, most: int) -> Iterator[tuple[Array, Values]]:
    """The first item of each row's list or map, the second, and so on, with the rows that have it. A row that
    turns out to be hard may have given items before."""
    heap, hard = sections.heap, sections.hard
    rows, pos, end, left = _opened(sections, section, kinds, most)
    while len(rows):
        values = heap.values(pos)
        after = values.end
        left = left - 1
        good = (pos < end) & np.where(left == 0, after == end, after <= end)
        if not good.all():
            hard[rows[~good]] = True
            rows, end, left, after = rows[good], end[good], left[good], after[good]
            values = values.where(good)
        yield rows, values
        more = left > 0
        if more.all():
            pos = after
        else:
            rows, pos, end, left = rows[more], after[more], end[more], left[more]


def _opened(sections: Sections, section: int, kinds: Mask, most: int) -> tuple[Array, Array, Array, Array]:
    """The rows that have the list or map, and for each where its first item begins, its end, and how many
    there are."""
    heap, hard, value = sections.heap, sections.hard, sections.value(section)
    there = sections.has(section) & ~hard
    hard |= there & ~kinds[value.code]
    rows = np.flatnonzero(there & ~hard & (value.code != c.LIST_0))
    if len(rows) < len(hard):
        value = value.where(rows)
    wide = (value.code & _WIDE) != 0
    first = value.at + np.where(wide, 4, 1)
    end = value.end
    count = np.where(wide, heap.number(value.at, 4), heap.byte(value.at))
    good = (first <= end) & (count <= most) & ((count > 0) | (first == end))
    if kinds is MAPS:
        good &= (count & 1) == 0
    hard[rows[~good]] = True
    good &= count > 0
    if good.all():
        return rows, first, end, count
    return rows[good], first[good], end[good], count[good]
