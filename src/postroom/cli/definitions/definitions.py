"""`postroom definitions`: export, diff, apply and convert; what a broker has as a file, for GitOps."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from postroom.cli.common.broker_connection import EXIT_BROKER, connected, json_option, url_option
from postroom.cli.definitions.application import FAILED, NOT_DONE, Result, carry_out
from postroom.cli.definitions.file_format import (
    Source,
    Tree,
    as_json,
    as_toml,
    check_tree,
    read_source,
)
from postroom.cli.definitions.plan import BLOCKED, Plan, make_plan
from postroom.cli.definitions.present import Present, exported, read_present
from postroom.cli.definitions.rabbitmq import from_rabbitmq, is_rabbitmq
from postroom.cli.definitions.report import (
    plan_summary,
    result_json,
    result_line,
    results_summary,
    step_json,
    step_line,
)
from postroom.cli.definitions.wanted import Wanted
from postroom.cli.groups import Group

EXIT_DIFFERENCES: Final = 5
"""The broker isn't as the file says."""

Command = TypeVar("Command", bound=Callable[..., Any])

format_option = click.option(
    "--format",
    "language",
    type=click.Choice(["toml", "json"]),
    default="toml",
    show_default=True,
    help="The language of the file.",
)
prune_option = click.option(
    "--prune", is_flag=True, help="Delete what isn't in FILE, of the kinds of which it has a table."
)
force_option = click.option(
    "--force",
    is_flag=True,
    help="With --prune: also what holds messages, has consumers or is in transactions.",
)
vhost_option = click.option(
    "--vhost", default="/", show_default=True, metavar="NAME", help="Of RabbitMQ's file: the virtual host."
)


@click.group(cls=Group)
def definitions() -> None:
    """Definitions of a running broker as a file: queues, topics, subscriptions, quotas, channels, users.

    FILE is TOML or JSON with the tables of the configuration file, or what `rabbitmqctl export_definitions`
    has written; - is standard input.
    """


@definitions.command("export")
@format_option
@click.option("--all", "everything", is_flag=True, help="Settings that are as by default, too.")
@click.option(
    "--auto-created",
    is_flag=True,
    help="Queues and topics, too, that attaching has made and that go when idle.",
)
@url_option
def export_definitions(language: str, everything: bool, auto_created: bool, url: str) -> None:
    """Print the definitions of the broker; always in the same order, without secrets."""
    with connected(url) as connection:
        present = read_present(connection)
    tree = exported(present, everything, auto_created)
    heading = f"Definitions of the queue manager {present.queue_manager}."
    click.echo(as_json(tree) if language == "json" else as_toml(tree, heading), nl=False)
    _remark(present)


@definitions.command("diff")
@click.argument("file")
@prune_option
@force_option
@vhost_option
@url_option
@json_option
def diff_definitions(file: str, prune: bool, force: bool, vhost: str, url: str, as_json: bool) -> None:
    """Show what `apply` would do, and do nothing.

    + is created, ~ changed, - deleted; ! can't be done on a running broker. Exit code 0: the broker is as
    FILE says; 5: it is not.
    """
    source, tree = _read(file, vhost)
    with connected(url) as connection:
        plan = _plan(read_present(connection), source, tree, prune, force)
    _show_plan(plan, as_json)
    if plan.steps:
        click.get_current_context().exit(EXIT_DIFFERENCES)


@definitions.command("apply")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Show the plan, and do nothing.")
@prune_option
@force_option
@click.option("--keep-going", is_flag=True, help="Go on after a failure.")
@vhost_option
@url_option
@json_option
def apply_definitions(
    file: str, dry_run: bool, prune: bool, force: bool, keep_going: bool, vhost: str, url: str, as_json: bool
) -> None:
    """Have the broker be as FILE says. What it is already is left alone; everything is checked before
    anything is changed.

    Exit code 0: it is as FILE says; 3: the broker has refused something; 5: something can't be done on a
    running broker.
    """
    source, tree = _read(file, vhost)
    with connected(url) as connection:
        management = connection.create_management()
        plan = _plan(read_present(connection), source, tree, prune, force)
        if dry_run:
            _show_plan(plan, as_json)
            return
        results = []
        for result in carry_out(management, plan, force, keep_going):
            results.append(result)
            _show_result(result, as_json)
    if not as_json:
        click.echo(results_summary(results))
    _exit_for(results)


@definitions.command("convert")
@click.argument("file")
@format_option
@vhost_option
def convert_definitions(file: str, language: str, vhost: str) -> None:
    """Print what FILE defines as TOML or JSON, without any broker: RabbitMQ's definitions, to be gone over
    and kept."""
    _, tree = _read(file, vhost)
    click.echo(as_json(tree) if language == "json" else as_toml(tree), nl=False)


def _read(file: str, vhost: str) -> tuple[Source, Tree]:
    source = read_source(file)
    tree = source.tree()
    if not (source.is_json and is_rabbitmq(tree)):
        return source, check_tree(source, tree)
    found, remarks = from_rabbitmq(tree, vhost)
    for remark in remarks:
        click.echo(f"not taken: {remark}", err=True)
    made = Source(f"{source.name} (of RabbitMQ)", as_json(found))
    return made, check_tree(made, found)


def _plan(present: Present, source: Source, tree: Tree, prune: bool, force: bool) -> Plan:
    if force and not prune:
        raise click.UsageError("--force goes with --prune")
    plan = make_plan(Wanted(source, tree, present), prune, force)
    _remark(present)
    return plan


def _remark(present: Present) -> None:
    """What whoever reads a broker's definitions doesn't see."""
    if present.unseen > 0:
        click.echo(f"{present.unseen:,} queues and subscriptions may not be seen by this user", err=True)
    if not present.sees_users:
        click.echo("users and roles may not be seen by this user (administer-users)", err=True)


def _show_plan(plan: Plan, as_json: bool) -> None:
    for step in plan.steps:
        click.echo(json.dumps(step_json(step)) if as_json else step_line(step))
    if not as_json:
        click.echo(plan_summary(plan))


def _show_result(result: Result, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result_json(result)))
    else:
        click.echo(result_line(result), err=result.state in (FAILED, NOT_DONE))


def _exit_for(results: list[Result]) -> None:
    context = click.get_current_context()
    if any(each.state == FAILED for each in results):
        context.exit(EXIT_BROKER)
    if any(each.step.action == BLOCKED for each in results):
        context.exit(EXIT_DIFFERENCES)
