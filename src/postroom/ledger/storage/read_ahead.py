"""Files that are read from their front to their end, a piece at a time: the system is advised of the next
pieces early enough, so that nobody waits for the disk.

The system would notice by itself if it were one descriptor that is read; each batch of bodies has its own.
"""

import threading
from typing import Final, final

from postroom.ledger.storage.disk import DiskFile

NEAR_BYTES: Final = 1 << 20
"""Who reads on no farther behind the last read goes through the file."""

STEP_BYTES: Final = 1 << 20
"""Asked for at a time: more would hold up the caller."""

AHEAD_BYTES: Final = 2 << 20
"""So much of a file, or a step more, is asked for beyond what has been read."""

MAX_FILES: Final = 64
"""That are remembered, those that were read last."""


@final
class ReadAhead:
    """How far files have been read, and asked for; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[int, int]] = {}
        """By name: where the last read ended, and up to where the system was advised to read."""

    def have_read(self, name: str, file: DiskFile, start: int, end: int) -> None:
        """Bytes ``start`` to ``end`` of a file; the next will probably be wanted soon if they follow on
        others."""
        with self._lock:
            last_end, advised = self._files.pop(name, (-1, 0))
            goes_on = 0 <= start - last_end <= NEAR_BYTES and last_end >= 0
            advised = max(advised, end) if goes_on else end
            wants = goes_on and advised - end < AHEAD_BYTES
            self._files[name] = end, advised + STEP_BYTES if wants else advised
            if len(self._files) > MAX_FILES:
                del self._files[next(iter(self._files))]
        if wants:
            file.read_ahead(advised, STEP_BYTES)
