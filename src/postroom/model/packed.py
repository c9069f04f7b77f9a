"""A waiting entry in 40 bytes: how the backlog of a queue is held in memory and handed over by recovery.

Only plain entries are packed: AVAILABLE (or unborn, see `UNBORN_FIELDS`, or behind another of their unit of
order, see `ORDERED_FIELDS`), stored, held by nobody. Available
entries of one piece have one priority and lie in the order of their places. The place itself isn't packed: it
is the serial, or, where serials don't ascend (commits make messages available in an order of their own), it
follows from the order.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

PACKED_FIELDS: Final = [
    ("serial", "<u8"),
    ("body_serial", "<u8"),
    ("expiry_us", "<i8"),  # absolute, 0 never
    ("body_offset", "<u4"),
    ("body_len", "<u4"),
    ("delivery_count", "<u2"),
    ("failure_count", "<u2"),
    ("priority", "u1"),
    ("flags", "<u2"),  # ArrivalFlag
    ("reserved", "u1"),
]
"""The layout as the argument of ``numpy.dtype``; as a struct it is ``<QQqIIHHBHB``."""

PACKED_STRUCT: Final = "<QQqIIHHBHB"
PACKED_BYTES: Final = 40

EXPIRY_AT: Final = 16
"""Where in a record the expiry lies."""

UNBORN_FIELDS: Final = [*PACKED_FIELDS, ("due_us", "<i8")]
"""An entry that is DELAYED for the one cause UNBORN: as above, and when it is to be born."""
UNBORN_BYTES: Final = 48

ORDERED_FIELDS: Final = [*PACKED_FIELDS, ("place", "<u8"), ("ordinal", "<u8")]
"""An entry that is DELAYED for the one cause ORDERED: as above, and its place."""
ORDERED_BYTES: Final = 56

CHUNK_ENTRIES: Final = 64 << 10
"""Entries of a full backlog chunk; recovery best hands over pieces of this size."""

_MASK_16: Final = 0xFFFF
_MASK_32: Final = 0xFFFF_FFFF
_SIGN_32: Final = 0x8000_0000
_TWO_32: Final = 0x1_0000_0000


@final
class PackedEntry:
    """One record, unpacked. Reused by readers and writers: `read` overwrites it."""

    __slots__ = (
        "body_len",
        "body_offset",
        "body_serial",
        "delivery_count",
        "expiry_us",
        "failure_count",
        "flags",
        "priority",
        "serial",
    )

    def __init__(self) -> None:
        self.serial: i64 = 0
        self.body_serial: i64 = 0
        self.expiry_us: i64 = 0
        self.body_offset: i64 = 0
        self.body_len: i64 = 0
        self.delivery_count: i64 = 0
        self.failure_count: i64 = 0
        self.priority: i64 = 0
        self.flags: i64 = 0

    def read(self, data: bytes, index: i64) -> None:
        """Take the fields of the record number ``index`` of ``data``."""
        self.read_at(data, index * PACKED_BYTES)

    def read_at(self, data: bytes, at: i64) -> None:
        """Take the fields of the record that begins at byte ``at``."""
        self.serial = read_i64_le(data, at)
        self.body_serial = read_i64_le(data, at + 8)
        self.expiry_us = read_i64_le(data, at + 16)
        place = read_i64_le(data, at + 24)
        self.body_offset = place & _MASK_32
        self.body_len = (place >> 32) & _MASK_32
        rest = read_i64_le(data, at + 32)
        self.delivery_count = rest & _MASK_16
        self.failure_count = (rest >> 16) & _MASK_16
        self.priority = (rest >> 32) & 0xFF
        self.flags = (rest >> 40) & _MASK_16

    def write(self, w: BytesWriter) -> None:
        """Append the fields as one record. Counts above 65,535 are held at that."""
        write_i64_le(w, self.serial)
        write_i64_le(w, self.body_serial)
        write_i64_le(w, self.expiry_us)
        body_len = self.body_len
        if body_len >= _SIGN_32:
            body_len -= _TWO_32
        write_i64_le(w, self.body_offset | body_len << 32)
        deliveries = min(self.delivery_count, _MASK_16)
        failures = min(self.failure_count, _MASK_16)
        write_i64_le(w, deliveries | failures << 16 | self.priority << 32 | self.flags << 40)


def write_plain_places(w: BytesWriter, data: bytes, count: i64) -> None:
    """Append the places, (place, ordinal) of each, of packed entries whose places are their serials."""
    index: i64 = 0
    while index < count:
        write_i64_le(w, read_i64_le(data, index * PACKED_BYTES))
        write_i64_le(w, 0)
        index += 1
