"""One audit, from the events of all ledgers to the result: which rules are asked of what, in which order.

Everything that grows with the messages stays with Spark; what comes to the driver is a row a queue, a row a
rule, and a bounded sample.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit import (
    crossings,
    duplicates,
    families,
    order,
    refusals,
    sequences,
    sums,
    transactions,
)
from postroom.spark.audit.counts import Counted, counted
from postroom.spark.audit.frames import frame, violation_frame
from postroom.spark.audit.result import (
    MAX_SHOWN,
    RESULT_FILE,
    AuditResult,
    CrossingSums,
    Unproven,
    Violation,
)
from postroom.spark.audit.rows import SCHEMA
from postroom.spark.audit.rules import CROSSING_VERDICTS, DUPLICATE_RULES, DUPLICATE_VERDICTS, RULES
from postroom.spark.audit.subject import Subject, by_ledger
from postroom.spark.audit.sums import Balance
from postroom.spark.audit.walk.breaches import Bounds
from postroom.spark.audit.walk.packing import Parted
from postroom.spark.audit.walk.walk import Walked, walk
from postroom.spark.ledger_source.state_names import OUTCOMES

if TYPE_CHECKING:
    from postroom.spark.audit.tables import Refolded

Print = Callable[[str], None]

MAX_LOST: Final = 200
"""So many messages that a channel lost are named; all are in the table `crossings`."""

EVENTS_A_TASK: Final = 200_000
"""So many events a task sorts and walks, in the memory of its Python process: about 100 MB with their columns
and with what comes of them."""

MAX_TASKS: Final = 10_000
"""More would cost more by their number than they save; from 2 billion events on each has more of them."""

HOLDER_IDS: Final = 0x7FFF_FFFF
"""Above this the ids of holders may serve a second time; transactions can't be told apart then."""

UNPROVEN_SCHEMA: Final = "ledger_id string, what string, why string, count long"


@dataclass(slots=True)
class Found:
    """The tables of one audit, as DataFrames, and what was counted of them; None for one that is empty."""

    violations: DataFrame | None
    crossings: DataFrame | None
    duplicates: DataFrame | None
    refused: DataFrame | None
    result: AuditResult
    kept: list[DataFrame] = field(default_factory=list)

    def release(self) -> None:
        """Let Spark forget what it kept."""
        for table in self.kept:
            table.unpersist()


@dataclass(frozen=True, slots=True)
class _Read:
    """What every rule is asked of: what came of one walk over the events of all ledgers, kept by Spark, and
    what was counted of it."""

    walked: Walked
    counted: Counted

    def total(self, *names: str) -> int:
        return self.counted.total(*names)

    @property
    def reused(self) -> list[str]:
        """Ledgers in which ids of holders may have served more than once."""
        highest = self.counted.of_ledgers("holder")
        return [ledger for ledger, holder in highest.items() if (holder or 0) > HOLDER_IDS]


def audit(
    spark: SparkSession,
    subject: Subject,
    events: Parted,
    show: Print = lambda words: None,
    refolded: "Refolded | None" = None,
) -> Found:
    """Hold the events of the subject's ledgers against every rule; with the tables `refolded`, these, too."""
    read = _read(spark, subject, events)
    show(f"Read {read.total('events'):,} events")
    balances = _balances(subject, read)
    again = _again(spark, subject, read)
    crossed = _crossed(spark, subject, read)
    broken = _of_entries(read)
    found = [one for balance in balances for one in balance.violations]
    kept = [read.walked.blocks]
    if again is not None:
        broken.append(duplicates.duplicate_violations(again))
        kept.append(again)
    if crossed is not None:
        broken.append(crossings.crossing_violations(crossed))
        kept.append(crossed)
    if refolded is not None:
        broken.append(refolded.violations)
        kept.append(refolded.compared)
        found += refolded.found
    if found:
        broken.append(violation_frame(spark, found))
    violations = reduce(DataFrame.unionByName, broken).persist() if broken else None
    refused = refusals.refusals(read.walked.refusals()) if read.total("refused") else None
    result = _result(subject, read, balances, violations, again, crossed, refused, refolded)
    if violations is not None:
        kept.append(violations)
    return Found(violations, crossed, again, refused, result, kept)


def _read(spark: SparkSession, subject: Subject, events: Parted) -> _Read:
    bounds = Bounds(
        {cut.ledger_id: cut.first_position for cut in subject.cuts},
        {ledger: checkpoint.position for ledger, checkpoint in subject.checkpoints.items()},
    )
    walked = walk(events, bounds, _parts(spark, subject))
    return _Read(walked, counted(walked.totals()))


