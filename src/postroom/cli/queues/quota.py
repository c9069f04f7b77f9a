"""`postroom quota`: list, create, update and delete the quotas of a running broker."""

from collections.abc import Mapping
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_alter, add_create, add_delete, add_show
from postroom.cli.common.tables import by_name, show_rows, shown
from postroom.model.entity_types import QUOTA_TYPE

COLUMNS: Final = ("quota", "messages", "bytes", "policy", "pools", "queues", "blocked")


@click.group(cls=BrokerGroup, names=QUOTA_TYPE)
def quota() -> None:
    """Quotas of a running broker."""


add_create(quota, QUOTA_TYPE, "Create the quota NAME.")
add_alter(
    quota,
    QUOTA_TYPE,
    """Change settings of the quota NAME.

    Raising a maximum lets in sends that wait; lowering it evicts nothing.
    """,
)
add_show(quota, QUOTA_TYPE, "Show the settings of the quota NAME, and what is used of it.")
add_delete(quota, QUOTA_TYPE, "Delete the quota NAME, which no destination may name any more.")


@quota.command("list")
@url_option
@json_option
def list_quotas(url: str, as_json: bool) -> None:
    """List the quotas, with what is used of each."""
    with connected(url) as connection:
        found = connection.create_management().query(QUOTA_TYPE)
    show_rows(by_name(found), COLUMNS, _row, as_json, ("queues", "blocked"))


def _row(quota: Mapping[str, Any]) -> list[str]:
    pools = "shared" if quota["shared"] else "private"
    used = [_used(quota, what) for what in ("messages", "bytes")]
    counts = (shown(quota["destinations"]), shown(quota["blocked_sends"]))
    return [quota["name"], *used, quota["policy"], pools, *counts]


def _used(quota: Mapping[str, Any], what: str) -> str:
    """What is used of how much: 3 of 10, or 3 where there is no limit."""
    used, maximum = quota[f"{what}_used"], quota[f"{what}_maximum"]
    return shown(used) if maximum < 0 else f"{shown(used)} of {shown(maximum)}"
