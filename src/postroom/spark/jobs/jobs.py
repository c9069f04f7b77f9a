"""The jobs themselves: look, plan, and with a folder for it write the plan down."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession

from postroom.spark.jobs import backfill, deduplicate, triage
from postroom.spark.jobs.errors import CannotBeDone, OptionInvalid
from postroom.spark.jobs.plan import Manifest, Plan
from postroom.spark.jobs.plan_builder import Decision, make_plan
from postroom.spark.jobs.queued_messages import LedgerAtPosition, check_queue, open_ledger
from postroom.spark.jobs.rules import Rules, check_targets

TRIAGE: Final = "triage"
DEDUPLICATE: Final = "deduplicate"
BACKFILL: Final = "backfill"

_JOB: Final = re.compile(r"\w[\w.:+@-]{0,119}")


@dataclass(frozen=True, slots=True)
class Where:
    """What all jobs on a queue's messages are told."""

    data: str
    """The ledger: a folder or a broker."""
    token: str
    queue: str
    out: str
    """The folder or URI that has the plans; "" only count."""
    job: str
    """The job's own id; "" a new one."""


def new_job_id() -> str:
    """Sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:6]}"


def check_job_id(job: str) -> str:
    """Raises ``OptionInvalid``."""
    if not _JOB.fullmatch(job):
        raise OptionInvalid(
            f"a job's id begins with a letter or digit and has up to 120 of them and of _.:+@-, not {job!r}"
        )
    return job


def plan_of(where: Where) -> Plan | None:
    """Where its plan is or is to be; None: it only counts."""
    return Plan(f"{where.out.rstrip('/')}/{where.job}") if where.out else None


def made_before(where: Where, kind: str, digest: str) -> Manifest | None:
    """The plan that an earlier run of this job has made. Raises ``CannotBeDone`` if that was another job."""
    plan = plan_of(where)
    manifest = plan.manifest() if plan is not None else None
    if plan is None or manifest is None:
        return None
    if (manifest.kind, manifest.queue, manifest.digest) != (kind, where.queue, digest):
        raise CannotBeDone(
            f"{plan.uri} has the plan of another job ({manifest.kind} of queue {manifest.queue!r}, made"
            f" {manifest.created}): give this one an id of its own (--job), or carry that one out with"
            " `postroom job act`"
        )
    return manifest


def plan_triage(spark: SparkSession, where: Where, rules: Rules) -> Manifest:
    """What is to be done with the messages of a queue by rules. Raises ``JobError``, ``LedgerError``,
    ``PySparkException``, OSError."""
    ledger = open_ledger(where.data, where.token)
    check_queue(ledger, where.queue)
    check_targets(rules, ledger.kinds)
    triage.check_rules(spark, rules)
    rows = triage.decided(spark, ledger, where.queue, rules, bool(where.out))
    decisions = [Decision(rule.name, rule.action, rule.to) for rule in rules.rules]
    empty = _empty(where, TRIAGE, rules.digest, ledger)
    return _finished(where, lambda plan: make_plan(rows, decisions, empty, plan))


def digest_of(fields_given: object) -> str:
    """What makes two jobs the same: the columns of a removal of duplicates, the table of a backfill."""
    return hashlib.sha256(repr(fields_given).encode()).hexdigest()


def plan_deduplicate(spark: SparkSession, where: Where, by: tuple[str, ...]) -> Manifest:
    """Which messages of a queue are duplicates. Raises as `plan_triage`."""
    by = deduplicate.check_columns(by)
    ledger = open_ledger(where.data, where.token)
    check_queue(ledger, where.queue)
    rows = deduplicate.duplicates(spark, ledger, where.queue, by, bool(where.out))
    empty = _empty(where, DEDUPLICATE, digest_of(by), ledger)
    return _finished(where, lambda plan: make_plan(rows, [deduplicate.DUPLICATE], empty, plan))


def plan_a_backfill(spark: SparkSession, where: Where, table: backfill.Table) -> Manifest:
    """Which rows become messages. Raises as `plan_triage`."""
    rows = backfill.rows_of(spark, table)
    empty = _empty(where, BACKFILL, digest_of(table), app=f"backfill/{where.job}")
    return _finished(where, lambda plan: backfill.plan_backfill(rows, table.chunk_rows, empty, plan))


def _empty(
    where: Where, kind: str, digest: str, ledger: LedgerAtPosition | None = None, app: str = ""
) -> Manifest:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    ledger_id, through = ("", 0) if ledger is None else (ledger.ledger_id, ledger.through)
    return Manifest(where.job, kind, where.queue, digest, created, ledger_id, through, app=app)


def _finished(where: Where, make: Callable[[Plan | None], Manifest]) -> Manifest:
    plan = plan_of(where)
    manifest = make(plan)
    if plan is not None:
        plan.finish(manifest)
    return manifest
