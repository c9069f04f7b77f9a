"""`list`, `create`, `alter` and `delete`: the same for queues, topics, quotas, all that has a definition."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import (
    connected,
    json_option,
    setting,
    settings_option,
    url_option,
    wide_option,
)
from postroom.cli.common.tables import Rows, by_name, show_json, show_list, show_one
from postroom.model.entity_types import QUEUE_TYPE, SUBSCRIPTION_TYPE, TOPIC_TYPE

_ADDRESSED: Final = (QUEUE_TYPE, TOPIC_TYPE, SUBSCRIPTION_TYPE)
"""Where there is none of a name, names like it are told."""


def add_list(
    group: click.Group,
    kind: str,
    listed: Sequence[tuple[str, str]],
    what: str,
    all_help: str = "",
    wide: Sequence[tuple[str, str]] = (),
) -> None:
    """Give ``group`` the command that lists the things of type ``kind``, which are called ``what``, with the
    attributes ``listed``; with ``--wide`` those of ``wide``, too. ``all_help``, of ``--all``: those that
    clients have had made are one line else."""

    @group.command("list", help=f"List the {what}, or those whose name begins with PREFIX.")
    @click.argument("prefix", default="")
    @wide_option
    @url_option
    @json_option
    def command(prefix: str, is_wide: bool, url: str, as_json: bool, every: bool = True) -> None:
        with connected(url) as connection:
            found = connection.create_management().query(kind)
        wanted = by_name(each for each in found if str(each["name"]).startswith(prefix))
        columns = [*listed, *(wide if is_wide else ())]
        if every:
            show_list(wanted, columns, as_json)
        elif as_json:
            show_json(each for each in wanted if not each["dynamic"])
        else:
            show_list(_fold_dynamic(wanted, columns, what), columns, as_json)

    if all_help:
        command.params.insert(1, click.Option(["--all", "every"], is_flag=True, help=all_help))


def _fold_dynamic(rows: Rows, listed: Sequence[tuple[str, str]], what: str) -> list[Mapping[str, Any]]:
    """The rows by name, with those that clients have had made for themselves as one, behind the others."""
    named = by_name(each for each in rows if not each["dynamic"])
    dynamic = [each for each in rows if each["dynamic"]]
    if not dynamic:
        return named
    numbers = [attribute for attribute, _ in listed if _is_number(dynamic[0][attribute])]
    sums = {attribute: sum(each[attribute] for each in dynamic) for attribute in numbers}
    return [*named, {"name": f"{len(dynamic):,} dynamic {what} (--all)", **sums}]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def add_show(group: click.Group, kind: str, text: str, hidden: Container[str] = ("identity", "type")) -> None:
    """Give ``group`` the command that shows what is known of a thing of type ``kind``, but for ``hidden``."""

    @group.command("show", help=text)
    @click.argument("name")
    @url_option
    @json_option
    def command(name: str, url: str, as_json: bool) -> None:
        with connected(url) as connection:
            row = connection.create_management().read(kind, name)
        show_one(row, as_json, hidden)


def add_create(group: click.Group, kind: str, text: str, verb: str = "create") -> None:
    """Give ``group`` the command that creates a thing of type ``kind``."""

    @group.command(verb, help=text)
    @click.argument("name")
    @settings_option
    @url_option
    @json_option
    def command(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
        create(kind, name, settings, url, as_json)


def create(kind: str, name: str, settings: Iterable[str], url: str, as_json: bool) -> None:
    """Create ``name`` of type ``kind`` with ``settings`` (KEY=VALUE), and say so."""
    attributes = dict(setting(text) for text in settings)
    with connected(url) as connection:
        created = connection.create_management().create(kind, name, attributes)
    click.echo(json.dumps(created, default=str) if as_json else f"created {name}")


def add_alter(group: click.Group, kind: str, text: str) -> None:
    """Give ``group`` the command that changes settings of a thing of type ``kind``, and says which were
    others."""

    @group.command("alter", help=text)
    @click.argument("name")
    @settings_option
    @url_option
    @json_option
    def command(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
        attributes = dict(setting(text) for text in settings)
        if not attributes:
            raise click.UsageError("say what is to change: --set KEY=VALUE")
        with connected(url, name) as connection:
            management = connection.create_management()
            before = management.read(kind, name)
            altered = management.update(kind, name, attributes)
        click.echo(
            json.dumps(altered, default=str) if as_json else _alteration(name, attributes, before, altered)
        )
        others = altered.get("unlike_configuration")
        if isinstance(others, list) and any(key in others for key in attributes):
            click.echo(
                f"{name} is in the configuration, too: the next start takes what stands there", err=True
            )


def _alteration(
    name: str, keys: Iterable[str], before: Mapping[str, object], after: Mapping[str, object]
) -> str:
    changes = [
        f"{key} {_as_json(before.get(key))} → {_as_json(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key)
    ]
    if changes:
        return f"altered {name}: {', '.join(changes)}"
    return f"{name} is so already: {', '.join(f'{key} {_as_json(after.get(key))}' for key in keys)}"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def add_delete(group: click.Group, kind: str, text: str, **conditions: str) -> None:
    """Give ``group`` the command that deletes a thing of type ``kind``. ``conditions`` are properties of the
    request, each a flag with its help."""

    @group.command("delete", help=text)
    @click.argument("name")
    @url_option
    def command(name: str, url: str, **given: bool) -> None:
        with connected(url, name if kind in _ADDRESSED else "") as connection:
            properties = {flag.replace("_", "-"): value for flag, value in given.items()}
            connection.create_management().delete(kind, name, properties)
        click.echo(f"deleted {name}")

    flags = [
        click.Option([f"--{flag.replace('_', '-')}"], is_flag=True, help=help)
        for flag, help in conditions.items()
    ]
    command.params[1:1] = flags


def given(settings: Mapping[str, object]) -> dict[str, object]:
    """Those that the command line says."""
    return {key: value for key, value in settings.items() if value is not None}
