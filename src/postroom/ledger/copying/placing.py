"""How a copy takes the place of a folder's ledger: whole, or not at all, whenever the process dies.

A copy grows in the folder `copy.partial`; one that broke off is thrown away. One that is whole and was
checked is renamed to `copy.whole`: from then on it is the ledger, and what is left is done by `finish`, as
often as it takes. First the old ledger goes, but for its superblock, without whose files nothing opens the
folder; then the folder is renamed to `copy.placing`, and its files move, the superblock as the last.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from postroom.ledger.format.file_names import SUPERBLOCK_NAME
from postroom.ledger.verification.integrity import files_of

PARTIAL: Final = "copy.partial"
WHOLE: Final = "copy.whole"
PLACING: Final = "copy.placing"


def begin(folder: Path) -> Path:
    """An empty folder for the copy's files. The data folder's owner calls this, and what follows."""
    finish(folder)
    partial = folder / PARTIAL
    partial.mkdir()
    return partial


def place(folder: Path) -> None:
    """The copy is whole and checked: it is the ledger from now on, durably."""
    sync_folder(folder / PARTIAL)
    (folder / PARTIAL).rename(folder / WHOLE)
    sync_folder(folder)
    finish(folder)


def finish(folder: Path) -> None:
    """What a copy has left to be done in this folder, if anything."""
    if (folder / PARTIAL).is_dir():
        shutil.rmtree(folder / PARTIAL)
    if (folder / WHOLE).is_dir():
        for name in files_of(_files(folder)):
            if name != SUPERBLOCK_NAME:
                (folder / name).unlink()
        sync_folder(folder)
        (folder / WHOLE).rename(folder / PLACING)
        sync_folder(folder)
    placing = folder / PLACING
    if placing.is_dir():
        for name in sorted(_files(placing), key=lambda name: name == SUPERBLOCK_NAME):
            if name == SUPERBLOCK_NAME:
                sync_folder(folder)
            (placing / name).rename(folder / name)
        sync_folder(folder)
        placing.rmdir()
        sync_folder(folder)


def _files(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.is_file()]


def sync_folder(folder: Path) -> None:
    """Names in it are durable on return."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
