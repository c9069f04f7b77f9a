"""The folder of another member, over HTTP, for one that the log alone can't bring up to date.

The copy is checked before it takes the place of what the folder has; until then nothing of that is touched.
"""

import http.client
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from postroom.ledger.copying.archive import CopyBroken, unpack
from postroom.ledger.copying.placing import begin, finish, place
from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.superblock import read_superblock
from postroom.ledger.verification.integrity import Covered, check
from postroom.replication.errors import CopyUnavailable, MemberRefused
from postroom.replication.folder_state import BESIDE, read_state
from postroom.replication.options import ReplicationOptions

COPY_PATH: Final = "/ledger/copy"
SILENCE_S: Final = 10.0
"""A member that gives nothing for so long is given up."""
MAX_ERROR_BYTES: Final = 64 << 10
REFUSALS: Final = (401, 403, 404)
"""Statuses that trying again won't change."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy has brought."""

    url: str
    covered: Covered
    sequence: int
    """It goes on behind this entry of the log."""

    def __str__(self) -> str:
        has = self.covered
        return f"{self.url}: {has.files} files, {has.size_bytes} bytes, positions to {has.last_position}"


class Copying:
    """Copies into the folder of one member. For one thread; `stop` may be called in another."""

    def __init__(self, options: ReplicationOptions, folder: Path) -> None:
        self._options: Final = options
        self._folder: Final = folder
        self._is_stopped = False

    def stop(self) -> None:
        """The copy that is under way ends soon, with `CopyUnavailable`."""
        self._is_stopped = True

    def copy(self, log: str) -> Copied:
        """Have the folder be a copy of that of the first of the members' URLs that gives one, of the log with
        that identity.

        Raises `CopyUnavailable`; `MemberRefused` where no URL will ever give one; LedgerLocked, OSError.
        """
        disk = RealDisk(self._folder)
        disk.lock(False)
        try:
            finish(self._folder)
            superblock = None
            with suppress(LedgerCorrupt):  # then the copy is all the better
                superblock = read_superblock(disk)
            return self._first_of(log, None if superblock is None else superblock.ledger_id)
        finally:
            disk.unlock()

    def _first_of(self, log: str, ledger_id: bytes | None) -> Copied:
        reasons, is_refused = [], True
        for url in self._options.copy_from:
            partial = begin(self._folder)
            try:
                self._fetch(url, partial)
                copied = _checked(partial, url, log, ledger_id)
                place(self._folder)
                return copied
            except MemberRefused as error:
                reasons.append(str(error))
            except (LedgerError, OSError, http.client.HTTPException) as error:
                is_refused = False
                reasons.append(f"{url}: {error or type(error).__name__}")
            self._check_stop()
        what = "; ".join(reasons)
        raise MemberRefused(what) if is_refused else CopyUnavailable(what)

    def _check_stop(self) -> None:
        if self._is_stopped:
            raise CopyUnavailable("stopped")

    def _fetch(self, url: str, partial: Path) -> None:
        split = urlsplit(url)
        with closing(self._connection(split.scheme, split.hostname or "", split.port)) as connection:
            headers = {"authorization": f"Bearer {self._token()}"}
            connection.request("GET", split.path.rstrip("/") + COPY_PATH, headers=headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                what = f"{url}{COPY_PATH}: {answer.status}: {_reason(answer)}"
                raise MemberRefused(what) if answer.status in REFUSALS else CopyUnavailable(what)
            _require_room(self._folder, answer.length or 0)
            unpack(_Answer(answer), partial, BESIDE, self._check_stop)

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=SILENCE_S)
        context = ssl.create_default_context(cafile=self._options.copy_tls_ca or None)
        return http.client.HTTPSConnection(host, port, timeout=SILENCE_S, context=context)

    def _token(self) -> str:
        file = self._options.copy_token_file
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise MemberRefused(f"copy_token_file {file}: {error.strerror}") from error


class _Answer:
    """An HTTP answer of which every read is whole: one that breaks off raises."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer: Final = answer

    def read(self, size: int) -> bytes:
        piece = self._answer.read(size)
        if not piece and self._answer.length:
            raise CopyBroken(f"the connection broke, {self._answer.length} bytes before the end")
        return piece


def _reason(answer: http.client.HTTPResponse) -> str:
    text = answer.read(MAX_ERROR_BYTES)
    try:
        return str(msgspec.json.decode(text)["what"])  # the line for people
    except (msgspec.DecodeError, KeyError, TypeError):
        return text[:200].decode("utf-8", "replace")


def _require_room(folder: Path, size_bytes: int) -> None:
    disk = RealDisk(folder)
    try:
        free = disk.free_bytes()
    finally:
        disk.unlock()
    if free < size_bytes:
        raise CopyUnavailable(f"{folder} has {free:,} bytes free, the copy takes {size_bytes:,}")


def _checked(partial: Path, url: str, log: str, ledger_id: bytes | None) -> Copied:
    """What the copy has. Raises `MemberRefused` if it isn't of this log, `LedgerError` if it isn't whole."""
    disk = RealDisk(partial)
    try:
        state, superblock = read_state(disk), read_superblock(disk)
    finally:
        disk.unlock()
    if state is None:
        raise MemberRefused(f"{url}: it isn't a member of a replicated queue manager")
    if state.log != log:
        raise MemberRefused(f"{url}: it follows another log ({state.log}), not {log}")
    if superblock is not None and ledger_id not in (None, superblock.ledger_id):
        raise MemberRefused(
            f"{url}: it has another ledger than this member: name other members, or begin empty"
        )
    return Copied(url, check(partial), state.sequence)
