"""``python -m postroom.spark.job --data FOLDER --out FOLDER``: tables, audit and report of a ledger, in one
run.

The broker may run on: the job reads what was durable when it looked. It writes ``entries`` and the audit's
two tables as Parquet and ``report.html`` to the out folder, prints what it found, and ends with code 0 if the
audit is clean, 3 if it found violations, 1 if the ledger can't be read.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from postroom.ledger.carried import carried
from postroom.ledger.errors import LedgerError
from postroom.ledger.reader import LedgerReader
from postroom.spark import audit, tables
from postroom.spark.relation import legal_transitions
from postroom.spark.report import ReportData, collect, page
from postroom.spark.session import local_session

EXIT_UNREADABLE: Final = 1
EXIT_VIOLATIONS: Final = 3

SHORT_RECORDS: Final = 500_000
"""Up to so many records, Spark is set to start fast rather than to run fast."""

SHOWN_ENTRIES: Final = 15
SHOWN_VIOLATIONS: Final = 20
SHOWN_COLUMNS: Final = (
    "serial",
    "queue",
    "message_id",
    "state",
    "outcome",
    "arrival_time",
    "ended_time",
    "delivery_count",
    "failure_count",
    "body_bytes",
    "parent_serial",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one run; the events they come from are kept at hand by Spark."""

    events: DataFrame
    entries: DataFrame
    conservation: DataFrame
    violations: DataFrame


def build_tables(spark: SparkSession, data: Path, ledger: LedgerReader) -> Tables:
    """The tables of what a look at a ledger found. Lazy: nothing is read before an action asks."""
    first, last = ledger.first_position, ledger.durable_through
    told = carried(data, ledger.ledger_id.bytes, first, last) if first > 1 else None
    reader = spark.read.format("postroom").option("path", str(data.resolve()))
    events = (
        reader.option("toPosition", str(max(last, 1)))
        .option("carried", str(told is not None))
        .load()
        .persist()
    )
    entries = tables.entries(events, told.position if told else 0).persist()
    conservation = audit.conservation(events, entries, first).persist()
    violations = audit.violations(events, entries, conservation, legal_transitions(spark), first).persist()
    return Tables(events, entries, conservation, violations)


def run(spark: SparkSession, data: Path, out: Path, say: Say) -> ReportData:
    """Build the tables, write them and the report. Raises what `main` turns into one line."""
    ledger = LedgerReader(data)
    say(
        f"Ledger {ledger.ledger_id}: positions {ledger.first_position:,} to {ledger.durable_through:,}"
        f" in {len(ledger.segments)} files"
    )
    made = build_tables(spark, data, ledger)
    for name, table in (
        ("entries", made.entries),
        ("conservation", made.conservation),
        ("violations", made.violations),
    ):
        table.write.mode("overwrite").parquet(str((out / name).resolve()))
        say(f"Wrote {name}")
    data_of_report = collect(
        made.events, made.entries, made.conservation, made.violations, ledger.first_position
    )
    report = out / "report.html"
    report.write_text(page(data_of_report), encoding="utf-8")
    _print_entries(made.entries)
    _print_audit(data_of_report)
    say(f"Report: {report.resolve()}")
    return data_of_report


# --- for people -------------------------------------------------------------------------------------


def _print_entries(entries: DataFrame) -> None:
    """The newest entries, a few columns of each."""
    newest = (
        entries.orderBy("last_position", ascending=False)
        .limit(SHOWN_ENTRIES)
        .select(*SHOWN_COLUMNS)
        .collect()
    )
    table = Table(
        *SHOWN_COLUMNS, title=f"entries (the {len(newest)} that changed last)", title_justify="left"
    )
    for row in newest:
        table.add_row(*(_shown(value) for value in row))
    _console().print(table)


def _print_audit(data: ReportData) -> None:
    """Every queue's sums, and the first violations."""
    ended = [name for name in tables.OUTCOMES if any(queue.outcomes[name] for queue in data.queues)]
    table = Table(
        "queue", "arrived", "held", *ended, "difference", "verdict", title="audit", title_justify="left"
    )
    for queue in sorted(data.queues, key=lambda one: one.queue):
        sums = (
            queue.arrivals + queue.older_than_history,
            queue.held,
            *(queue.outcomes[name] for name in ended),
        )
        table.add_row(queue.queue, *(f"{number:,}" for number in (*sums, queue.difference)), queue.verdict)
    console = _console()
    console.print(table)
    for violation in data.violations[:SHOWN_VIOLATIONS]:
        place = f"{violation.queue}/{violation.serial or '-'} at position {violation.position or '-'}"
        console.print(f"violation: {violation.rule}: {place}: {violation.detail}", highlight=False)
    verdict = "every message is accounted for" if data.is_clean else f"{data.violation_count:,} violations"
    console.print(f"Audit at position {data.last_position:,}: {verdict}", highlight=False)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value.strftime("%H:%M:%S.%f")[:-3] if hasattr(value, "strftime") else str(value)


def _console() -> Console:
    """As wide as the terminal, and wide enough for the tables where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=180)


def _teller() -> Say:
    """Progress for people, on standard error: what was done and how long after the start."""
    start = time.monotonic()
    return lambda words: print(f"[{time.monotonic() - start:6.1f} s] {words}", file=sys.stderr, flush=True)


# --- command ----------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(prog="python -m postroom.spark.job", description=__doc__)
    command.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="the broker's data folder"
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="where tables and report go"
    )
    command.add_argument(
        "--cores", type=int, default=2, metavar="N", help="cores of the local Spark (default 2)"
    )
    return command


def main(arguments: list[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    options = parser().parse_args(arguments)
    say = _teller()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        ledger = LedgerReader(options.data)  # before five seconds are spent on Spark's start
        is_short = ledger.durable_through - ledger.first_position < SHORT_RECORDS
        say("Starting Spark")
        with tempfile.TemporaryDirectory(prefix="postroom-spark-") as scratch:
            spark = local_session("postroom", options.cores, Path(scratch), is_short)
            try:
                data = run(spark, options.data, options.out, say)
            finally:
                with suppress(PySparkException):
                    spark.stop()
    except (LedgerError, OSError, PySparkException) as error:
        print(f"postroom.spark.job: {str(error).splitlines()[0]}", file=sys.stderr)
        return EXIT_UNREADABLE
    return 0 if data.is_clean else EXIT_VIOLATIONS


if __name__ == "__main__":
    sys.exit(main())
