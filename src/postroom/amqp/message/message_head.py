"""What the broker itself reads and writes of a message, without building its sections (part 3, section 3.2).

:func:`scan_head` finds in one pass what the queue manager's index needs; everything else stays the bytes it
came as. :func:`encode_header` and :func:`merge_annotations` make what a delivery begins with.
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.field_reader import Fields, read_descriptor
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import MAX_UBYTE, Symbol
from postroom.amqp.encoding.writer import write_container, write_value
from postroom.amqp.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from postroom.amqp.message.report_options import MARK, REPORT_ANNOTATION, property_options, word_of
from postroom.model import mq
from postroom.model.codes import IdType
from postroom.model.ids import pack_unique_id
from postroom.model.message import DEFAULT_PRIORITY, MessageHead

_ID_STRING: Final = int(IdType.STRING)
_ID_BINARY: Final = int(IdType.BINARY)
_ID_UUID: Final = int(IdType.UUID)
_ID_ULONG: Final = int(IdType.ULONG)

DELIVERY_TIME: Final = Symbol("x-opt-delivery-time")
"""Message annotation: not to be delivered before, in milliseconds since 1970 (capability
DELAYED_DELIVERY).
"""
DELIVERY_DELAY: Final = Symbol("x-opt-delivery-delay")
"""Message annotation: not to be delivered earlier than so many milliseconds after its arrival."""

MAX_ID_BYTES: Final = 0xFFFF
"""Message id, correlation id and group id: what the ledger's records have room for."""

_DELIVERY_TIME: Final = b"x-opt-delivery-time"
_DELIVERY_DELAY: Final = b"x-opt-delivery-delay"
_ELIGIBLE: Final = b"x-opt-dead-letter-eligible"
_ORIGIN_QUEUE_MANAGER: Final = b"x-opt-mqe-origin-qmgr"
"""Message annotation: where the message was first put, half of MQ Everyplace's unique id."""
_ORIGIN_TIME: Final = b"x-opt-mqe-time"
"""Message annotation: the other half, a number that this queue manager gave to no other message."""
_REPORT: Final = b"x-opt-report"
_MIN_TIME: Final = -0x8000_0000_0000_0000
_MAX_TIME: Final = 0x7FFF_FFFF_FFFF_FFFF
_MAX_TIME_MS: Final = 0x7FFF_FFFF_FFFF_FFFF // 1000
_MAX_DELAY_MS: Final = _MAX_TIME_MS // 2
"""From any time of these centuries on, still a time in µs of 64 bits."""


def scan_head(payload: bytes, complete: bool = True) -> MessageHead:
    """The head of a message, and a light check of its structure.

    Checked: the sections are known ones, in their order, at most one of each but data and sequence, and each
    ends where it says. Not checked: what is in maps, lists and values nobody here looks at. With ``complete``
    false the payload may break off in the body, and nothing from the first body section on is looked at; but
    the whole head must be there.

    DecodeError for anything that is not a message.
    """
    r = Reader(payload, 0, len(payload))
    r.context = "message"
    head = MessageHead()
    previous: i64 = 0
    while r.pos < r.end:
        start = r.pos
        code = read_descriptor(r)
        if code >= d.DATA:
            head.body_start = start
            if complete:
                _check_body(r, start)
            break
        if code <= previous or code < d.HEADER:
            raise r.fail(f"section 0x{int(code):x} is unknown, there twice or out of order")
        previous = code
        _scan_section(r, head, code, start)
    else:
        if not complete or r.end == 0:
            raise r.fail("no body section")
        head.body_start = r.end
    return head


def _scan_section(r: Reader, head: MessageHead, code: i64, start: i64) -> None:
    if code == d.HEADER:
        _scan_header(r, head)
        head.bare_offset = r.pos
    elif code == d.PROPERTIES:
        _scan_properties(r, head)
        head.properties_start = start
        head.properties_end = r.pos
    elif code == d.MESSAGE_ANNOTATIONS:
        _scan_annotations(r, head)
        head.annotations_start = start
        head.annotations_end = r.pos
    elif code == d.APPLICATION_PROPERTIES:
        _scan_application(r, head)
        head.application_start = start
        head.application_end = r.pos
    else:
        _skip_map(r)
        head.bare_offset = r.pos


