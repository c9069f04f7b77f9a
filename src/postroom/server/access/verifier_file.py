"""What is kept of passwords: a file of the data folder that only its owner reads, beside the ledger and never
in it.

A user's definition in the ledger names the ids of the verifiers that count. A new one is in the file before
the ledger says so; what no definition names goes afterwards, or at the next start. So a crash between the two
leaves the password that was.
"""

import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from postroom.replication.folder_state import VERIFIERS_NAME
from postroom.server.configuration.passwords import PasswordHashError, parse_hash
from postroom.server.exits import Exit, StartError
from postroom.server.private_files import replace_private

ID_BYTES: Final = 12
MAX_FILE_BYTES: Final = 64 << 20


class VerifierStore(Protocol):
    """Where verifiers are kept by id."""

    def get(self, id: str) -> str | None:
        """The verifier of that id; None where there is none."""

    def add(self, verifiers: Iterable[str]) -> tuple[str, ...]:
        """Keep these, durably; their ids."""

    def keep_only(self, ids: Iterable[str]) -> None:
        """Forget all others."""


class VerifierMemory:
    """Verifiers that are nowhere else."""

    def __init__(self) -> None:
        self._by_id: Final[dict[str, str]] = {}

    def get(self, id: str) -> str | None:
        return self._by_id.get(id)

    def add(self, verifiers: Iterable[str]) -> tuple[str, ...]:
        added = {secrets.token_hex(ID_BYTES): text for text in verifiers}
        self._by_id.update(added)
        self._write()
        return tuple(added)

    def keep_only(self, ids: Iterable[str]) -> None:
        wanted = set(ids)
        gone = [id for id in self._by_id if id not in wanted]
        for id in gone:
            del self._by_id[id]
        if gone:
            self._write()

    def _write(self) -> None:
        """They have changed."""


class VerifierFile(VerifierMemory):
    """Verifiers in a file, written anew with each change."""

    def __init__(self, folder: Path, replicate: Callable[[bytes], None] | None = None) -> None:
        """``replicate`` has what the file is at other members of the queue manager, too. Raises `StartError`
        for a file that others can read, or that is damaged."""
        super().__init__()
        self._replicate: Final = replicate
        self._file: Final = folder / VERIFIERS_NAME
        try:
            mode = stat.S_IMODE(self._file.stat().st_mode)
        except FileNotFoundError:
            return
        if mode & 0o077:
            what = f"{self._file} can be read or written by others (mode {mode:o}): `chmod 600` it"
            raise StartError(Exit.CONFIGURATION, what)
        self._by_id.update(_read(self._file))

    def _write(self) -> None:
        data = msgspec.json.format(msgspec.json.encode(self._by_id), indent=2) + b"\n"
        # Here first: once the log has it, this folder may count as up to date, and isn't given it again.
        replace_private(self._file, data)
        if self._replicate is not None:
            self._replicate(data)


def _read(file: Path) -> dict[str, str]:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise StartError(Exit.CONFIGURATION, f"{file}: longer than {MAX_FILE_BYTES} bytes")
        found = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
        for text in found.values():
            parse_hash(text)
    except OSError as error:
        raise StartError(Exit.CONFIGURATION, f"{file}: can't be read: {error.strerror}") from error
    except (msgspec.DecodeError, PasswordHashError) as error:
        what = f"{file} is damaged: restore it from a backup, or remove it and give users new passwords"
        raise StartError(Exit.CONFIGURATION, f"{what} ({error})") from error
    return found
