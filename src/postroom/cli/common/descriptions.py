"""`queue show`, `topic show` and `subscription show`: settings, pauses, counters, holders or subscriptions of
one of them, short and wide."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.switches import SWITCHES, show_counters
from postroom.cli.common.tables import age_s, moment, new_table, show_list, show_table, shown
from postroom.client import JMSSecurityException, ManagementClient
from postroom.manager.kernel.options import QUEUE_SETTINGS, QueueDefinition
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE, QUEUE_TYPE, SUBSCRIPTION_TYPE, TOPIC_TYPE

_DEFAULTS: Final = QueueDefinition(name="").to_record()
"""Of a queue, but for those that the broker's configuration says."""
_FLAGS: Final = ("auto_created", "temporary", "dynamic", "durable")
_SOURCES: Final = {
    QUEUE_TYPE: "by management",
    TOPIC_TYPE: "by the configuration or management",
    SUBSCRIPTION_TYPE: "as its topic had it, or by management",
}
"""Who has said what nothing else tells of."""
_WHO: Final = ("name", "confirm_id", "lock_id", "container_id", "user")
"""What says who a holder is, where it has it."""
_SUBSCRIBED: Final = (
    ("name", "subscription"),
    ("messages_current", "current"),
    ("messages_pending", "pending"),
    ("consumers", "consumers"),
)
"""What is shown of the subscriptions to a topic."""


def show_command(kind: str, what: str) -> click.Command:
    """The command about a thing of type ``kind``, called ``what``."""

    more = "subscriptions" if kind == TOPIC_TYPE else "holders"

    @click.command("show", help=f"Show the settings, pauses, counters and {more} of the {what} NAME.")
    @click.argument("name")
    @click.option(
        "--wide",
        "is_wide",
        is_flag=True,
        help="Settings that are as by default, and counters that are 0, too.",
    )
    @url_option
    @json_option
    def command(name: str, is_wide: bool, url: str, as_json: bool) -> None:
        with connected(url, name) as connection:
            management = connection.create_management()
            found = management.read(kind, name)
            configured: object = {}
            with suppress(JMSSecurityException):
                configured = management.read(BROKER_TYPE, BROKER_NAME)["queue_defaults"]
            held = _held(management, kind, name)
        assert isinstance(configured, dict)
        defaults = {**_DEFAULTS, **configured}
        if as_json:
            click.echo(json.dumps(_as_json(found, held, defaults), default=str))
        else:
            _show(found, held, defaults, is_wide)

    return command


def _held(management: ManagementClient, kind: str, name: str) -> dict[str, Any]:
    """Who holds something of it; of a topic the subscriptions to just this name."""
    if kind != TOPIC_TYPE:
        return management.request("HOLDERS", kind=kind, name=name).attributes()
    rows = management.query(SUBSCRIPTION_TYPE, ("topic", *(attribute for attribute, _ in _SUBSCRIBED)))
    return {"subscribed": [row for row in rows if row["topic"] == name]}


def _altered(found: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    return [name for name in QUEUE_SETTINGS if found[name] != defaults[name]]


def _as_json(
    found: Mapping[str, Any], held: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "name": found["name"],
        **{flag: found[flag] for flag in _FLAGS if flag in found},
        "settings": {name: found[name] for name in QUEUE_SETTINGS},
        "not_default": _altered(found, defaults),
        "sources": {name: _source(found, name) for name in _altered(found, defaults)},
        "paused": [switch for switch in SWITCHES if found[f"{switch}_paused"]],
        "counters": _counters(found),
        **held,
    }


def _show(
    found: Mapping[str, Any], held: Mapping[str, Any], defaults: Mapping[str, Any], is_wide: bool
) -> None:
    click.echo(found["name"])
    for flag in _FLAGS:
        if found.get(flag):
            click.echo(flag.replace("_", " "))
    altered = _altered(found, defaults)
    click.echo("settings:" if altered or is_wide else "settings: as by default")
    for name in QUEUE_SETTINGS if is_wide else altered:
        default = f"  (default: {_text(defaults[name])}; {_source(found, name)})" if name in altered else ""
        click.echo(f"  {name}: {_text(found[name])}{default}")
    if is_wide:
        _show_every_counter(found)
    else:
        show_counters(found)
    if "subscribed" in held:
        show_list(held["subscribed"], _SUBSCRIBED, False)
    else:
        _show_holders(held["holders"], bool(held["more"]))


def _counters(found: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: value
        for name, value in found.items()
        if name not in _DEFAULTS and isinstance(value, int) and not isinstance(value, bool)
    }


def _show_every_counter(found: Mapping[str, Any]) -> None:
    click.echo("counters:")
    for name, value in _counters(found).items():
        click.echo(f"  {name}: {moment(value) if name.endswith('_us') else shown(value)}")
    paused = [switch for switch in SWITCHES if found[f"{switch}_paused"]]
    click.echo(f"paused: {', '.join(paused) or 'nothing'}")


def _source(found: Mapping[str, Any], name: str) -> str:
    """Who has said that a setting is not as by default."""
    if name in found.get("unlike_configuration", ()):
        return "by management, until the next start"
    if found.get("configured"):
        return "by the configuration"
    if found.get("auto_created"):
        return "as when it was made by attaching"
    return _SOURCES[str(found["type"])]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _show_holders(holders: Sequence[Mapping[str, Any]], more: bool) -> None:
    if not holders:
        click.echo("nobody holds or consumes anything")
        return
    table = new_table("held by", "messages", "for", "who", numbers=("messages", "for"))
    for each in holders:
        who = ", ".join(f"{key.removesuffix('_id')} {each[key]}" for key in _WHO if each.get(key))
        since = f"{age_s(each['since_us']):,} s" if each.get("since_us") else ""
        table.add_row(each["held_by"].replace("_", " "), shown(each["messages"]), since, who)
    show_table(table)
    if more:
        click.echo("there are more holders or messages than are looked at")
