"""The transmission header: what a message that waits on a transmission queue says of where it goes (MQXQH).

It is a message annotation of the stored sections, so that it travels and is kept with the message: a list of
the queue, its queue manager, and how many transmission queues the message has been put on.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.messaging import merge_annotations
from postroom.amqp.rewriting import annotations_section, has_annotations, take_annotation
from postroom.amqp.types import UInt

TRANSMISSION: Final = "x-opt-transmission"
MAX_HOPS: Final = 255
"""That a header can count."""
MAX_REMEMBERED: Final = 1024
"""Headers that were alone in their section of annotations, as most are: there are few, and they are met
often."""
_SHORT_MAP: Final = b"\x00\x53\x72\xc1"
"""Descriptor of message-annotations, constructor of a map of less than 256 bytes; its size follows."""


@final
class TransmissionHeader:
    """Where a message goes."""

    __slots__ = ("hops", "queue", "queue_manager", "section")

    def __init__(self, queue: str, queue_manager: str, hops: i64) -> None:
        self.queue = queue
        """Its name there."""
        self.queue_manager = queue_manager
        self.hops: i64 = hops
        """Transmission queues that it has been put on, this one included."""
        self.section = annotations_section(self._annotation())
        """Before a message without annotations, so that most messages cost one concatenation."""

    def _annotation(self) -> dict[object, object]:
        return {TRANSMISSION: [self.queue, self.queue_manager, UInt(self.hops)]}

    def put_on(self, stored: bytes) -> bytes:
        """The sections with this header, instead of one that they may have."""
        if not has_annotations(stored):
            return self.section + stored
        return merge_annotations(stored, self._annotation())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TransmissionHeader) and self.section == other.section

    def __hash__(self) -> int:
        return hash(self.section)

    def __repr__(self) -> str:
        return f"TransmissionHeader({self.queue!r}, {self.queue_manager!r}, {self.hops})"


_alone: dict[bytes, TransmissionHeader] = {}


def with_transmission(stored: bytes, header: TransmissionHeader) -> bytes:
    """The sections with the header on."""
    return header.put_on(stored)


def take_transmission(stored: bytes) -> tuple[TransmissionHeader | None, bytes]:
    """The header and the sections without it; None where there is none, or none that can be read."""
    size = _short_section(stored)
    section = stored[:size]
    known = _alone.get(section)
    if known is not None:
        return known, stored[size:]
    said, rest = take_annotation(stored, TRANSMISSION)
    header = _header_of(said)
    if header is not None and size > 0 and len(rest) == len(stored) - size:
        if len(_alone) >= MAX_REMEMBERED:
            _alone.clear()
        _alone[section] = header
    return header, rest


def _short_section(stored: bytes) -> i64:
    """The length of the section of annotations that ``stored`` begins with, if that is written in the
    shortest way; else 0."""
    if len(stored) < len(_SHORT_MAP) + 1 or stored[: len(_SHORT_MAP)] != _SHORT_MAP:
        return 0
    return len(_SHORT_MAP) + 1 + stored[len(_SHORT_MAP)]


def _header_of(said: object) -> TransmissionHeader | None:
    if not isinstance(said, list) or len(said) != 3:
        return None
    queue, queue_manager, hops = said
    if not isinstance(queue, str) or not isinstance(queue_manager, str) or not isinstance(hops, int):
        return None
    if not queue or not queue_manager or isinstance(hops, bool) or not 0 < hops <= MAX_HOPS:
        return None
    return TransmissionHeader(queue, queue_manager, hops)
