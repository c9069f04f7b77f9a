"""A disk in memory that loses and tears what was not synced.

It keeps two versions of everything: what a running process sees, and what would be there after a power cut.
A crash decides, by the seed, for each unsynced write which of its sectors reached the platter, and for the
folder how many of the unsynced names did. It implements ``postroom.ledger.disk.Disk``.
"""

import errno
from collections.abc import Sequence
from random import Random

from postroom.ledger.disk import Bytes
from postroom.ledger.options import SMALLEST_VOLUME_BYTES

SECTOR_BYTES = 512
UNBOUNDED_BYTES = 1 << 60


class SimFile:
    """One file: its bytes now, its bytes on the platter, and the writes between them."""

    def __init__(self, disk: "SimDisk") -> None:
        self._disk = disk
        self.now = bytearray()
        self.allocated_bytes = 0
        """Up to where it holds space of the volume; a size that was only extended holds none."""
        self.platter = bytearray()
        self.unsynced: list[tuple[int, bytes]] = []

    def write_at(self, offset: int, parts: Sequence[Bytes]) -> None:
        self._disk.check_alive("write")
        data = b"".join(bytes(part) for part in parts)
        self._disk.allocate(self, offset + len(data))
        _overlay(self.now, offset, data)
        self.unsynced.append((offset, data))
        self._disk.operations += 1

    def sync(self) -> None:
        self._disk.check_alive("sync")
        self._disk.operations += 1
        if self._disk.skip_syncs:
            return
        for offset, data in self.unsynced:
            _overlay(self.platter, offset, data)
        self.unsynced.clear()

    def read_at(self, offset: int, size: int) -> bytes:
        self._disk.note_read()
        return bytes(self.now[offset : offset + size])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_cached(self, offset: int, size: int) -> bytes | None:
        return self.read_at(offset, size)

    def view(self) -> bytes:
        self._disk.note_read()
        return bytes(self.now)

    def size_bytes(self) -> int:
        return len(self.now)

    def identity(self) -> tuple[int, ...] | None:
        """Nothing here tells one content from another."""
        return None

    def reserve(self, offset: int, size: int) -> None:
        self._disk.fail_now("reserve")
        self._disk.allocate(self, offset + size)

    def extend(self, size: int) -> None:
        self._disk.check_alive("extend")
        if size <= len(self.now):  # as ext4 does it: what was reserved behind the end goes
            self.allocated_bytes = min(self.allocated_bytes, size)
        _overlay(self.now, size, b"")
        self.unsynced.append((size, b""))
        self._disk.operations += 1

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """Files are closed by the crash or by nobody; nothing depends on it."""

    def survivor(self, disk: "SimDisk", random: Random) -> "SimFile":
        """What the next process finds: synced bytes, and of the rest whatever sectors made it."""
        platter = bytearray(self.platter)
        for offset, data in self.unsynced:
            _settle(platter, offset, data, random)
        return SimFile.holding(disk, platter)

    @staticmethod
    def holding(disk: "SimDisk", content: bytearray) -> "SimFile":
        """A file with this content, all of it durable."""
        file = SimFile(disk)
        file.now, file.platter = bytearray(content), bytearray(content)
        file.allocated_bytes = len(content.rstrip(b"\0"))
        return file


def _settle(platter: bytearray, offset: int, data: bytes, random: Random) -> None:
    """Which sectors of an unsynced write reached the platter."""
    fate = random.randrange(4)
    if fate == 1:
        _overlay(platter, offset, data)
    elif fate == 2:
        _overlay(platter, offset, data[: random.randrange(len(data) + 1)])
    elif fate == 3:
        for start in range(0, len(data), SECTOR_BYTES):
            if random.random() < 0.5:
                _overlay(platter, offset + start, data[start : start + SECTOR_BYTES])


def _overlay(target: bytearray, offset: int, data: bytes) -> None:
    if len(target) < offset:
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data


class PowerLost(Exception):
    """The process reached for the disk after its crash: it must have stopped by then."""


