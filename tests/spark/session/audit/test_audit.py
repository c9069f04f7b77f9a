"""The audit: ledgers without a fault give no violation, each planted fault gives its own, and where history
is missing nothing is called clean.

All ledgers of a kind are audited at once: a run of Spark costs more than a ledger.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from postroom.ledger.errors import LedgerCorrupt
from postroom.spark.audit import duplicates, order, run
from postroom.spark.audit.ledgers import inspect_ledgers
from postroom.spark.audit.legal import legal_rows
from postroom.spark.audit.reading import of_ledgers
from postroom.spark.audit.result import AuditResult, QueueSums, Verdict
from postroom.spark.audit.rules import (
    DUPLICATE_RULES,
    DUPLICATE_VERDICTS,
    FAMILY_RULES,
    ORDER_RULES,
    SEQUENCE_RULES,
    TRANSACTION_RULES,
)
from postroom.spark.audit.run import audit
from postroom.spark.audit.subject import subject_of
from postroom.spark.audit.walk.packing import of_rows
from postroom.spark.audit.walk.walk import walk
from tests.ledger.dropped_history import with_dropped_history
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark import lived_ledgers as lived
from tests.spark.corpus import FAULTS, clean, faulty
from tests.spark.session.audit.audits import audited, events_in_one, rules_by_queue

CONSUMED_LONG_AGO = 4
"""Serial of an entry of `with_dropped_history` that ended before the history began."""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def result(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    """One audit of a clean ledger, one with every fault, and those of real brokers."""
    folder = tmp_path_factory.mktemp("ledgers")
    maker = LedgerMaker(folder / "clean")
    clean(maker)
    folders = [maker.finish(), faulty(folder / "faulty", ledger_id=lived.FAULTY), *lived.brokers(folder)]
    return audited(spark, *folders)


def _of(result: AuditResult, name: str) -> AuditResult:
    """What was found of one ledger."""
    (ledger,) = (cut.ledger_id for cut in result.cuts if cut.name == name)
    return replace(
        result,
        queues=tuple(one for one in result.queues if one.ledger_id == ledger),
        managers=tuple(one for one in result.managers if one.ledger_id == ledger),
        violations=tuple(one for one in result.violations if one.ledger_id == ledger),
    )


def _sums(result: AuditResult, name: str) -> dict[str, QueueSums]:
    return {one.queue: one for one in _of(result, name).queues}


# --- without a fault ------------------------------------------------------------------------------


def test_what_is_in_order_gives_no_violation(result: AuditResult) -> None:
    """Everything of a clean ledger, and real brokers with restarts, crashes, branches, topics, channels."""
    names = {result.name_of(one.ledger_id) for one in result.violations}
    assert names == {"faulty"}
    assert len(result.cuts) > len(lived.BROKERS)
    assert any(cut.first_position > 1 for cut in result.cuts), "none has dropped history"


def test_the_sums_of_a_clean_ledger_come_out_even(result: AuditResult) -> None:
    sums = _sums(result, "clean")
    orders, archive = sums["orders"], sums["archive"]
    assert (orders.arrivals, orders.held, orders.outcomes["consumed"]) == (13, 1, 10)
    assert (orders.outcomes["dead_lettered"], orders.outcomes["expired"], orders.difference) == (1, 1, 0)
    assert orders.verdict == sums["orders.dead"].verdict == "balanced"
    ended = archive.outcomes
    assert (archive.arrivals, ended["consumed"], ended["purged"], ended["lost"]) == (5, 1, 2, 1)
    assert archive.verdict == "balanced; 1 not persistent, lost at a crash"
    assert (sums["in transit"].held, sums["in transit"].in_transit) == (1, 1)
    (manager,) = _of(result, "clean").managers
    assert (manager.arrivals, manager.difference) == (sum(one.arrivals for one in sums.values()), 0)


def test_branches_are_accounted_for(result: AuditResult) -> None:
    sums = _sums(result, "branches")
    source, target = sums["source"], sums["target"]
    ended = source.outcomes
    assert (source.arrivals, source.held, ended["consumed"], ended["lost"]) == (5, 1, 2, 2)
    assert (target.arrivals, target.delayed, target.outcomes["rolled_back"]) == (5, 2, 2)
    assert (source.in_transit, target.in_transit) == (1, 1)


def test_every_entry_of_a_publish_is_accounted_for(result: AuditResult) -> None:
    sums = _sums(result, "publishes")
    quiet, busy = sums[f"news::c/s{lived.SUBSCRIPTIONS - 1}"], sums["news::c/s0"]
    assert (quiet.arrivals, quiet.held, quiet.outcomes["lost"], quiet.difference) == (7, 5, 1, 0)
    assert (busy.arrivals, busy.outcomes["consumed"], busy.outcomes["dead_lettered"]) == (7, 1, 1)
    assert "empty" not in sums


def test_messages_through_a_channel_have_arrived(result: AuditResult) -> None:
    verdicts = [one.verdicts for one in result.crossings if result.name_of(one.ledger_id) == "LONDON"]
    assert sum(one["arrived"] for one in verdicts) > 0


# --- faults ---------------------------------------------------------------------------------------


def test_each_planted_fault_is_found_where_it_is(result: AuditResult) -> None:
    rules = rules_by_queue(_of(result, "faulty"))
    assert rules.pop("") == {"unbalanced manager"}
    assert rules == {name: expected for name, (_, expected) in FAULTS.items()}


def test_every_rule_that_one_ledger_can_break_is_planted() -> None:
    planted = set().union(*(expected for _, expected in FAULTS.values()))
    rules = {*SEQUENCE_RULES, *FAMILY_RULES, *TRANSACTION_RULES, *ORDER_RULES, *DUPLICATE_RULES}
    tested_elsewhere = {"checkpoint differs", "time went back"}  # no such ledger can be written: see below
    assert rules - planted == tested_elsewhere


def test_a_violation_names_entry_events_and_rule(result: AuditResult) -> None:
    (found,) = (one for one in result.violations if one.queue == "another holder")
    assert found.serial is not None
    assert found.positions == (found.serial + 1, found.serial + 2)
    assert found.detail == "after get_unconfirmed: confirm consumer get_unconfirmed → deleted (consumed)"
    (order,) = (one for one in result.violations if one.queue == "born backwards")
    assert order.serial is not None
    assert f"behind message {order.serial + 1}" in order.detail


def test_ids_that_come_again_have_their_verdicts(result: AuditResult) -> None:
    assert set(result.duplicates) <= {*DUPLICATE_RULES, *DUPLICATE_VERDICTS}
    assert result.duplicates["taken again"] == result.duplicates["arrived twice"] == 1
    assert result.duplicates["resent"] >= 1
    assert result.duplicates["repeated"] >= 2
    assert result.duplicates["moved"] >= 1


@pytest.mark.parametrize("numbers", [duplicates.MAX_NUMBERS, 0])
def test_long_lanes_and_windows_are_walked_in_pieces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: int
) -> None:
    """What lies in different pieces is found as within one, be there few ids that come again or many."""
    monkeypatch.setattr(order, "BUCKET_BITS", 1)
    monkeypatch.setattr(duplicates, "BUCKET_BITS", 1)
    monkeypatch.setattr(duplicates, "MAX_NUMBERS", numbers)
    (ledgers,) = inspect_ledgers([str(faulty(tmp_path / "faulty"))])
    walked = walk(of_ledgers(spark, [ledgers]))
    windows = [(ledgers.second.ledger_id, one.destination, one.size, one.since) for one in ledgers.windows]
    remembering = spark.createDataFrame(windows, duplicates.WINDOWS)
    found = duplicates.duplicates(walked, remembering)
    assert found is not None
    out_of_order = order.order_violations(walked.waits())
    broken = out_of_order.unionByName(duplicates.duplicate_violations(found)).collect()
    walked.blocks.unpersist()
    assert {(row["queue"], row["rule"]) for row in broken} == {
        (name, rule)
        for name, (_, expected) in FAULTS.items()
        for rule in expected & {*ORDER_RULES, *DUPLICATE_RULES}
    }
    assert len(broken) == len({row["queue"] for row in broken})


def test_only_arrivals_whose_id_comes_again_are_put_in_order(spark: SparkSession, tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ids")
    one, other = maker.queue("one"), maker.queue("other")
    once, twice = maker.put(one, message_id=b"once"), maker.put(one, message_id=b"twice")
    maker.put(other, message_id=b"once")
    again = maker.put(one, message_id=b"twice")
    maker.finish()
    (ledger,) = inspect_ledgers([str(tmp_path / "ids")])
    walked = walk(of_ledgers(spark, [ledger]))
    numbers = walked.repeated_ids(10)
    found = walked.lives(duplicates.took_one_of(numbers)).collect()
    walked.blocks.unpersist()
    assert once not in {row["serial"] for row in found}
    assert sorted(row["serial"] for row in found) == [twice, again]


@pytest.mark.long
def test_many_events_are_walked_in_more_parts_with_the_same_result(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers = inspect_ledgers([str(faulty(tmp_path / "faulty"))])
    subject = subject_of(ledgers)
    with events_in_one(spark, ledgers) as events:
        few = audit(spark, subject, of_rows(events))
        few.release()
        tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1) + 1
        monkeypatch.setattr(run, "EVENTS_A_TASK", subject.records // tasks)
        many = audit(spark, subject, of_rows(events))
        parts = many.kept[0].rdd.getNumPartitions()
        many.release()
    assert parts >= tasks
    assert many.result == few.result


# --- history that is gone -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dropped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    """Ledgers that retention has taken files from: as they are; without a checkpoint; and some whose events
    or totals are not what the checkpoint says."""
    folder = tmp_path_factory.mktemp("dropped")
    names = ("kept", "forgotten", "entry gone", "contradicted", "other totals", "clock")
    for name in names:
        if name == "clock":
            maker = LedgerMaker(folder / name)
            queue = maker.queue("orders")
            maker.consume(maker.put(queue), queue)
            maker.finish()
        else:
            (folder / name).mkdir()
            with_dropped_history(folder / name)
    ledgers = inspect_ledgers([str(folder / name) for name in names])
    forgotten = names.index("forgotten")
    ledgers[forgotten] = replace(ledgers[forgotten], checkpoint=None)  # as in a store without one
    for checkpoint in (folder / "forgotten").glob("*.checkpoint"):
        checkpoint.unlink()
    with pytest.raises(LedgerCorrupt, match="no checkpoint that is whole covers"):
        inspect_ledgers([str(folder / "forgotten")])
    ids = {name: one.second.ledger_id for name, one in zip(names, ledgers, strict=True)}
    subject = subject_of(ledgers)
    checkpoint_totals = subject.checkpoints[ids["other totals"]]
    wrong = {queue: (arrived - 1000, ended) for queue, (arrived, ended) in checkpoint_totals.totals.items()}
    subject.checkpoints[ids["other totals"]] = replace(checkpoint_totals, totals=wrong)  # type: ignore[index]
    with events_in_one(spark, ledgers) as events:
        found = audit(spark, subject, of_rows(_spoilt(events, ids)))
        found.release()
    shutil.rmtree(folder)
    return found.result


def _spoilt(events: DataFrame, ids: dict[str, str]) -> DataFrame:
    """Of the ledgers of these ids: one carried entry is nowhere; a checkpoint says of an entry that it stands
    elsewhere, and doesn't know another to which something happens; the end of an entry is older than its
    beginning."""
    ledger, is_carried = F.col("ledger_id"), F.col("event") == "none"
    gone = events.where((ledger == ids["entry gone"]) & is_carried).agg(F.min("serial")).collect()[0][0]
    is_gone = (ledger == ids["entry gone"]) & (F.col("serial") == gone)
    is_early = (ledger == ids["clock"]) & (F.col("event") == "confirm")
    time = F.when(is_early, F.timestamp_micros(F.lit(1))).otherwise(F.col("time"))
    others = _contradicted(events.where(ledger == ids["contradicted"]))
    return events.where(~is_gone).withColumn("time", time).unionByName(others)


def _contradicted(events: DataFrame) -> DataFrame:
    """A carried row by which an entry waits that has ended, and the end of an entry that is older than the
    history and was not carried."""
    ended = events.where("event = 'put'").agg(F.min("serial")).collect()[0][0]
    first = events.where((F.col("serial") == ended) & (F.col("event") == "confirm"))
    waits = {"event": "none", "from_state": "delayed", "to_state": "delayed"}
    carried = first.withColumns({name: F.lit(value) for name, value in waits.items()})
    last = events.where("event = 'confirm'").orderBy(F.desc("position")).limit(1)
    return carried.unionByName(last.withColumn("serial", F.lit(CONSUMED_LONG_AGO)))


def test_a_history_that_begins_late_opens_from_the_checkpoint(dropped: AuditResult) -> None:
    kept = _of(dropped, "kept")
    (cut,) = (cut for cut in dropped.cuts if cut.name == "kept")
    (orders,) = kept.queues
    assert cut.first_position > 1
    assert cut.opened_from is not None
    assert cut.opened_from >= cut.first_position - 1
    assert (kept.violations, orders.difference, orders.verdict) == ((), 0, "balanced")
    assert orders.opening is not None
    assert orders.opening > 0


def test_without_its_checkpoint_nothing_is_proven(dropped: AuditResult) -> None:
    (cut,) = (cut for cut in dropped.cuts if cut.name == "forgotten")
    forgotten = _of(dropped, "forgotten")
    assert cut.opened_from is None
    assert forgotten.violations == ()
    assert {one.verdict for one in forgotten.queues} == {"not proven"}
    (why,) = (one for one in dropped.unproven if one.ledger_id == cut.ledger_id)
    assert "no checkpoint tells what was before" in why.why
    alone = replace(dropped, violation_counts={}, violations=())
    assert alone.verdict is Verdict.NOT_PROVEN


def test_an_entry_that_the_checkpoint_counts_and_nobody_sees_is_missed(dropped: AuditResult) -> None:
    found = _of(dropped, "entry gone").violations
    assert {one.rule for one in found} == {"opening differs", "unbalanced manager"}


def test_what_a_checkpoint_says_otherwise_than_the_events_is_found(dropped: AuditResult) -> None:
    rules = {one.rule: one for one in _of(dropped, "contradicted").violations}
    of_sums = {"opening differs", "unbalanced queue", "unbalanced manager"}
    assert set(rules) == {"checkpoint differs", "lost arrival", *of_sums}
    assert rules["lost arrival"].serial == CONSUMED_LONG_AGO


def test_totals_that_are_not_those_of_the_events_are_found(dropped: AuditResult) -> None:
    rules = {one.rule for one in _of(dropped, "other totals").violations}
    assert "opening differs" in rules


def test_time_that_went_back_is_found(dropped: AuditResult) -> None:
    assert {one.rule for one in _of(dropped, "clock").violations} == {"time went back"}


# --- the relation ---------------------------------------------------------------------------------


def test_the_relation_is_the_brokers_own_table() -> None:
    legal = set(legal_rows())
    assert ("get_unconfirmed", "deleted", "consumer", "confirm", "consumed") in legal
    assert ("get_unconfirmed", "get_unconfirmed", "consumer", "expire", None) in legal  # noted
    assert ("available", "deleted", None, "confirm", "consumed") not in legal
    assert not any(row[0] == "deleted" for row in legal)
