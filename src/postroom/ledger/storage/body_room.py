"""Memory that a body is read into, so that nothing has to be copied or joined behind the reading."""

import ctypes
import mmap
from collections.abc import Iterable
from io import BytesIO
from typing import Final, final

LARGE_PAGES_FROM_BYTES: Final = 32 << 20
"""From here on, where malloc maps each piece by itself, the system is advised to give memory in large pages: a
fault for every 4 KiB took three times as long as reading and checking what goes there."""

_LIBC: Final = ctypes.CDLL(None)
_MADV_HUGEPAGE: Final = getattr(mmap, "MADV_HUGEPAGE", 0)


@final
class BodyRoom:
    """As many bytes as a body has, to be filled through `view`, and then taken as they are."""

    def __init__(self, size_bytes: int) -> None:
        self._stream = BytesIO(bytes(size_bytes))
        self.view = self._stream.getbuffer()
        if size_bytes >= LARGE_PAGES_FROM_BYTES and _MADV_HUGEPAGE:
            _advise_large_pages(self.view)

    def parts(self, sizes: Iterable[int]) -> list[memoryview]:
        """The whole cut into parts of so many bytes."""
        parts: list[memoryview] = []
        at = 0
        for size in sizes:
            parts.append(self.view[at : at + size])
            at += size
        return parts

    def take(self) -> bytes:
        """What it was filled with. No view of it may be left."""
        self.view.release()
        return self._stream.getvalue()


def _advise_large_pages(view: memoryview) -> None:
    """It is advice: a system that doesn't take it gives small ones."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(view))
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (start + len(view) - first) // mmap.PAGESIZE * mmap.PAGESIZE
    _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _MADV_HUGEPAGE)
