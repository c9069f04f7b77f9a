"""Files that their owner alone may read, replaced as a whole and durably."""

import os
import tempfile
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o600


def replace_private(file: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``file``: at any moment there is the old content or the new one."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), OWNER_ONLY)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
