"""`postroom audit`: whether every message of one or more queue managers is accounted for.

Exit codes, for orchestrators: 0 clean, 3 violations, 4 not proven, 1 a ledger or table can't be read, 2
wrong usage.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from postroom.cli.common.options import json_option, token_option
from postroom.cli.common.spark_session import (
    absolute,
    cores_option,
    ledgers_option,
    spark_errors,
    spark_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_RECORDS: Final = 500_000
"""Up to so many records, Spark is set to start fast rather than to run fast."""


@click.command("audit")
@ledgers_option
@click.option("--tables", metavar="ROOT", help="The pipeline's tables instead: they are folded anew, too.")
@click.option(
    "--format", "table_format", metavar="NAME", default="", help="Of the tables, where it can't be seen."
)
@click.option(
    "--elsewhere",
    multiple=True,
    metavar="QUEUE",
    help="A transmission queue whose messages go to a queue manager that is not audited here.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Where to write what was found."
)
@click.option("--all", "every", is_flag=True, help="Show each dynamic queue of clients by itself.")
@token_option
@cores_option
@json_option
def audit(
    data: tuple[str, ...],
    tables: str | None,
    table_format: str,
    elsewhere: tuple[str, ...],
    out: Path | None,
    every: bool,
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
    with spark_errors():
        from postroom.spark.audit.command import AuditOptions, run_audit
        from postroom.spark.audit.show import show

        ledgers, root = tuple(map(absolute, data)), absolute(tables) if tables else None
        options = AuditOptions(ledgers, root, table_format, elsewhere, out, token)

        def session(records: int) -> AbstractContextManager["SparkSession"]:
            """It says nothing itself: what fails is said in one line."""
            return spark_session("postroom audit", cores, records < SHORT_RECORDS, "OFF")

        result = run_audit(options, session, _progress_printer())
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        show(result, every=every)
    sys.exit(int(result.exit_code))


def _progress_printer() -> Callable[[str], None]:
    """Progress for people, on standard error: what was done and how long after the start."""
    start = time.monotonic()
    return lambda words: click.echo(f"[{time.monotonic() - start:6.1f} s] {words}", err=True)