def _scan_header(r: Reader, head: MessageHead) -> None:
    f = Fields(r, "header")
    head.durable = f.boolean_or("durable", False)
    head.priority = f.ubyte_or("priority", MAX_UBYTE, DEFAULT_PRIORITY)
    head.ttl_ms = f.uint_or("ttl", -1)
    head.first_acquirer = f.boolean_or("first-acquirer", False)
    head.delivery_count = f.uint_or("delivery-count", 0)
    f.close()


def _scan_properties(r: Reader, head: MessageHead) -> None:
    f = Fields(r, "properties")
    if not f.absent():
        head.message_id_type = _id_type(r)
        head.message_id = _id_bytes(r)
    f.skip(4)  # user-id, to, subject, reply-to
    if not f.absent():
        head.correlation_id_type = _id_type(r)
        head.correlation_id = _id_bytes(r)
    f.skip(2)  # content-type, content-encoding
    head.expiry_us = head.properties_expiry_us = _time_us(f, "absolute-expiry-time")
    head.creation_us = _time_us(f, "creation-time")
    if not f.absent():
        if _id_type(r) != _ID_STRING:
            raise r.fail("group-id: string expected")
        head.group_id = _id_bytes(r)
    head.group_sequence = f.uint_or("group-sequence", 0)
    f.skip(1)  # reply-to-group-id
    f.close()


def _id_type(r: Reader) -> i64:
    """The IdType of the id at the position, which is not passed."""
    r.need(1)
    code: i64 = r.data[r.pos]
    if code == c.STRING_8 or code == c.STRING_32:
        return _ID_STRING
    if code == c.BINARY_8 or code == c.BINARY_32:
        return _ID_BINARY
    if code == c.UUID:
        return _ID_UUID
    if code == c.ULONG or code == c.ULONG_8 or code == c.ULONG_0:
        return _ID_ULONG
    raise r.unexpected(code, "an id is a string, binary, uuid or ulong:")


def _id_bytes(r: Reader) -> bytes:
    """Passes an id, gives its value's bytes; those of a ulong at full width."""
    code = r.take_byte()
    width: i64 = c.WIDTHS[code]
    if code == c.ULONG_8:
        return b"\0\0\0\0\0\0\0" + r.take_bytes(1)
    if code == c.ULONG_0:
        return bytes(8)
    if width >= c.WIDTH_1:
        width = r.take_size(code)
        if width > MAX_ID_BYTES:
            raise DecodeError(
                f"properties: an id of {width} bytes, at most {MAX_ID_BYTES} are kept",
                RESOURCE_LIMIT_EXCEEDED,
            )
    return r.take_bytes(width)


def _time_us(f: Fields, field: str) -> i64:
    """A timestamp in microseconds; 0 when absent or 0, 1 when it is of before 1970, clamped where 64 bits
    end.
    """
    if f.absent():
        return 0
    r = f.reader
    code = r.take_byte()
    if code != c.TIMESTAMP:
        raise f.wrong(code, field, "timestamp")
    time_ms = r.take_i64()
    if time_ms <= 0:
        return 0 if time_ms == 0 else 1
    return min(time_ms, _MAX_TIME_MS) * 1000


# --- annotations


def _skip_map(r: Reader) -> None:
    r.need(1)
    code: i64 = r.data[r.pos]
    if code != c.MAP_8 and code != c.MAP_32:
        raise r.unexpected(code, "a map")
    r.skip()


def _scan_application(r: Reader, head: MessageHead) -> None:
    """Passes the application properties; only those of a message that asks for reports are read."""
    start = r.pos
    _skip_map(r)
    if r.data.find(MARK, start, r.pos) >= 0:
        end = r.pos
        r.pos = start
        head.report |= property_options(r)
        r.pos = end


def _scan_annotations(r: Reader, head: MessageHead) -> None:
    outer_end = r.end
    code = r.take_byte()
    if code != c.MAP_8 and code != c.MAP_32:
        raise r.unexpected(code, "a map")
    count = r.open_compound(code)
    if count & 1:
        raise r.fail("message-annotations: the last key has no value")
    origin: _Origin | None = None
    for _ in range(count >> 1):
        origin = _scan_annotation(r, head, origin)
    r.close_compound(outer_end)
    if origin is not None and origin.has_time and origin.queue_manager:
        head.unique_id = _unique_id(r, origin)


