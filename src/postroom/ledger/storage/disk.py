"""The one door between the ledger and its folder.

Every write, sync, rename, removal and read of the ledger goes through a `Disk`, so that tests and the
simulation can put one in its place that fails, loses and tears what was not synced. What a disk promises:
bytes written are readable at once by everyone, and durable after `DiskFile.sync`; names (created, renamed,
removed) are durable after `Disk.sync_names`.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, final

from postroom.ledger.errors import LedgerLocked, LedgerLockless
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.body_room import BodyRoom
from postroom.ledger.storage.cached_reads import CachedBodies, is_native, read_descriptor, read_pieces

READABLE_PERMISSIONS = 0o640
MAX_IO_PARTS = 512
"""Buffers in one writev call (the system's limit is 1024)."""

SYNC_PIECE_BYTES = 1 << 20
"""What is written in the background is synced so much at a time."""

STANDBY_POLL_S = 0.5

LOCK_NAME = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What flock says on file systems, and of servers, that have no locks."""


Bytes = bytes | bytearray | memoryview


class DiskFile(Protocol):
    """One open file. It closes itself when the last reference goes, or by `close`."""

    def write_at(self, offset: int, parts: Sequence[Bytes]) -> None:
        """Write the parts, one behind the other, from `offset`; all or OSError."""

    def sync(self) -> None:
        """Return when everything written is durable; OSError if that can't be promised (never retry)."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the file."""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """The same into a buffer, as far as it goes; returns how many bytes."""

    def read_cached(self, wanted: list[BodyPlace], starts: bytes, gap_bytes: int) -> CachedBodies | None:
        """Bodies that begin at ``starts`` (an i64 each, little-endian; −1: none), cut out and checked, if the
        page cache has all of them; None if not, if that can't be told, or if the file ends within one. With
        them is read what lies between two of them, if it is ``gap_bytes`` at most.
        """

    def view(self) -> bytes | mmap.mmap:
        """The whole file as it is now, without copying where possible; not for files that still grow."""

    def read_ahead(self, offset: int = 0, size: int = 0) -> None:
        """So much from there on (0: to the end) will be wanted at once: have the system begin to read it."""

    def size_bytes(self) -> int: ...

    def identity(self) -> tuple[int, ...] | None:
        """Another one when another file has taken its place, or somebody has written to it; None: who can't
        tell."""

    def reserve(self, offset: int, size: int) -> None:
        """Set space aside behind the end of the file, size unchanged; OSError (ENOSPC) if there is none."""

    def extend(self, size: int) -> None:
        """The file ends at `size` from now on: what was not written reads as zeros. Never shorter."""

    def fileno(self) -> int:
        """Descriptor for the C writer; −1 where there is none."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A folder with the ledger's files."""

    def describe(self, name: str) -> str:
        """The name as shown to people in errors."""

    def create(self, name: str) -> DiskFile:
        """A new, empty file for reading and writing; an existing one is emptied."""

    def open(self, name: str) -> DiskFile:
        """An existing file, for reading; FileNotFoundError if there is none."""

    def update(self, name: str) -> DiskFile:
        """An existing file, for writing into what it has; FileNotFoundError if there is none."""

    def rename(self, old: str, new: str) -> None:
        """Atomically; replaces `new`."""

    def remove(self, name: str) -> None:
        """FileNotFoundError if there is none."""

    def trim(self, name: str) -> None:
        """Give back the space behind the last byte that isn't zero. Nothing reads differently afterwards, the
        size included: others may have the file mapped.
        """

    def names(self) -> list[str]:
        """All file names, sorted."""

    def sync_names(self) -> None:
        """Return when all creations, renames and removals are durable."""

    def free_bytes(self) -> int:
        """What the volume can still give us; what is reserved for files isn't in it."""

    def volume_bytes(self) -> int:
        """The size of the volume."""

    def sync_fileno(self) -> int:
        """Descriptor whose fsync does the same, for the C writer; −1 where there is none."""

    def lock(self, standby: bool) -> None:
        """Own the folder; LedgerLocked if another does, unless `standby`, which waits. LedgerLockless where
        the file system has no locks.
        """

    def check_hold(self) -> None:
        """Raises OSError (ESTALE) if our lock was removed, with the folder or alone: who comes next won't
        find what is written, or is in the folder already. Asked after each sync, so it must cost little.
        """

    def unlock(self) -> None: ...


@final
class RealFile:
    """A file of the operating system."""

    def __init__(self, name: str | Path, flags: int, folder_fd: int | None = None) -> None:
        self._fd = os.open(name, flags | os.O_CLOEXEC, READABLE_PERMISSIONS, dir_fd=folder_fd)

    def write_at(self, offset: int, parts: Sequence[Bytes]) -> None:
        if len(parts) <= MAX_IO_PARTS:
            written = os.pwritev(self._fd, parts, offset)
            if written == sum([memoryview(part).nbytes for part in parts]):
                return
        # Too many at once, or the system took a part only: all, in as many calls as it needs.
        for start in range(0, len(parts), MAX_IO_PARTS):
            offset = self._write_some(offset, parts[start : start + MAX_IO_PARTS])

    def _write_some(self, offset: int, parts: Sequence[Bytes]) -> int:
        views = [memoryview(part).cast("B") for part in parts]
        while views:
            written = os.pwritev(self._fd, views, offset)
            offset += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if views:
                views[0] = views[0][written:]
        return offset

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def read_at(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) == size or not data:
            return data
        pieces = [data]
        while data and size > (have := sum(map(len, pieces))):
            data = os.pread(self._fd, size - have, offset + have)
            pieces.append(data)
        return b"".join(pieces)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._fd, [buffer[done:]], offset + done)
            if not count:
                break
            done += count
        return done

    def read_cached(self, wanted: list[BodyPlace], starts: bytes, gap_bytes: int) -> CachedBodies | None:
        if is_native():
            return read_descriptor(self._fd, wanted, starts, gap_bytes)
        return read_pieces(self._read_at_once, wanted, starts, gap_bytes)

    def _read_at_once(self, offset: int, size: int) -> bytes | None:
        room = BodyRoom(size)
        try:
            count = os.preadv(self._fd, [room.view], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):
                return None
            raise
        return room.take() if count == size else None

    def view(self) -> bytes | mmap.mmap:
        if self.size_bytes() == 0:
            return b""
        return mmap.mmap(self._fd, 0, prot=mmap.PROT_READ)

    def read_ahead(self, offset: int = 0, size: int = 0) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # it is advice
                os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_WILLNEED)

    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size

    def identity(self) -> tuple[int, ...] | None:
        stat = os.fstat(self._fd)
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    def reserve(self, offset: int, size: int) -> None:
        _fallocate(self._fd, _KEEP_SIZE, offset, size)

    def extend(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


@final
class RealDisk:
    """A folder of the operating system."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock_fd = -1
        self._unsynced: OSError | None = None
        """Why names aren't durable: the system says it once, and the next sync would succeed."""

    def describe(self, name: str) -> str:
        return str(self.folder / name)

    def create(self, name: str) -> RealFile:
        return RealFile(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, self._folder_fd)

    def open(self, name: str) -> RealFile:
        return RealFile(name, os.O_RDONLY, self._folder_fd)

    def update(self, name: str) -> RealFile:
        return RealFile(name, os.O_RDWR, self._folder_fd)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._folder_fd)

    def trim(self, name: str) -> None:
        file = self.update(name)
        size = file.size_bytes()
        end = zeros_from(file, size)
        if end < size:
            _fallocate(file.fileno(), _KEEP_SIZE | _PUNCH_HOLE, end, size - end)
        file.extend(size)  # frees what was reserved behind the file's end
        file.close()

    def names(self) -> list[str]:
        # How far a listing is belongs to the open directory: threads would take each other's entries.
        listed_fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder_fd)
        try:
            with os.scandir(listed_fd) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())
        finally:
            os.close(listed_fd)

    def sync_names(self) -> None:
        if self._unsynced is not None:
            raise OSError(*self._unsynced.args)
        try:
            os.fsync(self._folder_fd)
        except OSError as error:
            self._unsynced = error
            raise

    def free_bytes(self) -> int:
        found = os.fstatvfs(self._folder_fd)
        return found.f_bavail * found.f_frsize

    def volume_bytes(self) -> int:
        found = os.fstatvfs(self._folder_fd)
        return found.f_blocks * found.f_frsize

    def sync_fileno(self) -> int:
        return self._folder_fd

    def lock(self, standby: bool) -> None:
        while not self._try_lock():
            if not standby:
                raise LedgerLocked(str(self.folder), self._owner_pid())
            time.sleep(STANDBY_POLL_S)
        os.ftruncate(self._lock_fd, 0)
        os.pwrite(self._lock_fd, b"%d\n" % os.getpid(), 0)

    def _try_lock(self) -> bool:
        """Whether the lock is ours from now on. One that somebody removes meanwhile is asked for anew."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        while True:
            self._lock_fd = os.open(LOCK_NAME, flags, READABLE_PERMISSIONS, dir_fd=self._folder_fd)
            if not self._take_lock():
                return False
            if self._has_lock():
                return True
            os.close(self._lock_fd)

    def _take_lock(self) -> bool:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            os.close(self._lock_fd)
            self._lock_fd = -1
            if error.errno in _NO_LOCKS:
                raise LedgerLockless(str(self.folder), os.strerror(error.errno)) from error
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False

    def _has_lock(self) -> bool:
        """Whether the lock that we hold is still the folder's."""
        try:
            found = os.stat(LOCK_NAME, dir_fd=self._folder_fd)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._lock_fd))

    def _owner_pid(self) -> int:
        text = RealFile(LOCK_NAME, os.O_RDONLY, self._folder_fd).read_at(0, 32).strip()
        return int(text) if text.isdigit() else 0

    def check_hold(self) -> None:
        if not os.fstat(self._lock_fd).st_nlink:
            raise OSError(errno.ESTALE, f"{self.folder}: the lock, or the whole folder, was removed")

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            with contextlib.suppress(OSError):  # a process id in it is for people only
                os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = -1
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1


