"""Properties as clients usually write them, found and read where they lie.

A short map or list of short values is gone through without making anything of what isn't wanted. All else,
be it right or wrong, is `NOT_PLAIN`: the general decoder says what it is. (AMQP part 1, section 1.6; part 3,
sections 3.2.4 and 3.2.5.)
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.reader import Reader

ABSENT: Final = -1
NOT_PLAIN: Final = 1 << 40
"""No message is so long, and no group-sequence so high."""
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
"""Places in the properties section."""

_COMPOUND_8_BYTES: Final = 3
"""Constructor, size and count of a short list or map."""
_MOST_PROPERTIES: Final = 8
"""A message that has more has all of them decoded, once."""


def plain_group(data: bytes, at: i64) -> tuple[bytes, i64]:
    """Group-id and group-sequence of the properties at ``at`` (`ABSENT`: there are none)."""
    if at < 0:
        return b"", 0
    end = _end_of(data, at, c.LIST_8)
    if end < 0:
        return b"", NOT_PLAIN
    count: i64 = data[at + 2]
    pos = at + _COMPOUND_8_BYTES
    name, sequence = b"", i64(0)
    for index in range(count):
        value = pos
        pos = _behind(data, pos, end)
        if pos < 0:
            return b"", NOT_PLAIN
        code: i64 = data[value]
        if index == GROUP_ID and code != c.NULL:
            if code != c.STRING_8:
                return b"", NOT_PLAIN
            name = data[value + 2 : pos]
        elif index == GROUP_SEQUENCE and code != c.NULL:
            sequence = _sequence_at(data, value)
    return (name, sequence) if pos == end else (b"", NOT_PLAIN)


def plain_property(data: bytes, at: i64, name: bytes) -> i64:
    """Where the value of ``name`` lies in the map at ``at`` (`ABSENT`: there is none); `ABSENT` if the map
    hasn't got it."""
    if at < 0:
        return ABSENT
    end = _end_of(data, at, c.MAP_8)
    if end < 0:
        return NOT_PLAIN
    count: i64 = data[at + 2]
    if count & 1 != 0 or count > 2 * _MOST_PROPERTIES:
        return NOT_PLAIN
    pos = at + _COMPOUND_8_BYTES
    found: i64 = ABSENT
    keys: list[bytes] = []
    for _ in range(count >> 1):
        key_at = pos
        pos = _behind(data, pos, end)
        if pos < 0 or data[key_at] != c.STRING_8:
            return NOT_PLAIN
        key = data[key_at + 2 : pos]
        if key in keys:
            return NOT_PLAIN
        keys.append(key)
        if key == name:
            found = pos
        pos = _behind(data, pos, end)
        if pos < 0:
            return NOT_PLAIN
    return found if pos == end else NOT_PLAIN


def plain_value(data: bytes, at: i64) -> object:
    """The value that `plain_property` has found."""
    code: i64 = data[at]
    if code == c.STRING_8:
        return data[at + 2 : at + 2 + data[at + 1]].decode("ascii")
    if code == c.INT_8 or code == c.LONG_8:
        value: i64 = data[at + 1]
        return int(value - 256 if value > 127 else value)
    if code == c.INT:
        return int(read_i32_be(data, at + 1))
    if code == c.LONG:
        return int(read_i64_be(data, at + 1))
    return Reader(data, at, len(data)).value()


def _end_of(data: bytes, at: i64, code: i64) -> i64:
    """Where the short list or map at ``at`` ends; `ABSENT` if there is another value, or none."""
    if at + _COMPOUND_8_BYTES > len(data) or data[at] != code:
        return ABSENT
    end: i64 = at + 2 + data[at + 1]
    return end if at + _COMPOUND_8_BYTES <= end <= len(data) else ABSENT


def _behind(data: bytes, pos: i64, end: i64) -> i64:
    """Where the short value at ``pos`` ends, at ``end`` at the latest; −1 if it is another, or wrong."""
    if pos >= end:
        return -1
    code: i64 = data[pos]
    if code == c.NULL or code == c.UINT_0 or code == c.ULONG_0 or code == c.TRUE or code == c.FALSE:
        return pos + 1
    if code == c.STRING_8 or code == c.SYMBOL_8 or code == c.BINARY_8:
        if pos + 1 >= end:
            return -1
        pos += 2
        behind: i64 = pos + data[pos - 1]
        if behind > end or (code != c.BINARY_8 and not data[pos:behind].isascii()):
            return -1
        return behind
    if code == c.ULONG_8 or code == c.UINT_8 or code == c.INT_8 or code == c.LONG_8:
        pos += 2
    elif code == c.UINT or code == c.INT:
        pos += 5
    elif code == c.ULONG or code == c.TIMESTAMP or code == c.LONG or code == c.DOUBLE:
        pos += 9
    elif code == c.UUID:
        pos += 17
    else:
        return -1
    return pos if pos <= end else -1


def _sequence_at(data: bytes, at: i64) -> i64:
    """The uint at ``at`` as an int of Java; `NOT_PLAIN` if it is none."""
    code: i64 = data[at]
    if code == c.UINT_0:
        return 0
    if code == c.UINT_8:
        return data[at + 1]
    return i64(read_i32_be(data, at + 1)) if code == c.UINT else NOT_PLAIN
