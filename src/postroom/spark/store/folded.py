"""Reading a table as its readers want it: done rows as they are, partial rows folded.

A table whose done rows may be followed by others of the same key (`is_late`) is folded as a whole. The fold
can be done in buckets of the key, each on its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.store.protocol import DONE, DataFile, Snapshot
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.definition import ORDER, TableDefinition
from postroom.spark.tables.fold import fold, shown


def read_folded(
    store: TableStore,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    snapshot: Snapshot | None = None,
    ongoing: bool = False,
) -> pa.Table:
    """The rows of a table's newest version, or of `snapshot`, each key once.

    `ongoing`: durations that go on as the sums that are stored, else null.
    ``where`` filters the finished rows and may use the `columns` only. Raises ``TableError``.
    """
    names = list(columns) if columns is not None else store.definition.schema.names
    known = snapshot or store.snapshot()
    final, partial = halves(store.definition, known.files)
    tables = [store.read(file, names) for file in final]
    tables.append(read_bucket(store, partial, names, 0, 1, ongoing))
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
    store: TableStore,
    files: Sequence[DataFile],
    columns: Sequence[str],
    number: int,
    count: int,
    ongoing: bool = False,
) -> pa.Table:
    """The folded rows of the keys that fall into bucket `number` of `count`; `ongoing` as for
    `read_folded`."""
    wanted = folding(store.definition, columns)
    tables = [wanted.schema.empty_table().replace_schema_metadata(None)]
    tables += [store.read_bucket(file, wanted.schema.names, number, count) for file in files]
    folded = fold(wanted, pa.concat_tables(tables)).select(list(columns))
    return folded if ongoing else shown(wanted, folded)


def folding(definition: TableDefinition, columns: Sequence[str]) -> TableDefinition:
    """The definition with no more columns than it takes to fold those named."""
    named = set(columns) | set(definition.key) | {field.name for field in ORDER}
    named |= {field.of for field in definition.fields if field.name in named}
    return replace(definition, fields=tuple(f for f in definition.fields if f.name in named))
