"""`postroom remote-queue`: define, alter, delete and show the names that lead to other queue managers."""

import json
from typing import Final

import click

from postroom.cli.common.broker_connection import connected, json_option, settings_option, url_option
from postroom.cli.common.object_commands import alter, by_name, create, show_list
from postroom.cli.groups import Group
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


@click.group("remote-queue", cls=Group)
def remote_queue() -> None:
    """Remote queues and aliases of a running broker."""


@remote_queue.command("define")
@click.argument("name")
@settings_option
@url_option
@json_option
def define_remote_queue(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Define the remote queue NAME: remote_queue at remote_queue_manager, through transmission_queue.

    Without remote_queue it is an alias of the queue manager.
    """
    create(REMOTE_QUEUE_TYPE, name, settings, url, as_json)


@remote_queue.command("alter")
@click.argument("name")
@settings_option
@url_option
@json_option
def alter_remote_queue(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Change settings of the remote queue NAME. What was sent before goes where it was to go."""
    alter(REMOTE_QUEUE_TYPE, name, settings, url, as_json)


@remote_queue.command("delete")
@click.argument("name")
@url_option
def delete_remote_queue(name: str, url: str) -> None:
    """Delete the remote queue NAME. What was sent before is delivered."""
    with connected(url) as connection:
        connection.create_management().delete(REMOTE_QUEUE_TYPE, name)
    click.echo(f"deleted {name}")


@remote_queue.command("list")
@click.argument("prefix", default="")
@url_option
@json_option
def list_remote_queues(prefix: str, url: str, as_json: bool) -> None:
    """List the remote queues, or those whose name begins with PREFIX."""
    with connected(url) as connection:
        found = connection.create_management().query(REMOTE_QUEUE_TYPE)
    wanted = [each for each in found if str(each["name"]).startswith(prefix)]
    show_list(by_name(wanted), LISTED, as_json)


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
