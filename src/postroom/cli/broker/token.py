"""`postroom token`: who may read the broker's ledger and metrics over HTTP."""

import json
import time
from pathlib import Path

import click

from postroom.cli.common.options import data_option, json_option, one_line_errors
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import Group, number_option
from postroom.ledger.reading.dump import iso
from postroom.server.http.tokens import (
    TOKENS_NAME,
    Right,
    Token,
    TokensError,
    add_token,
    read_tokens,
    remove_token,
)

DAY_S = 86_400

file_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file of tokens, where the configuration has http.tokens; else it is in the data folder.",
)


@click.group(cls=Group)
def token() -> None:
    """Tokens for reading a broker over HTTP. A change counts at once, without a restart."""


def _place(folder: Path, file: Path | None) -> Path:
    return file if file is not None else folder / TOKENS_NAME


@token.command("add")
@click.argument("name")
@click.option(
    "--right",
    "rights",
    type=click.Choice([right.value for right in Right]),
    multiple=True,
    required=True,
    help="What it opens; may be given more than once.",
)
@click.option(
    "--user",
    default="",
    metavar="NAME",
    help="Whose it is: it opens what that user may read, too. Without users there is no need of one.",
)
@number_option("--days", help="How long it is in force; default: until removed.")
@data_option
@file_option
def add_command(
    name: str, rights: tuple[str, ...], user: str, days: int | None, folder: Path, file: Path | None
) -> None:
    """Make a token and print it. It is shown only now: the file has a hash of it."""
    with one_line_errors(TokensError):
        wanted = [Right(right) for right in rights]
        made = add_token(_place(folder, file), name, wanted, (days or 0) * DAY_S, user)
    click.echo(made)


@token.command("list")
@data_option
@file_option
@json_option
def list_command(folder: Path, file: Path | None, as_json: bool) -> None:
    """Names, users, rights and ends; no secrets."""
    with one_line_errors(TokensError):
        tokens = read_tokens(_place(folder, file))
    if as_json:
        for each in tokens:
            click.echo(json.dumps(_shown(each)))
        return
    table = new_table("name", "id", "user", "rights", "created", "until")
    now_us = time.time_ns() // 1000
    for each in tokens:
        until = _day(each.expires_us) if each.expires_us else "removed"
        if not each.in_force(now_us):
            until += " (over)"
        table.add_row(each.name, each.id, each.user, ", ".join(each.rights), _day(each.created_us), until)
    show_table(table)


def _day(time_us: int) -> str:
    return iso(time_us)[: len("2026-01-31")]


def _shown(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "id": token.id,
        "user": token.user,
        "rights": list(token.rights),
        "created": iso(token.created_us),
        "expires": iso(token.expires_us) if token.expires_us else None,
    }


@token.command("remove")
@click.argument("name")
@data_option
@file_option
def remove_command(name: str, folder: Path, file: Path | None) -> None:
    """End a token: from the next request on it opens nothing."""
    with one_line_errors(TokensError):
        remove_token(_place(folder, file), name)
