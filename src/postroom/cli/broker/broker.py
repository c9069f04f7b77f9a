"""`postroom broker` and `postroom connection`: counters of the whole broker and of its connections."""

from collections.abc import Mapping
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import connected, json_option, requested, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_show
from postroom.cli.common.switches import show_statistics
from postroom.cli.common.tables import show_rows, shown
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE, CONNECTION_TYPE

LISTED: Final = {
    "messages_in": "in",
    "messages_out": "out",
    "bytes_in": "bytes in",
    "bytes_out": "bytes out",
    "unsettled": "unsettled",
    "blocked_sends": "blocked",
}
"""Counters that the table shows, and the head of each column."""


@click.group(cls=BrokerGroup, names=BROKER_TYPE)
def broker() -> None:
    """The running broker as a whole."""


@broker.command("stats")
@click.option("--reset", is_flag=True, help="Begin those anew that run since the start, of all destinations.")
@url_option
@json_option
def broker_stats(reset: bool, url: str, as_json: bool) -> None:
    """Show the counters of all queues and subscriptions together."""
    more = ("queues", "connections", "connections_high", "connections_total")
    show_statistics(BROKER_TYPE, BROKER_NAME, reset, url, as_json, *more)


@click.group(cls=BrokerGroup, names=CONNECTION_TYPE)
def connection() -> None:
    """Connections to a running broker."""


@connection.command("list")
@url_option
@json_option
def list_connections(url: str, as_json: bool) -> None:
    """List the connections, with what has gone over each; this command's own, too."""
    with connected(url) as opened:
        found = opened.create_management().query(CONNECTION_TYPE)
    heads = tuple(LISTED.values())
    show_rows(found, ("connection", "user", *heads), _cells, as_json, heads)


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [str(row["name"]), str(row["user"]), *(shown(row[name]) for name in LISTED)]


add_show(connection, CONNECTION_TYPE, "Show the connection NAME (its remote address) and its counters.")


@connection.command("close")
@click.argument("name")
@url_option
def close_connection(name: str, url: str) -> None:
    """Close the connection NAME (its remote address); what it held goes back."""
    requested(url, "CLOSE", CONNECTION_TYPE, name)
    click.echo(f"closed {name}")


@connection.command("reset")
@click.argument("name")
@url_option
def reset_connection(name: str, url: str) -> None:
    """Begin the counters of the connection NAME (its remote address) at 0 again."""
    requested(url, "RESET-STATISTICS", CONNECTION_TYPE, name)
    click.echo(f"reset {name}")
