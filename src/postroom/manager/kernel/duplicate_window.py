"""The message ids that a destination has taken last, so that a message sent again is known."""

from typing import Final, final

from mypy_extensions import i64


@final
class DuplicateWindow:
    """The ids that one destination has taken last, by their keys."""

    def __init__(self, size: i64) -> None:
        self._size: i64 = size
        self._keys: Final[dict[bytes, int]] = {}
        """With the serial of the arrival where it is known, else 0; the oldest first."""

    def has(self, key: bytes) -> bool:
        return key in self._keys

    def add(self, key: bytes, serial: i64 = 0) -> None:
        """It has been taken; the oldest goes if there are too many."""
        self._keys[key] = serial
        if len(self._keys) > self._size:
            del self._keys[next(iter(self._keys))]

    def discard(self, key: bytes) -> None:
        """It has not been taken after all."""
        self._keys.pop(key, None)

    def resize(self, size: i64) -> None:
        self._size = size
        while len(self._keys) > size:
            del self._keys[next(iter(self._keys))]

    def keys_of(self, serials: set[int]) -> list[bytes]:
        """The keys of these arrivals, as they were restored."""
        return [key for key, serial in self._keys.items() if serial in serials]
