"""``python -m postroom.spark.job --data FOLDER --out FOLDER``: tables, audit and report of a ledger, in one
run.

The broker may run on: the job reads what was durable when it looked. It writes ``entries`` and the audit's
two tables as Parquet to the out folder, prints what it found, and ends with code 0 if the
audit is clean, 3 if it found violations, 1 if the ledger can't be read.

With several ``--data``, each the ledger of a queue manager, the audit also follows messages through the
channels between them: tables and report tell of all ledgers, and ``crossings`` is one more table.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

from postroom.ledger.carried import Carried, carried
from postroom.ledger.errors import LedgerError
from postroom.ledger.reader import LedgerReader
from postroom.spark import audit, frames
from postroom.spark.crossings import LOOKS, VERDICTS, crossing_violations, crossings
from postroom.spark.job_collect import collect
from postroom.spark.job_data import LedgerSpan, ReportData
from postroom.spark.relation import legal_transitions
from postroom.spark.session import local_session

EXIT_UNREADABLE: Final = 1
EXIT_VIOLATIONS: Final = 3

SHORT_RECORDS: Final = 500_000
"""Up to so many records, Spark is set to start fast rather than to run fast."""

SHOWN_ENTRIES: Final = 15
SHOWN_VIOLATIONS: Final = 20
SHOWN_LOST: Final = 50
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
class Audited:
    """One ledger of a run: what it was at the first look and, once all were looked at, at the second."""

    data: Path
    first_look: int
    """The position through which it was durable then."""
    ledger: LedgerReader
    """As it was at the second look: that much is read."""

    @property
    def id(self) -> str:
        return str(self.ledger.ledger_id)

    @property
    def span(self) -> LedgerSpan:
        return LedgerSpan(self.data.name, self.id, self.ledger.first_position, self.ledger.durable_through)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one run; the events they come from are kept at hand by Spark."""

    events: DataFrame
    entries: DataFrame
    conservation: DataFrame
    violations: DataFrame
    crossings: DataFrame | None
    """Where there are several ledgers."""
    first_position: frames.Position


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is about."""

    folders: list[Path]
    out: Path
    elsewhere: list[str] = field(default_factory=list)
    """Transmission queues whose messages go to a queue manager whose ledger isn't among the folders."""


def look(folders: Sequence[Path]) -> list[Audited]:
    """Every ledger is looked at twice (see `crossings`); a single one once. Raises what `main` turns into one
    line."""
    first = [LedgerReader(folder) for folder in folders]
    second = [LedgerReader(folder) for folder in folders] if len(folders) > 1 else first
    return [
        Audited(folder, one.durable_through, two)
        for folder, one, two in zip(folders, first, second, strict=True)
    ]


def build_tables(spark: SparkSession, audited: list[Audited], elsewhere: Sequence[str]) -> Tables:
    """The tables of what the looks found. Lazy: nothing is read before an action asks."""
    told = {one.id: _carried(one) for one in audited}
    loaded = [_load(spark, one, told[one.id] is not None) for one in audited]
    events = reduce(DataFrame.unionByName, loaded).persist()
    first = _by_ledger({one.id: one.ledger.first_position for one in audited})
    checkpoint = _by_ledger({id: found.position if found else 0 for id, found in told.items()})
    entries = frames.entries(events, checkpoint).persist()
    conservation = audit.conservation(events, entries, first).persist()
    violations = audit.violations(events, entries, conservation, legal_transitions(spark), first)
    crossed = None
    if len(audited) > 1:
        crossed = crossings(entries, _looks(spark, audited, events), elsewhere).persist()
        violations = violations.unionByName(crossing_violations(crossed))
    return Tables(events, entries, conservation, violations.persist(), crossed, first)


def _carried(one: Audited) -> Carried | None:
    """Entries older than the history, where some of that is gone."""
    ledger = one.ledger
    if ledger.first_position == 1:
        return None
    return carried(one.data, ledger.ledger_id.bytes, ledger.first_position, ledger.durable_through)


def _load(spark: SparkSession, one: Audited, with_carried: bool) -> DataFrame:
    reader = spark.read.format("postroom").option("path", str(one.data.resolve()))
    last = max(one.ledger.durable_through, 1)
    return reader.option("toPosition", str(last)).option("carried", str(with_carried)).load()


def _by_ledger(positions: dict[str, int]) -> frames.Position:
    """A position of the row's ledger: a number where it is the same for all."""
    if len(set(positions.values())) == 1:
        return next(iter(positions.values()))
    known = F.create_map(*(F.lit(value) for pair in positions.items() for value in pair))
    return known[F.col("ledger_id")]


