"""`postroom topic` and `postroom subscription`: list, create, show, alter and delete those of a broker."""

from typing import Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option, wide_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_alter, add_create, add_delete, add_list
from postroom.cli.common.descriptions import show_command
from postroom.cli.common.switches import add_switches
from postroom.cli.common.tables import by_name, show_list
from postroom.model.entity_types import SUBSCRIPTION_TYPE, TOPIC_TYPE

LISTED: Final = (
    ("name", "topic"),
    ("subscriptions", "subscriptions"),
    ("consumers", "consumers"),
    ("messages_received", "published"),
    ("bytes_received", "bytes"),
    ("messages_unrouted", "to nobody"),
)
"""Attributes that the table shows, and the head of each column."""
WIDE: Final = (
    ("messages_current", "current"),
    ("messages_pending", "pending"),
    ("messages_consumed", "consumed"),
    ("messages_expired", "expired"),
    ("messages_dead_lettered", "dead-lettered"),
    ("quota", "quota"),
    ("dead_letter_queue", "dead-letter queue"),
)
"""Beside these with ``--wide``."""


SUBSCRIPTIONS_LISTED: Final = (
    ("name", "subscription"),
    ("durable", "durable"),
    ("shared", "shared"),
    ("messages_current", "current"),
    ("messages_pending", "pending"),
    ("consumers", "consumers"),
)
SUBSCRIPTIONS_WIDE: Final = (
    ("topic", "topic"),
    ("client", "client"),
    ("selector", "selector"),
    ("messages_received", "received"),
    ("messages_consumed", "consumed"),
    ("messages_dead_lettered", "dead-lettered"),
)


@click.group(cls=BrokerGroup, names=TOPIC_TYPE)
def topic() -> None:
    """Topics of a running broker."""


add_list(topic, TOPIC_TYPE, LISTED, "topics", "Each temporary topic of clients, too.", WIDE)
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


topic.add_command(show_command(TOPIC_TYPE, "topic"))


@click.group(cls=BrokerGroup, names=SUBSCRIPTION_TYPE)
def subscription() -> None:
    """Subscriptions to topics of a running broker."""


add_alter(
    subscription,
    SUBSCRIPTION_TYPE,
    "Change settings of the subscription NAME (TOPIC::CLIENT/NAME, as listed), at once.",
)
add_delete(
    subscription,
    SUBSCRIPTION_TYPE,
    "Delete the subscription NAME (TOPIC::CLIENT/NAME, as listed) and the messages on it.",
    force="Also if somebody consumes from it, or transactions have messages of it, which are rolled back.",
)


add_switches(subscription, SUBSCRIPTION_TYPE, "subscription")


subscription.add_command(show_command(SUBSCRIPTION_TYPE, "subscription"))


@subscription.command("list")
@click.argument("topic", default="")
@wide_option
@url_option
@json_option
def list_subscriptions(topic: str, is_wide: bool, url: str, as_json: bool) -> None:
    """List the subscriptions, or those to TOPIC (a topic's name, or a pattern as it was subscribed to)."""
    with connected(url) as connection:
        found = connection.create_management().query(SUBSCRIPTION_TYPE)
    wanted = [each for each in found if topic in ("", each["topic"])]
    columns = [*SUBSCRIPTIONS_LISTED, *(SUBSCRIPTIONS_WIDE if is_wide else ())]
    show_list(by_name(wanted), columns, as_json)
