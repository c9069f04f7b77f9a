"""The Range header (RFC 9110, section 14) as far as it is served: one range of bytes."""

import re
from typing import Final, NamedTuple

_ONE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class ByteRange(NamedTuple):
    """Bytes first to last, both included."""

    first: int
    last: int

    @property
    def size_bytes(self) -> int:
        return self.last - self.first + 1


class RangeNotSatisfiable(ValueError):
    """None of the file's bytes are in the range."""


def parse_range(header: str | None, size_bytes: int) -> ByteRange | None:
    """What is asked for of a file of that size; None: all of it, as for a header that we don't understand.

    Raises `RangeNotSatisfiable`.
    """
    match = _ONE.fullmatch(header.strip()) if header is not None else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        first, last = max(0, size_bytes - int(match[2])), size_bytes - 1
    else:
        first = int(match[1])
        last = min(int(match[2]) if match[2] else size_bytes - 1, size_bytes - 1)
        if match[2] and int(match[2]) < first:
            return None
    if first > last:
        raise RangeNotSatisfiable(f"{header} of {size_bytes} bytes")
    return ByteRange(first, last)
