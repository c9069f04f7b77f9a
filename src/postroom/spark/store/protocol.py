"""What every table format offers: files that tasks write, and commits that make them part of the table.

A table is a list of immutable Parquet files and a `TableState`, both changed by one commit: rows and the
position that they reach to can't part. Files that no commit names are not part of the table, so that a task
may be killed at any point, or run twice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec
import pyarrow as pa
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerError
from postroom.spark.ledger_source.positions import Position
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.row_sums import RowSum

Part = Literal["open", "done"]
"""``done``: rows to which nothing more can come; ``open``: partial rows, which a reader folds."""

OPEN: Final[Part] = "open"
DONE: Final[Part] = "done"

OWN_FOLDER: Final = "_pipeline"
"""Beside the tables, the pipeline's. Spark and the formats take names that begin with an underscore for none
of theirs."""
SETTINGS_FILE: Final = "settings.json"
"""There: what the pipeline makes, and how."""

NO_VERSION: Final = -1
"""The version of a table that nobody has committed to yet."""

CHECKPOINT_COMMITS: Final = 100
"""Every so many versions a checkpoint lists all files, unless the writer says otherwise."""

RETENTION_S: Final = 86_400
"""For how long versions can be read by default."""

PARTITION_COLUMNS: Final = ("part", "day", "ledger_id")
"""What is the same for all rows of a file; told by its path and its commit, not by its columns."""


class TableError(LedgerError):
    """A table can't be read or written; the message says which, why, and what to do."""


class TableConflict(TableError):
    """Another writer committed since the state was read: read it again, and drop what it has already."""


class SchemaConflict(TableError):
    """The table's columns and this program's differ in more than added columns, or the table is too new."""


class VersionGone(TableError):
    """A version was asked for that the table does not have, or has no longer."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table. Serials and positions are 0 where the table has none."""

    path: str
    """Relative to the table, with ``/``."""
    part: Part
    day: str | None
    """``YYYY-MM-DD`` in UTC, None for open rows."""
    ledger_id: str
    rows: int
    size_bytes: int
    first_serial: int = 0
    last_serial: int = 0
    first_position: int = 0
    last_position: int = 0


@dataclass(frozen=True, slots=True)
class TableState:
    """What a commit says about the table as a whole."""

    version: int = NO_VERSION
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By ledger: everything up to here is in the table."""
    openings: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By ledger: (first position read, position of the checkpoint that told what is older)."""
    settled_rows: int = 0
    """Rows in part ``open`` after the last settle."""
    source_version: int = NO_VERSION
    """Of a table made from another table's rows: that table's version."""
    schema_version: int = 0
    """The newest version of the definition that wrote here."""
    rows_in: int = 0
    rows_written: int = 0
    rows_copied: int = 0
    """Sums since the beginning: rows read, rows written for them, and of those, rows written again."""
    updated_us: int = 0
    """When, in µs since 1970."""
    sums: Mapping[str, RowSum] = field(default_factory=dict)
    """By ledger, of a table whose rows never merge: what it has."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a table: its state and its files belong together."""

    state: TableState
    files: tuple[DataFile, ...]


class TableStore(Protocol):
    """A table in one of the formats. Picklable: tasks write through it, the driver commits."""

    @property
    def name(self) -> str: ...
    @property
    def uri(self) -> str: ...
    @property
    def definition(self) -> TableDefinition: ...
    @property
    def can_replace(self) -> bool:
        """Whether commits may remove files; else rows in ``open`` stay there, and readers fold them."""

    def state(self) -> TableState:
        """The newest commit's; version `NO_VERSION` if there is none yet."""

    def files(self, part: Part | None = None) -> list[DataFile]:
        """The newest version's files."""

    def snapshot(self, version: int | None = None, as_of: datetime | None = None) -> Snapshot:
        """State and files of a version, or of the newest at a time. Raises ``VersionGone``."""

    def added_since(self, version: int) -> list[DataFile]:
        """Files with new rows in part ``done`` that came after a version, in the order of their commits;
        files that only hold others' rows again are left out. Raises ``VersionGone``."""

    def write(self, rows: pa.Table, part: Part, day: str | None, ledger_id: str) -> DataFile:
        """Rows (columns of the definition, in any order) as a durable file that is not yet part of the
        table."""

    def read(self, file: DataFile, columns: Sequence[str] | None = None, coded: bool = False) -> pa.Table:
        """A file's rows in the definition's columns or those named (also ``part`` and ``day``); columns
        newer than the file are null. `coded`: texts that come again and again as dictionary arrays, which
        are quicker to read and to fold."""

    def read_bucket(self, file: DataFile, columns: Sequence[str], number: int, count: int) -> pa.Table:
        """The rows of a file whose key falls into bucket `number` of `count` (see `buckets`); `columns` must
        have the key's."""

    def pieces(self, file: DataFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The same a piece at a time, whatever the file's size."""

    def commit(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool = True,
    ) -> int:
        """Make the version after ``state.version``: files added and removed, and the new state. Returns
        it. `is_new` False: the rows added were in the table before, so that tables made of this one
        don't take them again. Raises ``TableConflict`` if that version exists already,
        ``SchemaConflict``."""

    def small_files(self, target_bytes: int, below_bytes: int) -> list[list[DataFile]]:
        """Groups of finished files of a part, day and ledger, each below `below_bytes`, that are worth
        putting together to files of about `target_bytes`."""

    def join(self, files: Sequence[DataFile]) -> DataFile:
        """The rows of several files of one part, day and ledger as one durable file that is not yet part of
        the table."""

    def joined(self, groups: Sequence[Sequence[DataFile]], files: Sequence[DataFile]) -> None:
        """Put each of these files in the place of a group that it was made from, by one commit."""

    def vacuum(self, retention_s: int) -> int:
        """Delete files that no version needs which is younger than `retention_s`, also those that never
        became part of the table, and old log entries. Returns how many data files."""

    def checkpoint(self) -> None:
        """Write the whole list of files at once, so that readers need not read each commit."""


def encode_state(state: TableState) -> str:
    """A state as JSON text, as commits carry it."""
    return with_check(msgspec.json.encode(state)).decode()


def decode_state(text: str | bytes) -> TableState:
    """Back again; fields that a newer program added are ignored. Raises ``ValueError``: it was changed."""
    content = text.encode() if isinstance(text, str) else text
    return msgspec.json.decode(checked(content), type=TableState)


# --- what was written as it was written -----------------------------------------------------------

_CHECK: Final = re.compile(rb',"check":"([0-9a-f]{8})"}$')


def with_check(content: bytes) -> bytes:
    """A JSON object with its own CRC-32 as its last member."""
    return b'%s,"check":"%08x"}' % (content[:-1], crc32(content))


def checked(content: bytes) -> bytes:
    """The same if it is what was written. Raises ``ValueError``."""
    found = _CHECK.search(content)
    if found is None or crc32(content[: found.start()] + b"}") != int(found[1], 16):
        raise ValueError("it is not what was written: its check differs")
    return content
