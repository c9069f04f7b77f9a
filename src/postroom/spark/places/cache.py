"""Sealed files from far away, kept on this machine: several tasks read the same file, and it never changes.

Bounded in bytes; what was used longest ago goes first. Tasks of several processes share the folder: each file
is fetched once, whole and checked, before anybody sees it.
"""

import contextlib
import fcntl
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from postroom.ledger.errors import LedgerError

MAX_CACHE_BYTES: Final = 4 << 30
"""Of all files together; the newest stays even where it alone is larger."""
OPEN_ATTEMPTS: Final = 5
"""A file that another task has just evicted is fetched again, so often."""
OWNER_ONLY: Final = 0o700
LOCK_SUFFIX: Final = ".lock"


class CacheUnsafe(LedgerError):
    """The cache's folder belongs to somebody else, or others may write to it."""


def default_folder() -> Path:
    """Where sealed files are kept unless an option says another place: one folder for each user."""
    return Path(tempfile.gettempdir()) / f"postroom-cache-{os.getuid()}"


class FileCache:
    """A folder of files that never change, by key: a relative path."""

    def __init__(self, folder: Path, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self.folder: Final = folder
        self._max_bytes: Final = max_bytes

    def holds(self, key: str) -> bool:
        """Whether it can be read without fetching."""
        return (self.folder / key).exists()

    def get(
        self, key: str, fetch: Callable[[BinaryIO], None], check: Callable[[memoryview], object]
    ) -> memoryview:
        """The file's bytes, mapped; where they aren't there `fetch` writes them, and `check` raises if they
        aren't what they should be.

        Raises ``CacheUnsafe``, OSError, and what these raise.
        """
        self._make_safe()
        for _ in range(OPEN_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return self._open(key)
            self._fetch(key, fetch, check)
        return self._open(key)

    def _open(self, key: str) -> memoryview:
        path = self.folder / key
        with path.open("rb") as file:
            os.utime(path)
            return _mapped(file.fileno())

    def _fetch(
        self, key: str, fetch: Callable[[BinaryIO], None], check: Callable[[memoryview], object]
    ) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(_lock_of(path)):
            if path.exists():
                return
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            fresh = Path(name)
            try:
                with os.fdopen(handle, "w+b") as file:
                    fetch(file)
                    file.flush()
                    check(_mapped(file.fileno()))
                fresh.replace(path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        self._evict(path)

    def _evict(self, newest: Path) -> None:
        """Remove what was used longest ago until the rest fits."""
        files = []
        for each in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if each.is_file() and each.suffix != LOCK_SUFFIX:
                    stat = each.stat()
                    files.append((stat.st_mtime_ns, stat.st_size, each))
        over = sum(size for _, size, _ in files) - self._max_bytes
        for _, size, each in sorted(files):
            if over <= 0:
                return
            if each != newest:
                each.unlink(missing_ok=True)
                _lock_of(each).unlink(missing_ok=True)  # at worst two fetch it anew
                over -= size

    def _make_safe(self) -> None:
        self.folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        stat = self.folder.stat()
        if stat.st_uid != os.getuid() or stat.st_mode & 0o022:
            raise CacheUnsafe(
                f"{self.folder}: others may write there, so what lies in it can't be trusted; name a"
                " folder of your own (option cache)"
            )


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + LOCK_SUFFIX)


def _mapped(descriptor: int) -> memoryview:
    """A file's bytes; they stay when its name goes."""
    if os.fstat(descriptor).st_size == 0:
        return memoryview(b"")
    return memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One at a time, of all processes of this machine."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
