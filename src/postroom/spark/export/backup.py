"""A whole ledger, bodies included, into an object store and back: `postroom ledger backup`, `… restore`.

What `upload` puts into a store is for readers of history and has no bodies; a backup is what a broker
starts on. It is the ledger of one moment, beside a broker that goes on. Its files are objects that are never
changed: what is sealed is put there once for all backups, what still grows with each. All are read back
before the backup's list is made, as the last object: without a list there is no backup. Lists of a ledger
stand beside each other, by time.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from isal.isal_zlib import crc32

from postroom.ledger.copying.archive import write_file
from postroom.ledger.copying.frozen import Frozen, FrozenFile, freeze
from postroom.ledger.copying.inspection import check_frozen
from postroom.ledger.copying.placing import begin, finish, place
from postroom.ledger.errors import LedgerError
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.headers import header_crc_of
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.verification.integrity import Covered, check, files_of
from postroom.replication.folder_state import STATE_NAME, VERIFIERS_NAME
from postroom.spark.filesystems.objects import Objects

LISTS: Final = "backups"
FILES: Final = "backup-files"
"""Folders of a ledger in the store."""
LIST_SUFFIX: Final = ".json"
VERSION: Final = 1
PIECE_BYTES: Final = 8 << 20
HEAD_BYTES: Final = 8
BESIDE: Final = (STATE_NAME, VERIFIERS_NAME)
"""Files beside the ledger that are backed up, too."""


class BackupRefused(LedgerError):
    """A backup can't be made, or not be used."""


class BackedUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a backup."""

    name: str
    object: str
    """Its object's name in the ledger's folder of files."""
    size_bytes: int
    crc32: int


class Backup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A backup's list."""

    version: int
    ledger_id: str
    time_us: int
    first_position: int
    last_position: int
    files: list[BackedUp]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)


