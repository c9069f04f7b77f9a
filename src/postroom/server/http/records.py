"""Records of a range as an ``.events`` image of its own: what a reader far away gets of the journal.

The journal's own bytes have the bodies between the records, so they are not what is served. An image has
records, names, and the definitions in force where it begins: it can be read alone, as every file of the
ledger can.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.format.dictionary import QUEUES, is_end, kind_of
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.headers import NO_SEAL
from postroom.ledger.format.layout import BLOCK_ROW_DTYPE, Array
from postroom.ledger.format.records import RecordType
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.segments import Segment
from postroom.ledger.storage.disk import Bytes
from postroom.ledger.storage.events_image import (
    ARRIVAL_NAMES,
    TRANSITION_NAMES,
    EventsImage,
    encode_image,
    name_bytes,
)

_KINDS: Final = np.array([kind_of(type) for type in range(256)], np.uint64)
_IS_END: Final = np.array([is_end(type) for type in range(256)], bool)
_ID_BITS: Final = np.uint64(32)
_NOWHERE: Final = 1 << 62


def in_force(definitions: Array) -> Array:
    """Of records that define or drop something, oldest first, those whose word still counts after the
    last."""
    kinds = _KINDS[definitions["type"]]
    ids = np.where(kinds == QUEUES, definitions["queue"], definitions["holder"]).astype(np.uint64)
    keys = kinds << _ID_BITS | ids
    order = np.argsort(keys, kind="stable")
    newest = np.ones(len(order), bool)
    newest[:-1] = keys[order][1:] != keys[order][:-1]
    left = np.sort(order[newest])
    found: Array = definitions[left][~_IS_END[definitions["type"][left]]]
    return found


def known_before(definitions: Definitions, position: int) -> Array:
    """What of these is in force where a position begins."""
    records = definitions.transitions
    return in_force(records[records["position"] < position])


def encode_range(
    segment: Segment, known: Array, known_names: npt.NDArray[np.uint8], chunk: Chunk
) -> list[Bytes]:
    """The image of a chunk of a file's records, which are not none.

    `known` are the definitions in force before it; their details lie in `known_names`.
    """
    known, details = _gathered(known, known_names)
    arrivals, transitions = chunk.arrivals.copy(), chunk.transitions.copy()
    low, high = _extent(arrivals, transitions)
    _shift(arrivals, ARRIVAL_NAMES, len(details) - low)
    _shift(transitions, TRANSITION_NAMES, len(details) - low)
    ends = [int(rows["position"][at]) for at in (0, -1) for rows in (arrivals, transitions) if len(rows)]
    return encode_image(
        EventsImage(
            ledger_id=segment.ledger_id,
            epoch=segment.epoch,
            epoch_id=segment.epoch_id,
            file_number=segment.number,
            first_position=min(ends),
            last_position=max(ends),
            time_us=segment.first_time_us,
            last_time_us=segment.last_time_us,
            sealed=NO_SEAL,
            last_block_crc=0,
            dictionary_count=len(known),
            transitions=np.concatenate([known, transitions]),
            arrivals=arrivals,
            names=memoryview(details + chunk.names[low:high].tobytes()),
            blocks=np.zeros(0, BLOCK_ROW_DTYPE),
        )
    )


def _gathered(known: Array, names: npt.NDArray[np.uint8]) -> tuple[Array, bytes]:
    """The definitions with offsets into a heap of their details alone, and that heap."""
    known = known.copy()
    lengths = known["detail_len"].astype(np.int64)
    pieces = [
        names[at : at + length].tobytes()
        for at, length in zip(known["detail_offset"].tolist(), lengths.tolist(), strict=True)
    ]
    known["detail_offset"] = np.where(lengths > 0, np.cumsum(lengths) - lengths, 0)
    return known, b"".join(pieces)


def _extent(arrivals: Array, transitions: Array) -> tuple[int, int]:
    """The part of the names heap that these records speak of."""
    low, high = _NOWHERE, 0
    for rows, fields in ((arrivals, ARRIVAL_NAMES), (transitions, TRANSITION_NAMES)):
        for offset, lengths in fields:
            sizes = name_bytes(rows, lengths)
            named = _named(rows, offset, sizes)
            if named.any():
                at = rows[offset][named].astype(np.int64)
                low, high = min(low, int(at.min())), max(high, int((at + sizes[named]).max()))
    return min(low, high), high


def _shift(rows: Array, fields: tuple[tuple[str, tuple[str, ...]], ...], by: int) -> None:
    for offset, lengths in fields:
        named = _named(rows, offset, name_bytes(rows, lengths))
        rows[offset][named] = (rows[offset][named].astype(np.int64) + by).astype(np.uint32)


def _named(rows: Array, offset: str, sizes: Array) -> npt.NDArray[np.bool_]:
    """Which rows have something there; what a BODY_CHUNK names lies among the bodies."""
    named: npt.NDArray[np.bool_] = sizes > 0
    if offset == "detail_offset":
        named &= rows["type"] != RecordType.BODY_CHUNK
    return named
