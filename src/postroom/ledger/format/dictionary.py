"""The definitions in force: queues, routing sets, holders, producers, leases, channels and their states,
annotations, Spark subscriptions, sinks, users and roles.

Every file opens with them, so that it can be read without the ones before; the checkpoint carries them too.
"""

import struct
from collections.abc import Iterable
from typing import Final

import numpy as np

from postroom.ledger.format.block import TRANSITION_BYTES, DictionaryRecord, SealedParts
from postroom.ledger.format.layout import TRANSITION_DTYPE, Array
from postroom.ledger.format.records import DEFINING_TYPES, RecordType

_DETAIL_AT: Final = 40
_IDS: Final = struct.Struct("<II")
_IDS_AT: Final = 32

QUEUES: Final = int(RecordType.QUEUE_DEFINED)
SETS: Final = int(RecordType.ROUTING_SET_DEFINED)
HOLDERS: Final = int(RecordType.HOLDER_OPENED)
PRODUCERS: Final = int(RecordType.PRODUCER_OPENED)
LEASES: Final = int(RecordType.LEASE_GRANTED)
CHANNELS: Final = int(RecordType.CHANNEL_DEFINED)
CHANNEL_STATES: Final = int(RecordType.CHANNEL_STATE)
ANNOTATIONS: Final = int(RecordType.ENTRY_ANNOTATED)
SINKS: Final = int(RecordType.SINK_STATE)
SPARK_SUBSCRIPTIONS: Final = int(RecordType.SPARK_SUBSCRIPTION_STATE)
PRINCIPALS: Final = int(RecordType.PRINCIPAL_DEFINED)

_ENDS: Final = {
    int(RecordType.QUEUE_DELETED): QUEUES,
    int(RecordType.ROUTING_SET_DROPPED): SETS,
    int(RecordType.HOLDER_CLOSED): HOLDERS,
    int(RecordType.PRODUCER_CLOSED): PRODUCERS,
    int(RecordType.LEASE_RELEASED): LEASES,
    int(RecordType.CHANNEL_DELETED): CHANNELS,
    int(RecordType.ANNOTATIONS_DROPPED): ANNOTATIONS,
    int(RecordType.SINK_FORGOTTEN): SINKS,
    int(RecordType.PRINCIPAL_DROPPED): PRINCIPALS,
}
_REPLACES: Final = {int(RecordType.LEASE_BROKEN): LEASES}
"""Types beside the first of their kind that define."""
_TAKES_ALONG: Final = {CHANNELS: CHANNEL_STATES, HOLDERS: SPARK_SUBSCRIPTIONS}
"""The state that goes with the end of its subject."""


def kind_of(type: int) -> int:
    """QUEUES, SETS, HOLDERS, PRODUCERS, LEASES, CHANNELS, CHANNEL_STATES, ANNOTATIONS,
    SPARK_SUBSCRIPTIONS, SINKS or PRINCIPALS: what a dictionary record is about."""
    return _ENDS.get(type, _REPLACES.get(type, type))


def is_end(type: int) -> bool:
    """Whether a record of this type says that something is no more."""
    return type in _ENDS


def subject_id(record: bytes, type: int) -> int:
    """The id that a dictionary record speaks of: a queue's, else that in its holder field."""
    queue, holder = _IDS.unpack_from(record, _IDS_AT)
    return int(queue) if kind_of(type) == QUEUES else int(holder)


def defines(types: Array) -> Array:
    """Which of these record types define or drop something."""
    runs = [(types >= first) & (types <= last) for first, last in DEFINING_TYPES]
    return np.asarray(np.logical_or.reduce(runs))


class Dictionary:
    """What is in force after the records applied so far."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], DictionaryRecord] = {}

    def copy(self) -> "Dictionary":
        other = Dictionary()
        other._records = dict(self._records)
        return other

    def apply(self, record: DictionaryRecord) -> None:
        """A definition takes the place of the one before; an end removes it."""
        key = (kind_of(record.type), subject_id(record.record, record.type))
        if record.type in _ENDS:
            self._records.pop(key, None)
            if key[0] in _TAKES_ALONG:
                self._records.pop((_TAKES_ALONG[key[0]], key[1]), None)
        else:
            self._records[key] = record

    def of_kind(self, kind: int) -> dict[int, DictionaryRecord]:
        """The records of one kind (`kind_of`) by their id."""
        return {key[1]: record for key, record in self._records.items() if key[0] == kind}

    def encode(self) -> tuple[bytes, bytes]:
        """The transitions in order of position, and the heap of their details."""
        records = sorted(self._records.values(), key=lambda record: record.position)
        transitions, details, offset = [], [], 0
        for record in records:
            head, tail = record.record[:_DETAIL_AT], record.record[_DETAIL_AT + 4 :]
            transitions.append(head + (offset if record.detail else 0).to_bytes(4, "little") + tail)
            details.append(record.detail)
            offset += len(record.detail)
        return b"".join(transitions), b"".join(details)

    def as_block(self, first_position: int, time_us: int) -> SealedParts:
        """The dictionary block at the head of a file."""
        transitions, details = self.encode()
        return SealedParts(first_position, first_position - 1, time_us, b"", transitions, details, [], [])


def records_from(
    transitions: Array, names: memoryview, types: Array | None = None
) -> Iterable[DictionaryRecord]:
    """The dictionary records among `transitions`, in order, with details from the heap `names`.

    `types`: the type column, where the caller has it in one piece.
    """
    types = transitions["type"] if types is None else types
    for row in transitions[defines(types)]:
        start, length = int(row["detail_offset"]), int(row["detail_len"])
        detail = bytes(names[start : start + length])
        yield DictionaryRecord(int(row["type"]), int(row["position"]), row.tobytes(), detail)


def decode_dictionary(transitions: bytes, details: bytes) -> Dictionary:
    """The inverse of `Dictionary.encode`."""
    dictionary = Dictionary()
    rows = np.frombuffer(transitions, TRANSITION_DTYPE, count=len(transitions) // TRANSITION_BYTES)
    for record in records_from(rows, memoryview(details)):
        dictionary.apply(record)
    return dictionary
