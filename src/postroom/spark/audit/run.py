"""One audit, from the events of all ledgers to the result: which rules are asked of what, in which order.

Everything that grows with the messages stays with Spark; what comes to the driver is a row a queue, a row a
rule, and a bounded sample.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit import (
    counts,
    crossings,
    duplicates,
    families,
    order,
    refusals,
    sequences,
    sums,
    transactions,
)
from postroom.spark.audit import steps as stepping
from postroom.spark.audit.ledgers import AuditedLedger
from postroom.spark.audit.result import (
    MAX_SHOWN,
    RESULT_FILE,
    AuditResult,
    CrossingSums,
    Unproven,
    Violation,
)
from postroom.spark.audit.rows import COLUMNS, ENTRY_KEY, SCHEMA, is_act, is_refused
from postroom.spark.audit.rules import CROSSING_VERDICTS, RULES
from postroom.spark.audit.subject import Subject, by_ledger
from postroom.spark.audit.sums import Balance
from postroom.spark.ledger_source.state_names import OUTCOMES

if TYPE_CHECKING:
    from postroom.spark.audit.tables import Refolded

Print = Callable[[str], None]

MAX_LOST: Final = 200
"""So many messages that a channel lost are named; all are in the table `crossings`."""

EVENTS_A_TASK: Final = 200_000
"""So many events a task sorts and walks: with their columns about 100 MB, so that two tasks needn't spill in
a heap of 1 GB."""

MAX_TASKS: Final = 10_000
"""More would cost more by their number than they save."""

HOLDER_IDS: Final = 0x7FFF_FFFF
"""Above this the ids of holders may serve a second time; transactions can't be told apart then."""

UNPROVEN_SCHEMA: Final = "ledger_id string, what string, why string, count long"


@dataclass(slots=True)
class Found:
    """The tables of one audit, as DataFrames, and what was counted of them."""

    violations: DataFrame
    crossings: DataFrame | None
    duplicates: DataFrame
    refused: DataFrame | None
    result: AuditResult
    kept: list[DataFrame] = field(default_factory=list)

    def release(self) -> None:
        """Let Spark forget what it kept."""
        for table in self.kept:
            table.unpersist()


def events_of(spark: SparkSession, ledgers: Sequence[AuditedLedger], token: str = "") -> DataFrame:
    """The events of ledgers up to their cuts, with the entries that are older than their history."""
    return reduce(DataFrame.unionByName, (_load(spark, one, token) for one in ledgers))


def _load(spark: SparkSession, one: AuditedLedger, token: str) -> DataFrame:
    from postroom.spark.ledger_source.source import EVENTS_STRUCT

    columns = [EVENTS_STRUCT[name] for name in stepping.EVENT_COLUMNS]
    reader = spark.read.format("postroom").schema(type(EVENTS_STRUCT)(columns))
    options = {
        "path": one.place.uri,
        "toPosition": str(max(one.second.durable_through, 1)),
        "carried": str(not one.is_whole).lower(),
    }
    if token:
        options["token"] = token
    return reader.options(**options).load()


@dataclass(frozen=True, slots=True)
class _Read:
    """What every rule is asked of: the steps and lives of all ledgers, and what was counted of them."""

    steps: DataFrame
    """Kept by Spark: those of entries and those of what was refused."""
    stepped: DataFrame
    held: DataFrame
    """Kept, too: those of entries that a transaction or batch has."""
    refused: DataFrame
    entries: DataFrame
    span: Mapping[str, Mapping[str, Any]]
    first: Column
    """The first position of a row's ledger."""

    def total(self, what: str) -> int:
        return sum(one[what] for one in self.span.values())

    @property
    def reused(self) -> list[str]:
        """Ledgers in which ids of holders may have served more than once."""
        return [ledger for ledger, one in self.span.items() if (one["holder"] or 0) > HOLDER_IDS]


def audit(
    spark: SparkSession,
    subject: Subject,
    events: DataFrame,
    show: Print = lambda words: None,
    refolded: "Refolded | None" = None,
) -> Found:
    """Hold the events of the subject's ledgers against every rule; with the tables `refolded`, these, too."""
    read = _read(subject, events)
    show(f"Read {read.total('events'):,} events")
    balances = _balances(subject, read)
    windows = [
        (ledger, window.destination, window.size, window.since)
        for ledger, some in subject.windows.items()
        for window in some
    ]
    remembering = spark.createDataFrame(windows, duplicates.WINDOWS) if windows else None
    again = duplicates.duplicates(read.entries, remembering).persist()
    crossed = _crossed(spark, subject, read)
    broken = [*_of_entries(spark, read), duplicates.duplicate_violations(again)]
    broken.append(violation_frame(spark, [one for balance in balances for one in balance.violations]))
    kept = [read.steps, read.held, read.entries, again]
    if crossed is not None:
        broken.append(crossings.crossing_violations(crossed))
        kept.append(crossed)
    if refolded is not None:
        broken.append(refolded.violations)
        kept.append(refolded.compared)
        broken.append(violation_frame(spark, refolded.found))
    violations = reduce(DataFrame.unionByName, broken).persist()
    refused = refusals.refusals(read.refused)
    result = _result(subject, read, balances, violations, again, crossed, refused, refolded)
    return Found(violations, crossed, again, refused if result.refused else None, result, [*kept, violations])


