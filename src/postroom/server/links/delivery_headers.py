"""The first sections of a delivery: a fresh header, what of its count was a failure, and message annotations
that an outcome has changed."""

from typing import Final

from mypy_extensions import i64

from postroom.amqp.encoding.types import MAX_UINT, UInt
from postroom.amqp.extensions import FAILURE_COUNT
from postroom.amqp.message.message_head import encode_header, merge_annotations
from postroom.amqp.message.sections import Message
from postroom.ledger.format.records import ArrivalFlag
from postroom.manager.kernel.effects import Delivery

_DURABLE = int(ArrivalFlag.DURABLE)
_MAX_CACHED_COUNT: Final = 16
_known: Final[list[bytes]] = [b""] * (_MAX_CACHED_COUNT << 9)
"""Headers without time to live, by delivery count, first-acquirer, priority and durability, b"": not met yet.
There are few, and they are met often.
"""


def first_sections(delivery: Delivery, now_us: int) -> bytes:
    """What a delivery begins with: its header, and perhaps the count of failures."""
    entry = delivery.entry
    durable = entry.flags & _DURABLE != 0
    count = delivery.delivery_count
    header = header_of(durable, entry.priority, entry.expiry_us, count, now_us, delivery.first)
    if count != entry.failure_count:
        header += failures_of(entry.failure_count)
    return header


def failures_of(count: i64) -> bytes:
    """The delivery annotations that say so."""
    return Message(delivery_annotations={FAILURE_COUNT: UInt(count)}).encode()


def changed_sections(sections: bytes, annotations: dict[str, object] | None) -> bytes:
    """The sections as stored, with the annotations that outcomes have changed."""
    if not annotations:
        return sections
    changes: dict[object, object] = dict(annotations.items())
    return merge_annotations(sections, changes)


def header_of(
    durable: bool, priority: i64, expiry_us: i64, count: i64, now_us: i64, first_acquirer: bool = False
) -> bytes:
    """A fresh header; the time to live is what is left of it, if a header has room for so much (49 days).

    ``first_acquirer``: no link has held the message before (part 3, section 3.2.1).
    """
    if expiry_us:
        ttl_ms: i64 = max(1, (expiry_us - now_us) // 1000)
        ttl_ms = ttl_ms if ttl_ms <= MAX_UINT else -1
        return encode_header(durable, priority, ttl_ms, first_acquirer, count)
    if count >= _MAX_CACHED_COUNT:
        return encode_header(durable, priority, -1, first_acquirer, count)
    key = (count << 9) | (first_acquirer << 8) | (priority << 1) | durable
    header = _known[key]
    if not header:
        header = _known[key] = encode_header(durable, priority, -1, first_acquirer, count)
    return header
