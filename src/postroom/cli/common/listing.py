"""What the commands that list things of a running broker share."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click

from postroom.cli.common.broker_connection import shown
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