class Backups:
    """Of all ledgers in one store."""

    def __init__(self, uri: str) -> None:
        """Raises ``StoreUriInvalid``."""
        self._objects: Final = Objects(uri)

    def make(self, folder: Path, on_file: Callable[[str, int], None]) -> tuple[str, Backup]:
        """Back up a folder's ledger as it is now; the backup's name. `on_file` is told of each file that the
        store hadn't, and its bytes.

        Raises ``LedgerError``, of a ledger that isn't whole or an object that isn't what was put there;
        OSError.
        """
        frozen = freeze(folder, BESIDE)
        try:
            return self._make(frozen, folder, on_file)
        finally:
            frozen.close()

    def _make(self, frozen: Frozen, folder: Path, on_file: Callable[[str, int], None]) -> tuple[str, Backup]:
        covered = check_frozen(frozen, folder)
        time_us = time.time_ns() // 1000
        moment = datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        known = {file.object: file for file in self._newest_files(covered.ledger_id)}
        files = []
        for file in frozen.files:
            object_name = f"{file.name}.{_tag_of(file) or moment}"
            if object_name not in known:
                known[object_name] = self._put(covered.ledger_id, file, object_name)
                on_file(file.name, file.size_bytes)
            files.append(known[object_name])
        backup = Backup(
            VERSION, covered.ledger_id, time_us, covered.first_position, covered.last_position, files
        )
        text = msgspec.json.format(msgspec.json.encode(backup), indent=2)
        if not self._objects.create(f"{covered.ledger_id}/{LISTS}/{moment}{LIST_SUFFIX}", [text]):
            raise BackupRefused(f"{self._objects.uri}: there is a backup of {moment} already")
        return moment, backup

    def _newest_files(self, ledger_id: str) -> list[BackedUp]:
        """Those of the backup before, each read back when it was made."""
        names = self.names(ledger_id)
        return self.read(ledger_id, names[-1]).files if names else []

    def _put(self, ledger_id: str, file: FrozenFile, object_name: str) -> BackedUp:
        """Make the object, and read it back. One that a broken-off backup has left serves, if it's whole."""
        crc = 0
        for piece in _pieces(file):
            crc = crc32(piece, crc)
        path = f"{ledger_id}/{FILES}/{object_name}"
        self._objects.create(path, _pieces(file))
        found = 0
        with self._objects.open(path) as stored:
            size = stored.size()
            while piece := stored.read(PIECE_BYTES):
                found = crc32(piece, found)
        if (size, found) != (file.size_bytes, crc):
            what = "the object isn't what was put there: remove it, and back up again"
            raise BackupRefused(f"{self._objects.uri}/{path}: {what}")
        return BackedUp(file.name, object_name, size, crc)

    def ledgers(self) -> list[str]:
        """Ids of the ledgers of which there are backups."""
        return [id for id in self._objects.folders("") if self._objects.names(f"{id}/{LISTS}")]

    def names(self, ledger_id: str) -> list[str]:
        """Of the backups of a ledger, oldest first."""
        names = self._objects.names(f"{ledger_id}/{LISTS}")
        return [name.removesuffix(LIST_SUFFIX) for name in names if name.endswith(LIST_SUFFIX)]

    def read(self, ledger_id: str, name: str) -> Backup:
        """A backup's list. Raises ``BackupRefused``."""
        path = f"{ledger_id}/{LISTS}/{name}{LIST_SUFFIX}"
        try:
            backup = msgspec.json.decode(self._objects.read(path), type=Backup)
        except FileNotFoundError as error:
            names = ", ".join(self.names(ledger_id)) or "none"
            raise BackupRefused(f"{self._objects.uri}: no backup {name!r}; there are: {names}") from error
        except msgspec.DecodeError as error:
            raise BackupRefused(f"{self._objects.uri}/{path}: no list of a backup: {error}") from error
        if backup.version != VERSION:
            what = f"a backup of version {backup.version}; this Postroom knows {VERSION}: upgrade it"
            raise BackupRefused(f"{self._objects.uri}/{path}: {what}")
        return backup

    def restore(
        self, ledger_id: str, name: str, folder: Path, keeps_place: bool = False
    ) -> tuple[str, Backup, Covered]:
        """Make a folder that has no ledger the ledger of a backup, checked; what it is.

        `ledger_id`, `name`: "": the only ledger, its newest backup. `keeps_place`: the folder goes on from
        its place in the log of a replicated queue manager. Raises ``LedgerError``, OSError.
        """
        ledger_id = ledger_id or self._only_ledger()
        name = name or max(self.names(ledger_id), default="")
        backup = self.read(ledger_id, name)
        disk = RealDisk(folder)
        disk.lock(False)
        try:
            finish(folder)
            if files_of(disk.names()):
                raise BackupRefused(f"{folder} has a ledger: name a folder without one, or move it away")
            partial = begin(folder)
            for file in backup.files:
                if keeps_place or file.name != STATE_NAME:
                    self._get(ledger_id, file, partial)
            covered = check(partial)
            place(folder)
        finally:
            disk.unlock()
        return name, backup, covered

    def _only_ledger(self) -> str:
        found = self.ledgers()
        if len(found) != 1:
            several = f"backups of several ledgers: name one of {', '.join(found)}" if found else "no backups"
            raise BackupRefused(f"{self._objects.uri}: {several}")
        return found[0]

    def _get(self, ledger_id: str, file: BackedUp, partial: Path) -> None:
        path, crc = f"{ledger_id}/{FILES}/{file.object}", 0
        if file.name not in BESIDE and not files_of([file.name]):
            raise BackupRefused(f"{self._objects.uri}: {file.name!r} in a list is no file of a ledger")
        with self._objects.open(path) as stored:

            def read() -> bytes:
                nonlocal crc
                piece: bytes = stored.read(PIECE_BYTES)
                crc = crc32(piece, crc)
                return piece

            write_file(partial / file.name, file.name in BESIDE, read, lambda: None)
        size = (partial / file.name).stat().st_size
        if (size, crc) != (file.size_bytes, file.crc32):
            raise BackupRefused(
                f"{self._objects.uri}/{path} isn't what was backed up: restore another backup"
            )


def _tag_of(file: FrozenFile) -> str:
    """Tells what is sealed from everything else of its name; "" for what may still change."""
    listing = Listing([file.name])
    if not (listing.events or listing.bodies or listing.packed or listing.checkpoints):
        return ""
    return f"{header_crc_of(file.read_at(0, HEAD_BYTES)):08x}-{file.size_bytes}"


def _pieces(file: FrozenFile) -> Iterator[bytes]:
    for start in range(0, file.size_bytes, PIECE_BYTES):
        yield file.read_at(start, PIECE_BYTES)
