"""Jobs that act, on a running broker: triage by rules, removal of duplicates, and carrying plans out."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from postroom.client import Message
from postroom.model.entity_types import QUEUE_TYPE
from postroom.spark.jobs import execution, jobs
from postroom.spark.jobs.contents import with_contents
from postroom.spark.jobs.deduplicate import check_columns
from postroom.spark.jobs.errors import CannotBeDone, Exit, JobError, OptionInvalid, RulesInvalid
from postroom.spark.jobs.plan import ACTIONS_SCHEMA, MANIFEST
from postroom.spark.jobs.queued_messages import DURABLE_WITHIN_S, check_queue, open_ledger, queued_messages
from tests.ledger.dropped_history import with_dropped_history
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.jobs.job_broker import Scene, counted, rule, rules, scene

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]


def dead(at: Scene, count: int = 6) -> None:
    """Dead letters of two queues: even ones timed out, odd ones were bad."""
    for queue in ("orders", "payments"):
        at.put(queue, [Message(f"{queue} {number}", properties={"n": number}) for number in range(count)])
        at.reject(queue, ["app:timeout" if number % 2 == 0 else "app:bad" for number in range(count)])


TRIAGE = (
    rule("reason = 'app:timeout' AND source_queue = 'orders'", "replay", name="timeouts")
    + rule("CAST(application_properties['n'].value AS INT) > 3", "forward", "audit", name="late ones")
    + rule("text LIKE 'payments %' AND reason = 'app:bad'", "discard", name="bad payments")
    + rule("text = 'orders 1'", "leave", name="kept")
)


def test_dead_letters_are_triaged_end_to_end(spark: SparkSession, at: Scene) -> None:
    dead(at)
    manifest = at.triage(spark, TRIAGE)
    assert counted(manifest) == {
        "timeouts": 3, "late ones": 3, "bad payments": 2, "kept": 1, "(no rule)": 3,
    }  # fmt: skip
    assert len(at.texts("dead")) == 12, "looking changes nothing"
    results = at.act()
    assert dict(results.counts) == {"done": 8} and results.not_done() == 0
    assert at.texts("orders") == ["orders 0", "orders 2", "orders 4"]
    assert at.texts("audit") == ["orders 5", "payments 4", "payments 5"]
    assert at.texts("dead") == ["orders 1", "orders 3", "payments 0", "payments 2"]


def test_what_is_discarded_is_kept_first_and_can_be_sent_again(spark: SparkSession, at: Scene) -> None:
    dead(at, 3)
    manifest = at.triage(spark, rule("true", "discard", name="all"))
    kept = at.kept(manifest)
    assert kept["text"].to_pylist() == [f"{q} {n}" for q in ("orders", "payments") for n in range(3)]
    assert kept["application_properties"][1].as_py() == [("n", {"type": "long", "value": "1"})]
    assert set(kept["rule"].to_pylist()) == {"all"}
    assert manifest.rows() == sum(file.rows for file in manifest.discarded) == 6
    assert at.texts("dead"), "it is kept before anything is sent"
    at.act()
    assert at.texts("dead") == []
    rows = spark.createDataFrame(kept)
    options = {"broker": at.broker.url, "queue": "dead"}
    rows.write.format("postroom.messages").options(**options).mode("append").save()
    assert sorted(at.texts("dead")) == sorted(kept["text"].to_pylist())


def test_what_cannot_be_kept_is_not_discarded(spark: SparkSession, at: Scene) -> None:
    """A message that isn't persistent has no body in the ledger."""
    at.put("dead", [Message("stored"), Message("not stored", durable=False)])
    manifest = at.triage(spark, rule("true", "discard", name="all"))
    assert counted(manifest) == {"all": 1, "all (left)": 1}
    at.act()
    assert at.texts("dead") == ["not stored"]


def test_a_plan_names_what_it_is_about(spark: SparkSession, at: Scene) -> None:
    dead(at, 2)
    manifest = at.triage(spark, rule("true", "forward", "audit", "all"))
    rows = at.planned(manifest)
    assert rows.schema.equals(ACTIONS_SCHEMA)
    there = at.rows("dead")
    assert rows["serial"].to_pylist() == [row["serial"] for row in there]
    assert rows["position"].to_pylist() == rows["serial"].to_pylist()
    assert set(rows["delivery_count"].to_pylist()) == {0}
    assert set(rows["ledger_id"].to_pylist()) == {manifest.ledger_id}


