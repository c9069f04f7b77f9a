"""`postroom member`: the members of a replicated queue manager."""

import time
from collections.abc import Mapping
from typing import Any

import click

from postroom.cli.common.broker_connection import connected, json_option, requested, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.tables import show_rows
from postroom.model.entity_types import MEMBER_TYPE


@click.group(cls=BrokerGroup, names=MEMBER_TYPE)
def member() -> None:
    """Members of a replicated queue manager, asked of the active one."""


@member.command("list")
@url_option
@json_option
def list_members(url: str, as_json: bool) -> None:
    """List the members: who is active, and how far the others are behind."""
    with connected(url) as connection:
        found = connection.create_management().query(MEMBER_TYPE)
    behind = ("entries behind", "bytes", "seconds")
    columns = ("member", "state", *behind, "position", "said so", "takes clients at", "version")
    show_rows(found, columns, _cells, as_json, (*behind, "position"))


def _cells(row: Mapping[str, Any]) -> list[str]:
    ago_s = max(0.0, time.time() - row["time_us"] / 1e6)
    return [
        str(row["name"]),
        str(row["state"]),
        f"{row['behind']:,}",
        f"{row['behind_bytes']:,}",
        f"{row['behind_s']:,}",
        f"{row['position']:,}",
        f"{ago_s:.0f} s ago",
        " ".join(row["urls"]),
        str(row["version"]),
    ]


@member.command("hand-over")
@click.argument("name")
@url_option
def hand_over(name: str, url: str) -> None:
    """Have the active member end in order, and the member NAME go on."""
    requested(url, "HAND-OVER", MEMBER_TYPE, name)
    click.echo(f"hands over to {name}")


@member.command("remove")
@click.argument("name")
@url_option
def remove_member(name: str, url: str) -> None:
    """Forget the member NAME, which won't come back: the log needn't keep what it hasn't read."""
    requested(url, "DELETE", MEMBER_TYPE, name)
    click.echo(f"removed {name}")
