"""The first sections of a delivery: a fresh header, and message annotations that an outcome has changed."""

from postroom.amqp.messaging import encode_header, merge_annotations
from postroom.ledger.records import ArrivalFlag
from postroom.manager.effects import Delivery

_DURABLE = int(ArrivalFlag.DURABLE)
_cache: dict[int, bytes] = {}
"""Headers without time to live, by delivery count, priority and durability: there are few, and they are met
often.
"""
_MAX_CACHED_COUNT = 16


def message_payload(delivery: Delivery, now_us: int) -> bytes:
    """What goes over the wire: header, then the sections as stored."""
    body = delivery.body
    if delivery.annotations:
        changes: dict[object, object] = dict(delivery.annotations.items())
        body = merge_annotations(body, changes)
    return _header(delivery, now_us) + body


def _header(delivery: Delivery, now_us: int) -> bytes:
    entry = delivery.entry
    durable = bool(entry.flags & _DURABLE)
    count = delivery.delivery_count
    if entry.expiry_us:
        ttl_ms = max(1, (entry.expiry_us - now_us) // 1000)
        return encode_header(durable, entry.priority, ttl_ms, False, count)
    if count >= _MAX_CACHED_COUNT:
        return encode_header(durable, entry.priority, -1, False, count)
    key = (count << 8) | (entry.priority << 1) | durable
    header = _cache.get(key)
    if header is None:
        header = _cache[key] = encode_header(durable, entry.priority, -1, False, count)
    return header