def is_no_space(error: OSError) -> bool:
    """Whether the volume is full, or the quota of it that is ours."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_in_pieces(file: DiskFile, parts: Sequence[Bytes]) -> None:
    """Fill a new file, durably; synced a piece at a time, so that a commit beside it waits for no more."""
    offset = unsynced = 0
    for part in parts:
        view = memoryview(part).cast("B")
        for start in range(0, len(view), SYNC_PIECE_BYTES):
            piece = view[start : start + SYNC_PIECE_BYTES]
            file.write_at(offset, [piece])
            offset += len(piece)
            unsynced += len(piece)
            if unsynced >= SYNC_PIECE_BYTES:
                file.sync()
                unsynced = 0
    file.sync()


_LIBC = ctypes.CDLL(None, use_errno=True)
_SCAN_BYTES = 256 << 10
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""FALLOC_FL_…, see fallocate(2)."""


def zeros_from(file: DiskFile, size: int) -> int:
    """Where the zeros at the end of a file begin."""
    while size > 0:
        start = max(0, size - _SCAN_BYTES)
        found = len(file.read_at(start, size - start).rstrip(b"\0"))
        if found:
            return start + found
        size = start
    return 0


def _fallocate(fd: int, flags: int, offset: int, size: int) -> None:
    """fallocate(2) with flags, which Python's os module doesn't offer; nothing where the system can't."""
    if _LIBC.fallocate(fd, flags, ctypes.c_int64(offset), ctypes.c_int64(size)) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(code, os.strerror(code))
