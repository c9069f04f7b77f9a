"""``postroom pipeline rebuild TABLE``: the table once more from the rows of `events`, which outlive the
ledger.

The new files are made beside the old ones and take their place in one commit, so that readers see the one
table or the other. A table that breaks off half-way has changed nothing; its files are strays, which vacuum
deletes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.pipeline.derived import derive
from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.errors import PipelineError
from postroom.spark.pipeline.lock import held
from postroom.spark.pipeline.open_rows import settle_bucket, settle_tasks
from postroom.spark.pipeline.options import PARTITION_RECORDS, SMALL_BATCH_ROWS, Settings, known_settings
from postroom.spark.pipeline.pipeline_table import PipelineTable, open_tables
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.slice_files import not_carried
from postroom.spark.store.protocol import DONE, OPEN, DataFile, TableState
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.fold import partials, split
from postroom.spark.tables.range import Range

EVENTS = "events"


@dataclass(frozen=True, slots=True)
class RebuildTask:
    """A run of positions of one ledger: files of the source whose rows are to become rows of the table."""

    source: TableStore
    target: TableStore
    files: tuple[DataFile, ...]
    opening: tuple[int, int] | None


def rebuild(tables: str, name: str, engine: Engine) -> int:
    """Rebuild a table, and those made of its rows; returns its rows. Raises ``LedgerError``, ``OSError``."""
    root = Root(tables)
    with held(root):
        opened = open_tables(tables, _needed(known_settings(root), name), known_settings(root).format)
        target, source = opened[name], opened[DEFINITIONS[name].source]
        add = _made(target, source, engine)
        followers = [table for table in opened.values() if table.definition.source == name != table.name]
        for table in followers:  # before the swap: what they would take as new is all of it
            state = replace(table.state, source_version=target.state.version, settled_rows=0)
            table.swap([], table.store.files(), state, "rebuild")
        target.swap(add, target.store.files(), _state(target, source, add), "rebuild")
        for table in followers:
            derive(table, target, engine, SMALL_BATCH_ROWS)
    return sum(file.rows for file in add)


def _needed(settings: Settings, name: str) -> list[str]:
    if name not in settings.tables:
        raise PipelineError(f"no such table here: {name}; there are {', '.join(settings.tables)}")
    if name == EVENTS:
        raise PipelineError(
            f"{EVENTS} is what the others are rebuilt from. To read it again from the ledgers, as far as"
            " their history goes back, move its folder away and run the pipeline"
        )
    if settings.format == "iceberg":
        raise PipelineError(
            "tables of format iceberg only grow: move the table's folder away and run the pipeline"
        )
    source = DEFINITIONS[name].source
    if source not in settings.tables:
        raise PipelineError(f"{name} is rebuilt from {source}, and there is no such table here")
    followers = [one for one in settings.tables if DEFINITIONS[one].source == name]
    return [source, name, *followers]


def _state(target: PipelineTable, source: PipelineTable, add: Sequence[DataFile]) -> TableState:
    return TableState(
        version=target.state.version,
        positions=source.state.positions,
        openings=source.state.openings if source.name == EVENTS else target.state.openings,
        settled_rows=sum(file.rows for file in add if file.part == OPEN),
        source_version=source.state.version if source.name != EVENTS else target.state.source_version,
        rows_in=target.state.rows_in,
        rows_written=target.state.rows_written,
        rows_copied=target.state.rows_copied,
    )


def _made(target: PipelineTable, source: PipelineTable, engine: Engine) -> list[DataFile]:
    """The files of the new table, not yet part of it."""
    tasks = list(_tasks(target, source))
    made = [file for files in engine.map(rebuild_run, tasks) for file in files]
    folding = settle_tasks(target.store, [file for file in made if file.part == OPEN], engine.cores)
    done = [file for file in made if file.part == DONE]
    return done + [file for files in engine.map(settle_bucket, folding) for file in files]


def _tasks(target: PipelineTable, source: PipelineTable) -> Iterator[RebuildTask]:
    by_ledger: dict[str, list[DataFile]] = {}
    for file in source.store.files(DONE):
        by_ledger.setdefault(file.ledger_id, []).append(file)
    openings: Mapping[str, tuple[int, int]] = source.state.openings if source.name == EVENTS else {}
    for ledger_id, files in by_ledger.items():
        for some in runs(files):
            yield RebuildTask(source.store, target.store, tuple(some), openings.get(ledger_id))


def runs(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files in runs of positions that don't overlap, of about `PARTITION_RECORDS` rows: compaction may have
    put rows together that were not neighbours, and a table's rows must be made of neighbours."""
    some: list[DataFile] = []
    reached = rows = 0
    for file in sorted(files, key=lambda file: (file.first_position, file.last_position)):
        if some and file.first_position > reached and rows >= PARTITION_RECORDS:
            yield some
            some, rows = [], 0
        some.append(file)
        reached, rows = max(reached, file.last_position), rows + file.rows
    if some:
        yield some


class FileRange(Range):
    """The rows of some files, each column read when it is first asked for: few tables ask for all."""

    def __init__(self, store: TableStore, files: Sequence[DataFile]) -> None:
        super().__init__(store.definition.schema.empty_table())
        self._store = store
        self._files = files
        self._read: dict[str, pa.ChunkedArray] = {}

    def __len__(self) -> int:
        return sum(file.rows for file in self._files)

    def column(self, name: str, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
        if name not in self._store.definition.schema.names:
            return pa.nulls(len(self), kind)
        if name not in self._read:
            self._read[name] = pa.concat_tables(
                [self._store.read(file, [name], coded=True) for file in self._files]
            ).column(name)
        return self._read[name]

    def take(self, rows: Array) -> Range:
        return Range(whole(self._store, self._files).take(pa.array(rows)))


def whole(store: TableStore, files: Sequence[DataFile]) -> pa.Table:
    """The rows of some files, all columns."""
    return pa.concat_tables([store.read(file) for file in files])


def rebuild_run(task: RebuildTask) -> list[DataFile]:
    """The rows of one run, as files. What is done by itself goes to part ``done`` at once, unless there are
    carried rows: their times are not those of the run."""
    rows: Range = FileRange(task.source, task.files)
    if task.opening is not None:
        rows = Range(not_carried(whole(task.source, task.files), *task.opening))
    if not len(rows):
        return []
    definition, ledger_id = task.target.definition, task.files[0].ledger_id
    made = partials(definition, rows)
    if task.opening is not None or task.source.name != EVENTS:
        return [task.target.write(made, OPEN, None, ledger_id)] if len(made) else []
    return [
        task.target.write(some, part, day, ledger_id)
        for part, day, some in split(definition, made, rows)
        if len(some)
    ]
