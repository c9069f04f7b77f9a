"""From messages with their rules to a plan: one pass of Spark, whose tasks write the files.

A task's files count only if the driver has heard of them, so what a failed or doubled attempt leaves behind
is no part of the plan. Messages that are to be discarded are kept, whole, in a file of the same task, which
is durable before the plan is there; one that can't be kept (its body can't be read) is left alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from postroom.manager.administration.message_jobs import DISCARD, LEAVE
from postroom.spark.data_source.worker import in_task
from postroom.spark.jobs.plan import (
    ACTIONS_FILE,
    ACTIONS_SCHEMA,
    DISCARDED_FILE,
    KEYS,
    Count,
    Manifest,
    Plan,
    PlanFile,
    file_name,
)
from postroom.spark.messages.schema import MESSAGES_SCHEMA

NO_RULE: Final = "(no rule)"
NOT_KEPT: Final = "its body can't be kept"
RULE_COLUMN: Final = "job_rule"
"""Index of the rule that decides; null: none does."""

KEPT_COLUMNS: Final = tuple(MESSAGES_SCHEMA.names)
"""Columns of what is discarded: those that the sink can send again."""

PRESENT: Final = "present"

_WROTE: Final = "kind string, name string, rule int, note string, rows bigint"
_WROTE_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("rule", pa.int32()),
        ("note", pa.string()),
        ("rows", pa.int64()),
    ]
)
_COUNT: Final = "count"


@dataclass(frozen=True, slots=True)
class Decision:
    """What one rule does."""

    rule: str
    action: str
    to: str = ""


def make_plan(
    rows: DataFrame, decisions: Sequence[Decision], manifest: Manifest, plan: Plan | None
) -> Manifest:
    """The plan for messages in the order in which they are to be acted on; their columns are `KEYS`,
    `RULE_COLUMN`, and for discarding `KEPT_COLUMNS`.

    `plan` None: only count. Otherwise files are written, and ``plan.finish`` is the caller's. Raises
    ``PySparkException``, ``JobError``, OSError.
    """
    uri = "" if plan is None else plan.uri
    writer = _Write(uri, tuple(decisions), manifest.ledger_id, manifest.queue)
    wrote = rows.mapInArrow(writer, _WROTE).collect()
    counts: Counter[tuple[int, str]] = Counter()
    for row in wrote:
        if row["kind"] == _COUNT:
            counts[row["rule"], row["note"]] += row["rows"]
    found = []
    for number, note in sorted(counts, key=lambda key: (key[0] < 0, key)):  # what no rule decides last
        decision = decisions[number] if number >= 0 else Decision(NO_RULE, LEAVE)
        messages = counts[number, note]
        found.append(Count(decision.rule, decision.action, decision.to, messages, note))
    return replace(
        manifest,
        files=_files(wrote, ACTIONS_FILE),
        discarded=_files(wrote, DISCARDED_FILE),
        counts=tuple(found),
    )


def _files(wrote: list[Any], kind: str) -> tuple[PlanFile, ...]:
    return tuple(
        PlanFile(row["name"], row["rows"])
        for row in sorted(wrote, key=lambda row: str(row["name"]))
        if row["kind"] == kind
    )


@dataclass(frozen=True)
class _Write:
    """Called in the tasks: one task's messages become its files; its rows tell of them."""

    uri: str
    decisions: tuple[Decision, ...]
    ledger_id: str
    queue: str

    @in_task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = _Task(self, context.partitionId())
        kept = map(task.take_up, batches)
        if self.uri and any(decision.action == DISCARD for decision in self.decisions):
            task.keep(kept)
        for _ in kept:
            pass
        if self.uri and task.actions:
            task.write(ACTIONS_FILE, ACTIONS_SCHEMA, task.actions)
        yield pa.RecordBatch.from_pylist(task.wrote(), schema=_WROTE_SCHEMA)


class _Task:
    def __init__(self, job: _Write, number: int) -> None:
        self._job = job
        self._names = (number, uuid4().hex)
        self._counts: Counter[tuple[int, str]] = Counter()
        self.actions: list[pa.RecordBatch] = []
        self._files: list[tuple[str, PlanFile]] = []

    def wrote(self) -> list[dict[str, Any]]:
        """What the driver is told."""
        files = [
            {"kind": kind, "name": file.name, "rule": -1, "note": "", "rows": file.rows}
            for kind, file in self._files
        ]
        counts = [
            {"kind": _COUNT, "name": "", "rule": rule, "note": note, "rows": rows}
            for (rule, note), rows in self._counts.items()
        ]
        return [*files, *counts]

    def keep(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Write what comes out, if anything does."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        others = (batch for batch in batches if batch.num_rows)
        self.write(DISCARDED_FILE, first.schema, chain([first], others))

    def write(self, kind: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """One file."""
        name = file_name(kind, *self._names)
        self._files.append((kind, PlanFile(name, Plan(self._job.uri).write(name, schema, batches))))

    def take_up(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count, and note the actions; the messages that are to be discarded and can be kept."""
        rules = batch[RULE_COLUMN].fill_null(-1)
        acts = _is_one(rules, [n for n, d in enumerate(self._job.decisions) if d.action != LEAVE])
        discards = _is_one(rules, [n for n, d in enumerate(self._job.decisions) if d.action == DISCARD])
        lost = pa.repeat(pa.scalar(False), batch.num_rows)
        if {"body_state", "_corrupt", "body"} <= set(batch.schema.names):  # else nothing is discarded
            absent = pc.not_equal(batch["body_state"], PRESENT).fill_null(True)
            damaged = pc.and_(batch["_corrupt"].is_valid(), batch["body"].is_null())
            lost = pc.and_(discards, pc.or_(absent, damaged))
        self._count(rules.filter(pc.invert(lost)), "")
        self._count(rules.filter(lost), NOT_KEPT)
        mask = pc.and_not(acts, lost)
        if self._job.uri and pc.any(mask).as_py():
            self.actions.append(self._as_actions(batch.filter(mask), rules.filter(mask)))
        chosen = pc.and_not(discards, lost)
        kept = batch.filter(chosen)
        kept = kept.select([name for name in kept.schema.names if name in KEPT_COLUMNS])
        names = pa.array([decision.rule for decision in self._job.decisions], pa.string())
        return kept.append_column("rule", names.take(rules.filter(chosen)))

    def _count(self, rules: pa.Array, note: str) -> None:
        for each in rules.value_counts().to_pylist():
            self._counts[each["values"], note] += each["counts"]

    def _as_actions(self, rows: pa.RecordBatch, rules: pa.Array) -> pa.RecordBatch:
        job, decisions = self._job, self._job.decisions
        columns = {name: rows[name] for name in KEYS}
        columns["ledger_id"] = pa.repeat(job.ledger_id, rows.num_rows)
        columns["queue"] = pa.repeat(job.queue, rows.num_rows)
        for name in ("rule", "action", "to"):
            texts = pa.array([getattr(decision, name) for decision in decisions], pa.string())
            columns[name] = texts.take(rules)
        arrays = [columns[field.name].cast(field.type) for field in ACTIONS_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=ACTIONS_SCHEMA)


def _is_one(rules: pa.Array, wanted: list[int]) -> pa.Array:
    return pc.is_in(rules, pa.array(wanted, rules.type))