def _read(subject: Subject, events: DataFrame) -> _Read:
    steps = stepping.steps(_by_entry(subject, events.where(~is_act()))).persist()
    stepped = steps.where(~is_refused())
    held = stepping.held(stepped).persist()
    entries = stepping.lives(stepped).persist()
    first = by_ledger({cut.ledger_id: cut.first_position for cut in subject.cuts})
    return _Read(steps, stepped, held, steps.where(is_refused()), entries, _spans(stepped, entries), first)


def _by_entry(subject: Subject, events: DataFrame) -> DataFrame:
    """The events in as many parts as they need, where Spark would make fewer of them."""
    tasks = min(MAX_TASKS, subject.records // EVENTS_A_TASK)
    of_session = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return events.repartition(tasks, *ENTRY_KEY) if tasks > of_session else events


def _of_entries(spark: SparkSession, read: _Read) -> list[DataFrame]:
    """Breaches of the rules about entries and who holds them."""
    stepped, legal = read.stepped, sequences.legal_transitions(spark)
    held, assigned = (
        rows.where(~F.col("ledger_id").isin(*read.reused)) if read.reused else rows
        for rows in (read.held, stepped)
    )
    # up to where checkpoints tell of older entries, as the rows say that they brought: a newer one may have
    # been made since the look
    carried_through = by_ledger({ledger: one["carried_through"] for ledger, one in read.span.items()})
    last_time = F.timestamp_micros(by_ledger({name: one["last_time_us"] for name, one in read.span.items()}))
    return [
        sequences.sequence_violations(stepped, legal, read.first, carried_through),
        families.family_violations(read.entries),
        transactions.transaction_violations(held, last_time),
        transactions.batch_violations(held, last_time),
        transactions.assignment_violations(assigned),
        order.order_violations(stepped),
    ]


def _crossed(spark: SparkSession, subject: Subject, read: _Read) -> DataFrame | None:
    """What channels took and brought; None where they did nothing."""
    if not any(one["crossing"] for one in read.span.values()):
        return None
    times = {ledger: one["first_time_us"] for ledger, one in read.span.items()}
    rows = [
        (one.ledger_id, one.first_position, times.get(one.ledger_id), one.first_look) for one in subject.cuts
    ]
    made = spark.createDataFrame(rows, "ledger_id string, first_position long, us long, first_look long")
    coverage = made.withColumn("first_time", F.timestamp_micros("us")).drop("us")
    elsewhere = subject.elsewhere if len(subject.cuts) > 1 else None
    return crossings.crossings(read.entries, coverage, elsewhere).persist()


def _result(
    subject: Subject,
    read: _Read,
    balances: Sequence[Balance],
    violations: DataFrame,
    again: DataFrame,
    crossed: DataFrame | None,
    refused: DataFrame,
    refolded: "Refolded | None",
) -> AuditResult:
    crossed_sums, lost, unjudged = _of_crossings(crossed) if crossed is not None else ((), (), ())
    why = "ids of holders have served more than once"
    unproven = [*subject.gaps, *(Unproven(ledger, "transactions", why, 0) for ledger in read.reused)]
    return AuditResult(
        cuts=subject.cuts,
        events=read.total("events"),
        entries=read.total("entries"),
        managers=tuple(balance.manager for balance in balances),
        queues=tuple(row for balance in balances for row in balance.queues),
        crossings=crossed_sums,
        lost=lost,
        refused=refusals.refused_sums(refused),
        duplicates=_counted(again, "verdict"),
        violation_counts=_counted(violations, "rule"),
        violations=_sample(violations),
        unproven=(*unproven, *unjudged),
        tables=() if refolded is None else refolded.covered(),
        covered=subject.covered,
    )


def _spans(stepped: DataFrame, entries: DataFrame) -> dict[str, Mapping[str, Any]]:
    """Per ledger: how many events and entries, times, the checkpoint that carries entries, the highest id of
    a holder, whether channels took or brought anything."""
    is_carried = F.col("is_carried")
    of_events = stepped.groupBy("ledger_id").agg(
        F.count_if(~is_carried).alias("events"),
        F.unix_micros(F.min(F.when(~is_carried, F.col("time")))).alias("first_time_us"),
        F.unix_micros(F.max(F.when(~is_carried, F.col("time")))).alias("last_time_us"),
        F.max(F.when(is_carried, F.col("position"))).alias("carried_through"),
        F.max("holder_id").alias("holder"),
    )
    forwarded = F.coalesce(F.col("outcome") == "forwarded", F.lit(False))
    in_batch = F.coalesce(F.col("holder_kind") == "channel_batch", F.lit(False))
    of_entries = entries.groupBy("ledger_id").agg(
        F.count("*").alias("entries"),
        F.max(forwarded | in_batch | F.col("origin_serial").isNotNull()).alias("crossing"),
    )
    rows = of_events.join(of_entries, "ledger_id").collect()
    return {row["ledger_id"]: row.asDict() for row in rows}


def _balances(subject: Subject, read: _Read) -> list[Balance]:
    checkpoint_position = by_ledger(
        {ledger: checkpoint.position for ledger, checkpoint in subject.checkpoints.items()}
    )
    counted = counts.queue_counts(read.stepped, read.entries, read.first, checkpoint_position)
    return [
        sums.balance(
            cut.ledger_id,
            cut.ledger_id in subject.whole,
            subject.checkpoints.get(cut.ledger_id),
            [one for one in counted if one.ledger_id == cut.ledger_id],
        )
        for cut in subject.cuts
    ]


# --- to the driver --------------------------------------------------------------------------------


def _counted(table: DataFrame, by: str) -> dict[str, int]:
    return {row[by]: row["count"] for row in table.groupBy(by).count().collect()}


def _sample(violations: DataFrame) -> tuple[Violation, ...]:
    """The first of them, by rule in the order of `RULES`, then by entry."""
    ranks = F.create_map(*(F.lit(part) for rank, rule in enumerate(RULES) for part in (rule, rank)))
    ordered = violations.orderBy(ranks[F.col("rule")], "ledger_id", "queue_id", "serial")
    rows = [row.asDict() for row in ordered.limit(MAX_SHOWN).collect()]
    return tuple(Violation(**{**row, "positions": tuple(row["positions"])}) for row in rows)


def violation_frame(spark: SparkSession, rows: Sequence[Violation]) -> DataFrame:
    """Violations that were found on the driver, as the others are."""
    made = [tuple(getattr(row, name) for name in COLUMNS) for row in rows]
    return spark.createDataFrame([(*row[:5], list(row[5]), row[6]) for row in made], SCHEMA)


def _of_crossings(
    crossed: DataFrame,
) -> tuple[tuple[CrossingSums, ...], tuple[str, ...], tuple[Unproven, ...]]:
    """What crossed, by transmission queue and receiver; ids of messages that were lost; what isn't proven."""
    found = []
    for row in crossings.crossing_sums(crossed).collect():
        verdicts = {name: row[name.replace(" ", "_")] for name in CROSSING_VERDICTS}
        where = (row["ledger_id"], row["queue"] or "", row["to_ledger_id"])
        found.append(CrossingSums(*where, verdicts, row["violations"]))
    found.sort(key=lambda one: (one.ledger_id, one.queue, one.to_ledger_id or ""))
    named = F.coalesce("message_id", F.col("origin_serial").cast("string"))
    lost = crossed.where("verdict = 'lost'").select(named).limit(MAX_LOST).collect()
    old = crossed.where("verdict = 'older than history'").groupBy("origin_ledger_id").count().collect()
    why = "the other side of the channel has dropped its history"
    unproven = tuple(Unproven(ledger, "crossings", why, count) for ledger, count in old)
    return tuple(found), tuple(name for (name,) in lost), unproven


# --- to files -------------------------------------------------------------------------------------


def write(spark: SparkSession, found: Found, out: Path) -> None:
    """The tables as Parquet, and last the verdict."""
    result = found.result
    unproven = [(one.ledger_id, one.what, one.why, one.count) for one in result.unproven]
    tables = {
        "violations": found.violations,
        "conservation": conservation_frame(spark, result),
        "duplicates": found.duplicates,
        "unproven": spark.createDataFrame(unproven, UNPROVEN_SCHEMA),
        "crossings": found.crossings,
        "refused": found.refused,
    }
    for name, table in tables.items():
        if table is not None:
            table.write.mode("overwrite").parquet(str((out / name).resolve()))
        else:
            shutil.rmtree(out / name, ignore_errors=True)  # of an audit of before
    unfinished = out / f"{RESULT_FILE}.tmp"
    unfinished.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    unfinished.replace(out / RESULT_FILE)


def conservation_frame(spark: SparkSession, result: AuditResult) -> DataFrame:
    """A row for each queue and each queue manager (queue_id null)."""
    outcomes = ", ".join(f"{name} long" for name in OUTCOMES)
    schema = (
        "ledger_id string, queue_id long, queue string, opening long, arrivals long, held long, "
        f"available long, delayed long, unconfirmed long, in_transit long, {outcomes}, difference long, "
        "verdict string"
    )
    names = [part.split()[0] for part in schema.split(", ")]
    rows = [
        tuple(one.outcomes[name] if name in one.outcomes else getattr(one, name) for name in names)
        for one in (*result.managers, *result.queues)
    ]
    return spark.createDataFrame(rows, schema)
