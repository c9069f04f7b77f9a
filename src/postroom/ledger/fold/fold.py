"""The fold: a state and one more file's records make the next state. Vectorised; no rule of the manager.

First all arrivals of the file become live entries, then its changes are applied in bounded batches: of all
changes of an entry only the last says where it is now, its counts are sums, and its place is where it first
became available. A change of an entry that isn't live is ignored here; ``postroom ledger verify`` reports it.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from postroom.ledger.fold.changes import IS_HELD, IS_TAKEN, Changes, change_batches, routing_sets
from postroom.ledger.fold.duplicates import fold_duplicates, not_taken, windows_of
from postroom.ledger.fold.retained_bodies import (
    ANY_QUEUE,
    ended_at,
    hold_positions,
    joined,
    retentions_of,
    still,
)
from postroom.ledger.fold.state import (
    Arrivals,
    FileSpan,
    FoldState,
    KeySpace,
    arrives_plain,
    distinct,
    find,
    rows_are_plain,
    rows_from_arrivals,
)
from postroom.ledger.format.dictionary import LEASES, QUEUES, SETS, kind_of, records_from, subject_id
from postroom.ledger.format.layout import (
    CHUNK_DTYPE,
    OUTCOME_SLOTS,
    TOTAL_DTYPE,
    Array,
    rows_together,
    set_rows,
)
from postroom.ledger.format.records import SET_BASE, ArrivalFlag, RecordType
from postroom.ledger.storage.events_image import EventsImage
from postroom.model.codes import DelayCause, Event, HolderKind, State

_NOTING_EVENTS: Final = (int(Event.EXPIRE), int(Event.DELETE))
_PREPARE: Final = int(Event.PREPARE)
_ACQUIRE: Final = int(Event.ACQUIRE)
_ACQUIRED_FLAG: Final = int(ArrivalFlag.ACQUIRED)
_SPARK_SUBSCRIPTION: Final = int(HolderKind.SPARK_SUBSCRIPTION)
_DELETED: Final = int(State.DELETED)
_AVAILABLE: Final = int(State.AVAILABLE)
_UNBORN: Final = int(DelayCause.UNBORN)
_PUT_UNCONFIRMED: Final = int(State.PUT_UNCONFIRMED)


BATCH_ROWS: Final = 1 << 20
"""Changes folded at a time by recovery: bounds the memory of a purge of millions."""


def fold_image(state: FoldState, image: EventsImage, source: Arrivals, batch_rows: int = BATCH_ROWS) -> None:
    """Apply one events file; `source` gives the arrivals of this and of earlier files."""
    state.needs.append(FileSpan(image.file_number, image.first_position, image.last_position))
    _fold_chunks(state, image)
    _add_arrivals(state, image)
    ended = []
    retentions = retentions_of(image)
    for batch in change_batches(image, batch_rows):
        _apply(state, batch, source, retentions)
        ended.append(not_taken(batch.rows))
    _fold_dictionary(state, image)
    _fold_duplicates(state, image, ended)
    state.position = image.last_position
    state.time_us = max(state.time_us, image.last_time_us)
    state.retained = still(state.retained, state.time_us)
    state.epoch = image.epoch
    state.file_number = image.file_number


def _fold_dictionary(state: FoldState, image: EventsImage) -> None:
    for record in records_from(image.own_transitions(), image.names, image.own_types):
        subject = subject_id(record.record, record.type)
        if record.type in (QUEUES, RecordType.QUEUE_DELETED):
            state.next_queue_id = max(state.next_queue_id, subject + 1)
        elif record.type in (SETS, RecordType.ROUTING_SET_DROPPED):
            state.next_set_id = max(state.next_set_id, subject + 1)
        elif kind_of(record.type) != LEASES:
            state.next_holder_id = max(state.next_holder_id, subject + 1)
        state.dictionary.apply(record)
        if record.type == RecordType.QUEUE_DELETED:
            _forget_totals(state, subject)


def _fold_duplicates(state: FoldState, image: EventsImage, ended: list[Array]) -> None:
    windows = windows_of(state.dictionary)
    if windows or len(state.duplicates):
        nobody = [set_id for set_id, queues in routing_sets(image).items() if not len(queues)]
        gone = np.concatenate([*ended, np.zeros(0, np.uint64)])
        is_open = state.explicit["state"] == _PUT_UNCONFIRMED
        still_open = np.ascontiguousarray(state.explicit["serial"][is_open])
        state.duplicates = fold_duplicates(state.duplicates, windows, image, nobody, gone, still_open)


def _fold_chunks(state: FoldState, image: EventsImage) -> None:
    """Chunks of uploads: added, ended with their message, or dead (aborted, or unfinished at a restart)."""
    transitions = image.own_transitions()
    types = image.own_types
    if (types == RecordType.EPOCH_OPENED).any():
        state.chunks = state.chunks.compress(state.chunks["serial"] != 0)
    records = transitions.compress(types == RecordType.BODY_CHUNK)
    if not len(records) and not len(state.chunks):
        return
    ended = records["event"] == Event.UNDO
    added = np.zeros(int((~ended).sum()), CHUNK_DTYPE)
    for name, field in (("position", "position"), ("upload", "serial"), ("length", "detail_len")):
        added[name] = records[field][~ended]
    added["offset"] = records["detail_offset"][~ended]
    chunks = rows_together([state.chunks, added])
    chunks = chunks.compress(~np.isin(chunks["upload"], records["serial"][ended]))
    arrivals = image.arrivals.compress(image.arrivals["upload"] != 0)
    if len(arrivals):
        arrivals = arrivals.take(np.argsort(arrivals["upload"]))
        at = find(arrivals["upload"], chunks["upload"])
        chunks["serial"] = np.where(at >= 0, arrivals["position"][at], chunks["serial"])
    state.chunks = chunks


def _add_arrivals(state: FoldState, image: EventsImage) -> None:
    arrivals = image.arrivals
    if not len(arrivals):
        return
    sets = arrivals["routing_set"]
    single = np.flatnonzero(sets < SET_BASE)
    if len(single) == len(arrivals):
        _add_entries(state, image, arrivals, single, sets)
        return
    _add_entries(state, image, arrivals.take(single), single, sets[single])
    several = np.flatnonzero(sets >= SET_BASE)
    for indexes, queues in _spell_out(several, sets[several], routing_sets(image)):
        _add_entries(state, image, arrivals.take(indexes), indexes, queues)


def _spell_out(indexes: Array, sets: Array, members: dict[int, Array]) -> Iterator[tuple[Array, Array]]:
    """(arrival indexes, queues), one for each queue of the arrivals' routing sets, about `BATCH_ROWS` at a
    time.
    """
    ids = distinct(sets)
    nobody = np.zeros(0, np.uint32)
    queues = [members.get(set_id, nobody) for set_id in ids.tolist()]
    joined = np.concatenate([*queues, nobody])
    sizes = np.array([len(each) for each in queues], np.int64)
    which = np.searchsorted(ids, sets)
    counts, starts = sizes[which], (np.cumsum(sizes) - sizes)[which]
    ends = np.cumsum(counts)
    at = 0
    while at < len(indexes):
        before = int(ends[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(ends, before + BATCH_ROWS, "right")))
        owner = np.repeat(np.arange(at, end), counts[at:end])
        number = np.arange(len(owner)) - (ends - counts - before)[owner]
        yield indexes[owner], joined[starts[owner] + number]
        at = end


def _add_entries(
    state: FoldState, image: EventsImage, arrivals: Array, indexes: Array, queues: Array
) -> None:
    """One entry for each (arrival, its index in the file, queue) of three arrays."""
    if not len(indexes):
        return
    _count_arrived(state, queues, arrivals["body_len"])
    plain = arrives_plain(arrivals)
    if not plain.all():
        rows = rows_from_arrivals(arrivals.compress(~plain), queues[~plain])
        _merge_explicit(state, rows)
        indexes, queues = indexes[plain], queues[plain]
    _merge_plain(state, image.file_number, indexes, queues)


def _merge_plain(state: FoldState, file_number: int, indexes: Array, queues: Array) -> None:
    """Add indexes of one file to the plain entries of their queues."""
    distinct_queues = distinct(queues)
    pieces = [indexes] if len(distinct_queues) else []
    if len(distinct_queues) > 1:
        order = np.argsort(queues, kind="stable")
        pieces = np.split(indexes[order], np.searchsorted(queues[order], distinct_queues[1:]))
    for queue, own in zip(distinct_queues.tolist(), pieces, strict=True):
        old = state.plain.get((file_number, queue))
        joined = own if old is None else np.sort(np.concatenate([old, own]))
        state.set_plain(file_number, queue, joined)


def _merge_explicit(state: FoldState, rows: Array) -> None:
    joined = rows_together([state.explicit, rows])
    state.explicit = joined.take(np.lexsort((joined["queue"], joined["serial"])))


class _Keys:
    """The changes of a batch by entry: for each entry its last change and what the others add up to."""

    def __init__(self, batch: Changes, extra_queues: Array) -> None:
        rows = batch.rows
        serials, queues = np.ascontiguousarray(rows["serial"]), np.ascontiguousarray(rows["queue"])
        self.space = KeySpace(np.concatenate([distinct(queues), extra_queues]))
        keys = self.space.encode(serials, queues)
        self.order = np.argsort(keys, kind="stable")
        ordered = keys[self.order]
        first = np.ones(len(ordered), np.bool_)
        first[1:] = ordered[1:] != ordered[:-1]
        self.starts = np.flatnonzero(first)
        self.keys = ordered[self.starts]
        lasts = np.append(self.starts[1:], len(ordered)) - 1
        self.last = self.order[lasts]
        """Index into the batch's rows of each entry's last change."""
        self.serials, self.queues = serials[self.last], queues[self.last]
        self.to_state = rows["to_state"][self.last]
        self._batch = batch

    def sums(self, field: str) -> Array:
        """What all changes of each entry add to a count."""
        values = self._batch.rows[field]
        if not values.any():
            return np.zeros(len(self.starts), np.int64)
        return np.add.reduceat(values[self.order].astype(np.int64), self.starts)

    def first_with(self, wanted: Array) -> Array:
        """Index into the rows of each entry's first change for which `wanted` (by row) holds; −1 for none."""
        count = len(wanted)
        at = np.minimum.reduceat(np.where(wanted[self.order], np.arange(count), count), self.starts)
        return np.where(at < count, self.order[np.minimum(at, count - 1)], -1)

    def last_with(self, wanted: Array) -> Array:
        """Place in order of each entry's last change for which `wanted` (by row) holds; −1 for none."""
        return np.maximum.reduceat(np.where(wanted[self.order], np.arange(len(wanted)), -1), self.starts)


