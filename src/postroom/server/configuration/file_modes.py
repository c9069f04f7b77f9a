"""Who may read and write files with secrets.

As with PostgreSQL's key file, a private key is its owner's alone, and one that root owns may be read by its
group. What others can read is warned of, so that what has started before starts still; a key that others can
write is refused.
"""

import logging
import os
import stat
from pathlib import Path
from typing import Final

from postroom.server.exits import Exit, StartError
from postroom.server.logs import log

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
GROUP_READS: Final = stat.S_IRGRP
ROOT: Final = 0


def warn_of_readers(file: Path) -> None:
    """Say in the log where others than the owner can read or write ``file``. One that isn't there, or can't
    be seen, is for whoever reads it."""
    try:
        found = file.stat()
    except OSError:
        return
    mode = stat.S_IMODE(found.st_mode)
    open_to = mode & OTHERS
    if found.st_uid == ROOT and os.geteuid() != ROOT:
        open_to &= ~GROUP_READS
    if open_to:
        what = "others can read or write it, and it holds secrets: `chmod 600` it"
        log(logging.WARNING, "file-open-to-others", file=file, mode=f"{mode:o}", reason=what)


def check_key(file: Path) -> None:
    """As `warn_of_readers`; raises `StartError` for a key that others can write."""
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return
    if mode & OTHERS_WRITE:
        what = f"private key {file} can be written by others (mode {mode:o}): `chmod 600` it"
        raise StartError(Exit.CONFIGURATION, what)
    warn_of_readers(file)
