"""What the commands about things of a running broker share: to create, alter, delete, list and show them."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click

from postroom.cli.common.broker_connection import (
    connected,
    json_option,
    setting,
    settings_option,
    shown,
    url_option,
)
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.common.times import moment

Rows = Iterable[Mapping[str, Any]]


def by_name(rows: Rows) -> list[Mapping[str, Any]]:
    """The rows in order of their names."""
    return sorted(rows, key=lambda each: str(each["name"]))


def show_json(rows: Rows) -> None:
    """An object a line."""
    for each in rows:
        click.echo(json.dumps(each, default=str))


def show_list(rows: Rows, listed: Sequence[tuple[str, str]], as_json: bool) -> None:
    """The rows as a table of the attributes ``listed``, each with the head of its column; or all as JSON."""
    if as_json:
        show_json(rows)
        return
    heads = tuple(head for _, head in listed)
    table = new_table(*heads, numbers=heads[1:])
    for each in rows:
        table.add_row(*(shown(each.get(attribute)) for attribute, _ in listed))
    show_table(table)


def fold_dynamic(rows: Rows, listed: Sequence[tuple[str, str]], what: str) -> list[Mapping[str, Any]]:
    """The rows by name, with those that clients have had made for themselves as one, behind the others."""
    named = by_name(each for each in rows if not each["dynamic"])
    dynamic = [each for each in rows if each["dynamic"]]
    if not dynamic:
        return named
    sums = {attribute: sum(each[attribute] for each in dynamic) for attribute, _ in listed[1:]}
    return [*named, {"name": f"{len(dynamic):,} dynamic {what} (--all)", **sums}]


def show_one(row: Mapping[str, Any], hidden: Container[str]) -> None:
    """Its attributes but for ``hidden``, one a line."""
    for key, value in row.items():
        if key not in hidden:
            click.echo(f"{key}: {moment(int(value)) if key.endswith('_us') else shown(value)}")


def add_create(group: click.Group, kind: str, text: str, verb: str = "create") -> None:
    """Give ``group`` the command that makes a thing of type ``kind``; ``text`` is its help, as for those
    below."""

    @group.command(verb, help=text)
    @click.argument("name")
    @settings_option
    @url_option
    @json_option
    def command(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
        create(kind, name, settings, url, as_json)


def add_alter(group: click.Group, kind: str, text: str) -> None:
    """The command that gives one other settings, and says which were others."""

    @group.command("alter", help=text)
    @click.argument("name")
    @settings_option
    @url_option
    @json_option
    def command(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
        attributes = dict(setting(each) for each in settings)
        if not attributes:
            raise click.UsageError("say what is to change: --set KEY=VALUE")
        with connected(url, name) as connection:
            management = connection.create_management()
            before = management.read(kind, name)
            altered = management.update(kind, name, attributes)
        said = json.dumps(altered, default=str) if as_json else _alteration(name, attributes, before, altered)
        click.echo(said)
        others = altered.get("unlike_configuration")
        if isinstance(others, list) and any(key in others for key in attributes):
            click.echo(
                f"{name} is in the configuration, too: the next start takes what stands there", err=True
            )


def add_delete(group: click.Group, kind: str, text: str, **flags: str) -> None:
    """The command that deletes one; ``flags`` go with the request, each with its help."""

    def command(name: str, url: str, **said: bool) -> None:
        with connected(url, name) as connection:
            conditions = {flag.replace("_", "-"): value for flag, value in said.items()}
            connection.create_management().delete(kind, name, conditions)
        click.echo(f"deleted {name}")

    made = url_option(command)
    for flag in reversed(flags):
        made = click.option(f"--{flag.replace('_', '-')}", is_flag=True, help=flags[flag])(made)
    group.command("delete", help=text)(click.argument("name")(made))


def add_list(group: click.Group, kind: str, listed: Sequence[tuple[str, str]], text: str) -> None:
    """The command that lists them, or those whose name begins so."""

    @group.command("list", help=text)
    @click.argument("prefix", default="")
    @url_option
    @json_option
    def command(prefix: str, url: str, as_json: bool) -> None:
        show_list(by_name(named(kind, prefix, url)), listed, as_json)


def add_dynamic_list(
    group: click.Group, kind: str, listed: Sequence[tuple[str, str]], what: str, text: str, every_text: str
) -> None:
    """The same of things that clients have made for themselves, too: ``what`` they are. All those are one
    row, unless each is asked for."""

    @group.command("list", help=text)
    @click.argument("prefix", default="")
    @click.option("--all", "every", is_flag=True, help=every_text)
    @url_option
    @json_option
    def command(prefix: str, every: bool, url: str, as_json: bool) -> None:
        wanted = named(kind, prefix, url)
        if every:
            show_list(by_name(wanted), listed, as_json)
        elif as_json:
            show_json(by_name(each for each in wanted if not each["dynamic"]))
        else:
            show_list(fold_dynamic(wanted, listed, what), listed, as_json)


def named(kind: str, prefix: str, url: str) -> list[Mapping[str, Any]]:
    """What there is of a type whose name begins so."""
    with connected(url) as connection:
        found = connection.create_management().query(kind)
    return [each for each in found if str(each["name"]).startswith(prefix)]


def _alteration(
    name: str, keys: Iterable[str], before: Mapping[str, object], after: Mapping[str, object]
) -> str:
    changes = [
        f"{key} {_as_said(before.get(key))} → {_as_said(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key)
    ]
    if changes:
        return f"altered {name}: {', '.join(changes)}"
    return f"{name} is so already: {', '.join(f'{key} {_as_said(after.get(key))}' for key in keys)}"


def _as_said(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def create(kind: str, name: str, settings: Iterable[str], url: str, as_json: bool) -> None:
    """Create ``name`` of type ``kind`` with ``settings`` (KEY=VALUE), and say so."""
    attributes = dict(setting(text) for text in settings)
    with connected(url) as connection:
        created = connection.create_management().create(kind, name, attributes)
    click.echo(json.dumps(created, default=str) if as_json else f"created {name}")