def _apply(state: FoldState, batch: Changes, source: Arrivals, retentions: dict[int, int]) -> None:
    keys = _Keys(batch, distinct(state.explicit["queue"]))
    explicit_keys = keys.space.encode(state.explicit["serial"], state.explicit["queue"])
    in_explicit = find(explicit_keys, keys.keys)
    files = np.where(in_explicit >= 0, -1, state.file_of(keys.serials))
    in_plain = _take_plain(state, keys, files, source)
    live = (in_explicit >= 0) | (in_plain >= 0)
    outcomes = batch.rows["outcome"][keys.last]
    ended = live & (keys.to_state == _DELETED)
    _count_ended(state, keys.queues[ended], outcomes[ended])
    if retentions and ended.any():
        times_us = batch.rows["time_us"][keys.last[ended]]
        _retain(state, keys.serials[ended], keys.queues[ended], in_explicit[ended], times_us, retentions)
    rows = _surviving_rows(state, keys, in_explicit, in_plain, files, live & ~ended, source)
    stays = np.ones(len(state.explicit), np.bool_)
    stays[in_explicit[in_explicit >= 0]] = False
    state.explicit = state.explicit.compress(stays)
    if len(rows):
        _update(rows, keys, live & ~ended, batch)
        _settle(state, rows, source)


