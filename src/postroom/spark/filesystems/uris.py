"""Which file system a path or URI is of."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from postroom.ledger.errors import LedgerError

FILE_SCHEME: Final = "file:"


class StoreUriInvalid(LedgerError):
    """A URI that pyarrow knows no file system for, or one that can't be opened."""


def open_filesystem(uri: str) -> tuple[Any, str]:
    """The file system and path of a folder or URI (``/srv/tables``, ``s3://bucket/tables``).

    Raises ``StoreUriInvalid``.
    """
    if "://" not in uri:
        return pafs.LocalFileSystem(), str(Path(uri.removeprefix(FILE_SCHEME)).absolute())
    try:
        found: tuple[Any, str] = pafs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreUriInvalid(f"{uri}: {error}") from error
    return found
