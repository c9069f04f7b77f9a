"""A range of positions, cut into what tasks read."""

from collections.abc import Iterator
from itertools import pairwise

from postroom.ledger.reading.segments import Segment
from postroom.spark.places.place import Place, Slice, Snapshot


def plan(place: Place, snapshot: Snapshot, first: int, last: int, records: int) -> list[Slice]:
    """The part of each file that lies in first to last, cut into even slices of at most
    `records` positions."""
    return [
        Slice(place, segment, start, end, place.hint(segment, start, end))
        for segment in snapshot.segments
        for start, end in _pieces(segment, first, min(last, snapshot.durable_through), records)
    ]


def plan_parts(place: Place, snapshot: Snapshot, first: int, last: int, records: int) -> list[list[Slice]]:
    """The range first to last in even parts of at most `records` positions, each with a slice of every file
    that it touches: a task of Spark costs as much as some ten thousand records."""
    first, last = max(first, snapshot.first_position), min(last, snapshot.durable_through)
    count = max(0, last - first + 1)
    parts = -(-count // records)
    edges = [first + count * number // parts for number in range(parts)] + [last + 1]
    found = [plan(place, snapshot, start, end - 1, records) for start, end in pairwise(edges)]
    return [part for part in found if part]


def _pieces(segment: Segment, first: int, last: int, records: int) -> Iterator[tuple[int, int]]:
    low, high = max(first, segment.first_position), min(last, segment.last_position)
    count = max(0, high - low + 1)
    pieces = -(-count // records)
    for number in range(pieces):
        yield low + count * number // pieces, low + count * (number + 1) // pieces - 1
