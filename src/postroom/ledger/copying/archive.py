"""A frozen ledger as one stream of bytes: a tar archive, whose last file is the superblock.

So one that broke off is told from a whole one, by its size as well as by what is missing.
"""

import os
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Final, Protocol, cast

from postroom.ledger.copying.frozen import Frozen, FrozenFile
from postroom.ledger.errors import LedgerError
from postroom.ledger.format.file_names import SUPERBLOCK_NAME
from postroom.ledger.storage.disk import READABLE_PERMISSIONS
from postroom.ledger.verification.integrity import files_of

PIECE_BYTES: Final = 1 << 20
OWNER_ONLY: Final = 0o600
"""Permissions of files beside a ledger."""
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


class Stream(Protocol):
    """Where an archive comes from."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes; none at the end."""


class CopyBroken(LedgerError):
    """What came isn't a whole ledger: begin anew."""


def archive_bytes(frozen: Frozen) -> int:
    """How many bytes the archive has."""
    return sum(tarfile.BLOCKSIZE + _padded(file.size_bytes) for file in frozen.files) + len(_END)


def archive_pieces(frozen: Frozen) -> Iterator[Callable[[], bytes]]:
    """The archive, piece by piece, each read when it is called for."""
    for file in frozen.files:
        yield from _pieces_of(file)
    yield lambda: _END


def _pieces_of(file: FrozenFile) -> Iterator[Callable[[], bytes]]:
    info = tarfile.TarInfo(file.name)
    info.size, info.mode = file.size_bytes, OWNER_ONLY
    head = info.tobuf(tarfile.GNU_FORMAT)
    assert len(head) == tarfile.BLOCKSIZE, "names of ledgers' files are short"
    yield lambda: head
    for start in range(0, file.size_bytes, PIECE_BYTES):
        size = min(PIECE_BYTES, file.size_bytes - start)
        yield partial(_read, file, start, size)
    padding = bytes(_padded(file.size_bytes) - file.size_bytes)
    yield lambda: padding


def _read(file: FrozenFile, offset: int, size: int) -> bytes:
    data = file.read_at(offset, size)
    if len(data) != size:
        raise OSError(f"{file.name} ends at byte {offset + len(data)}, before its size")
    return data


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def unpack(
    stream: Stream, folder: Path, beside: tuple[str, ...], go_on: Callable[[], None] = lambda: None
) -> None:
    """Write the files of an archive into an empty folder, each durably.

    `beside`: names of files beside the ledger that may come with it; `go_on` is called now and then, and may
    raise. Raises ``CopyBroken``, OSError.
    """
    last = ""
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|", bufsize=PIECE_BYTES) as archive:
            for info in archive:
                if not info.isfile() or not (info.name in beside or files_of([info.name])):
                    raise CopyBroken(f"{info.name!r} is no file of a ledger")
                content = archive.extractfile(info)
                assert content is not None
                write_file(folder / info.name, info.name in beside, partial(content.read, PIECE_BYTES), go_on)
                if (folder / info.name).stat().st_size != info.size:
                    raise CopyBroken(f"the copy breaks off in {info.name}")
                last = info.name
    except tarfile.TarError as error:
        raise CopyBroken(f"the copy breaks off behind {last or 'nothing'}: {error}") from error
    if last != SUPERBLOCK_NAME:
        raise CopyBroken(f"the copy breaks off behind {last or 'nothing'}")


def write_file(path: Path, is_private: bool, read: Callable[[], bytes], go_on: Callable[[], None]) -> None:
    """A new file of what `read` gives until it gives nothing; durable on return."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(path, flags, OWNER_ONLY if is_private else READABLE_PERMISSIONS)
    with os.fdopen(handle, "wb") as out:
        while piece := read():
            go_on()
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