def _retain(
    state: FoldState,
    serials: Array,
    queues: Array,
    in_explicit: Array,
    times_us: Array,
    retentions: dict[int, int],
) -> None:
    """Bodies of entries that have ended, and where they lie: with their arrival, or where they share one."""
    positions, lie_on = serials.copy(), queues.copy()
    known = in_explicit >= 0
    positions[known] = state.explicit["body_serial"][in_explicit[known]]
    lie_on[positions != serials] = ANY_QUEUE
    rows = ended_at(positions, lie_on, queues, times_us, retentions)
    state.retained = joined([state.retained, rows])


def _take_plain(state: FoldState, keys: _Keys, files: Array, source: Arrivals) -> Array:
    """Remove the batch's entries from the plain ones; returns the index of each arrival, −1 if not plain."""
    found = np.full(len(files), -1, np.int64)
    for file_number in distinct(files[files >= 0]).tolist():
        rows = np.flatnonzero(files == file_number)
        at = find(source(file_number)["position"], keys.serials[rows])
        rows, at = rows[at >= 0], at[at >= 0]
        queues = keys.queues[rows]
        for queue in distinct(queues).tolist():
            plain = state.plain.get((file_number, queue))
            if plain is not None:
                own = queues == queue
                stays, taken = _without(plain, at[own])
                state.set_plain(file_number, queue, stays)
                found[rows[own]] = np.where(taken, at[own], -1)
    return found


