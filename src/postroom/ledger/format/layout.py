"""Headers and tables of the ledger's files, each layout as a numpy dtype too. ``FORMAT.md`` explains them."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.format.records import ARRIVAL, GROUP, RANGE, TRANSITION, ArrivalFlag, Layout

Array = npt.NDArray[Any]

EVENTS_MAGIC: Final = 0x31455250  # "PRE1"
PACKED_MAGIC: Final = 0x314B5250  # "PRK1"
CHECKPOINT_MAGIC: Final = 0x31435250  # "PRC1"
SUPERBLOCK_MAGIC: Final = 0x31535250  # "PRS1"
ACTS_MAGIC: Final = 0x31415250  # "PRA1"

BLOCK_DICTIONARY: Final = 1
"""Block flag: the block repeats the definitions in force and has no positions of its own."""

FILE_HEADER: Final = Layout(
    160,
    [
        ("magic", "I"),
        ("header_crc", "I"),
        ("version", "I"),
        ("epoch", "I"),
        ("ledger_id", "16s"),
        ("epoch_id", "16s"),
        ("file_number", "I"),
        ("sealed_file", "I"),
        ("first_position", "Q"),
        ("time_us", "q"),
        ("sealed_position", "Q"),
        ("sealed_epoch", "I"),
        ("sealed_crc", "I"),
        ("reserved", "72s"),
    ],
)

EVENTS_HEADER: Final = Layout(
    192,
    [
        ("magic", "I"),
        ("header_crc", "I"),
        ("version", "I"),
        ("epoch", "I"),
        ("ledger_id", "16s"),
        ("epoch_id", "16s"),
        ("file_number", "I"),
        ("sealed_file", "I"),
        ("first_position", "Q"),
        ("last_position", "Q"),
        ("time_us", "q"),
        ("last_time_us", "q"),
        ("sealed_position", "Q"),
        ("sealed_epoch", "I"),
        ("sealed_crc", "I"),
        ("dictionary_count", "Q"),
        ("transition_count", "Q"),
        ("arrival_count", "Q"),
        ("names_bytes", "Q"),
        ("block_count", "Q"),
        ("transitions_crc", "I"),
        ("arrivals_crc", "I"),
        ("names_crc", "I"),
        ("blocks_crc", "I"),
        ("last_block_crc", "I"),
        ("reserved", "I"),
        ("reserved2", "24s"),
    ],
)

BLOCK_ROW: Final = Layout(
    24, [("first_position", "Q"), ("bodies_offset", "Q"), ("bodies_bytes", "I"), ("reserved", "I")]
)

PACKED_HEADER: Final = Layout(
    128,
    [
        ("magic", "I"),
        ("header_crc", "I"),
        ("version", "I"),
        ("generation", "I"),
        ("ledger_id", "16s"),
        ("first_file", "I"),
        ("last_file", "I"),
        ("first_position", "Q"),
        ("last_position", "Q"),
        ("index_offset", "Q"),
        ("index_count", "Q"),
        ("index_crc", "I"),
        ("reserved", "52s"),
    ],
)

PACKED_ROW: Final = Layout(24, [("key", "Q"), ("offset", "Q"), ("length", "I"), ("reserved", "I")])

CHECKPOINT_HEADER: Final = Layout(
    128,
    [
        ("magic", "I"),
        ("header_crc", "I"),
        ("version", "I"),
        ("epoch", "I"),
        ("ledger_id", "16s"),
        ("position", "Q"),
        ("time_us", "q"),
        ("file_number", "I"),
        ("section_count", "I"),
        ("reserved", "72s"),
    ],
)

SECTION_ROW: Final = Layout(
    40, [("name", "16s"), ("offset", "Q"), ("length", "Q"), ("crc", "I"), ("reserved", "I")]
)

SUPERBLOCK: Final = Layout(
    128,
    [
        ("magic", "I"),
        ("header_crc", "I"),
        ("version", "I"),
        ("is_closed", "I"),
        ("ledger_id", "16s"),
        ("sequence", "Q"),
        ("first_position", "Q"),
        ("newest_file", "I"),
        ("end_file", "I"),
        ("end_position", "Q"),
        ("end_epoch", "I"),
        ("end_crc", "I"),
        ("writer", "16s"),
        ("acts_through", "Q"),
        ("acts_first_file", "I"),
        ("reserved", "28s"),
    ],
)

ACTS_BLOCK: Final = Layout(
    96,
    [
        ("magic", "I"),
        ("header_crc", "I"),
        ("version", "I"),
        ("file_number", "I"),
        ("ledger_id", "16s"),
        ("first_position", "Q"),
        ("last_position", "Q"),
        ("last_time_us", "q"),
        ("count", "I"),
        ("names_bytes", "I"),
        ("content_crc", "I"),
        ("previous_crc", "I"),
        ("reserved", "24s"),
    ],
)

OUTCOME_SLOTS: Final = 16

TOTAL_ROW: Final = Layout(
    160,
    [("queue", "I"), ("reserved", "I"), ("arrived", "Q"), ("arrived_bytes", "Q"), ("reserved2", "Q")]
    + [(f"ended_{outcome}", "Q") for outcome in range(OUTCOME_SLOTS)],
)

PLAIN_ROW: Final = Layout(
    32,
    [
        ("file_number", "I"),
        ("queue", "I"),
        ("encoding", "I"),
        ("count", "I"),
        ("offset", "Q"),
        ("length", "Q"),
    ],
)

EXPLICIT_ROW: Final = Layout(
    128,
    [
        ("serial", "Q"),
        ("queue", "I"),
        ("holder", "I"),
        ("place_position", "Q"),  # 0 while it has never been available
        ("due_us", "q"),
        ("expiry_us", "q"),
        ("time_us", "q"),  # of its arrival
        ("body_serial", "Q"),
        ("parent_serial", "Q"),
        ("upload", "Q"),
        ("place_ordinal", "I"),
        ("parent_queue", "I"),
        ("body_offset", "I"),
        ("body_len", "I"),
        ("body_crc", "I"),
        ("routing_set", "I"),
        ("delivery_count", "I"),
        ("failure_count", "I"),
        ("producer", "I"),
        ("message_format", "I"),
        ("arrival_flags", "H"),
        ("state", "B"),
        ("holder_kind", "B"),
        ("causes", "B"),
        ("priority", "B"),
        ("noted", "B"),  # Event that waits for the return of a held entry (EXPIRE, DELETE), 0 none
        ("last_event", "B"),
        ("acquired_position", "Q"),  # of the event by which a Spark subscription holds it, 0 none
    ],
)

CHUNK_ROW: Final = Layout(
    32, [("position", "Q"), ("upload", "Q"), ("serial", "Q"), ("length", "I"), ("offset", "I")]
)
"""serial is the arrival that the upload became, 0 while it is open."""


def dtype_of(layout: Layout) -> np.dtype[Any]:
    """The layout as a packed numpy dtype."""
    return np.dtype(layout.numpy_fields())


ARRIVAL_DTYPE: Final = dtype_of(ARRIVAL)
TRANSITION_DTYPE: Final = dtype_of(TRANSITION)
GROUP_DTYPE: Final = dtype_of(GROUP)
RANGE_DTYPE: Final = dtype_of(RANGE)
BLOCK_ROW_DTYPE: Final = dtype_of(BLOCK_ROW)
PACKED_ROW_DTYPE: Final = dtype_of(PACKED_ROW)
PLAIN_DTYPE: Final = dtype_of(PLAIN_ROW)
EXPLICIT_DTYPE: Final = dtype_of(EXPLICIT_ROW)
CHUNK_DTYPE: Final = dtype_of(CHUNK_ROW)
TOTAL_DTYPE: Final = np.dtype(
    [
        ("queue", "<u4"),
        ("reserved", "<u4"),
        ("arrived", "<u8"),
        ("arrived_bytes", "<u8"),
        ("reserved2", "<u8"),
        ("ended", "<u8", (OUTCOME_SLOTS,)),
    ]
)


def rows_together(pieces: Sequence[Array]) -> Array:
    """Structures of one type behind one another.

    Where numpy joins, copies or indexes arrays of structures, it goes from field to field; their bytes are
    copied forty times as fast: by this, `set_rows`, and numpy's `take` and `compress`.
    """
    return np.concatenate([_bytes_of(piece) for piece in pieces]).view(pieces[0].dtype)


def rows_at(rows: Array, indexes: Array) -> Array:
    """The structures at ascending indexes, one at least; nothing is copied where they are neighbours."""
    first, last = int(indexes[0]), int(indexes[-1])
    return rows[first : last + 1] if last - first + 1 == len(indexes) else rows.take(indexes)


def set_rows(rows: Array, at: Array | slice, others: Array) -> None:
    """``rows[at] = others``, for structures of one type."""
    _bytes_of(rows)[at] = _bytes_of(others)


def _bytes_of(rows: Array) -> Array:
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


def are_children(rows: Array, flags: str = "flags") -> Array:
    """Which arrivals, or rows with their ``flags``, were made from another entry of this ledger; what came
    through a channel was not: its parent_serial is one of the sender's ledger."""
    received = (rows[flags] & int(ArrivalFlag.RECEIVED)) != 0
    return np.asarray((rows["parent_serial"] != 0) & ~received)
