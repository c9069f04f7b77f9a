"""What `postroom audit` does, without the command line: look, start Spark, audit, write."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from postroom.spark.audit.ledgers import inspect_ledgers
from postroom.spark.audit.reading import of_ledgers
from postroom.spark.audit.result import RESULT_FILE, AuditResult
from postroom.spark.audit.run import Print, audit, write
from postroom.spark.audit.subject import Subject, subject_of
from postroom.spark.audit.walk.packing import Parted, of_rows

if TYPE_CHECKING:
    from postroom.spark.audit.tables import Refolded

Session = Callable[[int], AbstractContextManager[SparkSession]]
"""Starts Spark for about so many records."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What is audited, and where what was found goes."""

    data: Sequence[str] = ()
    """Ledgers; or else:"""
    tables: str | None = None
    """The root of a pipeline's tables."""
    table_format: str = ""
    elsewhere: Sequence[str] = ()
    out: Path | None = None
    token: str = ""


def run_audit(options: AuditOptions, session: Session, show: Print = lambda words: None) -> AuditResult:
    """Audit what the options name. Raises ``LedgerError``, ``OSError``, ``PySparkException``."""
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / RESULT_FILE).unlink(missing_ok=True)  # an audit that is cut off leaves no verdict
    if options.tables:
        return _of_tables(options, options.tables, session, show)
    ledgers = inspect_ledgers(options.data, options.token)  # before seconds are spent on Spark's start
    subject = subject_of(ledgers, options.elsewhere)
    _show_cuts(subject, show)
    with session(subject.records) as spark:
        return _finish(spark, options, subject, of_ledgers(spark, ledgers, options.token), show)


def _of_tables(options: AuditOptions, root: str, session: Session, show: Print) -> AuditResult:
    from postroom.spark.audit import tables

    found = tables.open_tables(root, options.table_format)
    subject = tables.subject_of_tables(found, options.elsewhere)
    _show_cuts(subject, show)
    with session(subject.records) as spark:
        events = of_rows(tables.events_of_tables(spark, found, subject))
        return _finish(spark, options, subject, events, show, tables.refold(spark, found))


def _finish(
    spark: SparkSession,
    options: AuditOptions,
    subject: Subject,
    events: Parted,
    show: Print,
    folded: "Refolded | None" = None,
) -> AuditResult:
    found = audit(spark, subject, events, show, folded)
    try:
        if options.out is not None:
            write(spark, found, options.out)
            show(f"Wrote {options.out}")
    finally:
        found.release()
    return found.result


def _show_cuts(subject: Subject, show: Print) -> None:
    for cut in subject.cuts:
        show(f"Ledger {cut.ledger_id} ({cut.name}): positions {cut.first_position:,} to {cut.position:,}")
