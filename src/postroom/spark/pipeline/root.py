"""The folder `_pipeline` beside the tables: settings and the lock, locally or in an object store."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from postroom.spark.filesystems import exclusive_files
from postroom.spark.pipeline.errors import PipelineError
from postroom.spark.store.files import open_root
from postroom.spark.store.protocol import OWN_FOLDER, checked, with_check


class Root:
    """Small files of a pipeline under the tables' root. Raises ``OSError``, and ``TableError`` for a
    URI that leads nowhere."""

    def __init__(self, uri: str) -> None:
        self.uri: Final = uri
        path = _local_path(uri)
        self.local: Final = None if path is None else path / OWN_FOLDER
        """The folder itself, where it is one of this machine."""
        if self.local is not None:
            self._files: fs.FileSystem = fs.LocalFileSystem()
            self._folder = str(self.local)
        else:
            self._files, base = open_root(uri)
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
        exclusive_files.replace(self._files, f"{self._folder}/{name}", text.encode())

    def noted(self, name: str) -> dict[str, Any] | None:
        """What `note` wrote; None if there is no such file. Raises ``PipelineError``: it was changed."""
        try:
            text = self.read(name)
            return None if text is None else dict(json.loads(checked(text.encode())))
        except ValueError as error:
            raise PipelineError(
                f"{self.uri}/{OWN_FOLDER}/{name} is damaged ({error}): restore it from a backup"
            ) from error

    def note(self, name: str, value: Mapping[str, object]) -> None:
        """Write an object that is not empty, with a check."""
        self.write(name, with_check(json.dumps(value).encode()).decode())

    def delete(self, name: str) -> None:
        """Delete a file that is there."""
        self._files.delete_file(f"{self._folder}/{name}")


def _local_path(uri: str) -> Path | None:
    for scheme in ("file://", "file:"):
        if uri.startswith(scheme):
            return Path(uri.removeprefix(scheme))
    return None if "://" in uri else Path(uri)
