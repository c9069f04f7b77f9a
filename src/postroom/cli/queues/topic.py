"""`postroom topic`: list, create, alter and delete the topics of a running broker."""

from typing import Final

import click

from postroom.cli.common.broker_connection import connected, json_option, settings_option, url_option
from postroom.cli.common.object_commands import alter, by_name, create, fold_dynamic, show_json, show_list
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


add_switches(topic, TOPIC_TYPE, "topic and its subscriptions")


@topic.command("list")
@click.argument("prefix", default="")
@click.option("--all", "every", is_flag=True, help="Each temporary topic of clients, too.")
@url_option
@json_option
def list_topics(prefix: str, every: bool, url: str, as_json: bool) -> None:
    """List the topics, or those whose name begins with PREFIX."""
    with connected(url) as connection:
        found = connection.create_management().query(TOPIC_TYPE)
    wanted = [each for each in found if str(each["name"]).startswith(prefix)]
    if every:
        show_list(by_name(wanted), LISTED, as_json)
    elif as_json:
        show_json(by_name(each for each in wanted if not each["dynamic"]))
    else:
        show_list(fold_dynamic(wanted, LISTED, "topics"), LISTED, as_json)


@topic.command("create")
@click.argument("name")
@settings_option
@url_option
@json_option
def create_topic(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Create the topic NAME; its settings are those of the subscriptions that will be made to it."""
    create(TOPIC_TYPE, name, settings, url, as_json)


@topic.command("alter")
@click.argument("name")
@settings_option
@url_option
@json_option
def alter_topic(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Change settings of the topic NAME: those of subscriptions to come."""
    alter(TOPIC_TYPE, name, settings, url, as_json)


@topic.command("delete")
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only if nobody consumes from its subscriptions.")
@click.option(
    "--force",
    is_flag=True,
    help="Also if transactions have messages of them, which are rolled back, or Spark subscriptions to them.",
)
@url_option
def delete_topic(name: str, if_unused: bool, force: bool, url: str) -> None:
    """Delete the topic NAME with its subscriptions and the messages on them."""
    with connected(url, name) as connection:
        management = connection.create_management()
        management.delete(TOPIC_TYPE, name, {"if-unused": if_unused, "force": force})
    click.echo(f"deleted {name}")
