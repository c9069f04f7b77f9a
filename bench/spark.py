"""The Spark figures: the ledger as a source, its tables, the audit, on local[2], beside what Spark's own
range gives.

    python -m bench.spark [--events 20000000] [--rounds 5] [--parts …] [--folder FOLDER] [--json]

One workload (`bench.spark_workload`), one Spark session for each part, one run: what is written is compared
with the same ten columns computed by Spark's range in the JVM, of the same codec, in as many files, in turns.
Needs about 300 bytes of disk for each event.
"""

import argparse
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench import spark_workload
from bench.command import add_arguments, print_report, scratch
from bench.progress import show_progress
from bench.reader_bench import TEN_COLUMNS
from bench.spark_batches import SCHEMA, MadeBatches, rows_of
from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.options import PipelineOptions
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.session import local_session
from postroom.spark.store import open_store

EVENTS: Final = 20_000_000
ROUNDS: Final = 5
CORES: Final = 2
TENTH: Final = 10
PARTS: Final = ("source", "export", "pipeline", "audit")

FAILED: Final = "failed_"
"""Before the name of a part that has failed."""

Report = dict[str, float]


@dataclass
class Bench:
    """What the parts share."""

    scratch: Path
    events: int
    rounds: int
    report: Report = field(default_factory=dict)

    def ledger(self, events: int) -> Path:
        """The workload of that many events, made when first asked for."""
        folder = self.scratch / f"ledger-{events}"
        if not folder.is_dir():
            show_progress(f"writing a ledger of {events:,} events")
            spark_workload.make(folder, events)
        return folder

    @contextmanager
    def fresh(self, name: str) -> Iterator[Path]:
        """A folder to write to, empty, and gone afterwards."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def session(scratch: Path, is_short: bool = False) -> Iterator[SparkSession]:
    """Spark on two cores of this machine."""
    spark = local_session("postroom bench", CORES, scratch, is_short)
    try:
        yield spark
    finally:
        spark.stop()


# --- the source -----------------------------------------------------------------------------------


def yardstick(spark: SparkSession, events: int, partitions: int) -> DataFrame:
    """The same ten columns, computed by Spark's range: an arrival with a random id, an acquisition and a
    confirmation, and so on."""
    by = "id % 3"
    return spark.range(0, events, 1, partitions).selectExpr(
        "id AS position",
        "0 AS ordinal",
        "id - id % 3 AS serial",
        "1 + (id div 3) % 10 AS queue_id",
        f"timestamp_micros({spark_workload.START_US} + 20 * id) AS time",
        f"CASE {by} WHEN 0 THEN 'put' WHEN 1 THEN 'acquire' ELSE 'confirm' END AS event",
        f"CASE {by} WHEN 0 THEN 'start' WHEN 1 THEN 'available' ELSE 'get_unconfirmed' END AS from_state",
        f"CASE {by} WHEN 0 THEN 'available' WHEN 1 THEN 'get_unconfirmed' ELSE 'deleted' END AS to_state",
        f"CASE {by} WHEN 2 THEN 'consumed' END AS outcome",
        f"CASE {by} WHEN 0 THEN uuid() END AS message_id",
    )


def source(bench: Bench) -> None:
    """The ledger read through Spark, into nothing and into Parquet."""
    folder = bench.ledger(bench.events)
    with session(bench.scratch) as spark:
        read = spark.read.format("postroom").schema(SCHEMA).option("path", str(folder)).load()
        partitions = read.rdd.getNumPartitions()
        same = yardstick(spark, bench.events, partitions)

        def stream(out: Path) -> None:
            rows = spark.readStream.format("postroom").schema(SCHEMA).option("path", str(folder)).load()
            writer = rows.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
            query = writer.trigger(availableNow=True).start(str(out / "rows"))
            query.awaitTermination()

        spark.dataSource.register(MadeBatches)
        copies = bench.events // rows_of(str(folder))
        batches = spark.read.format(MadeBatches.name()).options(path=str(folder), partitions=copies).load()
        works: dict[str, Callable[[Path], None]] = {
            "yardstick_to_parquet": lambda out: same.write.parquet(str(out)),
            "source_to_noop": lambda out: read.write.format("noop").mode("overwrite").save(),
            "source_to_parquet": lambda out: read.write.parquet(str(out)),
            "batches_to_parquet": lambda out: batches.write.parquet(str(out)),
            "stream_to_parquet": stream,
        }
        rows = dict.fromkeys(works, bench.events)
        rows["batches_to_parquet"] = copies * rows_of(str(folder))
        rates = _in_turns(bench, works, rows)
    for name, each in rates.items():
        bench.report[f"{name}_rows_per_s"] = statistics.median(each)
    for name in ("source", "batches", "stream"):
        pairs = zip(rates[f"{name}_to_parquet"], rates["yardstick_to_parquet"], strict=True)
        share = statistics.median(rate / ceiling for rate, ceiling in pairs)
        bench.report[f"{name}_to_parquet_share_of_yardstick"] = share


def _in_turns(
    bench: Bench, works: dict[str, Callable[[Path], None]], rows: dict[str, int]
) -> dict[str, list[float]]:
    """Rows per second of each, a warm-up round left out."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(bench.rounds + 1):
        for name, work in works.items():
            with bench.fresh("out") as out:
                start = time.perf_counter()
                work(out)
                rate = rows[name] / (time.perf_counter() - start)
            show_progress(f"{name}: {rate / 1e6:.2f} M rows/s{'' if turn else ' (warm-up)'}")
            if turn:
                rates[name].append(rate)
    return rates