def test_without_a_folder_it_is_only_counted(spark: SparkSession, at: Scene) -> None:
    dead(at, 2)
    where = at.where(is_kept=False)
    manifest = jobs.plan_triage(spark, where, rules(rule("delivery_count = 0", "discard", name="all")))
    assert counted(manifest) == {"all": 4} and not manifest.files
    assert not at.out.exists()


def test_rules_see_how_a_message_stands(spark: SparkSession, at: Scene) -> None:
    dead(at, 1)
    consumer = at.consumer("dead")
    failed = consumer.receive(10)
    assert failed is not None
    consumer.modify(failed, failed=True)
    at.put("dead", ["put here"])
    text = (
        rule("delivery_count = 1 AND failure_count = 1 AND state = 'available'", "leave", name="failed")
        + rule("source_queue IS NULL AND reason IS NULL", "leave", name="put here")
        + rule("description = 'because of app:timeout' AND source_queue = 'payments'", "leave", name="told")
        + rule("age_s >= 0", "leave", name="rest")
    )
    assert counted(at.triage(spark, text)) == {"failed": 1, "put here": 1, "told": 1}
    assert at.act().rows == 0, "nothing is to be done"


def test_what_has_changed_since_is_left_alone_and_listed(spark: SparkSession, at: Scene) -> None:
    at.put("dead", [f"{number}" for number in range(5)])
    at.triage(spark, rule("true", "forward", "audit", "all"))
    consumer = at.consumer("dead")
    gone, held, failed = (consumer.receive(10) for _ in range(3))
    assert gone is not None and held is not None and failed is not None
    consumer.accept(gone)
    consumer.modify(failed, failed=True, undeliverable_here=True)
    at.heard()
    results = at.act()
    assert dict(results.counts) == {"gone": 1, "refused": 1, "changed": 1, "done": 2}
    assert results.not_done() == 2
    assert list(results.reasons) == ["the message is not free: receive"]
    assert at.texts("audit") == ["3", "4"]
    listed = at.plan().read("results-00001.parquet")
    assert listed["answer"].to_pylist() == ["gone", "refused", "changed", "done", "done"]


def test_what_is_held_is_no_part_of_a_plan(spark: SparkSession, at: Scene) -> None:
    at.put("dead", ["held", "free"])
    consumer = at.consumer("dead")
    assert consumer.receive(10) is not None
    assert counted(at.triage(spark, rule("true", "discard", name="all"))) == {"all": 1}


def test_what_was_done_a_moment_ago_is_part_of_a_plan(at: Scene) -> None:
    """A broker that falls idle tells readers later what is durable: a job waits for that."""
    at.broker.set_idle_time(1.0)
    for _ in range(2):
        at.put("dead", ["a"])
        assert open_ledger(str(at.folder), "").through >= at.broker.call(
            lambda broker: broker.durable_through
        )


