"""`postroom quota`: list, create, update and delete the quotas of a running broker."""

import json
from typing import Final

import click
from rich.table import Table

from postroom.cli.talk import connected, json_option, output, setting, settings_option, shown, url_option
from postroom.server.management import QUOTA_TYPE

LISTED: Final = (
    ("name", "quota"),
    ("messages_used", "messages"),
    ("messages_maximum", "of at most"),
    ("bytes_used", "bytes"),
    ("bytes_maximum", "of at most"),
    ("policy", "policy"),
    ("shared", "shared"),
    ("destinations", "destinations"),
    ("blocked_sends", "blocked"),
)
"""Attributes that the table shows, and the head of each column."""


@click.group()
def quota() -> None:
    """Quotas of a running broker."""


@quota.command("list")
@url_option
@json_option
def list_quotas(url: str, as_json: bool) -> None:
    """List the quotas, with what is used of each."""
    with connected(url) as connection:
        found = connection.create_management().query(QUOTA_TYPE)
    quotas = sorted(found, key=lambda each: str(each["name"]))
    if as_json:
        for each in quotas:
            click.echo(json.dumps(each, default=str))
        return
    table = Table()
    for attribute, head in LISTED:
        table.add_column(
            head, justify="left" if attribute in ("name", "policy") else "right", overflow="fold"
        )
    for each in quotas:
        table.add_row(*(shown(each.get(attribute)) for attribute, _ in LISTED))
    output.print(table)


@quota.command("create")
@click.argument("name")
@settings_option
@url_option
@json_option
def create_quota(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Create the quota NAME."""
    attributes = dict(setting(text) for text in settings)
    with connected(url) as connection:
        created = connection.create_management().create(QUOTA_TYPE, name, attributes)
    click.echo(json.dumps(created, default=str) if as_json else f"created {name}")


@quota.command("update")
@click.argument("name")
@settings_option
@url_option
@json_option
def update_quota(name: str, settings: tuple[str, ...], url: str, as_json: bool) -> None:
    """Change settings of the quota NAME.

    Raising a maximum lets in sends that wait; lowering it evicts nothing.
    """
    attributes = dict(setting(text) for text in settings)
    with connected(url) as connection:
        updated = connection.create_management().update(QUOTA_TYPE, name, attributes)
    click.echo(json.dumps(updated, default=str) if as_json else f"updated {name}")


@quota.command("delete")
@click.argument("name")
@url_option
def delete_quota(name: str, url: str) -> None:
    """Delete the quota NAME, which no destination may name any more."""
    with connected(url) as connection:
        connection.create_management().delete(QUOTA_TYPE, name)
    click.echo(f"deleted {name}")
