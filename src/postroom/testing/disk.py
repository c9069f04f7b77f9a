"""A disk in memory that keeps what a power cut takes apart from what it leaves.

There are two versions of everything: what the running process sees, and what is on the platter, which is what
was synced. `MemoryDisk.cut_power` ends the one and returns a disk with the other. It implements
``postroom.ledger.storage.disk.Disk``; every thread may use it.
"""

import contextlib
import errno
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from postroom.ledger.options import SMALLEST_VOLUME_BYTES
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.cached_reads import CachedBodies, read_pieces
from postroom.ledger.storage.disk import Bytes

UNBOUNDED_BYTES: Final = 1 << 60


class MemoryFile:
    """One file: its bytes now, its bytes on the platter, and the writes between them."""

    def __init__(self, disk: "MemoryDisk", content: bytes | bytearray = b"") -> None:
        """With this content, all of it durable."""
        self._disk = disk
        self.now = bytearray(content)
        self.platter = bytearray(content)
        self.unsynced: list[tuple[int, bytes]] = []
        self.allocated_bytes = len(content.rstrip(b"\0"))
        """Up to where it holds space of the volume; a size that was only extended holds none."""

    def write_at(self, offset: int, parts: Sequence[Bytes]) -> None:
        data = b"".join(parts)
        with self._disk.using("write"):
            self._disk.allocate(self, offset + len(data))
            overlay(self.now, offset, data)
            self.unsynced.append((offset, data))

    def sync(self) -> None:
        with self._disk.using("sync"):
            self.settle()

    def settle(self) -> None:
        """What was written is on the platter now."""
        for offset, data in self.unsynced:
            overlay(self.platter, offset, data)
        self.unsynced.clear()

    def read_at(self, offset: int, size: int) -> bytes:
        with self._disk.using("read"):
            return bytes(self.now[offset : offset + size])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_cached(self, wanted: list[BodyPlace], starts: bytes, gap_bytes: int) -> CachedBodies | None:
        return read_pieces(self.read_at, wanted, starts, gap_bytes)

    def view(self) -> bytes:
        return self.read_at(0, len(self.now))

    def read_ahead(self, offset: int = 0, size: int = 0) -> None:
        """It is in memory."""

    def size_bytes(self) -> int:
        return len(self.now)

    def identity(self) -> tuple[int, ...] | None:
        """Nothing here tells one content from another."""
        return None

    def reserve(self, offset: int, size: int) -> None:
        with self._disk.using("reserve"):
            self._disk.allocate(self, offset + size)

    def extend(self, size: int) -> None:
        with self._disk.using("extend"):
            if size <= len(self.now):  # as ext4 does it: what was reserved behind the end goes
                self.allocated_bytes = min(self.allocated_bytes, size)
            overlay(self.now, size, b"")
            self.unsynced.append((size, b""))

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """Files are closed by a power cut or by nobody; nothing depends on it."""


class MemoryDisk:
    """A folder of such files, and the volume that it is on."""

    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}
        self.platter_names: dict[str, MemoryFile] = {}
        """The files by their names as of the last `sync_names`."""
        self.capacity_bytes = UNBOUNDED_BYTES
        """The size of the volume."""
        self.has_power = True
        self._lock = threading.RLock()

    # The power and the space.

    def cut_power(self) -> "MemoryDisk":
        """The disk as the next process finds it: what was synced. This one gives errors from now on."""
        with self._lock:
            self.has_power = False
            survived = MemoryDisk()
            survived.capacity_bytes = self.capacity_bytes
            survived.files = {
                name: MemoryFile(survived, file.platter) for name, file in self.platter_names.items()
            }
            survived.platter_names = dict(survived.files)
            return survived

    def durable(self) -> dict[str, bytes]:
        """Every file's name and content as a power cut would leave them."""
        with self._lock:
            return {name: bytes(file.platter) for name, file in self.platter_names.items()}

    def fill(self) -> None:
        """Others have taken all the space of the volume that was free."""
        with self._lock:
            self.capacity_bytes = self._allocated_bytes()

    def free(self) -> None:
        """The volume has no bound any more."""
        self.capacity_bytes = UNBOUNDED_BYTES

    def allocate(self, file: MemoryFile, end: int) -> None:
        """The file holds space up to `end` from now on. Raises OSError (ENOSPC)."""
        if end - file.allocated_bytes > self.free_bytes():
            raise OSError(errno.ENOSPC, "the volume in memory is full")
        file.allocated_bytes = max(file.allocated_bytes, end)

    def free_bytes(self) -> int:
        if self.capacity_bytes == UNBOUNDED_BYTES:
            return UNBOUNDED_BYTES
        with self._lock:
            return self.capacity_bytes - self._allocated_bytes()

    def volume_bytes(self) -> int:
        return max(self.capacity_bytes, SMALLEST_VOLUME_BYTES)

    def _allocated_bytes(self) -> int:
        return sum(file.allocated_bytes for file in self.files.values())

    @contextlib.contextmanager
    def using(self, what: str) -> Iterator[None]:
        """One at a time. Raises OSError (EIO) where the power is cut."""
        with self._lock:
            if not self.has_power:
                raise OSError(errno.EIO, f"the power of the disk in memory is cut: no {what}")
            yield

    # The files.

    def describe(self, name: str) -> str:
        return f"memory/{name}"

    def create(self, name: str) -> MemoryFile:
        with self.using("create"):
            file = self.files[name] = self.new_file()
            return file

    def new_file(self) -> MemoryFile:
        """An empty file."""
        return MemoryFile(self)

    def open(self, name: str) -> MemoryFile:
        with self.using("open"):
            if name not in self.files:
                raise FileNotFoundError(errno.ENOENT, "no such file in memory", name)
            return self.files[name]

    def update(self, name: str) -> MemoryFile:
        return self.open(name)

    def rename(self, old: str, new: str) -> None:
        with self.using("rename"):
            file = self.open(old)
            del self.files[old]
            self.files[new] = file

    def remove(self, name: str) -> None:
        with self.using("remove"):
            self.open(name)
            del self.files[name]

    def trim(self, name: str) -> None:
        with self.using("trim"):
            file = self.open(name)
            file.allocated_bytes = min(file.allocated_bytes, len(file.now.rstrip(b"\0")))

    def names(self) -> list[str]:
        with self.using("list"):
            return sorted(self.files)

    def sync_names(self) -> None:
        with self.using("sync_names"):
            self.platter_names = dict(self.files)

    def sync_fileno(self) -> int:
        return -1

    def lock(self, standby: bool) -> None:
        """One broker at a time has it: nobody else knows of it."""

    def check_hold(self) -> None:
        """Nobody takes the lock away here."""

    def unlock(self) -> None:
        """See `lock`."""


def overlay(target: bytearray, offset: int, data: bytes) -> None:
    """Write ``data`` there; what lies between it and the end reads as zeros."""
    if len(target) < offset:
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data
