"""Who has an id: an index of one queue by unique id, message id and correlation id.

Built when somebody first asks; a queue that nobody asks pays one test for each message. The ids themselves
are kept only of the newest `YOUNG_ENTRIES`; of all others a 64-bit hash and the serial, 16 bytes for each id
that a message has. So an older answer is a guess that must be compared with what the ledger says.

Entries that have ended are not taken out: who asks looks whether the entry still lives. An index that has
grown to twice what the queue holds is dropped, and built again when somebody asks.
"""

from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from mypy_extensions import i64

from postroom.ledger.fold.state import distinct
from postroom.ledger.reading.message_id_hash import hash_id, hash_ids
from postroom.model.ids import ID_KINDS, MESSAGE_ID, NO_IDS, UNIQUE_ID, MessageIds
from postroom.model.message import RecordedProperties
from postroom.model.packed import PACKED_FIELDS

if TYPE_CHECKING:
    pass

YOUNG_ENTRIES: Final = 8192
"""Entries whose ids are kept whole; half of them are folded into hashes when there is one more."""
MERGED_SEGMENTS: Final = 16
"""So many small segments become one, so that few have to be searched."""

_PACKED: Final = np.dtype(PACKED_FIELDS)


def ids_of(properties: RecordedProperties) -> MessageIds:
    """The ids that a message brings."""
    return MessageIds(
        properties.unique_id,
        properties.message_id,
        properties.message_id_type,
        properties.correlation_id,
        properties.correlation_id_type,
    )


def id_of_kind(ids: MessageIds, kind: i64) -> tuple[bytes, int] | None:
    """(id, type) of one kind; None if the message has none."""
    if kind == UNIQUE_ID:
        return (ids.unique_id, 0) if ids.unique_id else None
    if kind == MESSAGE_ID:
        return (ids.message_id, int(ids.message_id_type)) if ids.message_id_type != 0 else None
    return (ids.correlation_id, int(ids.correlation_id_type)) if ids.correlation_id_type != 0 else None


@final
class IdIndex:
    """Serials by id, of one queue."""

    def __init__(self) -> None:
        self.ready = False
        """Whether everything that was on the queue before is in it."""
        self.reading = False
        self.missed: list[int] = []
        """Entries made of others: their ids are to be read."""
        self.askers: list[object] = []
        """Requests that wait for it to be ready."""
        self.young: dict[int, MessageIds] = {}
        """By serial, oldest first."""
        self._serials: list[dict[tuple[bytes, int], list[int]]] = [{} for _ in range(ID_KINDS)]
        """Of the young, for each kind of id."""
        self._segments: list[list[Any]] = []
        """Of the others: (hashes, serials) for each kind, hashes ascending."""
        self.hashed: i64 = 0
        """Ids in the segments."""

    def note(self, serial: i64, properties: RecordedProperties) -> None:
        """A message has arrived."""
        self.add(serial, ids_of(properties))

    def add(self, serial: i64, ids: MessageIds) -> None:
        self.young[serial] = ids
        for kind in range(ID_KINDS):
            id = id_of_kind(ids, kind)
            if id is not None:
                self._serials[kind].setdefault(id, []).append(int(serial))
        if len(self.young) > YOUNG_ENTRIES:
            self._fold(YOUNG_ENTRIES // 2)

    def add_missed(self, serials: list[int], found: list[Any]) -> None:
        """The ids of those have been read."""
        for serial, ids in zip(serials, found, strict=True):
            self.add(serial, ids if ids is not None else NO_IDS)
        self.reading = False

    def learn(self, segments: list[list[Any]]) -> None:
        """What was on the queue before has been read."""
        self._segments += segments
        self.hashed += sum(len(column[0]) for segment in segments for column in segment)
        self.ready = True
        self.reading = False

    def candidates(self, kind: i64, id: bytes, type: i64) -> Any:
        """Serials of those that may have this id, ascending, each once: an array of u64."""
        found = [np.array(self._serials[kind].get((id, int(type)), []), np.uint64)]
        if self._segments:
            wanted = np.uint64(hash_id(id, int(type)))
            for segment in self._segments:
                hashes, serials = segment[kind]
                low = int(hashes.searchsorted(wanted))
                if low < len(hashes) and hashes[low] == wanted:
                    found.append(serials[low : int(hashes.searchsorted(wanted, "right"))])
        return distinct(np.concatenate(found))

    def too_large(self, depth: i64) -> bool:
        """Whether most of what it knows has ended."""
        return self.hashed + len(self.missed) > ID_KINDS * 2 * (depth + YOUNG_ENTRIES)

    def _fold(self, count: int) -> None:
        """Keep only hashes of the oldest."""
        folded = [(serial, self.young[serial]) for serial in list(self.young)[:count]]
        segment = [self._fold_kind(kind, folded) for kind in range(ID_KINDS)]
        for serial, _ in folded:
            del self.young[serial]
        self._segments.append(segment)
        self.hashed += sum(len(column[0]) for column in segment)
        self._merge()

    def _fold_kind(self, kind: int, folded: list[tuple[int, MessageIds]]) -> Any:
        texts: list[bytes] = []
        types: list[int] = []
        serials: list[int] = []
        by_id = self._serials[kind]
        for serial, ids in folded:
            id = id_of_kind(ids, kind)
            if id is not None:
                texts.append(id[0])
                types.append(id[1])
                serials.append(serial)
                others = by_id[id]
                others.remove(serial)
                if not others:
                    del by_id[id]
        lengths = np.array([len(text) for text in texts], np.int64)
        names = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
        hashes = hash_ids(names, np.cumsum(lengths) - lengths, lengths, np.array(types, np.uint8))
        return _sorted(hashes, np.array(serials, np.uint64))

    def _merge(self) -> None:
        """Join the newest segments once there are enough small ones."""
        small = self._segments[-MERGED_SEGMENTS:]
        limit = YOUNG_ENTRIES
        if len(small) < MERGED_SEGMENTS or any(len(segment[0][0]) > limit for segment in small):
            return
        joined = [
            _sorted(
                np.concatenate([segment[kind][0] for segment in small]),
                np.concatenate([segment[kind][1] for segment in small]),
            )
            for kind in range(ID_KINDS)
        ]
        self._segments[-MERGED_SEGMENTS:] = [joined]


def _sorted(hashes: Any, serials: Any) -> Any:
    order = np.argsort(hashes, kind="stable")
    return (hashes[order], serials[order])
