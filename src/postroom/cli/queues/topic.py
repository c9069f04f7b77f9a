"""`postroom topic`: list, create, alter and delete the topics of a running broker."""

from typing import Final

import click

from postroom.cli.common.definitions import add_alter, add_create, add_delete, add_list
from postroom.cli.common.switches import add_switches
from postroom.cli.groups import Group
from postroom.model.entity_types import TOPIC_TYPE

LISTED: Final = (
    ("name", "topic"),
    ("subscriptions", "subscriptions"),
    ("consumers", "consumers"),
    ("messages_received", "published"),
    ("bytes_received", "bytes"),
    ("messages_unrouted", "to nobody"),
)
"""Attributes that the table shows, and the head of each column."""


@click.group(cls=Group)
def topic() -> None:
    """Topics of a running broker."""


add_list(topic, TOPIC_TYPE, LISTED, "topics", "Each temporary topic of clients, too.")
add_create(
    topic,
    TOPIC_TYPE,
    "Create the topic NAME; its settings are those of the subscriptions that will be made to it.",
)
add_alter(topic, TOPIC_TYPE, "Change settings of the topic NAME: those of subscriptions to come.")
add_delete(
    topic,
    TOPIC_TYPE,
    "Delete the topic NAME with its subscriptions and the messages on them.",
    if_unused="Only if nobody consumes from its subscriptions.",
    force=(
        "Also if transactions have messages of them, which are rolled back, or Spark subscriptions to them."
    ),
)


add_switches(topic, TOPIC_TYPE, "topic and its subscriptions")
