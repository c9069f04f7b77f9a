"""A checkpoint of Spark's, read: where each batch of a query ends, by its log of offsets, and what else lies
beside it."""

from dataclasses import dataclass
from typing import Final

import pyarrow.fs as pafs

from postroom.ledger.errors import LedgerError
from postroom.spark.filesystems.uris import StoreUriInvalid, open_filesystem

OFFSETS: Final = "offsets"
_HEAD_LINES: Final = 2
"""Of a batch: the version of the log's format, and what Spark notes beside the offsets: times, which differ
in each attempt to plan."""
_WITH_NAMES: Final = "v2"
"""Of a query whose sources have names: each offset has its source's before it."""
_NAME_MARK: Final = ":"
_PYARROW_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""By what Hadoop calls them."""


class CheckpointUnreadable(LedgerError):
    """A checkpoint that can't be opened or read, or a batch in it that is cut off."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Where a batch ends for one source."""

    source: str
    """What its folder in the checkpoint is called: its name, or else its index in the query."""
    offset: str
    """As Spark keeps it; ``-``: none."""


class Checkpoint:
    """The files of a checkpoint at a folder or URI."""

    def __init__(self, location: str) -> None:
        """Raises ``CheckpointUnreadable``."""
        self.location: Final = location
        try:
            self._files, root = open_filesystem(_as_pyarrow_calls_it(location))
        except StoreUriInvalid as error:
            raise self._unreadable("", error) from error
        self._root: Final = root.rstrip("/")

    def offsets(self, batch_id: int) -> list[SourceOffset] | None:
        """Where a batch ends, for each source, in their order in the query; None if there is no such batch.

        Raises ``CheckpointUnreadable``.
        """
        name = f"{OFFSETS}/{batch_id}"
        if not self.has(name):
            return None
        lines = self.lines(name)
        if len(lines) <= _HEAD_LINES:
            raise CheckpointUnreadable(
                f"{name} of checkpoint {self.location} is cut off: restore the checkpoint, or begin with a"
                " new one"
            )
        entries = lines[_HEAD_LINES:]
        if lines[0] != _WITH_NAMES:
            return [SourceOffset(str(index), line) for index, line in enumerate(entries)]
        named = (line.partition(_NAME_MARK) for line in entries)
        return [SourceOffset(source, offset) for source, _, offset in named]

    def has(self, name: str) -> bool:
        """Whether there is such a file. Raises ``CheckpointUnreadable``."""
        try:
            found: bool = self._files.get_file_info(f"{self._root}/{name}").type == pafs.FileType.File
        except OSError as error:
            raise self._unreadable(name, error) from error
        return found

    def lines(self, name: str) -> list[str]:
        """Of a file. Raises ``CheckpointUnreadable``."""
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                text: str = stream.read().decode()
        except (OSError, ValueError) as error:
            raise self._unreadable(name, error) from error
        return text.splitlines()

    def _unreadable(self, name: str, error: Exception) -> CheckpointUnreadable:
        what = f"{name} of checkpoint {self.location}" if name else f"checkpoint {self.location}"
        return CheckpointUnreadable(
            f"{what} can't be read: {error}. Name the checkpoint as pyarrow knows it: a folder of this"
            " machine, file://, s3://, gs://, abfss:// or hdfs://"
        )


def _as_pyarrow_calls_it(location: str) -> str:
    scheme, mark, path = location.partition("://")
    return _PYARROW_SCHEMES.get(scheme, scheme) + mark + path
