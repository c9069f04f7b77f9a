"""A pipeline without Spark: slices are worked on and committed one batch after the other, in this process."""

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from postroom.spark.ledger_source.record_batches import read_events, read_opening
from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.derived import derive
from postroom.spark.pipeline.engine import HereEngine
from postroom.spark.pipeline.open_rows import can_settle, settle
from postroom.spark.pipeline.options import SMALL_BATCH_ROWS, PipelineOptions, Upkeep
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.pipeline.slice_files import write_slice
from postroom.spark.places.place import Slice
from postroom.spark.places.slices import plan
from postroom.spark.places.uris import place_of
from postroom.spark.store import open_store, read_folded
from postroom.spark.store.protocol import DONE
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.fold import fold, partials, shown, split
from postroom.spark.tables.policy import Policy, apply

ENGINE = HereEngine()

Where = Path | str
"""A folder, or a URI."""

EAGER = Upkeep(
    settle_rows=20, settle_files=6, compact_interval_s=0.0, checkpoint_commits=3, vacuum_interval_s=0.0
)
"""Everything that is done between batches is done after each of them, or nearly so."""


def options(tables: Path, *data: Path, **more: Any) -> PipelineOptions:
    return PipelineOptions(tuple(map(str, data)), str(tables), upkeep=more.pop("upkeep", EAGER), **more)


def piped(tables: Path, *data: Path, **more: Any) -> Pipeline:
    """A pipeline that has looked at its ledgers."""
    pipeline = Pipeline(options(tables, *data, **more), ENGINE)
    pipeline.refresh()
    return pipeline


def slices(pipeline: Pipeline, records: int) -> list[Slice]:
    """What there is to read, as the source plans it: each ledger from where the tables stand."""
    found = []
    for ledger_id, seen in sorted(pipeline.seen.items()):
        start = pipeline.starts().get(ledger_id)
        first = start.position + 1 if start else seen.snapshot.first_position
        found += plan(seen.place, seen.snapshot, first, seen.snapshot.durable_through, records)
    return found


def catch_up(pipeline: Pipeline, records: int = 7, at_once: int = 1) -> list[BatchDone]:
    """Batches of `at_once` slices of at most `records` positions, until all is read."""
    todo = slices(pipeline, records)
    return [take(pipeline, todo[at : at + at_once]) for at in range(0, len(todo), at_once)]


def read_all(tables: Path, *data: Path, records: int = 7, **more: Any) -> Pipeline:
    """Another run on the tables: it reads what they lack, and settles everything."""
    pipeline = piped(tables, *data, **more)
    catch_up(pipeline, records)
    settle_all(pipeline)
    return pipeline


def settle_all(pipeline: Pipeline) -> None:
    """Settle every table, whatever it costs, and those made of others after them."""
    for _ in range(2):
        settle([table for table in pipeline.tables.values() if can_settle(table)], ENGINE)
        for table in pipeline.tables.values():
            if table.definition.source != "events":
                derive(table, pipeline.tables[table.definition.source], ENGINE, SMALL_BATCH_ROWS)


def take(pipeline: Pipeline, some: Iterable[Slice]) -> BatchDone:
    """One batch."""
    job = pipeline.job()
    return pipeline.take([write_slice(slice, job) for slice in some], time.monotonic())


def rows_of(tables: Where, name: str) -> list[dict[str, Any]]:
    """A table as its readers see it, in an order of its own."""
    return in_order(name, read_folded(open_store(str(tables), name)))


def in_order(name: str, rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.select(DEFINITIONS[name].schema.names).to_pylist()
    return sorted(found, key=str)


def whole(name: str, *data: Where) -> list[dict[str, Any]]:
    """The table that one fold of the whole ledgers gives."""
    return in_order(
        name, shown(DEFINITIONS[name], pa.concat_tables([_whole(name, folder) for folder in data]))
    )


def _whole(name: str, folder: Where) -> pa.Table:
    definition = DEFINITIONS[name]
    if definition.source != "events":
        source = DEFINITIONS[definition.source]
        folded = _whole(definition.source, folder)
        done = [rows for part, _, rows in split(source, folded, settled=True) if part == DONE]
        return partials(definition, pa.concat_tables([folded.slice(0, 0), *done]))
    events = _events(str(folder), _state(folder), is_folded=definition.is_done is not None)
    return fold(definition, partials(definition, events))


def _state(folder: Where) -> object:
    """Equal as long as nothing in the folder changes; of a URI never."""
    if not Path(folder).exists():
        return object()
    files = [(path, path.stat()) for path in sorted(Path(folder).rglob("*"))]
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in files)


@lru_cache(maxsize=8)
def _events(folder: str, state: object, is_folded: bool) -> pa.Table:
    """Read once for all tables that are made of them."""
    place = place_of(folder)
    snapshot = place.snapshot()
    pieces = [
        batch
        for slice in plan(place, snapshot, snapshot.first_position, snapshot.durable_through, 1_000_000)
        for batch in read_events(slice)
    ]
    events = apply(Policy(), pa.Table.from_batches(pieces))
    opening = read_opening(place, snapshot)
    if opening is None:
        return events
    if is_folded:
        from postroom.spark.pipeline.slice_files import not_carried

        events = not_carried(events, opening.first_position, opening.carried_through)
    return pa.concat_tables([opening.rows, events])


def assert_whole(tables: Where, *data: Where, names: Sequence[str] = tuple(DEFINITIONS)) -> None:
    """Every table is what one fold of the whole ledgers gives: nothing lost, nothing twice."""
    for name in names:
        assert rows_of(tables, name) == whole(name, *data), name