def _looks(spark: SparkSession, audited: list[Audited], events: DataFrame) -> DataFrame:
    """See `crossings.LOOKS`."""
    begun: dict[str, Any] = {}
    if any(one.ledger.first_position > 1 for one in audited):
        times = events.where(~frames.is_carried()).groupBy("ledger_id").agg(F.min("time"))
        begun = {row[0]: row[1] for row in times.collect()}
    rows = [(one.id, one.ledger.first_position, begun.get(one.id), one.first_look) for one in audited]
    return spark.createDataFrame(rows, LOOKS)


def run(spark: SparkSession, options: Options, say: Say) -> ReportData:
    """Build the tables, write them and the report. Raises what `main` turns into one line."""
    audited = look(options.folders)
    for one in audited:
        span = f"positions {one.span.first_position:,} to {one.span.last_position:,}"
        say(f"Ledger {one.id}: {span} in {len(one.ledger.segments)} files")
    made = build_tables(spark, audited, options.elsewhere)
    written = {"entries": made.entries, "conservation": made.conservation, "crossings": made.crossings}
    for name, table in {**written, "violations": made.violations}.items():
        if table is not None:
            table.write.mode("overwrite").parquet(str((options.out / name).resolve()))
            say(f"Wrote {name}")
    spans = [one.span for one in audited]
    shown = _told_apart(made, spans)
    data = collect(
        spans,
        shown.events,
        shown.entries,
        shown.conservation,
        shown.violations,
        made.crossings,
        made.first_position,
    )
    _print_entries(shown.entries)
    _print_audit(data)
    if data.crossings:
        _print_crossings(data)
    _print_verdict(data)
    return data


def _told_apart(made: Tables, spans: list[LedgerSpan]) -> Tables:
    """For people: where there are several ledgers, queues get the name of theirs in front."""
    if len(spans) == 1:
        return made
    names = F.create_map(*(F.lit(text) for span in spans for text in (span.ledger_id, f"{span.name}: ")))

    def shown(table: DataFrame) -> DataFrame:
        return table.withColumn("queue", F.concat(names[F.col("ledger_id")], F.col("queue")))

    return replace(
        made,
        events=shown(made.events),
        entries=shown(made.entries),
        conservation=shown(made.conservation),
        violations=shown(made.violations),
    )


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
    """Every queue's sums."""
    ended = [name for name in frames.OUTCOMES if any(queue.outcomes[name] for queue in data.queues)]
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
    _console().print(table)


def _print_crossings(data: ReportData) -> None:
    """What went from ledger to ledger, and the messages that were lost, by name."""
    rows = data.crossings
    verdicts = [name for name in VERDICTS if any(row.verdicts[name] for row in rows)]
    table = Table("from", "queue", "to", *verdicts, "violations", title="channels", title_justify="left")
    for row in rows:
        counts = (*(row.verdicts[name] for name in verdicts), row.violations)
        table.add_row(row.source, row.queue, row.target, *(f"{number:,}" for number in counts))
    console = _console()
    console.print(table)
    if data.lost:
        shown = ", ".join(data.lost[:SHOWN_LOST]) + ", …" * (len(data.lost) > SHOWN_LOST)
        console.print(f"Lost on the way, not persistent: {shown}", highlight=False)


def _print_verdict(data: ReportData) -> None:
    """The first violations, or that there is none."""
    console = _console()
    for violation in data.violations[:SHOWN_VIOLATIONS]:
        place = f"{violation.queue}/{violation.serial or '-'} at position {violation.position or '-'}"
        console.print(f"violation: {violation.rule}: {place}: {violation.detail}", highlight=False)
    verdict = "every message is accounted for" if data.is_clean else f"{data.violation_count:,} violations"
    positions = ", ".join(f"{span.last_position:,}" for span in data.ledgers)
    where = f"positions {positions}" if len(data.ledgers) > 1 else f"position {positions}"
    console.print(f"Audit at {where}: {verdict}", highlight=False)


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
        "--data",
        type=Path,
        required=True,
        action="append",
        metavar="FOLDER",
        help="the broker's data folder; again for each queue manager that channels lead to",
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="where tables and report go"
    )
    command.add_argument(
        "--elsewhere",
        action="append",
        default=[],
        metavar="QUEUE",
        help="a transmission queue whose messages go to a queue manager that is not audited here",
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
        audited = look(options.data)  # before five seconds are spent on Spark's start
        records = sum(one.ledger.durable_through - one.ledger.first_position for one in audited)
        say("Starting Spark")
        with tempfile.TemporaryDirectory(prefix="postroom-spark-") as scratch:
            spark = local_session("postroom", options.cores, Path(scratch), records < SHORT_RECORDS)
            try:
                data = run(spark, Options(options.data, options.out, options.elsewhere), say)
            finally:
                with suppress(PySparkException):
                    spark.stop()
    except (LedgerError, OSError, PySparkException) as error:
        print(f"postroom.spark.job: {str(error).splitlines()[0]}", file=sys.stderr)
        return EXIT_UNREADABLE
    return 0 if data.is_clean else EXIT_VIOLATIONS


if __name__ == "__main__":
    sys.exit(main())
