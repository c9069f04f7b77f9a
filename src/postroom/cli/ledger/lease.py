"""`postroom ledger lease`: what readers of a running broker's ledger have been promised to find."""

import json
from datetime import UTC, datetime
from typing import Any

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import given
from postroom.cli.common.tables import show_rows
from postroom.cli.groups import number_option
from postroom.model.entity_types import LEASE_TYPE

position_option = number_option(
    "--position", least=0, metavar="POSITION", help="The first position that stays; 0: the oldest."
)
duration_option = number_option("--duration-s", metavar="SECONDS", help="How long it lasts without renewal.")
max_bytes_option = number_option(
    "--max-bytes", metavar="BYTES", help="It is broken if it keeps more than this."
)


@click.group(cls=BrokerGroup, names=LEASE_TYPE)
def lease() -> None:
    """Leases of readers: history that stays until they have read it, within bounds."""


@lease.command("list")
@url_option
@json_option
def list_leases(url: str, as_json: bool) -> None:
    """List the leases, broken ones too."""
    with connected(url) as connection:
        leases = connection.create_management().query(LEASE_TYPE)
    columns = ("lease", "owner", "from", "keeps", "queues", "bytes held", "state")
    show_rows(leases, columns, _cells, as_json, ("from", "bytes held"))


@lease.command("grant")
@click.argument("name")
@click.option("--owner", metavar="TEXT", help="Whose it is; the user's name unless given.")
@position_option
@click.option("--bodies", is_flag=True, help="Keep the bodies of messages that have ended, too.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="QUEUE",
    help="Keep bodies, and store those of non-persistent messages to this queue, too; again for each.",
)
@duration_option
@max_bytes_option
@url_option
@json_option
def grant_lease(
    name: str,
    owner: str | None,
    position: int | None,
    bodies: bool,
    queues: tuple[str, ...],
    duration_s: int | None,
    max_bytes: int | None,
    url: str,
    as_json: bool,
) -> None:
    """Grant the lease NAME: what comes from now on stays, or what is at POSITION and behind."""
    settings = {
        "owner": owner,
        "position": position,
        "bodies": bodies or None,
        "queues": list(queues) or None,
        "duration_s": duration_s,
        "max_bytes": max_bytes,
    }
    with connected(url) as connection:
        granted = connection.create_management().create(LEASE_TYPE, name, given(settings))
    _show_lease("granted", granted, as_json)


@lease.command("renew")
@click.argument("name")
@position_option
@duration_option
@max_bytes_option
@url_option
@json_option
def renew_lease(
    name: str,
    position: int | None,
    duration_s: int | None,
    max_bytes: int | None,
    url: str,
    as_json: bool,
) -> None:
    """Begin the time of the lease NAME anew, and let go what is before POSITION."""
    settings = {"position": position, "duration_s": duration_s, "max_bytes": max_bytes}
    with connected(url) as connection:
        renewed = connection.create_management().update(LEASE_TYPE, name, given(settings))
    _show_lease("renewed", renewed, as_json)


@lease.command("release")
@click.argument("name")
@url_option
def release_lease(name: str, url: str) -> None:
    """End the lease NAME; one that was broken is forgotten."""
    with connected(url) as connection:
        connection.create_management().delete(LEASE_TYPE, name)
    click.echo(f"released {name}")


def _show_lease(done: str, lease: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(lease))
        return
    until = _time(lease["expires_us"])
    click.echo(f"{done} {lease['name']}: from position {lease['position']:,} on, until {until}")


def _cells(lease: dict[str, Any]) -> list[str]:
    keeps = "bodies too" if lease["bodies"] else "events"
    what = (f"{lease['position']:,}", keeps, ", ".join(lease["queues"]), f"{lease['held_bytes']:,}")
    return [lease["name"], lease["owner"], *what, _state(lease)]


def _state(lease: dict[str, Any]) -> str:
    if not lease["reason"]:
        return f"in force until {_time(lease['expires_us'])}"
    text = f"broken ({lease['reason']}) {_time(lease['broken_us'])} at {lease['broken_position']:,}"
    if lease["missing_last"]:
        text += f", missing {lease['missing_first']:,}–{lease['missing_last']:,}"
    return text


def _time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
