"""`postroom subscription`: list and delete the subscriptions of a running broker."""

import json
from typing import Final

import click
from rich.table import Table

from postroom.cli.switches import add_switches
from postroom.cli.talk import connected, json_option, output, shown, url_option
from postroom.server.management import SUBSCRIPTION_TYPE

LISTED: Final = (
    ("name", "subscription"),
    ("durable", "durable"),
    ("shared", "shared"),
    ("messages_current", "current"),
    ("messages_pending", "pending"),
    ("consumers", "consumers"),
)
"""Attributes that the table shows, and the head of each column."""


@click.group()
def subscription() -> None:
    """Subscriptions to topics of a running broker."""


add_switches(subscription, SUBSCRIPTION_TYPE, "subscription")


@subscription.command("list")
@click.argument("topic", default="")
@url_option
@json_option
def list_subscriptions(topic: str, url: str, as_json: bool) -> None:
    """List the subscriptions, or those to TOPIC (a topic's name, or a pattern as it was subscribed to)."""
    with connected(url) as connection:
        found = connection.create_management().query(SUBSCRIPTION_TYPE)
    subscriptions = sorted(
        (each for each in found if topic in ("", each["topic"])), key=lambda each: str(each["name"])
    )
    if as_json:
        for each in subscriptions:
            click.echo(json.dumps(each, default=str))
        return
    table = Table()
    for _, head in LISTED:
        table.add_column(head, justify="left" if head == "subscription" else "right", overflow="fold")
    for each in subscriptions:
        table.add_row(*(shown(each.get(attribute)) for attribute, _ in LISTED))
    output.print(table)


@subscription.command("delete")
@click.argument("name")
@url_option
def delete_subscription(name: str, url: str) -> None:
    """Delete the subscription NAME (TOPIC::CLIENT/NAME, as listed) and the messages on it.

    Refused while somebody consumes from it.
    """
    with connected(url) as connection:
        connection.create_management().delete(SUBSCRIPTION_TYPE, name)
    click.echo(f"deleted {name}")
