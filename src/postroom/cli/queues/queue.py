"""`postroom queue`: list, show, create, alter, delete and purge the queues of a running broker."""

import json
from typing import Final

import click

from postroom.cli.common.broker_connection import json_option, requested, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_alter, add_create, add_delete, add_list
from postroom.cli.common.descriptions import show_command
from postroom.cli.common.switches import add_switches
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
WIDE: Final = (
    ("bytes_pending", "bytes pending"),
    ("messages_high", "high"),
    ("messages_unborn", "unborn"),
    ("messages_redelivery_delay", "delayed"),
    ("messages_expired", "expired"),
    ("messages_dead_lettered", "dead-lettered"),
    ("consumers_high", "consumers high"),
    ("usage", "usage"),
    ("access", "access"),
    ("quota", "quota"),
    ("dead_letter_queue", "dead-letter queue"),
)
"""Beside these with ``--wide``."""


@click.group(cls=BrokerGroup, names=QUEUE_TYPE)
def queue() -> None:
    """Queues of a running broker."""


add_list(queue, QUEUE_TYPE, LISTED, "queues", "Each dynamic queue of clients, too.", WIDE)
add_create(
    queue,
    QUEUE_TYPE,
    """Create the queue NAME. One that is there already is refused: `alter` changes it.

    \b
    Example:
      postroom queue create orders --set max_messages=100000 --set dead_letter_queue=orders.dead
    """,
)
add_alter(queue, QUEUE_TYPE, "Change settings of the queue NAME, at once; what is on it stays.")
add_delete(
    queue,
    QUEUE_TYPE,
    "Delete the queue NAME and the messages on it.",
    if_empty="Only if no message is on it.",
    if_unused="Only if nobody consumes from it.",
    force="Also if transactions have messages of it, which are rolled back, or Spark subscriptions to it.",
)


add_switches(queue, QUEUE_TYPE, "queue")


queue.add_command(show_command(QUEUE_TYPE, "queue"))


@queue.command("purge")
@click.argument("name")
@url_option
@json_option
def purge_queue(name: str, url: str, as_json: bool) -> None:
    """Remove the messages on the queue NAME that nobody holds."""
    purged = requested(url, "PURGE", QUEUE_TYPE, name, hint=name).get("purged")
    click.echo(json.dumps({"purged": purged}) if as_json else f"purged {purged} messages from {name}")
