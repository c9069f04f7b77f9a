"""The folder `_pipeline` beside the tables: settings and the lock, locally or in an object store."""

from pathlib import Path
from typing import Final

from pyarrow import fs

OWN_FOLDER: Final = "_pipeline"
"""Spark and the table formats take names that begin with an underscore for none of theirs."""


class Root:
    """Small files of a pipeline under the tables' root. Raises ``OSError``."""

    def __init__(self, uri: str) -> None:
        self.uri: Final = uri
        path = _local_path(uri)
        self.local: Final = None if path is None else path / OWN_FOLDER
        """The folder itself, where it is one of this machine."""
        if self.local is not None:
            self._files: fs.FileSystem = fs.LocalFileSystem()
            self._folder = str(self.local)
        else:
            self._files, base = fs.FileSystem.from_uri(uri)
            self._folder = f"{base}/{OWN_FOLDER}"

    def read(self, name: str) -> str | None:
        """A file's text; None if there is none."""
        try:
            with self._files.open_input_stream(f"{self._folder}/{name}") as stream:
                return str(stream.read().decode())
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a file; a reader sees the old text or the new one."""
        self._files.create_dir(self._folder)
        target = f"{self._folder}/{name}"
        beside = f"{target}.new" if self.local is not None else target  # object stores replace a file at once
        with self._files.open_output_stream(beside) as stream:
            stream.write(text.encode())
        if beside != target:
            Path(beside).replace(target)

    def delete(self, name: str) -> None:
        """Delete a file that is there."""
        self._files.delete_file(f"{self._folder}/{name}")


def _local_path(uri: str) -> Path | None:
    for scheme in ("file://", "file:"):
        if uri.startswith(scheme):
            return Path(uri.removeprefix(scheme))
    return None if "://" in uri else Path(uri)
