"""`postroom sink`: the Spark jobs that write to a running broker, and what they have not decided."""

import json
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import EXIT_BROKER, connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.tables import age_s, by_name, moment, show_one, show_rows, shown
from postroom.model.entity_types import SINK_TYPE

_HIDDEN: Final = ("identity", "type", "open_branches")
_NUMBERS: Final = ("partition", "attempt", "messages", "bytes")
COUNTS: Final = ("branches", "messages", "bytes")
BRANCH_HEADS: Final = ("branch", "batch", *_NUMBERS, "state", "for", "lease ends", "user")


@click.group(cls=BrokerGroup, names=SINK_TYPE)
def sink() -> None:
    """Spark jobs that write to queues of a running broker."""


@sink.command("list")
@url_option
@json_option
def list_sinks(url: str, as_json: bool) -> None:
    """List the sinks (apps), the batch that each has decided last, and what is undecided."""
    with connected(url) as connection:
        found = by_name(connection.create_management().query(SINK_TYPE))
    rows = ({key: row[key] for key in row if key not in _HIDDEN} for row in found)
    numbers = ("batch", "position", *COUNTS)
    show_rows(rows, ("sink", "query", "batch", "position", "decided", *COUNTS), _cells, as_json, numbers)


def _cells(row: dict[str, Any]) -> list[str]:
    decided = f"{age_s(row['decided_us']):,} s ago" if row["decided_us"] else "never"
    numbers = (shown(row["batch_id"]), shown(row["position"]))
    return [row["name"], row["query_id"], *numbers, decided, *(shown(row[name]) for name in COUNTS)]


@sink.command("show")
@click.argument("name")
@url_option
@json_option
def show_sink(name: str, url: str, as_json: bool) -> None:
    """Show everything that is known of the sink NAME, and its undecided branches."""
    with connected(url) as connection:
        row: dict[str, Any] = connection.create_management().read(SINK_TYPE, name)
    show_one(row, as_json, _HIDDEN)
    if row["open_branches"] and not as_json:
        numbers = ("batch", *_NUMBERS, "for")
        show_rows(row["open_branches"], BRANCH_HEADS, _branch_cells, False, numbers)


def _branch_cells(branch: dict[str, Any]) -> list[str]:
    state = "sealed" if branch["sealed"] else "open"
    return [
        *(branch["name"], shown(branch["batch_id"]), *(shown(branch[name]) for name in _NUMBERS), state),
        *(f"{age_s(branch['since_us']):,} s", moment(branch["until_us"]), branch["user"]),
    ]


@sink.command("rollback")
@click.argument("name")
@click.argument("branch", required=False, default="")
@url_option
@json_option
def roll_back(name: str, branch: str, url: str, as_json: bool) -> None:
    """Roll back the undecided branches of the sink NAME, or one BRANCH.

    A job that is running finds that they are gone when it commits, and fails; started again it writes the
    batch anew.
    """
    with connected(url) as connection:
        management = connection.create_management()
        management.read(SINK_TYPE, name)
        reply = management.request("ROLLBACK", kind=SINK_TYPE, name=name, body={"branch": branch})
    count = int(str(reply.attributes()["rolled_back"]))
    click.echo(json.dumps({"rolled_back": count}) if as_json else f"rolled back {count} branches of {name}")
    if branch and not count:
        click.echo(f"{name} has no undecided branch {branch}", err=True)
        raise SystemExit(EXIT_BROKER)


@sink.command("forget")
@click.argument("name")
@url_option
@json_option
def forget(name: str, url: str, as_json: bool) -> None:
    """Forget the sink NAME: its undecided branches are rolled back.

    Which batches it has decided is known no more: a job that writes to it again begins anew, and what it
    writes again is there twice.
    """
    with connected(url) as connection:
        connection.create_management().delete(SINK_TYPE, name)
    click.echo(json.dumps({"forgotten": name}) if as_json else f"forgot {name}")
