"""Reading a table as its readers want it: done rows as they are, partial rows folded.

A table whose done rows may be followed by others of the same key (`is_late`) is folded as a whole. The fold
can be done in buckets of the key, each on its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.store.protocol import DONE, DataFile, Snapshot, TableStore
from postroom.spark.tables.definition import ORDER, TableDefinition
from postroom.spark.tables.fold import fold

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd, and far from any pattern of the numbers that keys are made of."""


def read_folded(
    store: TableStore,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    snapshot: Snapshot | None = None,
) -> pa.Table:
    """The rows of a table's newest version, or of `snapshot`, each key once.

    ``where`` filters the finished rows and may use the `columns` only. Raises ``TableError``.
    """
    names = list(columns) if columns is not None else store.definition.schema.names
    known = snapshot or store.snapshot()
    final, partial = halves(store.definition, known.files)
    tables = [store.read(file, names) for file in final]
    tables.append(read_bucket(store, partial, names, 0, 1))
    whole = pa.concat_tables(tables)
    return whole if where is None else whole.filter(where)


def halves(definition: TableDefinition, files: Iterable[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """(files whose rows are final, files whose rows must be folded)."""
    final: list[DataFile] = []
    partial: list[DataFile] = []
    for file in files:
        (final if file.part == DONE and not definition.is_late else partial).append(file)
    return final, partial


def read_bucket(
    store: TableStore, files: Sequence[DataFile], columns: Sequence[str], number: int, count: int
) -> pa.Table:
    """The folded rows of the keys that fall into bucket `number` of `count`."""
    wanted = folding(store.definition, columns)
    names = wanted.schema.names
    always = [name for name in wanted.key if name != wanted.link]  # a row may not know its link yet
    tables = [wanted.schema.empty_table().replace_schema_metadata(None)]
    for file in files:
        rows = store.read(file, names)
        tables.append(rows if count == 1 else rows.filter(in_bucket(rows, always, number, count)))
    return fold(wanted, pa.concat_tables(tables)).select(list(columns))


def folding(definition: TableDefinition, columns: Sequence[str]) -> TableDefinition:
    """The definition with no more columns than it takes to fold those named."""
    named = set(columns) | set(definition.key) | {field.name for field in ORDER}
    named |= {field.of for field in definition.fields if field.name in named}
    return replace(definition, fields=tuple(f for f in definition.fields if f.name in named))


def in_bucket(rows: pa.Table, key: Sequence[str], number: int, count: int) -> pa.Array:
    """Which rows fall into the bucket: by the numbers of their key, whatever its texts."""
    mixed = np.zeros(len(rows), np.uint64)
    for name in key:
        if not pa.types.is_string(rows.schema.field(name).type):
            mixed = (mixed ^ _numbers(rows[name])) * SPREAD
    return pa.array((mixed >> np.uint64(32)) % np.uint64(count) == number)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    if not pa.types.is_integer(column.type):  # a time
        column = column.cast(pa.int64())
    filled: npt.NDArray[np.int64] = column.fill_null(0).cast(pa.int64()).to_numpy()
    return filled.astype(np.uint64)