# --- export ---------------------------------------------------------------------------------------


def export(bench: Bench) -> None:
    """The sealed files as Parquet, ten columns, by one process."""
    import pyarrow as pa

    from postroom.spark.export.parquet import Export, ExportOptions
    from postroom.spark.places.uris import place_of

    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    place = place_of(str(bench.ledger(bench.events)))
    by_cpu, by_wall = [], []
    for _ in range(bench.rounds):
        with bench.fresh("out") as out:
            cpu, wall = time.process_time(), time.perf_counter()
            notes = Export(place, str(out), ExportOptions(columns=TEN_COLUMNS)).run()
            rows = sum(sum(note.files.values()) for note in notes)
            by_cpu.append(rows / (time.process_time() - cpu))
            by_wall.append(rows / (time.perf_counter() - wall))
        show_progress(
            f"export: {by_cpu[-1] / 1e6:.2f} M events per s of CPU, {by_wall[-1] / 1e6:.2f} by the clock"
        )
    pa.set_cpu_count(threads)
    bench.report["export_events_per_cpu_s"] = statistics.median(by_cpu)
    bench.report["export_events_per_s"] = statistics.median(by_wall)


# --- the pipeline ---------------------------------------------------------------------------------


class Batches:
    """Remembers what each batch took."""

    def __init__(self) -> None:
        self.done: list[BatchDone] = []

    def begun(self, pipeline: Pipeline) -> None:
        """See `run.Watcher`."""

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        """See `run.Watcher`."""
        self.done.append(done)
        rate = done.rows / done.seconds
        show_progress(f"batch of {done.rows:,}: {rate / 1e3:,.0f} k events/s {', '.join(done.upkeep)}")


@dataclass(frozen=True)
class Piped:
    """What a run of the pipeline came to."""

    events_per_s: float
    """From the start of the query to the last settling."""
    us_an_event: float
    """Of its batches alone, with what was done to the tables between them."""


def run_pipeline(spark: SparkSession, folder: Path, tables: Path, only: tuple[str, ...] = ()) -> Piped:
    """Everything that there is into tables."""
    from postroom.spark.pipeline.operations.run import run

    batches = Batches()
    start = time.perf_counter()
    run(spark, PipelineOptions((str(folder),), str(tables), only=only), (batches,))
    took_s = time.perf_counter() - start
    rows = sum(done.rows for done in batches.done)
    return Piped(rows / took_s, sum(done.seconds for done in batches.done) * 1e6 / rows)


