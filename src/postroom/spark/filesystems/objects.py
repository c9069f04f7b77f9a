"""Objects in a store, through pyarrow.fs: local folders, ``file://``, ``s3://``, ``gs://``, ``abfs://`` and
what else pyarrow knows.

Objects are made once, whole, and never changed: on a local file system and in the stores that
`exclusive_files` knows one step makes an object and refuses an existing name; elsewhere (HDFS) it is asked
first.
"""

import shutil
import tempfile
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

from pyarrow import fs

from postroom.spark.filesystems.exclusive_files import Write, can_create_only, create_by
from postroom.spark.filesystems.uris import open_filesystem

PIECE_BYTES: Final = 8 << 20


class Objects:
    """The objects under a URI or a path."""

    def __init__(self, uri: str) -> None:
        """Raises ``StoreUriInvalid``."""
        self.uri: Final = uri.rstrip("/")
        found, path = open_filesystem(uri)
        self._files: Final = found
        self._base: Final = path.rstrip("/")

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
            shutil.copyfileobj(file, out, PIECE_BYTES)

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> bool:
        """A new object; False, and nothing is changed, if that name is taken."""
        return self.create_by(name, lambda out: out.writelines(parts))

    def create_by(self, name: str, write: Write) -> bool:
        """The same, of what a function writes."""
        if self.exists(name):
            return False
        path = self._path(name)
        if not can_create_only(self._files):
            self._write(path, write)
            return True
        try:
            create_by(self._files, path, write)
        except FileExistsError:
            return False
        return True

    def _write(self, path: str, write: Write) -> None:
        """Into a file of this machine first: an object is whole."""
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with tempfile.TemporaryFile() as file:
            write(file)
            file.seek(0)
            with self._files.open_output_stream(path) as out:
                shutil.copyfileobj(file, out, PIECE_BYTES)
