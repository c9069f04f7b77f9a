"""Files that outlive a crash of the machine, by the calls that Linux, macOS and Windows each have for it.

What only one of them has is imported where it is used: the client runs on all three.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Final

PERMISSIONS: Final = 0o600
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""Windows changes ends of lines otherwise."""
MOVE_REPLACES: Final = 0x1
MOVE_IS_WRITTEN_THROUGH: Final = 0x8
"""Flags of Windows' MoveFileEx."""
LOCKED_BYTES: Final = 1


def open_file(path: Path, flags: int) -> int:
    """A descriptor that no child process gets; a new file is its owner's alone."""
    return os.open(path, flags | BINARY, PERMISSIONS)


def write_at(fd: int, offset: int, data: bytes) -> None:
    """Write all of ``data``. No other thread uses ``fd``: Windows can't write but at the file's position."""
    os.lseek(fd, offset, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_data(fd: int) -> None:
    """Wait until what was written is on the disk; the file's size was so before."""
    if sys.platform == "win32" or sys.platform == "darwin":  # so written, type checkers know it
        sync(fd)
    else:
        os.fdatasync(fd)


def sync(fd: int) -> None:
    """Wait until the file is on the disk itself, not in its cache."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError:  # not every file system has it, and fsync alone leaves bytes in the disk's cache
            os.fsync(fd)
    else:
        os.fsync(fd)


def replace(old: Path, new: Path) -> None:
    """Give ``old`` the name ``new``, durably. Neither is open: Windows refuses that."""
    if sys.platform == "win32":
        _move(old, new)
    else:
        old.replace(new)
        _sync_folder(new.parent)


def lock(path: Path) -> int:
    """A descriptor of ``path`` that holds its lock until it is closed or the process ends.

    Raises BlockingIOError when another descriptor holds it.
    """
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        _lock(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _lock(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, LOCKED_BYTES)
        except PermissionError as error:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process") from error
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _move(old: Path, new: Path) -> None:
    """Windows syncs no folder: the move itself waits until it is on the disk, if it is asked to."""
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        if not kernel.MoveFileExW(str(old), str(new), MOVE_REPLACES | MOVE_IS_WRITTEN_THROUGH):
            raise ctypes.WinError(ctypes.get_last_error())


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)
