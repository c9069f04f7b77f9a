"""Memory that a body is read into, so that nothing has to be copied or joined behind the reading."""

from collections.abc import Iterable
from io import BytesIO
from typing import final


@final
class BodyRoom:
    """As many bytes as a body has, to be filled through `view`, and then taken as they are."""

    def __init__(self, size_bytes: int) -> None:
        self._stream = BytesIO(bytes(size_bytes))
        self.view = self._stream.getbuffer()

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
