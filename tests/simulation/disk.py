"""A disk in memory that loses and tears what was not synced.

A crash decides, by the seed, for each unsynced write which of its sectors reached the platter, and for the
folder how many of the unsynced names did. Operations are counted, and planned ones fail.
"""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

from postroom.testing.disk import UNBOUNDED_BYTES, MemoryDisk, MemoryFile, overlay

__all__ = ["SECTOR_BYTES", "UNBOUNDED_BYTES", "PowerLost", "SimDisk", "SimFile"]

SECTOR_BYTES = 512
COUNTED = ("write", "sync", "extend", "create", "rename", "remove", "sync_names")
UNCHECKED = ("open", "list")


class SimFile(MemoryFile):
    """One file, which may be one of a disk that doesn't do what it is asked for."""

    def settle(self) -> None:
        if not (isinstance(self._disk, SimDisk) and self._disk.skip_syncs):
            super().settle()


def _survivor(file: MemoryFile, disk: "SimDisk", random: Random) -> SimFile:
    """What the next process finds: synced bytes, and of the rest whatever sectors made it."""
    platter = bytearray(file.platter)
    for offset, data in file.unsynced:
        _settle(platter, offset, data, random)
    return SimFile(disk, platter)


def _settle(platter: bytearray, offset: int, data: bytes, random: Random) -> None:
    """Which sectors of an unsynced write reached the platter."""
    fate = random.randrange(4)
    if fate == 1:
        overlay(platter, offset, data)
    elif fate == 2:
        overlay(platter, offset, data[: random.randrange(len(data) + 1)])
    elif fate == 3:
        for start in range(0, len(data), SECTOR_BYTES):
            if random.random() < 0.5:
                overlay(platter, offset + start, data[start : start + SECTOR_BYTES])


class PowerLost(Exception):
    """The process reached for the disk after its crash: it must have stopped by then."""


class SimDisk(MemoryDisk):
    """A folder of such files. `crash` cuts the power, and gives the disk that the next process finds."""

    def __init__(self) -> None:
        super().__init__()
        self.unsynced_names: list[tuple[str, str, MemoryFile | None]] = []
        self.operations = 0
        self.crash_at_operation: int | None = None
        self.skip_syncs = False
        """A planted bug: syncs are answered and not done."""
        self.dead = False
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

    @contextlib.contextmanager
    def using(self, what: str) -> Iterator[None]:
        if what == "read":
            self.note_read()
        elif what == "reserve":
            self.fail_now(what)
        elif what not in UNCHECKED:
            self.check_alive(what)
        yield
        self.operations += what in COUNTED

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

    def new_file(self) -> MemoryFile:
        return SimFile(self)

    def create(self, name: str) -> MemoryFile:
        if self.has_no_room_for and name.endswith(self.has_no_room_for):
            self.check_alive("create")
            raise OSError(errno.ENOSPC, "the simulated volume has no room for it")
        file = super().create(name)
        self.unsynced_names.append(("create", name, file))
        return file

    def update(self, name: str) -> MemoryFile:
        self.check_alive("update")
        return super().update(name)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.unsynced_names.append(("rename", f"{old}\0{new}", self.files[new]))

    def remove(self, name: str) -> None:
        try:
            super().remove(name)
        except FileNotFoundError:
            self.operations += 1
            raise
        self.unsynced_names.append(("remove", name, None))

    def sync_names(self) -> None:
        durable = self.platter_names
        super().sync_names()
        if self.skip_syncs:
            self.platter_names = durable
        else:
            self.unsynced_names.clear()

    def write_out(self, folder: Path) -> Path:
        """Its files as they are now, in a folder that is there; for those who read folders."""
        for name in self.names():
            (folder / name).write_bytes(self.open(name).view())
        return folder

    def crash(self, random: Random) -> "SimDisk":
        """Cut the power; returns the disk as the next process finds it."""
        self.dead = True
        names = dict(self.platter_names)
        for kind, name, file in self.unsynced_names[: random.randrange(len(self.unsynced_names) + 1)]:
            _replay_name(names, kind, name, file)
        survived = SimDisk()
        survived.capacity_bytes = self.capacity_bytes
        return survived.adopt({name: _survivor(names[name], survived, random) for name in sorted(names)})

    def copy(self) -> "SimDisk":
        """The same bytes on a disk of its own, everything synced: to recover twice from one state."""
        twin = SimDisk().of_size(self.capacity_bytes)
        return twin.adopt({name: SimFile(twin, file.now) for name, file in self.files.items()})

    def adopt(self, names: "dict[str, SimFile]") -> "SimDisk":
        """Hold these files, their names durable."""
        self.files, self.platter_names = dict(names), dict(names)
        return self

    def of_size(self, capacity_bytes: int) -> "SimDisk":
        """On a volume of this size."""
        self.capacity_bytes = capacity_bytes
        return self


def _replay_name(names: dict[str, MemoryFile], kind: str, name: str, file: MemoryFile | None) -> None:
    if kind == "create" and file is not None:
        names[name] = file
    elif kind == "remove":
        names.pop(name, None)
    elif kind == "rename":
        old, new = name.split("\0")
        if old in names:
            names[new] = names.pop(old)
