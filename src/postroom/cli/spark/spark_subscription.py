"""`postroom spark-subscription`: the queries that consume queues of a running broker through Spark."""

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_show, given
from postroom.cli.common.tables import age_s, by_name, show_rows, shown
from postroom.cli.groups import number_option
from postroom.model.entity_types import SPARK_SUBSCRIPTION_TYPE

_HIDDEN: Final = ("identity", "type")
NUMBERS: Final = ("held", "window", "confirmed", "assigned")

window_option = number_option("--window", metavar="MESSAGES", help="So many may be held unconfirmed.")
window_bytes_option = number_option(
    "--window-bytes", metavar="BYTES", help="Nothing more is given above this."
)
lease_option = number_option("--lease-s", metavar="SECONDS", help="It ends when unheard of for so long.")


@click.group("spark-subscription", cls=BrokerGroup, names=SPARK_SUBSCRIPTION_TYPE)
def spark_subscription() -> None:
    """Spark queries that consume queues of a running broker."""


@spark_subscription.command("list")
@url_option
@json_option
def list_subscriptions(url: str, as_json: bool) -> None:
    """List the Spark subscriptions, those that have ended too."""
    with connected(url) as connection:
        found = by_name(connection.create_management().query(SPARK_SUBSCRIPTION_TYPE))
    rows = ({key: row[key] for key in row if key not in _HIDDEN} for row in found)
    heads = ("subscription", "queue", *NUMBERS, "heard of", "state")
    show_rows(rows, heads, _cells, as_json, NUMBERS)


def _cells(row: Mapping[str, Any]) -> list[str]:
    numbers = (row[name] for name in ("held", "window", "confirmed", "assigned_through"))
    heard_of = f"{age_s(row['renewed_us']):,} s ago"
    return [row["name"], row["queue"], *map(shown, numbers), heard_of, row["state"]]


add_show(
    spark_subscription,
    SPARK_SUBSCRIPTION_TYPE,
    "Show everything that is known of the Spark subscription NAME.",
)


@spark_subscription.command("create")
@click.argument("name")
@click.option("--queue", required=True, metavar="QUEUE", help="Whose messages it takes.")
@window_option
@window_bytes_option
@lease_option
@click.option("--selector", metavar="TEXT", help="Which messages it takes.")
@url_option
@json_option
def create_subscription(
    name: str,
    queue: str,
    window: int | None,
    window_bytes: int | None,
    lease_s: int | None,
    selector: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Have the Spark subscription NAME compete for the messages of a queue from now on."""
    settings = {"queue": queue, "window": window, "window_bytes": window_bytes, "lease_s": lease_s}
    with connected(url) as connection:
        row = connection.create_management().create(
            SPARK_SUBSCRIPTION_TYPE, name, given({**settings, "selector": selector})
        )
    click.echo(json.dumps(row) if as_json else f"created {name} on {queue}")


@spark_subscription.command("alter")
@click.argument("name")
@window_option
@window_bytes_option
@lease_option
@url_option
@json_option
def set_subscription(
    name: str, window: int | None, window_bytes: int | None, lease_s: int | None, url: str, as_json: bool
) -> None:
    """Give the Spark subscription NAME another window or lease."""
    settings = {"window": window, "window_bytes": window_bytes, "lease_s": lease_s}
    with connected(url) as connection:
        row = connection.create_management().update(SPARK_SUBSCRIPTION_TYPE, name, given(settings))
    click.echo(json.dumps(row) if as_json else f"altered {name}")


@spark_subscription.command("delete")
@click.argument("name")
@url_option
@json_option
def delete_subscription(name: str, url: str, as_json: bool) -> None:
    """Delete the Spark subscription NAME: what it holds and has not confirmed goes back to its queue.

    What its query has taken into its table and not confirmed is there for others, too.
    """
    with connected(url) as connection:
        connection.create_management().delete(SPARK_SUBSCRIPTION_TYPE, name)
    click.echo(json.dumps({"deleted": name}) if as_json else f"deleted {name}")
