"""Letting history go: the live arrivals of an events file move, verbatim, into the checkpoint."""

import numpy as np

from postroom.ledger.fold.state import CARRIED_FILE, FoldState, distinct, find
from postroom.ledger.format.layout import Array, rows_together
from postroom.ledger.storage.events_image import ARRIVAL_NAMES, EventsImage, name_bytes


def carry(state: FoldState, retired: list[EventsImage]) -> None:
    """Take over the live arrivals of these files, and drop carried ones that have died."""
    numbers = {image.file_number for image in retired}
    keys = [key for key in state.plain if key[0] == CARRIED_FILE or key[0] in numbers]
    serials = {key: _serials(state, key, retired) for key in keys}
    explicit = distinct(state.explicit["serial"])
    pieces = [_live(state.carried, memoryview(state.carried_names), serials, CARRIED_FILE, explicit)]
    for image in retired:
        pieces.append(_live(image.arrivals, image.names, serials, image.file_number, explicit))
    state.carried, state.carried_names = _join(pieces)
    for key in keys:
        del state.plain[key]
    _refer(state, serials)
    state.needs = [span for span in state.needs if span.number not in numbers]


def forget_unneeded(state: FoldState) -> None:
    """Files that no live entry refers to any more are needed no longer."""
    used = {file_number for file_number, _ in state.plain}
    used.update(distinct(state.file_of(state.explicit["serial"])).tolist())
    state.needs = [span for span in state.needs if span.number in used]


def live_count(state: FoldState, file_number: int) -> int:
    """How many arrivals of the file are live, at most (an arrival on two queues may count twice)."""
    plain = sum(len(indexes) for (number, _), indexes in state.plain.items() if number == file_number)
    return plain + int((state.file_of(state.explicit["serial"]) == file_number).sum())


def _serials(state: FoldState, key: tuple[int, int], retired: list[EventsImage]) -> Array:
    if key[0] == CARRIED_FILE:
        return state.carried["position"][state.plain[key]]
    image = next(image for image in retired if image.file_number == key[0])
    return np.asarray(image.arrivals["position"][state.plain[key]])


def _live(
    arrivals: Array,
    names: memoryview,
    serials: dict[tuple[int, int], Array],
    file_number: int,
    explicit: Array,
) -> tuple[Array, list[bytes]]:
    """The live arrivals of one file and their names, one after the other in order of the rows."""
    wanted = [found for key, found in serials.items() if key[0] == file_number]
    positions = distinct(np.concatenate([*wanted, explicit]))
    at = find(arrivals["position"], positions)
    rows = arrivals.take(at[at >= 0])
    texts: list[bytes] = []
    for offset_name, length_names in ARRIVAL_NAMES:
        offsets, lengths = rows[offset_name].tolist(), name_bytes(rows, length_names).tolist()
        texts += [bytes(names[o : o + n]) for o, n in zip(offsets, lengths, strict=True)]
    return rows, texts


def _join(pieces: list[tuple[Array, list[bytes]]]) -> tuple[Array, bytes]:
    """All rows by position, with offsets into one heap of names."""
    heap: list[bytes] = []
    length = 0
    for rows, texts in pieces:
        sizes = np.array([len(text) for text in texts], np.int64)
        offsets = np.where(sizes > 0, length + np.cumsum(sizes) - sizes, 0)
        for column, (offset_name, _) in enumerate(ARRIVAL_NAMES):
            rows[offset_name] = offsets[column * len(rows) : (column + 1) * len(rows)]
        heap += texts
        length += int(sizes.sum())
    joined = rows_together([rows for rows, _ in pieces])
    return joined.take(np.argsort(joined["position"])), b"".join(heap)


def _refer(state: FoldState, serials: dict[tuple[int, int], Array]) -> None:
    """Point the plain entries of these queues at the carried arrivals."""
    by_queue: dict[int, list[Array]] = {}
    for (_, queue), found in serials.items():
        by_queue.setdefault(queue, []).append(found)
    positions = state.carried["position"]
    for queue, parts in by_queue.items():
        at = np.sort(find(positions, np.concatenate(parts)))
        state.set_plain(CARRIED_FILE, queue, at)
