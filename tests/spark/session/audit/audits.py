"""Audits of ledgers in folders, for the tests of their rules."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from postroom.spark.audit.ledgers import AuditedLedger, inspect_ledgers
from postroom.spark.audit.result import AuditResult
from postroom.spark.audit.run import audit
from postroom.spark.audit.subject import subject_of
from postroom.spark.audit.walk.columns import EVENT_COLUMNS
from postroom.spark.audit.walk.packing import of_rows
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.ledger_source.record_batches import read_events, read_opening
from postroom.spark.places.slices import plan

SCHEMA = pa.schema([EVENTS_SCHEMA.field(name) for name in EVENT_COLUMNS])


def audited(spark: SparkSession, *folders: Path, elsewhere: Sequence[str] = ()) -> AuditResult:
    """What an audit of these ledgers finds."""
    ledgers = inspect_ledgers([str(folder) for folder in folders])
    with events_in_one(spark, ledgers) as events:
        found = audit(spark, subject_of(ledgers, elsewhere), of_rows(events))
        found.release()
    return found.result


@contextmanager
def events_in_one(spark: SparkSession, ledgers: Sequence[AuditedLedger]) -> Iterator[DataFrame]:
    """The events of many ledgers as `reading.of_ledgers` reads them, from one file."""
    batches = [batch for one in ledgers for batch in batches_of(one)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        pq.write_table(pa.Table.from_batches(batches, SCHEMA), path, coerce_timestamps="us")
        yield spark.read.parquet(str(path))


def batches_of(one: AuditedLedger) -> Iterator[pa.RecordBatch]:
    """Its events, and those of entries older than its history."""
    seen = one.second
    for slice in plan(one.place, seen, seen.first_position, seen.durable_through, 1_000_000):
        yield from read_events(slice, SCHEMA)
    opening = read_opening(one.place, seen, SCHEMA)
    if opening is not None:
        yield from opening.rows.to_batches()


def rules_by_queue(result: AuditResult) -> dict[str, set[str]]:
    """The rules that are broken on each queue."""
    found: dict[str, set[str]] = {}
    for violation in result.violations:
        found.setdefault(violation.queue or "", set()).add(violation.rule)
    return found
