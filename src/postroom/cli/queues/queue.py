"""`postroom queue`: list, show, create, alter, delete and purge the queues of a running broker."""

import json
from typing import Final

import click

from postroom.cli.common.broker_connection import connected, json_option, settings_option, url_option
from postroom.cli.common.descriptions import show_command
from postroom.cli.common.object_commands import alter, by_name, create, fold_dynamic, show_json, show_list
from postroom.cli.common.switches import add_switches
from postroom.cli.groups import Group
from postroom.model.entity_types import QUEUE_TYPE

LISTED: Final = (
    ("name", "queue"),
    ("messages_current", "current"),
    ("messages_pending", "pending"),
    ("bytes_current", "bytes"),
    ("consumers", "consumers"),
    ("messages_received", "received"),
    ("messages_consumed", "consumed"),
)
"""Attributes that the table shows, and the head of each column."""


@click.group(cls=Group)
def queue() -> None:
    """Queues of a running broker."""


add_switches(queue, QUEUE_TYPE, "queue")


queue.add_command(show_command(QUEUE_TYPE, "queue"))


@queue.command("list")
@click.argument("prefix", default="")
@click.option("--all", "every", is_flag=True, help="Each dynamic queue of clients, too.")
@url_option
@json_option
def list_queues(prefix: str, every: bool, url: str, as_json: bool) -> None:
    """List the queues, or those whose name begins with PREFIX."""
    with connected(url) as connection:
        found = connection.create_management().query(QUEUE_TYPE)
    wanted = [each for each in found if str(each["name"]).startswith(prefix)]
    if every:
        show_list(by_name(wanted), LISTED, as_json)
    elif as_json:
        show_json(by_name(each for each in wanted if not each["dynamic"]))
    else:
        show_list(fold_dynamic(wanted, LISTED, "queues"), LISTED, as_json)


@queue.command("create")
@click.argument("name")
@settings_option
@url_option
@json_option
def create_queue(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Create the queue NAME. One that is there already is refused: `alter` changes it.

    \b
    Example:
      postroom queue create orders --set max_messages=100000 --set dead_letter_queue=orders.dead
    """
    create(QUEUE_TYPE, name, settings, url, as_json)


@queue.command("alter")
@click.argument("name")
@settings_option
@url_option
@json_option
def alter_queue(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Change settings of the queue NAME, at once; what is on it stays."""
    alter(QUEUE_TYPE, name, settings, url, as_json)


@queue.command("delete")
@click.argument("name")
@click.option("--if-empty", is_flag=True, help="Only if no message is on it.")
@click.option("--if-unused", is_flag=True, help="Only if nobody consumes from it.")
@click.option(
    "--force",
    is_flag=True,
    help="Also if transactions have messages of it, which are rolled back, or Spark subscriptions to it.",
)
@url_option
def delete_queue(name: str, if_empty: bool, if_unused: bool, force: bool, url: str) -> None:
    """Delete the queue NAME and the messages on it."""
    with connected(url, name) as connection:
        management = connection.create_management()
        management.delete(QUEUE_TYPE, name, {"if-empty": if_empty, "if-unused": if_unused, "force": force})
    click.echo(f"deleted {name}")


@queue.command("purge")
@click.argument("name")
@url_option
@json_option
def purge_queue(name: str, url: str, as_json: bool) -> None:
    """Remove the messages on the queue NAME that nobody holds."""
    with connected(url, name) as connection:
        reply = connection.create_management().request("PURGE", kind=QUEUE_TYPE, name=name)
    purged = reply.attributes().get("purged")
    click.echo(json.dumps({"purged": purged}) if as_json else f"purged {purged} messages from {name}")
