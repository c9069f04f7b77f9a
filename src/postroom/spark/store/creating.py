"""Making a file that must not exist yet, whole or not at all: what a commit log stands on.

On this machine the content is written and synced under another name, and then linked, which fails if the name
is taken. On an object store it is a conditional put, which `pyarrow.fs` itself does not offer: it is had
through fsspec (``fsspec+s3://``, ``fsspec+gs://``, ``fsspec+abfs://``, with s3fs, gcsfs or adlfs installed).
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow.fs as pafs

from postroom.spark.store.files import local_folder, make_folders, sync
from postroom.spark.store.protocol import TableError

CONDITIONAL: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"})
"""The fsspec protocols whose exclusive creation is one conditional request."""

TEMPORARY: Final = ".tmp"


def create_only(filesystem: pafs.FileSystem, path: str, content: bytes) -> None:
    """Make a file with that content; on this machine it is synced. Raises ``FileExistsError`` if there is
    one already, ``TableError`` where the file system can't do that."""
    local = local_folder(filesystem, path)
    if local is not None:
        _link(local, content)
        return
    remote = _conditional(filesystem)
    if remote is None:
        raise TableError(
            f"{path}: this file system can't create a file only if there is none; the commit log needs that. "
            "Use tableFormat delta, or fsspec+s3:// (with s3fs), fsspec+gs:// (gcsfs), fsspec+abfs:// (adlfs)"
        )
    remote.pipe_file(path, content, mode="create")


def replace(filesystem: pafs.FileSystem, path: str, content: bytes) -> None:
    """Make or replace a file with that content: a reader sees all of it or what was there before."""
    local = local_folder(filesystem, path)
    if local is None:
        with filesystem.open_output_stream(path) as stream:
            stream.write(content)
        return
    temporary = _synced(local, content)
    os.replace(temporary, local)  # noqa: PTH105 - the name under which tests let it fail
    sync(local.parent)


def _link(path: Path, content: bytes) -> None:
    temporary = _synced(path, content)
    try:
        os.link(temporary, path)
        sync(path.parent)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108


def _synced(path: Path, content: bytes) -> Path:
    """The content under a temporary name beside the path, on disk."""
    make_folders(path.parent)
    temporary = path.with_name(f".{uuid4().hex}{TEMPORARY}")
    with temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _conditional(filesystem: pafs.FileSystem) -> Any:
    if not isinstance(filesystem, pafs.PyFileSystem) or not isinstance(
        filesystem.handler, pafs.FSSpecHandler
    ):
        return None
    remote = filesystem.handler.fs
    protocols = {remote.protocol} if isinstance(remote.protocol, str) else set(remote.protocol)
    return remote if protocols & CONDITIONAL else None
