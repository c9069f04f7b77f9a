"""``python -m postroom.spark.job --data FOLDER --out FOLDER``: tables, audit and report of a ledger, in one
run.

The broker may run on: the job reads what was durable when it looked. It writes ``entries`` and the audit's
two tables as Parquet and ``report.html`` to the out folder, prints what it found, and ends with code 0 if the
audit is clean, 3 if it found violations, 1 if the ledger can't be read.

With several ``--data``, each the ledger of a queue manager, the audit also follows messages through the
channels between them: the tables tell of all ledgers, ``crossings`` is one more, and each ledger has a report
of its own, ``report-1.html`` and so on.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

from postroom.ledger.carried import carried
from postroom.ledger.errors import LedgerError
from postroom.ledger.reader import LedgerReader
from postroom.spark import audit, tables
from postroom.spark.crossings import LOOKS, VERDICTS, crossing_sums, crossing_violations, crossings
from postroom.spark.crossings import RULES as CROSSING_RULES
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
    """The tables of one ledger; the events they come from are kept at hand by Spark."""

    events: DataFrame
    entries: DataFrame
    conservation: DataFrame
    violations: DataFrame


@dataclass(frozen=True, slots=True)
class Audited:
    """One ledger of a run: what it was at the first look and, once all were looked at, at the second."""

    data: Path
    first_look: int
    """The position through which it was durable then."""
    ledger: LedgerReader
    """As it was at the second look: that much is read."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is about."""

    folders: list[Path]
    out: Path
    elsewhere: list[str] = field(default_factory=list)
    """Transmission queues whose messages go to a queue manager whose ledger isn't among the folders."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run found: of each ledger, and between them."""

    reports: list[ReportData]
    crossing_violations: int

    @property
    def is_clean(self) -> bool:
        """Whether no rule is broken anywhere."""
        return not self.crossing_violations and all(report.is_clean for report in self.reports)


def look(folders: Sequence[Path]) -> list[Audited]:
    """Every ledger is looked at twice (see `crossings`); a single one once. Raises what `main` turns into one
    line."""
    first = [LedgerReader(folder) for folder in folders]
    second = [LedgerReader(folder) for folder in folders] if len(folders) > 1 else first
    return [
        Audited(folder, one.durable_through, two)
        for folder, one, two in zip(folders, first, second, strict=True)
    ]


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


def run(spark: SparkSession, options: Options, say: Say) -> Findings:
    """Build the tables, write them and the reports. Raises what `main` turns into one line."""
    audited = look(options.folders)
    for one in audited:
        ledger = one.ledger
        span = f"positions {ledger.first_position:,} to {ledger.durable_through:,}"
        say(f"Ledger {ledger.ledger_id}: {span} in {len(ledger.segments)} files")
    made = [build_tables(spark, one.data, one.ledger) for one in audited]
    entries, conservation, violations = _together(made)
    written = {"entries": entries, "conservation": conservation}
    crossed = None
    if len(audited) > 1:
        crossed = crossings(entries, _looks(spark, audited, made), options.elsewhere).persist()
        violations = violations.unionByName(crossing_violations(crossed))
        written["crossings"] = crossed
    for name, table in {**written, "violations": violations}.items():
        table.write.mode("overwrite").parquet(str((options.out / name).resolve()))
        say(f"Wrote {name}")
    reports = [
        _report(one, tables, path) for one, tables, path in zip(audited, made, _pages(options), strict=True)
    ]
    _print_entries(entries)
    for report in reports:
        _print_audit(report, len(reports) > 1)
    broken = 0 if crossed is None else _print_crossings(crossed, audited)
    for path in _pages(options):
        say(f"Report: {path.resolve()}")
    return Findings(reports, broken)


