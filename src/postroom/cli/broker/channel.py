"""`postroom channel`: define, command and look at the channels of a running broker; the verbs are MQSC's."""

import time
from collections.abc import Mapping
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import connected, json_option, settings_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_alter, add_delete, add_list, create
from postroom.cli.common.tables import age_s, by_name, show_json, show_rows, shown
from postroom.model.entity_types import CHANNEL_TYPE

PING_PATIENCE_S: Final = 30.0
US_PER_S: Final = 1_000_000

LISTED: Final = (
    ("name", "channel"),
    ("channel_type", "type"),
    ("protocol", "protocol"),
    ("connection", "connection"),
    ("transmission_queue", "transmission queue"),
    ("state", "state"),
)
"""Attributes of the list, and the heads of their columns."""
WIDE: Final = (
    ("partner", "partner"),
    ("messages", "messages"),
    ("in_doubt_messages", "in doubt"),
    ("batch_size", "batch size"),
    ("credentials", "credentials"),
    ("description", "description"),
)
"""Beside these with ``--wide``."""

STATUS_HEADS: Final = ("channel", "state", "partner", "in doubt", "sequence", "messages", "last message")

DETAILS: Final = (
    *("state", "reason", "since_us", "partner", "address", "started_us", "last_message_us"),
    *("messages", "bytes", "batches", "current_messages", "current_sequence", "current_luwid"),
    *("in_doubt", "in_doubt_luwid", "in_doubt_messages", "last_sequence", "last_luwid"),
    *("short_retries_left", "long_retries_left", "retry_us", "reset_sequence"),
)
"""What `status NAME` prints, in this order."""


@click.group(cls=BrokerGroup, names=CHANNEL_TYPE)
def channel() -> None:
    """Channels of a running broker to other queue managers."""


add_alter(channel, CHANNEL_TYPE, "Change settings of the channel NAME, for its next start.")
add_delete(channel, CHANNEL_TYPE, "Delete the channel NAME, which must be neither active nor in doubt.")
add_list(channel, CHANNEL_TYPE, LISTED, "channels", wide=WIDE)


@channel.command("define")
@click.argument("name")
@click.argument(
    "channel_type", metavar="TYPE", type=click.Choice(["sender", "receiver", "server", "requester"])
)
@settings_option
@url_option
@json_option
def define_channel(name: str, channel_type: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Define the channel NAME of TYPE sender, receiver, server or requester."""
    create(CHANNEL_TYPE, name, (*settings, f"channel_type={channel_type}"), url, as_json)


@channel.command("show")
@click.argument("name")
@url_option
@json_option
def show_channel(name: str, url: str, as_json: bool) -> None:
    """Show the definition of the channel NAME."""
    found = _read(url, name)
    definition = {key: value for key, value in found.items() if key not in DETAILS}
    if as_json:
        show_json([definition])
        return
    for key, value in definition.items():
        if value not in ("", None) and key not in ("identity", "type"):
            click.echo(f"{key}: {value}")


@channel.command("status")
@click.argument("name", default="")
@url_option
@json_option
def channel_status(name: str, url: str, as_json: bool) -> None:
    """Show the state of all channels, or everything about that of the channel NAME."""
    if not name:
        with connected(url) as connection:
            rows = by_name(connection.create_management().query(CHANNEL_TYPE))
        show_rows(rows, STATUS_HEADS, _cells, as_json, ("sequence", "messages"))
        for row in [] if as_json else rows:
            if row["state"] != "running" and row["reason"]:
                click.echo(f"{row['name']}: {_retries(row)}{row['reason']}")
        return
    found = _read(url, name)
    if as_json:
        show_json([found])
        return
    for key in DETAILS:
        text = _detail(key, found[key])
        if text:
            click.echo(f"{key.removesuffix('_us')}: {text}")


@channel.command("start")
@click.argument("name")
@url_option
def start_channel(name: str, url: str) -> None:
    """Start the channel NAME; of a receiver: let it be called again."""
    _command(url, name, "START", {})


@channel.command("stop")
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["quiesce", "force", "terminate"]),
    default="quiesce",
    show_default=True,
    help="When its batch has ended; at once; at once, by cutting the connection.",
)
@click.option(
    "--status",
    type=click.Choice(["stopped", "inactive"]),
    default="stopped",
    show_default=True,
    help="Until it is started again; or until a message triggers it, or its partner calls.",
)
@url_option
def stop_channel(name: str, mode: str, status: str, url: str) -> None:
    """Stop the channel NAME."""
    _command(url, name, "STOP", {"mode": mode, "status": status})


@channel.command("reset")
@click.argument("name")
@click.option(
    "--sequence", type=int, metavar="N", default=1, show_default=True, help="The number of the next message."
)
@url_option
def reset_channel(name: str, sequence: int, url: str) -> None:
    """Reset the sequence number of the channel NAME.

    A sending end tells the other one at the next start; at a receiving end only this end is reset.
    """
    _command(url, name, "RESET", {"sequence": sequence})


@channel.command("resolve")
@click.argument("name")
@click.argument("action", type=click.Choice(["commit", "backout"]))
@url_option
def resolve_channel(name: str, action: str, url: str) -> None:
    """Decide by hand about what the channel NAME has in doubt.

    commit: it has arrived at the partner, and leaves the transmission queue; backout: it has not, and goes
    back there. The partner's `last_luwid` tells which is true.
    """
    _command(url, name, "RESOLVE", {"action": action})


@channel.command("ping")
@click.argument("name")
@url_option
def ping_channel(name: str, url: str) -> None:
    """Connect to the partner of the channel NAME, sign in, and leave."""
    with connected(url) as connection:
        management = connection.create_management()
        reply = management.request("PING", kind=CHANNEL_TYPE, name=name, patience_s=PING_PATIENCE_S)
    found = reply.attributes()
    click.echo(f"{found['partner']} answers within {int(str(found['took_us'])) / 1000:.1f} ms")


def _read(url: str, name: str) -> Mapping[str, Any]:
    with connected(url) as connection:
        return connection.create_management().read(CHANNEL_TYPE, name)


def _command(url: str, name: str, operation: str, body: Mapping[str, object]) -> None:
    with connected(url) as connection:
        management = connection.create_management()
        reply = management.request(operation, kind=CHANNEL_TYPE, name=name, body=dict(body))
    click.echo(f"{name}: {reply.attributes()['state']}")


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        *(str(row["name"]), str(row["state"]), str(row["partner"])),
        f"{shown(row['in_doubt_messages'])} messages" if row["in_doubt"] else "no",
        shown(max(row["last_sequence"], row["current_sequence"])),
        *(shown(row["messages"]), _ago(row["last_message_us"])),
    ]


def _retries(row: Mapping[str, Any]) -> str:
    if row["state"] != "retrying":
        return ""
    short, long = row["short_retries_left"], row["long_retries_left"]
    return f"{shown(short)} short retries left: " if short else f"{shown(long)} long retries left: "


def _ago(at_us: int) -> str:
    return f"{age_s(at_us):,} s ago" if at_us else "never"


def _detail(key: str, value: object) -> str:
    """A value of the status, readable; "" for what says nothing."""
    if key.endswith("_us"):
        at_us = int(str(value))
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_us / US_PER_S)) if at_us else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(value) if value != "" else ""
