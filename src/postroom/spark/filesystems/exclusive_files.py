"""Making a file that must not exist yet, whole or not at all: what commit logs and uploads stand on.

On this machine the content is written and synced under another name, and then linked, which fails if the name
is taken. In S3, Google's and Azure's stores it is one conditional put. `pyarrow.fs` has no such request, so
`obstore` makes it: the same code as `deltalake`'s, which takes its settings from the same variables of the
environment.
"""

import errno
import mmap
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import uuid4

import pyarrow.fs as pafs

from postroom.ledger.errors import LedgerError

TEMPORARY: Final = ".tmp"

SCHEMES: Final = {"s3": "s3", "gcs": "gs", "abfs": "abfs"}
"""Stores with a conditional put: the URI's scheme by pyarrow's name of the file system."""

PUT_TIMEOUT_S: Final = 600
"""For one object, which may be a large ledger file."""

ALLOW_HTTP: Final = "AWS_ALLOW_HTTP"
"""Variable that allows an endpoint without TLS, as `deltalake` asks for it, too."""

Write = Callable[[BinaryIO], object]
"""Writes a file's content."""


class NoConditionalPut(LedgerError):
    """The file system can't make a file only if there is none."""


def create_only(filesystem: pafs.FileSystem, path: str, content: bytes) -> None:
    """`create_by` with that content."""
    create_by(filesystem, path, lambda out: out.write(content))


def create_by(filesystem: pafs.FileSystem, path: str, write: Write) -> None:
    """Make a file of what a function writes; on this machine it is synced.

    Raises ``FileExistsError`` if there is one already, ``NoConditionalPut``, what `write` raises,
    ``OSError``.
    """
    local = local_folder(filesystem, path)
    if local is not None:
        _link(local, write)
        return
    if not can_create_only(filesystem):
        raise NoConditionalPut(f"{path}: this file system can't make a file only if there is none")
    with tempfile.TemporaryFile() as file:
        write(file)
        file.flush()
        _put(filesystem, path, file)


def can_create_only(filesystem: pafs.FileSystem) -> bool:
    """Whether `create_by` works there."""
    return isinstance(filesystem, pafs.LocalFileSystem) or filesystem.type_name in SCHEMES


def replace(filesystem: pafs.FileSystem, path: str, content: bytes) -> None:
    """Make or replace a file with that content: a reader sees all of it or what was there before."""
    local = local_folder(filesystem, path)
    if local is None:
        with filesystem.open_output_stream(path) as stream:
            stream.write(content)
        return
    temporary = _synced(local, lambda out: out.write(content))
    os.replace(temporary, local)  # noqa: PTH105 - the name under which tests let it fail
    sync(local.parent)


# --- on this machine ------------------------------------------------------------------------------


def local_folder(filesystem: pafs.FileSystem, path: str) -> Path | None:
    """The path as one of this machine's, None on any other file system."""
    return Path(path) if isinstance(filesystem, pafs.LocalFileSystem) else None


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, each synced in the one that holds it."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def sync(path: Path) -> None:
    """What was made, renamed or deleted in a folder, or written to a file, is so after a power cut, too."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some network file systems have none of folders
            raise
    finally:
        os.close(number)


def _link(path: Path, write: Write) -> None:
    temporary = _synced(path, write)
    try:
        os.link(temporary, path)
        sync(path.parent)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108


def _synced(path: Path, write: Write) -> Path:
    """The content under a temporary name beside the path, on disk; nothing if writing it fails."""
    make_folders(path.parent)
    temporary = path.with_name(f".{uuid4().hex}{TEMPORARY}")
    with temporary.open("xb") as file:
        try:
            write(file)
        except (Exception, KeyboardInterrupt):
            temporary.unlink()
            raise
        file.flush()
        os.fsync(file.fileno())
    return temporary


# --- in a store -----------------------------------------------------------------------------------


def _put(filesystem: pafs.FileSystem, path: str, file: Any) -> None:
    """One request, which the store refuses if there is such an object. Raises ``FileExistsError``,
    ``OSError``."""
    import obstore

    container, _, key = path.partition("/")
    store = _store(f"{SCHEMES[filesystem.type_name]}://{container}")
    try:
        obstore.put(store, key, _content(file), mode="create", use_multipart=False)
    except obstore.exceptions.AlreadyExistsError as error:
        raise FileExistsError(path) from error
    except obstore.exceptions.BaseError as error:
        raise OSError(f"{path}: {error}") from error


def _content(file: Any) -> bytes | memoryview:
    """Of any size, without a copy; an empty file can't be mapped."""
    if not os.fstat(file.fileno()).st_size:
        return b""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@cache
def _store(uri: str) -> Any:
    from obstore.store import from_url

    allow_http = os.environ.get(ALLOW_HTTP, "").lower() in ("1", "true")
    return from_url(uri, client_options={"timeout": f"{PUT_TIMEOUT_S}s", "allow_http": allow_http})