def _together(made: list[Tables]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Entries, conservation and violations of all ledgers."""
    return (
        reduce(DataFrame.unionByName, [one.entries for one in made]),
        reduce(DataFrame.unionByName, [one.conservation for one in made]),
        reduce(DataFrame.unionByName, [one.violations for one in made]),
    )


def _looks(spark: SparkSession, audited: list[Audited], made: list[Tables]) -> DataFrame:
    rows = []
    for one, its in zip(audited, made, strict=True):
        first = one.ledger.first_position
        since = (
            its.events.where(~tables.is_carried()).agg(F.min("time")).collect()[0][0] if first > 1 else None
        )
        rows.append((str(one.ledger.ledger_id), first, since, one.first_look))
    return spark.createDataFrame(rows, LOOKS)


def _pages(options: Options) -> list[Path]:
    """Where the reports go, in the order of the ledgers."""
    many = len(options.folders) > 1
    return [
        options.out / (f"report-{number}.html" if many else "report.html")
        for number, _ in enumerate(options.folders, 1)
    ]


def _report(one: Audited, its: Tables, path: Path) -> ReportData:
    data = collect(its.events, its.entries, its.conservation, its.violations, one.ledger.first_position)
    path.write_text(page(data), encoding="utf-8")
    return data


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


def _print_audit(data: ReportData, is_one_of_many: bool) -> None:
    """Every queue's sums, and the first violations."""
    title = f"audit of ledger {data.ledger_id}" if is_one_of_many else "audit"
    ended = [name for name in tables.OUTCOMES if any(queue.outcomes[name] for queue in data.queues)]
    table = Table(
        "queue", "arrived", "held", *ended, "difference", "verdict", title=title, title_justify="left"
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


def _print_crossings(crossed: DataFrame, audited: list[Audited]) -> int:
    """What went from ledger to ledger, the messages that were lost by name; the number of violations."""
    names = {str(one.ledger.ledger_id): f"{one.data}" for one in audited}
    sums = crossing_sums(crossed).orderBy("ledger_id", "queue", "to_ledger_id").collect()
    verdicts = [name for name in VERDICTS if any(row[name.replace(" ", "_")] for row in sums)]
    table = Table("from", "queue", "to", *verdicts, "violations", title="channels", title_justify="left")
    for row in sums:
        counts = (row[name.replace(" ", "_")] for name in (*verdicts, "violations"))
        ends = (names.get(row[end], row[end] or "–") for end in ("ledger_id", "to_ledger_id"))
        from_, to = ends
        table.add_row(from_, row["queue"] or "–", to, *(f"{number:,}" for number in counts))
    console = _console()
    console.print(table)
    lost = crossed.where(F.col("verdict") == "lost").orderBy("origin_serial")
    for row in lost.limit(SHOWN_VIOLATIONS).collect():
        name = row["message_id"] or f"serial {row['origin_serial']}"
        console.print(f"lost on the way, not persistent: {name} from {row['queue']}", highlight=False)
    broken = crossed.where(F.col("verdict").isin(*CROSSING_RULES))
    for row in broken.orderBy("verdict", "origin_serial").limit(SHOWN_VIOLATIONS).collect():
        place = f"{row['queue'] or row['target_queue']}/{row['origin_serial']}"
        counts = f"forwards: {row['forwards']}, arrivals: {row['arrivals']}"
        console.print(f"violation: {row['verdict']}: {place}: {counts}", highlight=False)
    count = sum(int(row["violations"]) for row in sums)
    verdict = (
        f"{count:,} violations" if count else "every persistent message that left one ledger arrived once"
    )
    console.print(f"Audit between {len(audited)} ledgers: {verdict}", highlight=False)
    return count


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
                found = run(spark, Options(options.data, options.out, options.elsewhere), say)
            finally:
                with suppress(PySparkException):
                    spark.stop()
    except (LedgerError, OSError, PySparkException) as error:
        print(f"postroom.spark.job: {str(error).splitlines()[0]}", file=sys.stderr)
        return EXIT_UNREADABLE
    return 0 if found.is_clean else EXIT_VIOLATIONS


if __name__ == "__main__":
    sys.exit(main())
