"""What the commands that list and create things of a running broker share."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click

from postroom.cli.common.broker_connection import connected, setting, shown
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


def alter(kind: str, name: str, settings: Iterable[str], url: str, as_json: bool) -> None:
    """Give ``name`` of type ``kind`` other ``settings`` (KEY=VALUE), and say which were others."""
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
        click.echo(f"{name} is in the configuration, too: the next start takes what stands there", err=True)


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


def create(kind: str, name: str, settings: Iterable[str], url: str, as_json: bool) -> None:
    """Create ``name`` of type ``kind`` with ``settings`` (KEY=VALUE), and say so."""
    attributes = dict(setting(text) for text in settings)
    with connected(url) as connection:
        created = connection.create_management().create(kind, name, attributes)
    click.echo(json.dumps(created, default=str) if as_json else f"created {name}")
