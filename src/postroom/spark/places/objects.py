"""Objects in a store, through pyarrow.fs: local folders, ``file://``, ``s3://``, ``gs://``, ``abfs://`` and
what else pyarrow knows.

Objects are made once and never changed. On a local file system making one is atomic and refuses an existing
name; an object store shows a new object only when it is whole, and whether one is there is asked first.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final

from pyarrow import fs

from postroom.ledger.errors import LedgerError

PIECE_BYTES: Final = 8 << 20


class StoreUriInvalid(LedgerError):
    """A URI that pyarrow knows no file system for."""


class Objects:
    """The objects under a URI or a path."""

    def __init__(self, uri: str) -> None:
        """Raises ``StoreUriInvalid``, OSError."""
        self.uri: Final = uri.rstrip("/")
        found, path = _opened(uri)
        self._files: Final = found
        self._base: Final = path.rstrip("/")
        self._is_local: Final = isinstance(found, fs.LocalFileSystem)

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def names(self, folder: str) -> list[str]:
        """Names of the objects directly in a folder, sorted; none if there is no folder."""
        return sorted(info.base_name for info in self._infos(folder) if info.type == fs.FileType.File)

    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in a folder, sorted."""
        return sorted(info.base_name for info in self._infos(folder) if info.type == fs.FileType.Directory)

    def _infos(self, folder: str) -> list[Any]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        found: list[Any] = self._files.get_file_info(selector)
        return found

    def exists(self, name: str) -> bool:
        found: bool = self._files.get_file_info(self._path(name)).type == fs.FileType.File
        return found

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""
        with self._files.open_input_file(self._path(name)) as file:
            found: bytes = file.read()
        return found

    def open(self, name: str) -> Any:
        """An object for reading anywhere in it: a pyarrow file. Raises FileNotFoundError."""
        return self._files.open_input_file(self._path(name))

    def copy_to(self, name: str, out: BinaryIO) -> None:
        """An object's bytes, into a file. Raises FileNotFoundError."""
        with self._files.open_input_file(self._path(name)) as file:
            while piece := file.read(PIECE_BYTES):
                out.write(piece)

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> bool:
        """A new object; False, and nothing is changed, if that name is taken."""

        def write(out: BinaryIO) -> None:
            for part in parts:
                out.write(part)

        return self.create_by(name, write)

    def create_by(self, name: str, write: Callable[[BinaryIO], None]) -> bool:
        """The same, of what a function writes: into a file of this machine first, whole."""
        if self.exists(name):
            return False
        path = self._path(name)
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        if self._is_local:
            return _create_locally(Path(path), write)
        with tempfile.TemporaryFile() as file:
            write(file)
            file.seek(0)
            with self._files.open_output_stream(path) as out:
                while piece := file.read(PIECE_BYTES):
                    out.write(piece)
        return True


def _opened(uri: str) -> tuple[Any, str]:
    if "://" in uri or uri.startswith("file:"):
        try:
            found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
        except ValueError as error:
            raise StoreUriInvalid(f"{uri}: {error}") from error
        return found
    return fs.LocalFileSystem(), str(Path(uri).absolute())


def _create_locally(path: Path, write: Callable[[BinaryIO], None]) -> bool:
    """Whole and durable under its name, or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            os.fchmod(out.fileno(), 0o644)
            write(out)
            out.flush()
            os.fsync(out.fileno())
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            return False
        _sync_folder(path.parent)
        return True
    finally:
        fresh.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):  # some network file systems can't
        os.fsync(descriptor)
    os.close(descriptor)
