"""`postroom state QUEUE`: what is on a queue, or was at a time, from the tables of the pipeline."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from postroom.cli.common.broker_connection import EXIT_NOTHING
from postroom.cli.common.options import json_option, one_line_errors, spark_extra, tables_option
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import number_option

if TYPE_CHECKING:
    from postroom.spark.report.naming import Naming
    from postroom.spark.report.queue_state import Held

SHOWN: Final = 50
"""Without --count, so many messages are shown; all are counted."""
NUMBERS: Final = ("serial", "deliveries", "bytes")


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """A time as in RFC 3339; without an offset it is UTC."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time such as 2026-11-22T05:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@click.command("state")
@click.argument("queue")
@tables_option
@click.option(
    "--as-of", callback=_moment, metavar="TIME", help="As it was then (RFC 3339); now unless given."
)
@number_option("--count", least=0, default=SHOWN, show_default=True, help="Show so many; 0: all.")
@json_option
def state(queue: str, tables: str, as_of: datetime | None, count: int, as_json: bool) -> None:
    """Show what is on QUEUE, or was at a time: each message with its state, since when, and why.

    "Now" is how far the tables are. Spark isn't started. Exit code 4: there is nothing.
    """
    with spark_extra(), one_line_errors():
        from postroom.spark.report.naming import naming_of
        from postroom.spark.report.queue_state import state_of_queue

        found = state_of_queue(tables, queue, as_of)
        naming = naming_of(tables, (), None)
    shown = found[:count] if count else found
    if as_json:
        for one in shown:
            click.echo(json.dumps(_line(one), ensure_ascii=False))
    elif found:
        _show(shown, len(found), naming)
    if not found:
        then = "is" if as_of is None else "was"
        click.echo(f"{queue}: nothing {then} there, as far as the tables tell", err=True)
        raise SystemExit(EXIT_NOTHING)


def _line(one: "Held") -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(one).items()
    }


def _show(shown: list["Held"], in_all: int, naming: "Naming") -> None:
    heads = ("ledger", "serial", "message id", "state", "since", "why", "arrived", "deliveries", "bytes")
    table = new_table(*heads, numbers=NUMBERS)
    for one in shown:
        why = one.why + (f" until {_time(one.due)}" if one.due else "")
        numbers = (str(one.deliveries), "" if one.body_bytes is None else f"{one.body_bytes:,}")
        what = (naming.ledger(one.ledger_id), str(one.serial), one.message_id or "", one.state)
        table.add_row(*what, _time(one.since), why, _time(one.arrival), *numbers)
    show_table(table)
    click.echo(f"{in_all:,} in all" + (f", {len(shown):,} shown" if len(shown) < in_all else ""))


def _time(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%d %b %H:%M:%S.%f")[:-3]