class SimDisk:
    """A folder of such files. `crash` cuts the power; `reopened` is the disk that the next process finds."""

    def __init__(self) -> None:
        self.files: dict[str, SimFile] = {}
        self.platter_names: dict[str, SimFile] = {}
        self.unsynced_names: list[tuple[str, str, SimFile | None]] = []
        self.operations = 0
        self.crash_at_operation: int | None = None
        self.skip_syncs = False
        """A planted bug: syncs are answered and not done."""
        self.dead = False
        self.capacity_bytes = UNBOUNDED_BYTES
        """The size of the volume."""
        self.fail_at_operation: int | None = None
        """This operation, and no other, fails with `fail_errno`: a write, sync, reserve, rename, …"""
        self.reads = 0
        self.fail_at_read: int | None = None
        """This read, and no other, likewise."""
        self.fail_errno = errno.EIO
        self.has_no_room_for = ""
        """How the names of files end that can't be made."""
        self.failed = ""
        """What has failed so."""

    def allocate(self, file: SimFile, end: int) -> None:
        """The file holds space up to `end` from now on. Raises OSError (ENOSPC)."""
        more = end - file.allocated_bytes
        if more > self.free_bytes():
            raise OSError(errno.ENOSPC, "the simulated volume is full")
        file.allocated_bytes = max(file.allocated_bytes, end)

    def free_bytes(self) -> int:
        if self.capacity_bytes == UNBOUNDED_BYTES:
            return UNBOUNDED_BYTES
        return self.capacity_bytes - sum(file.allocated_bytes for file in self.files.values())

    def volume_bytes(self) -> int:
        return max(self.capacity_bytes, SMALLEST_VOLUME_BYTES)

    def fail_now(self, what: str) -> None:
        """Raises OSError where that was planned."""
        if self.fail_at_operation is not None and self.operations >= self.fail_at_operation:
            self.fail_at_operation = None
            self.failed = what
            raise OSError(self.fail_errno, f"planned: {what} fails")

    def note_read(self) -> None:
        """Raises OSError where that was planned."""
        self.reads += 1
        if self.reads == self.fail_at_read:
            self.failed = "read"
            raise OSError(self.fail_errno, "planned: read fails")

    def check_alive(self, what: str) -> None:
        """Raises PowerLost if the power is gone, or goes now; OSError where that was planned."""
        if not self.dead:
            self.fail_now(what)
        if self.crash_at_operation is not None and self.operations >= self.crash_at_operation:
            self.dead = True
        if self.dead:
            raise PowerLost(what)

    def describe(self, name: str) -> str:
        return f"simulated/{name}"

    def create(self, name: str) -> SimFile:
        self.check_alive("create")
        if self.has_no_room_for and name.endswith(self.has_no_room_for):
            raise OSError(errno.ENOSPC, "the simulated volume has no room for it")
        self.operations += 1
        file = self.files[name] = SimFile(self)
        self.unsynced_names.append(("create", name, file))
        return file

    def open(self, name: str) -> SimFile:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def update(self, name: str) -> SimFile:
        self.check_alive("update")
        return self.open(name)

    def rename(self, old: str, new: str) -> None:
        self.check_alive("rename")
        self.operations += 1
        self.files[new] = self.files.pop(old)
        self.unsynced_names.append(("rename", f"{old}\0{new}", self.files[new]))

    def remove(self, name: str) -> None:
        self.check_alive("remove")
        self.operations += 1
        if self.files.pop(name, None) is None:
            raise FileNotFoundError(name)
        self.unsynced_names.append(("remove", name, None))

    def trim(self, name: str) -> None:
        self.check_alive("trim")
        file = self.open(name)
        file.allocated_bytes = min(file.allocated_bytes, len(file.now.rstrip(b"\0")))

    def names(self) -> list[str]:
        return sorted(self.files)

    def sync_names(self) -> None:
        self.check_alive("sync_names")
        self.operations += 1
        if not self.skip_syncs:
            self.platter_names = dict(self.files)
            self.unsynced_names.clear()

    def sync_fileno(self) -> int:
        return -1

    def lock(self, standby: bool) -> None:
        """One process at a time: the simulation never starts two."""

    def check_hold(self) -> None:
        """Nobody takes the lock away here."""

    def unlock(self) -> None:
        """See `lock`."""

    def crash(self, random: Random) -> "SimDisk":
        """Cut the power; returns the disk as the next process finds it."""
        self.dead = True
        names = dict(self.platter_names)
        for kind, name, file in self.unsynced_names[: random.randrange(len(self.unsynced_names) + 1)]:
            _replay_name(names, kind, name, file)
        survived = SimDisk()
        survived.capacity_bytes = self.capacity_bytes
        return survived.adopt({name: names[name].survivor(survived, random) for name in sorted(names)})

    def copy(self) -> "SimDisk":
        """The same bytes on a disk of its own, everything synced: to recover twice from one state."""
        twin = SimDisk().of_size(self.capacity_bytes)
        return twin.adopt({name: SimFile.holding(twin, file.now) for name, file in self.files.items()})

    def adopt(self, names: dict[str, SimFile]) -> "SimDisk":
        """Hold these files, their names durable."""
        self.files, self.platter_names = names, dict(names)
        return self

    def of_size(self, capacity_bytes: int) -> "SimDisk":
        """On a volume of this size."""
        self.capacity_bytes = capacity_bytes
        return self


def _replay_name(names: dict[str, SimFile], kind: str, name: str, file: SimFile | None) -> None:
    if kind == "create" and file is not None:
        names[name] = file
    elif kind == "remove":
        names.pop(name, None)
    elif kind == "rename":
        old, new = name.split("\0")
        if old in names:
            names[new] = names.pop(old)
