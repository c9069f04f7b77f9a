"""Changes to a stored message that leave the rest of its bytes as they are: an annotation on or off, another
reply-to or expiry, a message id.

``stored`` are always the sections from message-annotations on, of a message that
:func:`postroom.amqp.message.message_head.scan_head` has taken: then nothing here raises.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.field_reader import read_descriptor
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.scalar_writer import write_string
from postroom.amqp.encoding.types import Symbol, Timestamp
from postroom.amqp.encoding.writer import write_container, write_value
from postroom.amqp.errors import DecodeError
from postroom.amqp.message.message_head import encoded_key, merge_annotations, smallest_key

_DESCRIPTOR_START: Final = b"\x00\x53"
_PROPERTIES_DESCRIPTOR: Final = _DESCRIPTOR_START + bytes((d.PROPERTIES,))
_REPLY_TO: Final = 4
_USER_ID: Final = 1
_ABSOLUTE_EXPIRY_TIME: Final = 8
"""Their places in the properties section (AMQP part 3, section 3.2.4)."""

ORIGINAL_EXPIRY: Final = Symbol("x-opt-original-expiry-time")
"""Message annotation: the absolute-expiry-time that the broker has taken out of the properties, because the
message lives longer."""


def has_annotations(stored: bytes) -> bool:
    """Whether the sections begin with message annotations."""
    if not stored:
        return False
    if stored[:2] == _DESCRIPTOR_START:
        return stored[2] == d.MESSAGE_ANNOTATIONS
    return read_descriptor(Reader(stored, 0, len(stored))) == d.MESSAGE_ANNOTATIONS


def annotations_section(annotations: dict[object, object]) -> bytes:
    """A section of its own with these, for `with_annotation`."""
    return merge_annotations(b"", annotations)


def take_annotation(stored: bytes, name: str) -> tuple[object, bytes]:
    """The value of a message annotation, and the sections without it; None where it is absent or can't be
    decoded."""
    if not has_annotations(stored):
        return None, stored
    r = Reader(stored, 0, len(stored))
    read_descriptor(r)
    start = r.pos
    r.skip()
    rest = r.pos
    r.pos = start
    kept = BytesWriter()
    values: list[object] = []
    left = _without(r, kept, encoded_key(name), values)
    if not values:
        return None, stored
    w = BytesWriter()
    if left:
        w.write(stored[:start])
        write_container(w, c.MAP_8, left, kept.getvalue())
    w.write(stored[rest:])
    return values[0], w.getvalue()


def _without(r: Reader, kept: BytesWriter, wanted: bytes, values: list[object]) -> int:
    """Copies a map but for the key ``wanted``, whose values go to ``values``; how many items were copied."""
    outer_end = r.end
    count = r.open_compound(r.take_byte())
    copied = 0
    for _ in range(count >> 1):
        start = r.pos
        r.skip()
        key = smallest_key(r.data[start : r.pos])
        value_at = r.pos
        r.skip()
        if key == wanted:
            values.append(decoded(r.data, value_at, r.pos))
        else:
            kept.write(r.data[start : r.pos])
            copied += 2
    r.close_compound(outer_end)
    return copied


def decoded(data: bytes, start: i64, end: i64) -> object:
    """The value there; None for one that is none: what is only passed on is not looked into."""
    try:
        return Reader(data, start, end).value()
    except DecodeError:
        return None


def reply_to_of(stored: bytes) -> str:
    """The reply-to of the message; "" if it has none, or none that can be decoded."""
    found = _property_of(stored, _REPLY_TO)
    return found if isinstance(found, str) else ""


def user_id_of(stored: bytes) -> str:
    """The user-id of the message, as UTF-8; "" if it has none."""
    found = _property_of(stored, _USER_ID)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""


def _property_of(stored: bytes, index: i64) -> object:
    """The field of the properties at that place; None if it isn't there or can't be decoded."""
    r = Reader(stored, 0, len(stored))
    if _find_properties(r) < 0 or _open_list(r) <= index:
        return None
    for _ in range(index):
        r.skip()
    return decoded(stored, r.pos, r.end)


def with_reply_to(stored: bytes, reply_to: str) -> bytes:
    """The sections with another reply-to, of a message that has one."""
    r = Reader(stored, 0, len(stored))
    start = _find_properties(r)
    if start < 0:
        return stored
    value_at = r.pos
    outer_end = r.end
    count = _open_list(r)
    content = BytesWriter()
    for index in range(count):
        at = r.pos
        r.skip()
        if index == _REPLY_TO:
            write_string(content, reply_to)
        else:
            content.write(stored[at : r.pos])
    rest = r.end
    r.close_compound(outer_end)
    w = BytesWriter()
    w.write(stored[:value_at])
    write_container(w, c.LIST_8, int(count), content.getvalue())
    w.write(stored[rest:])
    return w.getvalue()


def with_expiry(stored: bytes, expiry_us: i64) -> bytes:
    """The sections of a message that expires then (0: never), if its absolute-expiry-time is earlier: that is
    replaced, and stands in the annotation `ORIGINAL_EXPIRY`."""
    r = Reader(stored, 0, len(stored))
    if _find_properties(r) < 0:
        return stored
    value_at = r.pos
    outer_end = r.end
    count = _open_list(r)
    if count <= _ABSOLUTE_EXPIRY_TIME:
        return stored
    fields_at = r.pos
    for _ in range(_ABSOLUTE_EXPIRY_TIME):
        r.skip()
    at = r.pos
    r.skip()
    original_ms = decoded(stored, at, r.pos)
    expires_ms = int(expiry_us // 1000)
    if not isinstance(original_ms, int) or original_ms == 0 or 0 < expires_ms <= original_ms:
        return stored
    content = BytesWriter()
    content.write(stored[fields_at:at])
    write_value(content, Timestamp(expires_ms) if expires_ms > 0 else None)
    content.write(stored[r.pos : r.end])
    rest = r.end
    r.end = outer_end
    w = BytesWriter()
    w.write(stored[:value_at])
    write_container(w, c.LIST_8, int(count), content.getvalue())
    w.write(stored[rest:])
    return merge_annotations(w.getvalue(), {ORIGINAL_EXPIRY: Timestamp(original_ms)})


def with_message_id(stored: bytes, message_id: str) -> bytes:
    """The sections with this message id, of a message that has none."""
    r = Reader(stored, 0, len(stored))
    start = _find_properties(r)
    content = BytesWriter()
    write_string(content, message_id)
    count = 1
    if start < 0:
        start = rest = _before_properties(stored)
    else:
        outer_end = r.end
        fields = _open_list(r)
        if fields > 0:
            r.skip()  # the id, which is null
            content.write(r.data[r.pos : r.end])
            count = int(fields)
        rest = r.end
        r.end = outer_end
    w = BytesWriter()
    w.write(stored[:start])
    w.write(_PROPERTIES_DESCRIPTOR)
    write_container(w, c.LIST_8, count, content.getvalue())
    w.write(stored[rest:])
    return w.getvalue()


def _before_properties(stored: bytes) -> i64:
    """Where the properties section would begin: behind the message annotations."""
    if not has_annotations(stored):
        return 0
    r = Reader(stored, 0, len(stored))
    read_descriptor(r)
    r.skip()
    return r.pos


def _find_properties(r: Reader) -> i64:
    """Where the properties section begins, with the reader behind its descriptor; −1 if there is none."""
    while r.pos < r.end:
        start = r.pos
        code = read_descriptor(r)
        if code == d.PROPERTIES:
            return start
        if code > d.PROPERTIES:
            return -1
        r.skip()
    return -1


def _open_list(r: Reader) -> i64:
    """Enter the list of fields; how many it has."""
    code = r.take_byte()
    if code == c.LIST_0:
        r.end = r.pos
        return 0
    return r.open_compound(code)
