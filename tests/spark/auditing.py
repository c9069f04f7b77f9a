"""An audit of ledgers in folders, for the tests of its rules."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from postroom.spark.audit.looks import look
from postroom.spark.audit.result import AuditResult
from postroom.spark.audit.run import audit, events_of
from postroom.spark.audit.subject import subject_of


def audited(spark: SparkSession, *folders: Path, elsewhere: Sequence[str] = ()) -> AuditResult:
    """What an audit of these ledgers finds."""
    looked = look([str(folder) for folder in folders])
    found = audit(spark, subject_of(looked, elsewhere), events_of(spark, looked))
    found.release()
    return found.result


def rules_by_queue(result: AuditResult) -> dict[str, set[str]]:
    """The rules that are broken on each queue."""
    found: dict[str, set[str]] = {}
    for violation in result.violations:
        found.setdefault(violation.queue or "", set()).add(violation.rule)
    return found