def pipeline(bench: Bench) -> None:
    """The ledger into all tables, a tenth of it first, and into two, of which one is made anew from the
    other."""
    from postroom.spark.pipeline.engine import SparkEngine
    from postroom.spark.pipeline.operations.rebuild import rebuild

    report = bench.report
    with session(bench.scratch, is_short=True) as spark:
        small = bench.ledger(bench.events // TENTH)
        with bench.fresh("tables") as tables:
            run_pipeline(spark, small, tables)  # warms up
        with bench.fresh("tables") as tables:
            tenth = run_pipeline(spark, small, tables)
            report["pipeline_events_per_s_at_a_tenth"] = tenth.events_per_s
            report["pipeline_copied_per_row_at_a_tenth"] = copied_per_row(tables)
        folder = bench.ledger(bench.events)
        with bench.fresh("tables") as tables:
            two = run_pipeline(spark, folder, tables, ("events", "entries"))
            report["pipeline_two_tables_events_per_s"] = two.events_per_s
            refolds = []
            for _ in range(bench.rounds):
                start = time.perf_counter()
                rebuild(str(tables), "entries", SparkEngine(spark))
                refolds.append(bench.events / (time.perf_counter() - start))
                show_progress(f"entries made anew: {refolds[-1] / 1e6:.2f} M events/s")
            report["refold_events_per_s"] = statistics.median(refolds)
        with bench.fresh("tables") as tables:
            whole = run_pipeline(spark, folder, tables)
            report["pipeline_events_per_s"] = whole.events_per_s
            report["pipeline_copied_per_row"] = copied_per_row(tables)
            report["pipeline_bytes_per_event"] = tree_bytes(tables) / bench.events
    report["pipeline_cost_of_an_event_at_10_times"] = whole.us_an_event / tenth.us_an_event


def copied_per_row(tables: Path) -> float:
    """Rows written again for each row that came, over all tables."""
    from postroom.spark.tables import DEFINITIONS

    states = [open_store(str(tables), name).state() for name in DEFINITIONS]
    came = sum(state.rows_in for state in states)
    return sum(state.rows_copied for state in states) / came if came else 0.0


def tree_bytes(folder: Path) -> int:
    """Size of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# --- audit ----------------------------------------------------------------------------------------


def audit(bench: Bench) -> None:
    """The whole audit over a ledger of a tenth of the events."""
    from postroom.spark.audit.command import AuditOptions, run_audit

    events = bench.events // TENTH
    folder = bench.ledger(events)
    start = time.perf_counter()
    result = run_audit(AuditOptions((str(folder),)), lambda records: session(bench.scratch), show_progress)
    if not result.is_clean:
        raise RuntimeError(f"the audit of the workload: {result.sentence()}")
    bench.report["audit_events_per_s"] = events / (time.perf_counter() - start)


# --- all ------------------------------------------------------------------------------------------

WORKS: Final[dict[str, Callable[[Bench], None]]] = {
    "source": source,
    "export": export,
    "pipeline": pipeline,
    "audit": audit,
}


def measure(scratch: Path, events: int, rounds: int, parts: tuple[str, ...]) -> Report:
    """The figures of these parts."""
    bench = Bench(scratch, events, rounds, {"events": float(events), "cores": CORES})
    for part in parts:
        attempt(part, partial(WORKS[part], bench), bench.report)
    return bench.report


def attempt(part: str, work: Callable[[], None], report: Report) -> None:
    """Measure a part; if it fails the others count all the same."""
    show_progress(f"spark: {part}")
    try:
        work()
    except Exception:
        traceback.print_exc()
        report[f"{FAILED}{part}"] = 1.0


def main() -> int:
    """Measure and print."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--events", type=int, default=EVENTS)
    command.add_argument("--rounds", type=int, default=ROUNDS)
    command.add_argument("--parts", default=",".join(PARTS))
    add_arguments(command)
    options = command.parse_args()
    with scratch(options.folder) as folder:
        parts = tuple(options.parts.split(","))
        report = measure(folder, options.events, options.rounds, parts)
    print_report(report, options.json, 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
