"""The transmission header: what a message that waits on a transmission queue says of where it goes (MQXQH).

It is a message annotation of the stored sections, so that it travels and is kept with the message: a list of
the queue, its queue manager, and how many transmission queues the message has been put on.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.encoding.types import UInt
from postroom.amqp.message.message_head import merge_annotations
from postroom.amqp.message.rewrite import annotations_section, decoded, has_annotations, take_annotation

TRANSMISSION: Final = "x-opt-transmission"
MAX_HOPS: Final = 255
"""That a header can count."""
MAX_REMEMBERED: Final = 1024
"""Headers as they are written: there are few, and they are met often."""
_SHORT_MAP: Final = b"\x00\x53\x72\xc1"
"""Descriptor of message-annotations, constructor of a map of less than 256 bytes; its size and the count of
its items follow, a byte each."""
_SIZE_AT: Final = 4
_COUNT_AT: Final = 5
_ITEMS_AT: Final = 6
_NAME: Final = TRANSMISSION.encode()
_KEY: Final = b"\xa3" + bytes((len(_NAME),)) + _NAME
_SHORT_LIST: Final = 0xC0
_MAX_SIZE: Final = 255


@final
class TransmissionHeader:
    """Where a message goes."""

    __slots__ = ("hops", "item", "queue", "queue_manager", "section")

    def __init__(self, queue: str, queue_manager: str, hops: i64) -> None:
        self.queue = queue
        """Its name there."""
        self.queue_manager = queue_manager
        self.hops: i64 = hops
        """Transmission queues that it has been put on, this one included."""
        self.section = annotations_section(self._annotation())
        """Before a message without annotations."""
        self.item = self.section[_ITEMS_AT:] if self.section[: len(_SHORT_MAP)] == _SHORT_MAP else b""
        """Key and value, to be the first of the annotations that a message has; b"" of long names."""

    def _annotation(self) -> dict[object, object]:
        return {TRANSMISSION: [self.queue, self.queue_manager, UInt(self.hops)]}

    def put_on(self, stored: bytes) -> bytes:
        """The sections with this header, instead of one that they may have."""
        if not has_annotations(stored):
            return self.section + stored
        if self.item and stored[: len(_SHORT_MAP)] == _SHORT_MAP:
            size, count = stored[_SIZE_AT] + len(self.item), stored[_COUNT_AT] + 2
            end = _COUNT_AT + stored[_SIZE_AT]
            if size <= _MAX_SIZE and stored.find(_NAME, _ITEMS_AT, end) < 0:
                return b"".join((_SHORT_MAP, bytes((size, count)), self.item, stored[_ITEMS_AT:]))
        return merge_annotations(stored, self._annotation())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TransmissionHeader) and self.section == other.section

    def __hash__(self) -> int:
        return hash(self.section)

    def __repr__(self) -> str:
        return f"TransmissionHeader({self.queue!r}, {self.queue_manager!r}, {self.hops})"


_known: dict[bytes, TransmissionHeader] = {}
"""By key and value."""


def take_transmission(stored: bytes) -> tuple[TransmissionHeader | None, bytes]:
    """The header and the sections without it; None where there is none, or none that can be read."""
    item_end = _first_item_end(stored)
    if item_end > 0:
        header = _read(stored[_ITEMS_AT:item_end])
        if header is not None:
            return header, _without_first(stored, item_end)
    value, rest = take_annotation(stored, TRANSMISSION)
    return _header_of(value), rest


def _first_item_end(stored: bytes) -> i64:
    """Where the header ends, if it is the first of the annotations, the only one of its name, and all is
    written in the shortest way, as `TransmissionHeader.put_on` does; else 0."""
    value_at: i64 = _ITEMS_AT + len(_KEY)
    if stored[: len(_SHORT_MAP)] != _SHORT_MAP or stored[_ITEMS_AT:value_at] != _KEY:
        return 0
    if stored[value_at] != _SHORT_LIST:
        return 0
    end: i64 = value_at + 2 + stored[value_at + 1]
    return end if stored.find(_NAME, end, _COUNT_AT + stored[_SIZE_AT]) < 0 else 0


def _read(item: bytes) -> TransmissionHeader | None:
    """The header of which this is key and value; None if it is none."""
    known = _known.get(item)
    if known is None:
        known = _header_of(decoded(item, len(_KEY), len(item)))
        if known is not None:
            if len(_known) >= MAX_REMEMBERED:
                _known.clear()
            _known[item] = known
    return known


def _without_first(stored: bytes, item_end: i64) -> bytes:
    """The sections without their first annotation, which ends there."""
    count = stored[_COUNT_AT] - 2
    if count == 0:
        return stored[item_end:]
    size = stored[_SIZE_AT] - (item_end - _ITEMS_AT)
    return b"".join((_SHORT_MAP, bytes((int(size), count)), stored[item_end:]))


def _header_of(value: object) -> TransmissionHeader | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    queue, queue_manager, hops = value
    if not isinstance(queue, str) or not isinstance(queue_manager, str) or not isinstance(hops, int):
        return None
    if not queue or not queue_manager or isinstance(hops, bool) or not 0 < hops <= MAX_HOPS:
        return None
    return TransmissionHeader(queue, queue_manager, hops)