def _parts(spark: SparkSession, subject: Subject) -> int:
    """In how many parts the events are walked: as many as they need, where Spark would make fewer of them."""
    of_session = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(of_session, min(MAX_TASKS, subject.records // EVENTS_A_TASK))


def _of_entries(read: _Read) -> list[DataFrame]:
    """Breaches of the rules about entries and who holds them. A rule about what no ledger has any of needs
    no query: it is seen from the counts."""
    # up to where checkpoints tell of older entries, as the rows say that they brought: a newer one may have
    # been made since the look
    carried_through = by_ledger(read.counted.of_ledgers("carried_through"))
    last_time = F.timestamp_micros(by_ledger(read.counted.of_ledgers("last_time_us")))
    walked, known = read.walked, F.lit(True)
    if read.reused:
        known = ~F.col("ledger_id").isin(*read.reused)
    by_holder = transactions.holder_check(read.counted.of_ledgers("last_time_us"), read.reused)
    rules: list[tuple[str, Callable[[], DataFrame]]] = [
        ("breaches", lambda: sequences.sequence_violations(walked.breaches(), carried_through)),
        ("kin", lambda: families.child_violations(walked.lives(families.has_kin))),
        ("returned", lambda: families.return_violations(walked.lives(families.in_return))),
        ("stored_lost", lambda: families.loss_violations(walked.lives(families.is_lost))),
        ("stays", lambda: walked.by_holder(by_holder, SCHEMA)),
        ("of_sinks", lambda: transactions.batch_violations(walked.stays_of_sinks().where(known), last_time)),
        ("assigned", lambda: transactions.assignment_violations(walked.assignments().where(known))),
        ("waited", lambda: order.order_violations(walked.waits())),
    ]
    return [made() for what, made in rules if read.total(what)]


def _again(spark: SparkSession, subject: Subject, read: _Read) -> DataFrame | None:
    """What came with an id that its destination had before; None where no id came twice."""
    windows = [
        (ledger, window.destination, window.size, window.since)
        for ledger, some in subject.windows.items()
        for window in some
    ]
    remembering = frame(spark, windows, duplicates.WINDOWS) if windows else None
    found = duplicates.duplicates(read.walked, remembering)
    return None if found is None else found.persist()


def _crossed(spark: SparkSession, subject: Subject, read: _Read) -> DataFrame | None:
    """What channels took and brought; None where they did nothing."""
    if not read.total("crossing"):
        return None
    times = read.counted.of_ledgers("first_time_us")
    rows = [
        (one.ledger_id, one.first_position, times.get(one.ledger_id), one.first_look) for one in subject.cuts
    ]
    made = frame(spark, rows, "ledger_id string, first_position long, us long, first_look long")
    coverage = made.withColumn("first_time", F.timestamp_micros("us")).drop("us")
    elsewhere = subject.elsewhere if len(subject.cuts) > 1 else None
    entries = read.walked.lives(names=crossings.OF_ENTRIES)
    return crossings.crossings(entries, coverage, elsewhere).persist()


def _result(
    subject: Subject,
    read: _Read,
    balances: Sequence[Balance],
    violations: DataFrame | None,
    again: DataFrame | None,
    crossed: DataFrame | None,
    refused: DataFrame | None,
    refolded: "Refolded | None",
) -> AuditResult:
    crossed_sums, lost, unjudged = _of_crossings(crossed) if crossed is not None else ((), (), ())
    broken = _counted(violations, "rule", RULES)
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
        refused=() if refused is None else refusals.refused_sums(refused),
        duplicates=_counted(again, "verdict", (*DUPLICATE_RULES, *DUPLICATE_VERDICTS)),
        violation_counts=broken,
        violations=_sample(violations) if violations is not None and broken else (),
        unproven=(*unproven, *unjudged),
        tables=() if refolded is None else refolded.covered(),
        covered=subject.covered,
    )


def _balances(subject: Subject, read: _Read) -> list[Balance]:
    return [
        sums.balance(
            cut.ledger_id,
            cut.ledger_id in subject.whole,
            subject.checkpoints.get(cut.ledger_id),
            [one for one in read.counted.queues if one.ledger_id == cut.ledger_id],
        )
        for cut in subject.cuts
    ]


# --- to the driver --------------------------------------------------------------------------------


def _counted(table: DataFrame | None, by: str, order: Iterable[str]) -> dict[str, int]:
    """How many rows there are of each, in this order; of what isn't named there, behind."""
    if table is None:
        return {}
    counts = {row[by]: row["count"] for row in table.groupBy(by).count().collect()}
    places = {name: place for place, name in enumerate(order)}
    return {
        name: counts[name] for name in sorted(counts, key=lambda name: (places.get(name, len(places)), name))
    }


def _sample(violations: DataFrame) -> tuple[Violation, ...]:
    """The first of them, by rule in the order of `RULES`, then by entry."""
    ranks = F.create_map(*(F.lit(part) for rank, rule in enumerate(RULES) for part in (rule, rank)))
    ordered = violations.orderBy(ranks[F.col("rule")], "ledger_id", "queue_id", "serial")
    rows = [row.asDict() for row in ordered.limit(MAX_SHOWN).collect()]
    return tuple(Violation(**{**row, "positions": tuple(row["positions"])}) for row in rows)


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
        "violations": _or_empty(spark, found.violations, SCHEMA),
        "conservation": conservation_frame(spark, result),
        "duplicates": _or_empty(spark, found.duplicates, duplicates.SCHEMA),
        "unproven": frame(spark, unproven, UNPROVEN_SCHEMA),
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


def _or_empty(spark: SparkSession, table: DataFrame | None, schema: str) -> DataFrame:
    return frame(spark, [], schema) if table is None else table


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
    return frame(spark, rows, schema)