@final
class _Origin:
    """What the annotations say of the message's unique id."""

    def __init__(self) -> None:
        self.queue_manager = ""
        self.time: i64 = 0
        self.has_time = False


def _unique_id(r: Reader, origin: _Origin) -> bytes:
    try:
        return pack_unique_id(origin.queue_manager, origin.time)
    except ValueError as error:
        raise r.fail(f"message-annotations: {error}") from None


def _scan_annotation(r: Reader, head: MessageHead, origin: _Origin | None) -> _Origin | None:
    """Passes one key and value, and notes what they say about the delivery's time and the unique id, which
    few messages bring."""
    if r.take_byte() != c.SYMBOL_8:
        r.pos -= 1
        r.skip()
        r.skip()
        return origin
    size = r.take_byte()
    r.need(size)
    key = r.pos
    r.pos += size
    if size == len(_DELIVERY_TIME) and r.data[key : key + size] == _DELIVERY_TIME:
        head.delivery_time_ms = _milliseconds(r, "x-opt-delivery-time")
    elif size == len(_DELIVERY_DELAY) and r.data[key : key + size] == _DELIVERY_DELAY:
        head.delivery_delay_ms = _milliseconds(r, "x-opt-delivery-delay")
    elif size == len(_ELIGIBLE) and r.data[key : key + size] == _ELIGIBLE:
        head.dead_letter_eligible = _truth(r, "x-opt-dead-letter-eligible")
    elif size == len(_REPORT) and r.data[key : key + size] == _REPORT:
        head.report |= word_of(REPORT_ANNOTATION, r.value(), mq.WORD_MASK)
    elif size == len(_ORIGIN_TIME) and r.data[key : key + size] == _ORIGIN_TIME:
        origin = origin or _Origin()
        _scan_origin_time(r, origin)
    elif size == len(_ORIGIN_QUEUE_MANAGER) and r.data[key : key + size] == _ORIGIN_QUEUE_MANAGER:
        origin = origin or _Origin()
        origin.queue_manager = _origin_name(r)
    else:
        r.skip()
    return origin


def _scan_origin_time(r: Reader, origin: _Origin) -> None:
    value = r.value()
    if not isinstance(value, int) or isinstance(value, bool) or not _MIN_TIME <= value <= _MAX_TIME:
        raise r.fail("x-opt-mqe-time: a number of 64 bits expected")
    origin.time = value
    origin.has_time = True


def _origin_name(r: Reader) -> str:
    value = r.value()
    if not isinstance(value, str):
        raise r.fail("x-opt-mqe-origin-qmgr: string expected")
    return str(value)


def _truth(r: Reader, what: str) -> bool:
    value = r.value()
    if not isinstance(value, bool):
        raise r.fail(f"{what}: a boolean expected")
    return bool(value)


def _milliseconds(r: Reader, what: str) -> i64:
    """Any integer or timestamp that is not negative; 0 for null."""
    code: i64 = r.data[r.pos] if r.pos < r.end else c.NULL
    if code == c.TIMESTAMP or code == c.LONG:  # as clients send it
        r.pos += 1
        time_ms = r.take_i64()
        if time_ms >= 0:
            return min(time_ms, _MAX_DELAY_MS)
        r.pos -= 9
    value = r.value()
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise r.fail(f"{what}: milliseconds expected, not negative")
    return min(value, _MAX_DELAY_MS)


