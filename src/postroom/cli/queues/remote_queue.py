"""`postroom remote-queue`: define, alter, delete and show the names that lead to other queue managers."""

import json
from typing import Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_alter, add_create, add_delete, add_list
from postroom.model.entity_types import REMOTE_QUEUE_TYPE

LISTED: Final = (
    ("name", "name"),
    ("remote_queue", "remote queue"),
    ("remote_queue_manager", "at queue manager"),
    ("transmission_queue", "transmission queue"),
    ("waits_on", "waits on"),
    ("problem", "problem"),
)
"""Attributes of the list, and the heads of their columns."""


@click.group("remote-queue", cls=BrokerGroup, names=REMOTE_QUEUE_TYPE)
def remote_queue() -> None:
    """Remote queues and aliases of a running broker."""


add_create(
    remote_queue,
    REMOTE_QUEUE_TYPE,
    """Define the remote queue NAME: remote_queue at remote_queue_manager, through transmission_queue.

    Without remote_queue it is an alias of the queue manager.
    """,
    verb="define",
)
add_alter(
    remote_queue,
    REMOTE_QUEUE_TYPE,
    "Change settings of the remote queue NAME. What was sent before goes where it was to go.",
)
add_delete(
    remote_queue, REMOTE_QUEUE_TYPE, "Delete the remote queue NAME. What was sent before is delivered."
)
add_list(
    remote_queue,
    REMOTE_QUEUE_TYPE,
    LISTED,
    "remote queues",
    wide=(("alias", "alias"), ("leads_to", "leads to"), ("description", "description")),
)


@remote_queue.command("show")
@click.argument("name")
@url_option
@json_option
def show_remote_queue(name: str, url: str, as_json: bool) -> None:
    """Show the remote queue NAME, and where it leads."""
    with connected(url) as connection:
        found = connection.create_management().read(REMOTE_QUEUE_TYPE, name)
    if as_json:
        click.echo(json.dumps(found, default=str))
        return
    for key, value in found.items():
        if value not in ("", None):
            click.echo(f"{key}: {value}")