def _without(plain: Array, indexes: Array) -> tuple[Array, Array]:
    """The ascending `plain` without these indexes, and which of them it had."""
    if len(indexes) < len(plain) // _FEW:
        where = find(plain, indexes)
        stays = np.ones(len(plain), np.bool_)
        stays[where[where >= 0]] = False
        return plain[stays], where >= 0
    is_plain = np.zeros(max(int(plain[-1]), int(indexes.max())) + 1, np.bool_)
    is_plain[plain] = True
    taken = is_plain[indexes]
    is_plain[indexes] = False
    return np.flatnonzero(is_plain), taken


_FEW: Final = 64
"""Below this share of the whole a search is quicker than a table."""


def _surviving_rows(
    state: FoldState,
    keys: _Keys,
    in_explicit: Array,
    in_plain: Array,
    files: Array,
    survives: Array,
    source: Arrivals,
) -> Array:
    """The rows, before the batch, of the entries that live on, in order of the keys."""
    rows = np.zeros(int(survives.sum()), state.explicit.dtype)
    explicit, plain, numbers = in_explicit[survives], in_plain[survives], files[survives]
    queues = keys.queues[survives]
    was_explicit = explicit >= 0
    set_rows(rows, was_explicit, state.explicit.take(explicit[was_explicit]))
    for file_number in distinct(numbers[~was_explicit]).tolist():
        own = np.flatnonzero(numbers == file_number)
        set_rows(rows, own, rows_from_arrivals(source(file_number).take(plain[own]), queues[own]))
    return rows


def _update(rows: Array, keys: _Keys, survives: Array, batch: Changes) -> None:
    """Bring the rows of surviving entries to what the batch made of them."""
    changes = batch.rows
    last = changes.take(keys.last[survives])
    held = IS_HELD[last["to_state"]]
    rows["state"] = last["to_state"]
    rows["causes"] = last["causes"]
    # Committed unborn: as it arrived. Who waits for its turn, or for a pause to end, waits for no time.
    as_arrived = (last["causes"] & _UNBORN != 0) & (last["due_us"] == 0)
    as_arrived |= last["event"] == _PREPARE
    rows["due_us"] = np.where(as_arrived, rows["due_us"], last["due_us"])
    rows["last_event"] = last["event"]
    rows["holder"] = np.where(held, last["holder"], 0)
    rows["holder_kind"] = np.where(held, last["holder_kind"], 0)
    rows["delivery_count"] += keys.sums("delivery_delta")[survives].astype(np.uint32)
    rows["failure_count"] += keys.sums("failure_delta")[survives].astype(np.uint32)
    _update_places(rows, keys.first_with(changes["to_state"] == _AVAILABLE)[survives], batch)
    _update_noted(rows, keys, survives, changes)
    _update_acquired(rows, keys, survives, changes)
    # who has once been held stays so; Spark subscriptions have no link, and may hold a million
    taken = IS_TAKEN[changes["to_state"]] & (changes["holder_kind"] != _SPARK_SUBSCRIPTION)
    if taken.any():
        rows["arrival_flags"] |= np.where(
            np.logical_or.reduceat(taken[keys.order], keys.starts)[survives], _ACQUIRED_FLAG, 0
        ).astype(np.uint16)


def _update_acquired(rows: Array, keys: _Keys, survives: Array, changes: Array) -> None:
    """Where a Spark subscription was given what it holds: by that it says how far it has come."""
    own = rows["holder_kind"] == _SPARK_SUBSCRIPTION
    if not own.any():
        rows["acquired_position"] = 0
        return
    at = keys.last_with(changes["event"] == _ACQUIRE)[survives]
    positions = changes["position"][keys.order[np.maximum(at, 0)]]
    rows["acquired_position"] = np.where(own, np.where(at >= 0, positions, rows["acquired_position"]), 0)


def _update_places(rows: Array, first_available: Array, batch: Changes) -> None:
    """An entry's place is where it first became available, and stays so."""
    new = (rows["place_position"] == 0) & (first_available >= 0)
    at = first_available[new]
    rows["place_position"][new] = batch.rows["position"][at]
    rows["place_ordinal"][new] = batch.ordinals_at(at)


def _update_noted(rows: Array, keys: _Keys, survives: Array, changes: Array) -> None:
    """An expiry or deletion of a held entry waits for its return; remember it until then."""
    held = IS_HELD[changes["to_state"]]
    noting = held & np.isin(changes["event"], _NOTING_EVENTS)
    noted_at = keys.last_with(noting)[survives]
    free_at = keys.last_with(~held)[survives]
    event = changes["event"][keys.order[np.maximum(noted_at, 0)]]
    kept = np.where(free_at >= 0, 0, rows["noted"])
    rows["noted"] = np.where(noted_at > free_at, event, kept)


