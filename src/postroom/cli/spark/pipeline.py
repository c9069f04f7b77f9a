"""`postroom pipeline run | status | views | rebuild | erase`: Spark tables of one or more ledgers.

Exit codes: 0 all is done, or it was asked to stop; 1 something failed that may go well next time; 2 wrong
usage; 3 intake stopped before something that can't be passed (a record that this version doesn't know,
another history than the one that was read, history that is gone, a ledger that is missing); 4 another
pipeline writes these tables.
"""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
from rich.console import Console

from postroom.cli.common.options import (
    hash_key_option,
    json_option,
    personal_option,
    policy_of,
    tables_option,
    token_option,
)
from postroom.cli.common.spark_session import (
    absolute,
    cores_option,
    ledgers_option,
    spark_errors,
    spark_session,
)
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import Group, number_option
from postroom.ledger.reading.dump import iso

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from postroom.spark.pipeline.operations.run import Watcher
    from postroom.spark.pipeline.operations.status import PipelineStatus

LOOPBACK: Final = "127.0.0.1"


@click.group(cls=Group)
def pipeline() -> None:
    """Tables of the ledger, by Spark: where each message is and how it got there."""


def _exit_code_of(error: Exception) -> int:
    from postroom.spark.pipeline.errors import exit_code_of

    return exit_code_of(error)


def _session(cores: int) -> AbstractContextManager["SparkSession"]:
    return spark_session("postroom pipeline", cores, is_short=True)


