"""`postroom job triage | deduplicate | backfill | act`: jobs that act on queues.

Without --apply a job only looks: it prints what it would do. Exit codes: 0 all is done, or there was nothing
to do; 1 something failed, and the job goes on with what is left if it is started again; 2 options or rules
that can't be used; 3 through, but some messages had changed since they were looked at, or were refused: they
are where they were; 4 it can't be done so, the next time neither.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from postroom.cli.common.broker_connection import URL_VARIABLE
from postroom.cli.common.options import Command, json_option, spark_extra, token_option
from postroom.cli.common.progress import progress_bar
from postroom.cli.common.spark_session import absolute, cores_option, in_one_line, spark_errors, spark_session
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import Group, number_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from postroom.spark.jobs.jobs import Where
    from postroom.spark.jobs.plan import Manifest, Plan, Results

SHOWN_REASONS: Final = 10
MAX_IN_FLIGHT: Final = 16
MAX_CHUNK_ROWS: Final = 1_000_000
FAILED: Final = 1

queue_option = click.option("--queue", required=True, metavar="QUEUE", help="The queue or subscription.")
data_option = click.option(
    "--data", required=True, metavar="URI", help="The queue's ledger: the broker's folder, http(s)://BROKER."
)
out_option = click.option(
    "--out", default="", metavar="URI", help="Where the plan is written, in a folder of the job's id."
)
job_option = click.option(
    "--job", default="", metavar="ID", help="The job's id: one that was interrupted goes on; default new."
)
apply_option = click.option(
    "--apply", "applies", is_flag=True, help="Do it; else only say what would be done."
)
in_flight_option = number_option(
    "--in-flight",
    most=MAX_IN_FLIGHT,
    default=1,
    show_default=True,
    help="Requests at a time; with more than 1 messages may go on out of order.",
)


def broker_option(command: Command) -> Command:
    """The option ``--broker``, which is ``--url`` elsewhere."""
    return click.option(
        "--broker",
        "--url",
        "url",
        envvar=URL_VARIABLE,
        metavar="URL",
        default="",
        help=f"The broker that acts: amqp://[USER[:PASSWORD]@]HOST[:PORT]; also from {URL_VARIABLE}.",
    )(command)


@click.group("job", cls=Group)
def job() -> None:
    """Jobs that act on the messages of queues: what a look at the ledger decides, the broker carries out."""


def _of_a_queue(command: Command) -> Command:
    """The options of the jobs on messages that are there."""
    for option in (
        cores_option, json_option, in_flight_option, job_option, out_option, apply_option, broker_option,
        token_option, data_option, queue_option,
    ):  # fmt: skip
        command = option(command)
    return command


@job.command("triage")
@click.option(
    "--rules",
    "file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What is done with which messages: TOML, see docs/reference/jobs.",
)
@_of_a_queue
def triage(file: Path, **options: Any) -> None:
    """Decide the messages of a queue by rules: replay, forward, discard or leave them."""
    with _job_errors():
        from postroom.spark.jobs import jobs
        from postroom.spark.jobs.rules import read_rules

        rules = read_rules(file)
        where = _where(options)
        found = jobs.made_before(where, jobs.TRIAGE, rules.digest)
        _run(options, where, found, lambda spark: jobs.plan_triage(spark, where, rules))


@job.command("deduplicate")
@click.option(
    "--by",
    default="message_id",
    show_default=True,
    metavar="COLUMN,…",
    help="What duplicates have in common: columns of messages.",
)
@_of_a_queue
def deduplicate(by: str, **options: Any) -> None:
    """Discard duplicates on a queue; the first of each stays."""
    with _job_errors():
        from postroom.spark.jobs import jobs
        from postroom.spark.jobs.deduplicate import check_columns

        columns = check_columns(tuple(name.strip() for name in by.split(",") if name.strip()))
        where = _where(options)
        found = jobs.made_before(where, jobs.DEDUPLICATE, jobs.digest_of(columns))
        _run(options, where, found, lambda spark: jobs.plan_deduplicate(spark, where, columns))


@job.command("backfill")
@click.option("--table", required=True, metavar="URI", help="The table: a folder of Parquet files or Delta.")
@click.option(
    "--format", "table_format", metavar="NAME", default="", help="parquet, delta, or what else Spark reads."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="SQL",
    help="A column of messages: 'EXPRESSION AS NAME'; again for each; default the table's own.",
)
@click.option("--where", "condition", default="", metavar="SQL", help="Only these rows.")
@click.option("--order-by", default="", metavar="COLUMN,…", help="Send them in this order.")
@number_option("--chunk-rows", most=MAX_CHUNK_ROWS, help="Messages of one transaction at most.")
@click.option("--queue", required=True, metavar="QUEUE", help="Where the messages go.")
@broker_option
@apply_option
@out_option
@job_option
@json_option
@cores_option
def backfill(
    table: str,
    table_format: str,
    columns: tuple[str, ...],
    condition: str,
    order_by: str,
    chunk_rows: int | None,
    **options: Any,
) -> None:
    """Send the rows of a table to a queue, in transactions, each exactly once."""
    with _job_errors():
        from postroom.spark.jobs import jobs
        from postroom.spark.jobs.backfill import DEFAULT_ROWS
        from postroom.spark.jobs.backfill import Table as Source

        order = tuple(name.strip() for name in order_by.split(",") if name.strip())
        rows = chunk_rows or DEFAULT_ROWS
        source = Source(absolute(table), table_format, columns, condition, order, rows)
        where = _where(options)
        found = jobs.made_before(where, jobs.BACKFILL, jobs.digest_of(source))
        _run(options, where, found, lambda spark: jobs.plan_a_backfill(spark, where, source))


@job.command("act")
@click.argument("plan")
@broker_option
@in_flight_option
@json_option
@cores_option
def act(plan: str, **options: Any) -> None:
    """Carry out the plan in the folder PLAN, which a job has written with --out; or what is left of it."""
    with _job_errors():
        from postroom.spark.jobs.errors import CannotBeDone, OptionInvalid
        from postroom.spark.jobs.plan import Plan

        if not options["url"]:
            raise OptionInvalid("name the broker with --broker")
        found = Plan(absolute(plan))
        manifest = found.manifest()
        if manifest is None:
            raise CannotBeDone(
                f"{found.uri} has no plan.json: the job that was to write it didn't get that far"
            )
        with ExitStack() as stack:
            _carry_out(stack, options, found, manifest, None)


# --- running --------------------------------------------------------------------------------------


@contextmanager
def _job_errors() -> Iterator[None]:
    """What a job refuses, as one line with its exit code; of rules a line for each that is wrong."""
    with spark_errors(_exit_code_of, _text_of), spark_extra():
        yield


def _exit_code_of(error: Exception) -> int:
    from postroom.spark.jobs.errors import JobError

    return int(error.exit_code) if isinstance(error, JobError) else FAILED


def _text_of(error: Exception) -> str:
    from postroom.spark.jobs.errors import RulesInvalid

    return str(error) if isinstance(error, RulesInvalid) else in_one_line(error)


def _where(options: dict[str, Any]) -> "Where":
    from postroom.spark.jobs.errors import OptionInvalid
    from postroom.spark.jobs.jobs import Where, check_job_id, new_job_id

    out, applies = options["out"], options["applies"]
    if applies and not out:
        raise OptionInvalid("--apply needs --out: the plan and what is discarded are kept there")
    if applies and not options["url"]:
        raise OptionInvalid(f"--apply needs --broker, or {URL_VARIABLE}: the broker that acts")
    if options["job"] and not out:
        raise OptionInvalid("--job needs --out: that is where an earlier run of the job is found")
    name = check_job_id(options["job"]) if options["job"] else new_job_id()
    data = absolute(options["data"]) if "data" in options else ""
    return Where(data, options.get("token", ""), options["queue"], absolute(out) if out else "", name)


def _run(
    options: dict[str, Any],
    where: "Where",
    found: "Manifest | None",
    make: "Callable[[SparkSession], Manifest]",
) -> None:
    """Look and plan, unless an earlier run has; then carry it out if that is wanted."""
    from postroom.spark.jobs.jobs import plan_of

    with ExitStack() as stack:
        spark = None
        if found is None:
            spark = stack.enter_context(_session(options["cores"]))
            found = make(spark)
        plan = plan_of(where)
        if not options["applies"]:
            _show_plan(found, plan, options["as_json"])
        elif plan is not None:
            _carry_out(stack, options, plan, found, spark)


def _session(cores: int) -> Any:
    return spark_session("postroom job", cores, is_short=False)


def _carry_out(
    stack: ExitStack,
    options: dict[str, Any],
    plan: "Plan",
    manifest: "Manifest",
    spark: "SparkSession | None",
) -> None:
    from postroom.spark.jobs import backfill, execution, jobs
    from postroom.spark.jobs.errors import Exit

    progress = stack.enter_context(progress_bar("messages", is_shown=not options["as_json"]))
    if manifest.kind == jobs.BACKFILL:
        spark = spark or stack.enter_context(_session(options["cores"]))
        results = backfill.carry_out(spark, plan, manifest, options["url"], progress)
    else:
        results = execution.carry_out(plan, manifest, options["url"], options["in_flight"], progress)
    stack.close()
    _show_results(manifest, plan, results, options["as_json"])
    if results.not_done():
        raise SystemExit(int(Exit.NOT_ALL))


# --- showing --------------------------------------------------------------------------------------


def _show_plan(manifest: "Manifest", plan: "Plan | None", as_json: bool) -> None:
    if as_json:
        shown = asdict(replace(manifest, files=(), discarded=()))
        click.echo(json.dumps(shown | {"plan": plan.uri if plan else None, "applied": False}))
        return
    _show_counts(manifest)
    to_do = sum(each.messages for each in manifest.counts if each.action != "leave" and not each.note)
    click.echo(f"{to_do:,} messages would be acted on; nothing has been done")
    if plan is not None:
        click.echo(f"plan: {plan.uri} (postroom job act carries it out)")


def _show_counts(manifest: "Manifest") -> None:
    table = new_table("rule", "action", "messages", "", numbers=("messages",))
    for each in manifest.counts:
        action = f"{each.action} {each.to}".strip()
        table.add_row(each.rule, action, f"{each.messages:,}", each.note and f"left: {each.note}")
    if manifest.counts:
        show_table(table)


def _show_results(manifest: "Manifest", plan: "Plan", results: "Results", as_json: bool) -> None:
    counts = dict(results.counts)
    if as_json:
        shown: dict[str, Any] = asdict(replace(manifest, files=(), discarded=()))
        shown |= {"plan": plan.uri, "applied": True, "answers": counts, "refusals": dict(results.reasons)}
        click.echo(json.dumps(shown))
        return
    _show_counts(manifest)
    words = [f"{count:,} {answer}" for answer, count in sorted(counts.items())]
    what = "transactions" if manifest.kind == "backfill" else "messages"
    click.echo(
        f"{manifest.kind} of {manifest.queue}: "
        + (f"{what}: {', '.join(words)}" if words else "nothing to do")
    )
    for why, count in results.reasons.most_common(SHOWN_REASONS):
        click.echo(f"refused {count:,}: {why}")
    click.echo(f"plan and results: {plan.uri}")