def _settle(state: FoldState, rows: Array, source: Arrivals) -> None:
    """File surviving rows away: as plain entries where they are that again, else as explicit ones."""
    plain = rows_are_plain(rows)
    back, explicit = rows.compress(plain), [rows.compress(~plain)]
    files = state.file_of(back["serial"])
    for file_number in distinct(files).tolist():
        own = back.compress(files == file_number)
        at = find(source(file_number)["position"], own["serial"])
        _merge_plain(state, file_number, at[at >= 0], own["queue"][at >= 0])
        explicit.append(own.compress(at < 0))
    _merge_explicit(state, rows_together(explicit))


def _totals_rows(state: FoldState, queues: Array) -> Array:
    """Indexes of the queues' rows in the totals; rows are made where there are none."""
    missing = queues[find(state.totals["queue"], queues) < 0]
    if len(missing):
        rows = np.zeros(len(missing), TOTAL_DTYPE)
        rows["queue"] = missing
        joined = rows_together([state.totals, rows])
        state.totals = joined.take(np.argsort(joined["queue"]))
    return np.searchsorted(state.totals["queue"], queues)


def _count_arrived(state: FoldState, queues: Array, body_bytes: Array) -> None:
    seen = distinct(queues)
    rows = _totals_rows(state, seen)
    at = np.searchsorted(seen, queues) if len(seen) > 1 else np.zeros(len(queues), np.int64)
    state.totals["arrived"][rows] += np.bincount(at, minlength=len(seen)).astype(np.uint64)
    sums = np.bincount(at, weights=body_bytes, minlength=len(seen))
    state.totals["arrived_bytes"][rows] += sums.astype(np.uint64)


def _count_ended(state: FoldState, queues: Array, outcomes: Array) -> None:
    seen = distinct(queues)
    if not len(seen):
        return
    at = np.searchsorted(seen, queues)
    counts = np.bincount(at * OUTCOME_SLOTS + outcomes, minlength=len(seen) * OUTCOME_SLOTS)
    rows = _totals_rows(state, seen)
    state.totals["ended"][rows] += counts.reshape(len(seen), OUTCOME_SLOTS).astype(np.uint64)


def _forget_totals(state: FoldState, queue: int) -> None:
    """A deleted queue's totals go into those of queue 0."""
    own, sum_row = _totals_rows(state, np.array([queue], np.uint32)), np.array([0], np.uint32)
    gone = state.totals.take(own)
    state.totals = np.delete(state.totals, own)
    row = _totals_rows(state, sum_row)
    for name in ("arrived", "arrived_bytes", "ended"):
        state.totals[name][row] += gone[name]


def prune_chunks(state: FoldState, source: Arrivals) -> None:
    """Drop the chunks of messages that no live entry has, and of which nothing stays."""
    chunks = state.chunks
    if not len(chunks):
        return
    serials = distinct(chunks["serial"])
    live = live_bodies(state, serials, source)
    stay = (chunks["serial"] == 0) | np.isin(chunks["serial"], live)
    state.chunks = chunks.compress(stay | hold_positions(state.retained, chunks["serial"]))


def live_bodies(state: FoldState, serials: Array, source: Arrivals) -> Array:
    """Those of the given body serials that a live entry refers to."""
    found = [serials[np.isin(serials, state.explicit["body_serial"])]]
    files = state.file_of(serials)
    by_file: dict[int, list[Array]] = {}
    for (file_number, _), indexes in state.plain.items():
        by_file.setdefault(file_number, []).append(indexes)
    for file_number in distinct(files).tolist():
        own = serials[files == file_number]
        at = find(source(file_number)["position"], own)
        pieces = by_file.get(file_number, [])
        found.append(own[(at >= 0) & np.isin(at, np.concatenate(pieces) if pieces else [])])
    return np.unique(np.concatenate(found))


_STORED: Final = int(ArrivalFlag.BODY_STORED)
_KEPT: Final = int(ArrivalFlag.BODY_STORED | ArrivalFlag.TAPPED)


def has_body(flags: Array) -> Array:
    """Which messages have their body in the ledger, by their arrival flags."""
    return np.asarray((flags & _STORED) != 0)


def survives(flags: Array) -> Array:
    """Which messages survive a restart: those whose body is stored for more than readers of the ledger."""
    return np.asarray((flags & _KEPT) == _STORED)