def merge_annotations(stored: bytes, patch: dict[object, object]) -> bytes:
    """The stored sections with message annotations added or replaced, as modified asks for (part 3, section
    3.4.5).

    ``stored`` are the bytes from ``bare_offset`` on of a message that :func:`scan_head` has taken: then this
    raises nothing. What stays is copied as it is, not decoded. Keys of ``patch`` are symbols (a str will do)
    or ulongs.
    """
    if not patch:
        return stored
    left = {encoded_key(key): value for key, value in patch.items()}
    content = BytesWriter()
    count: i64 = 0
    r = Reader(stored, 0, len(stored))
    r.context = "message"
    if stored and read_descriptor(r) == d.MESSAGE_ANNOTATIONS:
        count = _copy_annotations(r, content, left)
    else:
        r.pos = 0
    for key, value in left.items():
        content.write(key)
        write_value(content, value)
    w = BytesWriter()
    w.append(c.DESCRIBED)
    w.append(c.ULONG_8)
    w.append(d.MESSAGE_ANNOTATIONS)
    write_container(w, c.MAP_8, count + 2 * len(left), content.getvalue())
    w.write(stored[r.pos :])
    return w.getvalue()


def encoded_key(key: object) -> bytes:
    """A key of annotations in its smallest encoding."""
    return encode(Symbol(key) if isinstance(key, str) else key)


def _copy_annotations(r: Reader, content: BytesWriter, patch: dict[bytes, object]) -> i64:
    """Copies the map that comes next, with the values of ``patch`` for its keys, which are taken out of
    ``patch``.

    Returns how many keys and values were written.
    """
    outer_end = r.end
    count = r.open_compound(r.take_byte())
    for _ in range(count >> 1):
        start = r.pos
        r.skip()
        key = smallest_key(r.data[start : r.pos])
        value_start = r.pos
        r.skip()
        content.write(key)
        if key in patch:
            write_value(content, patch.pop(key))
        else:
            content.write(r.data[value_start : r.pos])
    r.close_compound(outer_end)
    return count


def smallest_key(key: bytes) -> bytes:
    """A key in the encoding that :func:`encoded_key` gives it, so that equal symbols have equal bytes."""
    if key[0] == c.SYMBOL_32 and key[1:4] == b"\0\0\0":
        return bytes([c.SYMBOL_8]) + key[4:]
    if key[0] == c.STRING_8:
        return bytes([c.SYMBOL_8]) + key[1:]
    return key


# --- body


def _check_body(r: Reader, start: i64) -> None:
    """From the first body section on: data sections, sequences or one value, then perhaps a footer."""
    r.pos = start
    body: i64 = 0
    footer = False
    while r.pos < r.end:
        code = read_descriptor(r)
        if footer or code < d.DATA or code > d.FOOTER:
            raise r.fail(f"section 0x{int(code):x} is unknown or out of order")
        if code == d.FOOTER:
            footer = True
            _skip_map(r)
            continue
        if body != 0 and (code != body or code == d.AMQP_VALUE):
            raise r.fail("a body of more than one kind, or of two values")
        body = code
        _check_body_section(r, code)


def _check_body_section(r: Reader, code: i64) -> None:
    r.need(1)
    constructor: i64 = r.data[r.pos]
    if code == d.DATA and constructor != c.BINARY_8 and constructor != c.BINARY_32:
        raise r.unexpected(constructor, "data: binary")
    if code == d.AMQP_SEQUENCE and constructor not in (c.LIST_0, c.LIST_8, c.LIST_32):
        raise r.unexpected(constructor, "sequence: list")
    r.skip()


# --- properties


def to_address(payload: bytes, head: MessageHead) -> str | None:
    """The ``to`` of a scanned message, where one to the anonymous terminus goes; None when absent."""
    if head.properties_start == head.properties_end:
        return None
    r = Reader(payload, head.properties_start, head.properties_end)
    read_descriptor(r)
    f = Fields(r, "properties")
    f.skip(2)  # message-id, user-id
    return f.optional_string("to")


# --- header


def encode_header(
    durable: bool, priority: i64, ttl_ms: i64, first_acquirer: bool, delivery_count: i64
) -> bytes:
    """A header section (part 3, section 3.2.1); ``ttl_ms`` -1: none. Defaults are left out.

    EncodeError for a number out of its field's range.
    """
    f = FieldWriter()
    f.boolean(durable, False)
    f.ubyte(priority, DEFAULT_PRIORITY)
    f.uint(None if ttl_ms < 0 else ttl_ms)
    f.boolean(first_acquirer, False)
    f.uint(delivery_count, 0)
    w = BytesWriter()
    f.finish(w, d.HEADER)
    return w.getvalue()
