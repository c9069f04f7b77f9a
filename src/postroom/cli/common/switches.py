"""`pause`, `resume` and `stats` of queues, topics and subscriptions: the same for all three."""

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.tables import moment, new_table, show_table, shown
from postroom.model.entity_types import BROKER_TYPE

SWITCHES: Final = ("production", "insertion", "consumption")

CAUSES: Final = (
    *("unacknowledged", "unborn", "uncommitted_put", "uncommitted_get"),
    *("redelivery_delay", "browse_locked", "paused", "ordered"),
)
"""Why messages are pending; their counters are named after it."""


def add_switches(group: click.Group, kind: str, what: str) -> None:
    """Give ``group``, about things of type ``kind``, these commands; ``what`` is their name."""
    pause = _turning("pause", kind, f"Pause production, insertion or consumption of a {what}.")
    group.add_command(_durable_option(pause))
    group.add_command(_turning("resume", kind, f"Lift a pause of a {what}."))
    group.add_command(_stats(kind, f"Show the counters of a {what}."))


def _turning(verb: str, kind: str, text: str) -> click.Command:
    @click.command(verb, help=text)
    @click.argument("name")
    @click.argument("switch", type=click.Choice(SWITCHES), default="consumption")
    @url_option
    @json_option
    def command(name: str, switch: str, url: str, as_json: bool, durable: bool = False) -> None:
        arguments = {"switch": switch, "durable": durable}
        with connected(url, name) as connection:
            reply = connection.create_management().request(
                verb.upper(), kind=kind, name=name, properties=arguments
            )
        click.echo(json.dumps(reply.attributes()) if as_json else f"{verb}d {switch} of {name}")

    return command


_durable_option: Final = click.option(
    "--durable", is_flag=True, help="Beyond a restart, until it is resumed."
)


def _stats(kind: str, text: str) -> click.Command:
    @click.command("stats", help=text)
    @click.argument("name")
    @click.option("--reset", is_flag=True, help="Begin those anew that run since the start.")
    @url_option
    @json_option
    def command(name: str, reset: bool, url: str, as_json: bool) -> None:
        show_statistics(kind, name, reset, url, as_json)

    return command


def show_statistics(kind: str, name: str, reset: bool, url: str, as_json: bool, *more: str) -> None:
    """The counters of a destination or the broker, ``more`` of them too; with ``reset`` they begin anew."""
    with connected(url, name if kind != BROKER_TYPE else "") as connection:
        management = connection.create_management()
        counters = management.read(kind, name)
        if reset:
            management.request("RESET-STATISTICS", kind=kind, name=name)
    if as_json:
        click.echo(json.dumps(counters, default=str))
        return
    show_counters(counters)
    for each in more:
        click.echo(f"{each.replace('_', ' ')}: {shown(counters[each])}")


def show_counters(counters: Mapping[str, Any]) -> None:
    """The counters of a destination, or of all, for people: only those that say something."""
    table = new_table("", "messages", "bytes", numbers=("messages", "bytes"))
    rows = ("current", "pending", *(f"  {cause}" for cause in CAUSES), "high", "received", "ended")
    for row in rows:
        values = [counters.get(f"{unit}_{row.strip()}", 0) for unit in ("messages", "bytes")]
        if row.startswith(" ") and not any(values):
            continue
        table.add_row(row, *map(shown, values))
    show_table(table)
    _show_beginning(counters)
    rest = [
        name
        for name, value in counters.items()
        if name.startswith(("messages_", "consumers", "blocked")) and value and name.partition("_")[2]
    ]
    done = {*("messages_current", "messages_pending", "messages_high", "messages_received", "messages_ended")}
    done |= {f"messages_{cause}" for cause in (*CAUSES, "current_then", "pending_then")}
    for name in rest:
        if name not in done and isinstance(counters[name], int) and counters[name] > 0:
            click.echo(f"{name.replace('_', ' ')}: {shown(counters[name])}")
    for switch in SWITCHES:
        if counters.get(f"{switch}_paused"):
            durably = switch in str(counters.get("durably_paused", "")).split()
            click.echo(f"{switch} is paused" + ", also after a restart" * durably)


def _show_beginning(counters: Mapping[str, Any]) -> None:
    """Since when received and ended count, and what was there then: with that the counters balance."""
    since_us = int(counters.get("counting_since_us") or 0)
    if not since_us or "messages_current_then" not in counters:
        return
    then = [f"{shown(counters[f'messages_{what}_then'])} {what}" for what in ("current", "pending")]
    size = counters["bytes_current_then"] + counters["bytes_pending_then"]
    click.echo(
        f"counting since {moment(since_us)}, when there were {' and '.join(then)} ({shown(size)} bytes)"
    )