def test_what_nobody_says_is_durable_is_no_part_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a broker that was killed, for instance: the wait has an end."""
    now_s = [0.0]

    def sleep(pause_s: float) -> None:
        now_s[0] += pause_s

    played = SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep, time_ns=time.time_ns)
    monkeypatch.setattr("postroom.spark.jobs.queued_messages.time", played)  # of no other thread
    maker = LedgerMaker(tmp_path / "data")
    queue = maker.queue("orders")
    maker.commit()
    maker.marker()
    text = open_ledger(str(maker.folder), "").through
    maker.put(queue)
    maker.commit()
    assert open_ledger(str(maker.folder), "").through == text and now_s[0] >= DURABLE_WITHIN_S
    maker.marker()
    assert open_ledger(str(maker.folder), "").through == text + 1


def test_the_ledger_tells_which_job_and_rule_it_was(spark: SparkSession, at: Scene) -> None:
    at.put("dead", ["a", "b"])
    at.triage(spark, rule("text = 'a'", "discard", name="no a") + rule("true", "forward", "audit", "rest"))
    at.act()
    open_ledger(str(at.folder), "")  # which waits until a reader knows that all of it is durable
    events = spark.read.format("postroom").option("path", str(at.folder)).load()
    fields = {row["outcome"]: row["reason"] for row in events.where("reason IS NOT NULL").collect()}
    assert "job job-1, rule no a" in fields["discarded"] and "postroom:job" in fields["discarded"]
    assert "job job-1, rule rest" in fields["moved"]


def test_what_is_older_than_the_history_stands_there_without_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    alive = with_dropped_history(tmp_path)
    ledger = open_ledger(str(tmp_path), "")
    assert alive[1] < ledger.first_position
    rows = queued_messages(spark, ledger, "orders", True)
    read = with_contents(rows, ledger.place(), ledger.ledger_id, ["body_state"])
    found = {row["serial"]: row for row in read.collect()}
    assert sorted(found) == alive
    assert {serial: found[serial]["position"] for serial in alive} == {
        serial: serial if serial >= ledger.first_position else 0 for serial in alive
    }
    counts = {serial: (row["delivery_count"], row["failure_count"]) for serial, row in found.items()}
    assert counts == dict.fromkeys(alive, (0, 0)) | {alive[0]: (1, 1)}
    assert all(row["is_free"] and row["state"] == "available" for row in found.values())
    assert {row["body_state"] for row in found.values()} == {"present"}
    with pytest.raises(CannotBeDone, match="has no queue 'order'; did you mean 'orders'"):
        check_queue(ledger, "order")


# --- carrying on


def test_an_interrupted_job_goes_on_with_what_is_left(
    spark: SparkSession, at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.put("dead", [f"{number}" for number in range(10)])
    manifest = at.triage(spark, rule("true", "forward", "audit", "all"))
    monkeypatch.setattr(execution, "MAX_ACTIONS", 3)
    monkeypatch.setattr(execution, "NOTED_ROWS", 3)
    counts: list[int] = []

    def breaks(done: int, total: int) -> None:
        counts.append(done)
        if len(counts) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execution.carry_out(at.plan(), manifest, at.broker.url, 1, breaks)
    assert at.texts("audit") == [str(number) for number in range(6)]
    results = at.act()
    assert dict(results.counts) == {"done": 7, "gone": 3}, "3 were done and not noted"
    assert at.texts("audit") == [str(number) for number in range(10)] and at.depth("dead") == 0
    assert dict(at.act().counts) == dict(results.counts), "nothing is left"


def test_a_rerun_plans_and_does_what_is_left(spark: SparkSession, at: Scene) -> None:
    at.put("dead", [f"{number}" for number in range(4)])
    text = rule("text IN ('0', '2')", "discard", name="even")
    at.triage(spark, text)
    at.act()
    assert counted(at.triage(spark, text, job="job-2")) == {"(no rule)": 2}
    assert at.act("job-2").rows == 0


def test_several_requests_at_a_time_do_the_same(
    spark: SparkSession, at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.put("dead", [f"{number}" for number in range(20)])
    at.triage(spark, rule("true", "forward", "audit", "all"))
    monkeypatch.setattr(execution, "MAX_ACTIONS", 2)
    assert dict(at.act(in_flight=4).counts) == {"done": 20}
    assert sorted(at.texts("audit"), key=int) == [str(number) for number in range(20)]


def test_too_much_for_one_request_goes_in_smaller_ones(spark: SparkSession, at: Scene) -> None:
    """What goes to another queue manager goes with its body, of which a request takes so much."""
    at.management.create(QUEUE_TYPE, "QM2", {"usage": "transmission"})
    at.put("dead", ["x" * 300_000] * 5)
    at.triage(spark, rule("true", "forward", "IN@QM2", "away"))
    assert dict(at.act().counts) == {"done": 5}
    assert at.depth("dead") == 0 and at.depth("QM2") == 5


def test_a_plan_is_for_one_ledger_and_queue(spark: SparkSession, at: Scene, tmp_path: Path) -> None:
    at.put("dead", ["a"])
    manifest = at.triage(spark, rule("true", "discard", name="all"))
    with scene(tmp_path / "other") as other, pytest.raises(CannotBeDone, match="of ledger"):
        execution.carry_out(at.plan(), manifest, other.broker.url, 1, None)
    gone = replace(manifest, queue="nowhere")
    with pytest.raises(CannotBeDone, match="nowhere"):
        execution.carry_out(at.plan(), gone, at.broker.url, 1, None)
    with pytest.raises(JobError, match="goes on with what is left") as failed:
        execution.carry_out(at.plan(), manifest, "amqp://127.0.0.1:1", 1, None)
    assert failed.value.exit_code == Exit.FAILED
    assert at.texts("dead") == ["a"]


def test_an_id_is_taken_up_only_by_the_same_job(spark: SparkSession, at: Scene) -> None:
    at.put("dead", ["a"])
    text = rule("true", "discard", name="all")
    manifest = at.triage(spark, text)
    same = rules("# written otherwise\n" + rule("true", "discard", name="every one"))
    assert jobs.made_before(at.where(), jobs.TRIAGE, same.digest) == manifest
    other = rules(rule("true", "replay", "audit"))
    for kind, digest, where in (
        (jobs.TRIAGE, other.digest, at.where()),
        (jobs.DEDUPLICATE, same.digest, at.where()),
        (jobs.TRIAGE, same.digest, at.where("orders")),
    ):
        with pytest.raises(CannotBeDone, match="plan of another job"):
            jobs.made_before(where, kind, digest)
    assert jobs.made_before(at.where(job="job-2"), jobs.TRIAGE, other.digest) is None


def test_a_plan_without_its_manifest_is_none(spark: SparkSession, at: Scene) -> None:
    """What a run that was killed while it planned leaves behind belongs to no plan."""
    at.put("dead", ["a"])
    at.triage(spark, rule("true", "discard", name="all"))
    (at.out / "job-1" / MANIFEST).unlink()
    assert at.plan().manifest() is None
    at.triage(spark, rule("true", "leave", name="all"))
    assert at.act().rows == 0 and at.texts("dead") == ["a"]


# --- rules that Spark has to look at


@pytest.mark.parametrize(
    ("when", "expected_text"),
    [
        ("nosuch > 5", "nosuch"),
        ("reason =", "Syntax error"),
        ("priority", "`when` is int, must be boolean"),
        ("count(*) > 1", "aggregate"),
    ],
)
def test_a_rule_that_makes_no_sense_is_told_with_its_line(
    spark: SparkSession, at: Scene, when: str, expected_text: str
) -> None:
    at.put("dead", ["a"])
    text = "\n\n" + rule(when, "leave", name="wrong")
    with pytest.raises(RulesInvalid, match=r"rules\.toml, line 3: rule 'wrong': ") as record:
        at.triage(spark, text)
    assert expected_text.lower() in str(record.value).lower() and "\n" not in str(record.value)
    assert record.value.exit_code == Exit.USAGE


def test_all_rules_that_make_no_sense_are_told(spark: SparkSession, at: Scene) -> None:
    at.put("dead", ["a"])
    text = rule("nosuch", "leave", name="one") + rule("true", "leave") + rule("1", "leave", name="two")
    with pytest.raises(RulesInvalid) as record:
        at.triage(spark, text)
    assert [line.split(": ")[1] for line in str(record.value).splitlines()] == ["rule 'one'", "rule 'two'"]


# --- duplicates


def with_id(text: str, id: str | None) -> Message:
    return Message(text, message_id=id)


def test_duplicates_by_message_id_go_and_the_first_stays(spark: SparkSession, at: Scene) -> None:
    ids = ["ID:1", "ID:2", "ID:1", "ID:3", "ID:2", "ID:1"]
    at.put("orders", [with_id(f"{n} {id}", id) for n, id in enumerate(ids)])
    by = check_columns(("message_id",))
    manifest = jobs.plan_deduplicate(spark, at.where("orders"), by)
    assert counted(manifest) == {"duplicate": 3}
    assert at.kept(manifest)["text"].to_pylist() == ["2 ID:1", "4 ID:2", "5 ID:1"]
    assert dict(at.act().counts) == {"done": 3}
    assert at.texts("orders") == ["0 ID:1", "1 ID:2", "3 ID:3"]
    again = jobs.plan_deduplicate(spark, at.where("orders", job="job-2"), by)
    assert again.rows() == 0


def test_the_duplicate_of_what_somebody_holds_goes(spark: SparkSession, at: Scene) -> None:
    at.put("orders", [with_id("first", "ID:1"), with_id("second", "ID:1")])
    consumer = at.consumer("orders")
    assert consumer.receive(10) is not None
    jobs.plan_deduplicate(spark, at.where("orders"), check_columns(("message_id",)))
    assert dict(at.act().counts) == {"done": 1}


def test_duplicates_by_columns(spark: SparkSession, at: Scene) -> None:
    texts = ["a", "b", "a", "a"]
    messages = [Message(text, properties={"n": n // 3, "m": 1}) for n, text in enumerate(texts)]
    at.put("orders", messages)
    by = check_columns(("text", "application_properties"))
    jobs.plan_deduplicate(spark, at.where("orders"), by)
    at.act()
    assert at.texts("orders") == ["a", "b", "a"]
    with pytest.raises(OptionInvalid, match="no columns nosuch"):
        check_columns(("nosuch",))
