"""`postroom status`: how the broker of a folder on this machine is, for people and for probes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from postroom.cli.common.options import data_option, json_option, one_line_errors
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import number_option
from postroom.server.status import ACTIVE, NoStatus, read_status, why_not_ready, why_unhealthy


@click.command()
@data_option
@json_option
@click.option("--ready", is_flag=True, help="Only if it is active, or follows and isn't behind.")
@click.option("--active", is_flag=True, help="Only if it is active: whether clients can connect.")
@number_option(
    "--max-behind",
    "most_behind_s",
    least=0.1,
    fractions=True,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --ready: how old what a follower lacks may be.",
)
def status(folder: Path, as_json: bool, ready: bool, active: bool, most_behind_s: float) -> None:
    """Show how the broker of a data folder on this machine is, for probes, too.

    It is active, following, copying or starting. Exit code 0 if it is well, 1 if it isn't, doesn't answer,
    or is none of what the options want. It needs no port and no sign-in: the broker answers its own user,
    and root, on a local socket.
    """
    with one_line_errors(NoStatus):
        found = read_status(folder)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found)
    why = why_unhealthy(found)
    if ready and not why:
        why = why_not_ready(found, most_behind_s)
    if active and not why and found["state"] != ACTIVE:
        why = f"it is {found['state']}"
    if why:
        raise click.ClickException(f"{folder}: {why}")


def _show(found: dict[str, Any]) -> None:
    for name, value in _lines(found):
        click.echo(f"{name + ':':<16}{value}")
    if found.get("members"):
        behind = ("entries behind", "bytes", "seconds")
        table = new_table("member", "state", *behind, numbers=behind)
        for name, each in found["members"].items():
            lag = (f"{each['entries']:,}", f"{each['size_bytes']:,}", f"{each['seconds']:.0f}")
            table.add_row(name, each["state"], *lag)
        show_table(table)


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    who = f" (member {found['member']})" if "member" in found else ""
    yield "state", f"{found['state']}{who}"
    yield "process", f"{found['pid']}, Postroom {found['version']}"
    if "epoch" in found:
        yield "ledger", f"{found['ledger_id']}, epoch {found['epoch']}"
    if "position" in found:
        yield "position", f"{found['position']:,}"
    if "sequence" in found:
        yield "log", f"entry {found['sequence']:,}"
    if "behind" in found:
        yield "behind", f"{found['behind']:,} entries, {found['behind_s']} s"
        active = " ".join([found["active_member"] or "nobody, as far as was read", *found["active_urls"]])
        yield "active member", active
    if "urls" in found:
        yield "clients at", " ".join(found["urls"])
