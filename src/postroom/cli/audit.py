"""`postroom audit`: whether every message of one or more queue managers is accounted for.

Exit codes, for orchestrators: 0 clean, 3 violations, 4 not provable, 1 a ledger or table can't be read, 2
wrong usage.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from postroom.cli.options import json_option, spark_extra, token_option
from postroom.ledger.errors import LedgerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from postroom.spark.audit.result import AuditResult

DEFAULT_CORES: Final = 2

SHORT_RECORDS: Final = 500_000
"""Up to so many records, Spark is set to start fast rather than to run fast."""

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that spark-submit sets: there is a session already."""

Say = Callable[[str], None]


@click.command("audit")
@click.option(
    "--data",
    multiple=True,
    metavar="URI",
    help="A ledger: the broker's folder, http(s)://BROKER, store:URI. Again for each queue manager.",
)
@click.option("--tables", metavar="ROOT", help="The pipeline's tables instead: they are folded anew, too.")
@click.option("--format", "table_format", default="", help="Of the tables, where it can't be seen.")
@click.option(
    "--elsewhere",
    multiple=True,
    metavar="QUEUE",
    help="A transmission queue whose messages go to a queue manager that is not audited here.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Where to write what was found."
)
@token_option
@click.option(
    "--cores", default=DEFAULT_CORES, show_default=True, type=click.IntRange(1), help="Of the local Spark."
)
@json_option
def audit(
    data: tuple[str, ...],
    tables: str | None,
    table_format: str,
    elsewhere: tuple[str, ...],
    out: Path | None,
    token: str,
    cores: int,
    as_json: bool,
) -> None:
    """Prove from the ledger that no message was lost or made twice, or say where that fails.

    Exit code 0: clean; 3: violations; 4: the history doesn't reach far enough to prove it; 1: a ledger or
    table can't be read.
    """
    if bool(data) == bool(tables):
        raise click.UsageError("give the ledgers (--data, again for each) or the tables (--tables)")
    with _one_line_errors():
        from postroom.spark.audit.command import AuditOptions, run_audit

        options = AuditOptions(data, tables, table_format, elsewhere, out, token)
        result = run_audit(options, lambda records: _session(cores, records < SHORT_RECORDS), _teller())
    _tell(result, as_json)
    sys.exit(int(result.exit_code))


def _tell(result: "AuditResult", as_json: bool) -> None:
    from postroom.spark.audit.show import show

    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        show(result)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What can't be read, as one line and exit code 1."""
    with spark_extra():
        from pyspark.errors import PySparkException
    try:
        yield
    except (LedgerError, OSError, PySparkException) as error:
        raise click.ClickException(cause_of(str(error)) or type(error).__name__) from error


_RAISED: Final = re.compile(r"^(?:postroom\.[\w.]+|\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
"""The end of a Python traceback, which Spark puts into the middle of its own words."""


def cause_of(said: str) -> str:
    """The one line of an error's text that tells why: of a task's failure, what was raised in the task."""
    raised = _RAISED.findall(said)
    return str(raised[-1]) if raised else said.strip().split("\n", 1)[0]


@contextmanager
def _session(cores: int, is_short: bool) -> Iterator["SparkSession"]:
    """The session that spark-submit brings, or a local one."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from postroom.spark.session import local_session

    if SUBMITTED in os.environ:
        spark = SparkSession.builder.appName("postroom audit").getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        yield spark
        return
    with tempfile.TemporaryDirectory(prefix="postroom-spark-", ignore_cleanup_errors=True) as scratch:
        spark = local_session("postroom audit", cores, Path(scratch), is_short)
        spark.sparkContext.setLogLevel("OFF")  # what fails is said in one line
        try:
            yield spark
        finally:
            with suppress(PySparkException):
                spark.stop()


def _teller() -> Say:
    """Progress for people, on standard error: what was done and how long after the start."""
    start = time.monotonic()
    return lambda words: click.echo(f"[{time.monotonic() - start:6.1f} s] {words}", err=True)
