"""Which files of bodies have become sparse, and rewriting them without their dead.

Bodies only: no event is written, and no position changes. What is live is taken from the fold of a durable
checkpoint, so a body that dies later is merely kept a while longer.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from postroom.ledger.fold.changes import routing_sets
from postroom.ledger.fold.fold import has_body
from postroom.ledger.fold.retained_bodies import are_retained, overlapping
from postroom.ledger.fold.state import CARRIED_FILE, Arrivals, FoldState, distinct
from postroom.ledger.format.block import (
    BODY_TRAILER_BYTES,
    CHUNK_LIST_HEADER_BYTES,
    CHUNK_REFERENCE_BYTES,
    CHUNKED_OFFSET,
)
from postroom.ledger.format.file_names import PackedName
from postroom.ledger.format.layout import Array
from postroom.ledger.options import LedgerOptions
from postroom.ledger.retention.kept_history import Held, Keep
from postroom.ledger.storage.bodies import BodyStore
from postroom.ledger.storage.body_file import BodyFile, JournalBodies, PackedBodies, SealedBodies
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import EventsImage
from postroom.ledger.storage.packed_bodies import Pieces, load_packed_span, write_packed

MERGE_RATIO: Final = 2
"""A neighbour joins a rewrite if it is at most this many times as large as what is rewritten anyway."""

WANT_DTYPE: Final = np.dtype([("key", "<u8"), ("offset", "<u4"), ("size", "<u4")])
"""A stretch of a bodies heap: of the block that holds `key`, at `offset` of its heap, `size` bytes."""


class Run(NamedTuple):
    """Neighbouring files to be rewritten as one (or dropped, if nothing in them is live)."""

    files: list[BodyFile]
    wants: Array
    """What is live in them, of WANT_DTYPE, by key."""


class LiveBodies:
    """The pieces of a fold's state that must stay, by position: of live entries, and of those whose queue has
    its bodies stay for a while. Computed once for a whole round of compaction."""

    def __init__(
        self,
        state: FoldState,
        source: Arrivals,
        store: BodyStore,
        history: Callable[[int, int], Iterable[EventsImage]],
        retained: Array,
    ) -> None:
        """`history` gives the events files with any of the positions from one to another; `retained` what
        stays beside the live ones (`retained_bodies`)."""
        self._history = history
        self._retained = retained
        self._state = state
        self._source = source
        self._store = store
        self._explicit = _explicit_wants(state)
        spans = {span.number: span[1:] for span in state.needs}
        self._plain_counts = [
            (spans[number], len(indexes)) for (number, _), indexes in state.plain.items() if number in spans
        ]
        carried = [
            state.carried["position"][indexes]
            for (number, _), indexes in state.plain.items()
            if number == CARRIED_FILE
        ]
        parts = [self._explicit["key"], state.chunks["position"], *carried]
        self._positions = np.sort(np.concatenate(parts))

    def within(self, first: int, last: int) -> Array:
        """(key, offset, size) of the live pieces of positions first to last; chunk lists have size 0."""
        pieces = [self._explicit]
        numbers = {span.number for span in self._state.needs if _overlap(span[1:], first, last)}
        by_file: dict[int, list[Array]] = {}
        for (file_number, _), indexes in self._state.plain.items():
            if file_number in numbers or file_number == CARRIED_FILE:
                by_file.setdefault(file_number, []).append(indexes)
        for file_number, parts in by_file.items():
            indexes = distinct(np.concatenate(parts)) if len(parts) > 1 else parts[0]
            pieces.append(_arrival_wants(self._source(file_number), indexes))
        pieces.append(_chunk_wants(self._state))
        pieces += self._retained_within(first, last)
        wants = np.concatenate(pieces)
        wants = wants[(wants["key"] >= first) & (wants["key"] <= last)]
        return wants[np.unique(wants["key"], return_index=True)[1]]

    def _retained_within(self, first: int, last: int) -> Iterator[Array]:
        """Of what has ended: the bodies that stay, where their arrivals are still known."""
        rows = overlapping(self._retained, first, last)
        if not len(rows):
            return
        for image in self._history(first, last):
            arrivals = image.arrivals
            stay = are_retained(rows, arrivals["position"], arrivals["routing_set"], routing_sets(image))
            stay &= arrivals["body_serial"] == arrivals["position"]
            yield _arrival_wants(arrivals, np.flatnonzero(stay))

    def count_within(self, first: int, last: int) -> int:
        """How many references there are to bodies of positions first to last that must stay; quick. Another
        number: something has changed."""
        low, high = np.searchsorted(self._positions, [first, last + 1])
        retained = len(overlapping(self._retained, first, last))
        return (
            int(high - low)
            + retained
            + sum(count for span, count in self._plain_counts if _overlap(span, first, last))
        )

    def resolved(self, wants: Array) -> Array:
        """The same with the real offsets and sizes of chunk lists, which are looked up."""
        found = wants.copy()
        for row in np.flatnonzero(wants["size"] == 0).tolist():
            key, offset = int(wants["key"][row]), int(wants["offset"][row]) & (CHUNKED_OFFSET - 1)
            count = len(self._store.chunk_list(key, offset))
            size = CHUNK_LIST_HEADER_BYTES + count * CHUNK_REFERENCE_BYTES
            found[row] = key, offset, size
        return found


def _overlap(span: tuple[int, int], first: int, last: int) -> bool:
    return span[0] <= last and first <= span[1]


def _wants(keys: Array, offsets: Array, lengths: Array) -> Array:
    wants = np.empty(len(keys), WANT_DTYPE)
    chunked = (offsets & CHUNKED_OFFSET) != 0
    wants["key"], wants["offset"] = keys, offsets
    wants["size"] = np.where(chunked, 0, lengths + np.uint32(BODY_TRAILER_BYTES))
    return wants


def _explicit_wants(state: FoldState) -> Array:
    rows = state.explicit[has_body(state.explicit["arrival_flags"])]
    return _wants(rows["body_serial"], rows["body_offset"], rows["body_len"])


def _arrival_wants(arrivals: Array, indexes: Array) -> Array:
    indexes = indexes[has_body(arrivals["flags"][indexes])]
    columns = (arrivals[name][indexes] for name in ("position", "body_offset", "body_len"))
    return _wants(*columns)


def _chunk_wants(state: FoldState) -> Array:
    return _wants(state.chunks["position"], state.chunks["offset"], state.chunks["length"])


class Inspected(NamedTuple):
    """What a file was found to hold."""

    live_count: int
    live_bytes: int
    held_through: int = 0
    """Where it ends, if it would have been rewritten and a lease keeps it as it is."""


def plan(
    store: BodyStore,
    live: LiveBodies,
    through: int,
    options: LedgerOptions,
    known: dict[str, Inspected],
    keep: Keep,
    most_bytes: int,
) -> Run | None:
    """The next run worth rewriting among the sealed files up to position `through`; None if there is none.

    What is live in a run is `most_bytes` at most: a file with more is left for now.

    `known` remembers, by name, what files were found to hold: only where something has died since is looked
    at again, so that a round costs what has changed and not what waits.
    """
    files = [file for file in store.files() if not isinstance(file, JournalBodies)]
    for at, file in enumerate(files):
        if file.last_position > through:
            continue
        count = live.count_within(file.first_position, file.last_position)
        before = known.get(file.name())
        if before is not None and before.live_count == count and not _is_let_go(before, keep):
            continue
        wants = live.within(file.first_position, file.last_position)
        size = int(wants["size"].sum())
        if size > most_bytes:
            continue
        known[file.name()] = Inspected(count, size)
        if len(wants) and size >= options.compact_below * heap_bytes(file):
            continue
        if not keep.may_drop_bodies(file.last_position):
            known[file.name()] = Inspected(count, size, file.last_position)
        elif len(wants):
            return _extend(files[:at], file, wants, live, known, most_bytes)
        else:
            return Run([file], wants)
    return None


def _is_let_go(inspected: Inspected, keep: Keep) -> bool:
    return inspected.held_through > 0 and not keep.holds_bodies(inspected.held_through)


def was_let_go(known: dict[str, Inspected], keep: Keep) -> bool:
    """Whether a file that a lease has kept from being rewritten is kept no longer."""
    return any(_is_let_go(inspected, keep) for inspected in known.values())


def held_by_leases(store: BodyStore, known: dict[str, Inspected]) -> list[Held]:
    """The dead in files that leases keep from being rewritten."""
    held = []
    for file in store.files():
        inspected = known.get(file.name())
        if inspected is not None and inspected.held_through:
            held.append(Held(inspected.held_through, heap_bytes(file) - inspected.live_bytes))
    return held


def _extend(
    before: list[BodyFile],
    file: BodyFile,
    wants: Array,
    live: LiveBodies,
    known: dict[str, Inspected],
    most_bytes: int,
) -> Run:
    """Take in the packed files before, as long as they are small against what is rewritten anyway."""
    taken, pieces, size = [file], [wants], int(wants["size"].sum())
    for neighbour in reversed(before):
        inspected = known.get(neighbour.name())
        own_bytes = inspected.live_bytes if inspected is not None else heap_bytes(neighbour)
        if not isinstance(neighbour, PackedBodies) or own_bytes > MERGE_RATIO * size:
            break
        if size + own_bytes > most_bytes:
            break
        own = live.within(neighbour.first_position, neighbour.last_position)
        taken.insert(0, neighbour)
        pieces.insert(0, own)
        size += int(own["size"].sum())
    return Run(taken, live.resolved(np.concatenate(pieces)))


def note_rewritten(run: Run, file: BodyFile, live: LiveBodies, known: dict[str, Inspected]) -> None:
    """What the file made of a run holds."""
    count = live.count_within(file.first_position, file.last_position)
    known[file.name()] = Inspected(count, int(run.wants["size"].sum()))


def heap_bytes(file: BodyFile) -> int:
    """How many bytes of bodies a file holds, live or dead."""
    if isinstance(file, PackedBodies):
        return int(file.index()["length"].sum())
    if isinstance(file, SealedBodies):
        return int(file.table()["bodies_bytes"].sum())
    return 0


def rewrite(disk: Disk, ledger_id: bytes, run: Run) -> PackedBodies:
    """Write the run's live pieces to a packed file, durable under its name. The old files are still there."""
    first, last = run.files[0], run.files[-1]
    generation = 1 + max(
        (file.packed.generation for file in run.files if isinstance(file, PackedBodies)), default=0
    )
    name = PackedName(first.first_file, last.last_file, generation)
    positions = (first.first_position, last.last_position)
    write_packed(disk, name, ledger_id, positions, _pieces(run))
    return PackedBodies(disk, name, load_packed_span(disk, name, ledger_id))


def _pieces(run: Run) -> Iterator[Pieces]:
    """What a file hasn't got any more stays away: it died, and was taken away, before its queue had the
    bodies stay."""
    for file in run.files:
        keys = run.wants["key"]
        wants = run.wants[(keys >= file.first_position) & (keys <= file.last_position)]
        starts = file.starts(wants["key"], wants["offset"].astype(np.int64))
        there = starts >= 0
        wants = wants[there]
        yield Pieces(wants["key"], starts[there], wants["size"], memoryview(file.open().view()))