@contextmanager
def _stopping(request_stop: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks to stop after the batch at hand, the second one is as usual."""

    def handle(number: int, frame: object) -> None:
        request_stop()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- run ------------------------------------------------------------------------------------------


@pipeline.command("run")
@ledgers_option
@tables_option
@click.option(
    "--once/--continuous", default=True, show_default=True, help="Until all is read, or until stopped."
)
@click.option(
    "--format",
    "table_format",
    metavar="NAME",
    default="",
    help="delta, parquet or iceberg; default that of the tables there, delta at first.",
)
@click.option(
    "--only", metavar="TABLE,…", default="", help="Only these tables; default those made before, or all."
)
@token_option
@cores_option
@number_option("--interval-ms", help="How often --continuous looks for new records.")
@number_option("--batch-records", help="Records of one batch at most.")
@number_option("--partition-records", help="Records that one task reads.")
@click.option(
    "--on-missing-ledger",
    type=click.Choice(["fail", "drop"]),
    default="fail",
    show_default=True,
    help="What if the tables have a ledger that no --data names.",
)
@personal_option
@hash_key_option
@number_option("--metrics-port", most=65535, help="Serve Prometheus metrics here.")
@click.option(
    "--metrics-address",
    default=LOOPBACK,
    show_default=True,
    metavar="HOST",
    help="The address of these metrics, which need no token; 0.0.0.0: any of this machine.",
)
@number_option("--compact-interval-s", least=0, fractions=True, help="Small files are put together so often.")
@number_option("--checkpoint-commits", help="The list of files is written whole so often.")
@number_option("--vacuum-interval-s", least=0, fractions=True, help="Old versions are deleted so often.")
@number_option("--vacuum-retention-s", least=0, help="How long old versions stay readable.")
@number_option("--settle-rows", help="Partial rows that are folded at once, at least.")
def run_command(data: tuple[str, ...], tables: str, cores: int, once: bool, **rest: Any) -> None:
    """Read ledgers into tables: what is new since the last run, and with --continuous what comes."""
    if not data:
        raise click.UsageError("name a ledger with --data")
    with spark_errors(_exit_code_of), ExitStack() as stack:
        from postroom.spark.pipeline.ledgers import check_all
        from postroom.spark.pipeline.operations.run import Stop, run
        from postroom.spark.pipeline.settings import check_options

        options = _options(data, tables, not once, rest)
        check_options(options)  # what is wrong with them is told before Spark's seconds
        check_all(options.data, options.token)
        stop = Stop()
        watchers = _watchers(stack, once, rest["metrics_address"], rest["metrics_port"])
        spark = stack.enter_context(_session(cores))
        stack.enter_context(_stopping(stop.request))  # after Spark, which takes SIGINT for itself
        run(spark, options, watchers, stop)


def _options(data: tuple[str, ...], tables: str, continuous: bool, rest: dict[str, Any]) -> Any:
    """Options that were given; the others keep their defaults."""
    from postroom.spark.pipeline.options import PipelineOptions, Upkeep

    upkeep = {name: rest[name] for name in Upkeep.__dataclass_fields__ if rest.get(name) is not None}
    bounds = ("interval_ms", "batch_records", "partition_records")
    given = {name: rest[name] for name in bounds if rest[name] is not None}
    only = tuple(name.strip() for name in rest["only"].split(",") if name.strip())
    return PipelineOptions(
        *(tuple(map(absolute, data)), absolute(tables), rest["table_format"]),
        *(only, rest["token"], continuous),
        on_missing_ledger=rest["on_missing_ledger"],
        policy=policy_of(rest["personal"], rest["hash_key"]),
        upkeep=Upkeep(**upkeep),
        **given,
    )


def _watchers(
    stack: ExitStack, once: bool, metrics_address: str, metrics_port: int | None
) -> tuple["Watcher", ...]:
    from postroom.spark.pipeline.operations.metrics import serve_metrics
    from postroom.spark.pipeline.progress import Bar, Lines

    console = Console(stderr=True)
    watchers: list[Watcher] = []
    if once and console.is_terminal:
        watchers.append(stack.enter_context(Bar(console)))
    watchers.append(Lines(lambda words: console.print(words, highlight=False, soft_wrap=True)))
    if metrics_port is not None:
        watchers.append(serve_metrics(metrics_address, metrics_port))
    return tuple(watchers)


# --- status ---------------------------------------------------------------------------------------


@pipeline.command("status")
@tables_option
@ledgers_option
@token_option
@json_option
def status_command(tables: str, data: tuple[str, ...], token: str, as_json: bool) -> None:
    """How far each table has each ledger, and what it lacks in records, seconds and bytes."""
    with spark_errors(_exit_code_of):
        from postroom.spark.pipeline.operations.status import status

        found = status(absolute(tables), tuple(absolute(uri) for uri in data), token)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _show(found)


def _show(found: "PipelineStatus") -> None:
    table = new_table("table", "ledger", "position", "records behind", "s", "MB")
    for one in found.tables:
        for at in one.ledgers:
            lag = ["?"] * 3
            if at.lag:
                lag = [f"{at.lag.events:,}", f"{at.lag.seconds:,.1f}", f"{at.lag.size_bytes / 1e6:,.1f}"]
            table.add_row(one.name, at.ledger_id, f"{at.position:,}", *lag)
    show_table(table)
    sizes = new_table("table", "rows in", "copied per row", "open rows", "files", "MB", "updated")
    for one in found.tables:
        updated = iso(one.updated_us) if one.updated_us else "never"
        counts = (f"{one.rows_in:,}", f"{one.copied_per_row:.2f}", f"{one.open_rows:,}", f"{one.files:,}")
        sizes.add_row(one.name, *counts, f"{one.size_bytes / 1e6:,.1f}", updated)
    show_table(sizes)
    for uri, why in found.unreadable.items():
        click.echo(f"{uri}: {why}")
    for why in {at.diverged for one in found.tables for at in one.ledgers if at.diverged}:
        click.echo(why)
    click.echo(f"written by {found.holder}" if found.holder else "no pipeline writes these tables now")


# --- views ----------------------------------------------------------------------------------------


@pipeline.command("views")
@tables_option
@click.option("--prefix", default="", metavar="TEXT", help="Put before the name of each view.")
@number_option(
    "--stuck-after-s",
    least=0,
    default=3600,
    show_default=True,
    help="What has not moved for so long is in view stuck.",
)
def views_command(tables: str, prefix: str, stuck_after_s: int) -> None:
    """Print SQL for spark-sql that makes a view of each table, and the views stuck, in_doubt and lineage."""
    with spark_errors(_exit_code_of):
        from postroom.spark.pipeline.views import statements

        made = statements(absolute(tables), prefix, stuck_after_s)
    for statement in made.values():
        click.echo(f"{statement};")


# --- rebuild and erase ----------------------------------------------------------------------------


@pipeline.command("rebuild")
@click.argument("table")
@tables_option
@cores_option
def rebuild_command(table: str, tables: str, cores: int) -> None:
    """Make TABLE anew from the rows of table events, beside the old one, and swap them."""
    with spark_errors(_exit_code_of), ExitStack() as stack:
        from postroom.spark.pipeline.engine import SparkEngine
        from postroom.spark.pipeline.operations.rebuild import rebuild

        spark = stack.enter_context(_session(cores))
        rows = rebuild(absolute(tables), table, SparkEngine(spark))
    click.echo(f"rebuilt {table}: {rows:,} rows")


@pipeline.command("erase")
@click.argument("column")
@click.argument("file", type=click.File())
@tables_option
@personal_option
@hash_key_option
@json_option
def erase_command(
    column: str, file: TextIO, tables: str, personal: tuple[str, ...], hash_key: str, as_json: bool
) -> None:
    """Erase what tells of a person, where COLUMN (message_id, user, …) is what FILE (-: standard input) says,
    also from old versions.

    A command line would show it to the machine's other users. One line break at FILE's end doesn't count.
    Rows stay, their personal columns become null. Tables made with --personal want the same here.
    """
    with spark_errors(_exit_code_of):
        from postroom.spark.pipeline.operations.erase import erase

        text = file.read().removesuffix("\n")
        found = erase(absolute(tables), column, text, policy_of(personal, hash_key))
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    rows = ", ".join(f"{name} {count:,}" for name, count in found.rows.items()) or "none"
    click.echo(f"{found.messages:,} messages; rows changed: {rows}")
