"""What a table is in every format, and what may be wrong with it.

A table is a list of immutable Parquet files and a `TableState`, both changed by one commit: rows and the
position that they reach to can't part. Files that no commit names are not part of the table, so that a task
may be killed at any point, or run twice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerError
from postroom.spark.ledger_source.positions import Position
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
