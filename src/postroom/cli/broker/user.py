"""`postroom user`, `role`, `grant`, `revoke` and `rights`: who may do what.

Passwords don't leave this process: what goes to the broker is what it keeps of them.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.definitions import add_show, given
from postroom.cli.common.tables import show_rows
from postroom.client import ManagementClient
from postroom.model.entity_types import ROLE_TYPE, USER_TYPE
from postroom.model.rights import QUEUE_MANAGER
from postroom.server.configuration.passwords import (
    SCHEMES,
    SCRAM_MECHANISMS,
    PasswordHashError,
    hash_password,
)

role_option = click.option(
    "--role", "roles", multiple=True, metavar="ROLE", help="Give it this role; again for each."
)
description_option = click.option("--description", metavar="TEXT", help="For people.")
stdin_option = click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read the password from the first line of standard input."
)
to_option = click.option("--to", "name", required=True, metavar="NAME", help="A user or a role.")
from_option = click.option("--from", "name", required=True, metavar="NAME", help="A user or a role.")
on_option = click.option(
    "--on",
    "on",
    metavar="PATTERN",
    help="Destinations: a name, or a pattern with * and, as last level, #.",
)
manager_option = click.option("--on-queue-manager", is_flag=True, help="Rights on the queue manager itself.")


@click.group(cls=BrokerGroup, names=USER_TYPE)
def user() -> None:
    """Users of a running broker."""


@click.group(cls=BrokerGroup, names=ROLE_TYPE)
def role() -> None:
    """Roles of a running broker: rights that users, and other roles, have together."""


def _read_password(from_stdin: bool) -> str:
    if from_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        raise click.ClickException("the password is empty")
    return str(password)


def _hashed(password: str, scheme: str) -> str:
    try:
        return hash_password(password, scheme)
    except PasswordHashError as error:
        raise click.ClickException(str(error)) from error


@user.command("hash")
@stdin_option
@click.option(
    "--scheme",
    type=click.Choice(SCHEMES, case_sensitive=False),
    default=SCHEMES[0],
    show_default=True,
    help="SCRAM: clients prove that they know the password and never send it; scrypt: for SASL PLAIN alone.",
)
def hash_command(from_stdin: bool, scheme: str) -> None:
    """Ask for a password and print what the broker keeps of it, for `[users]` in the configuration."""
    click.echo(_hashed(_read_password(from_stdin), scheme))


@user.command("add")
@click.argument("name")
@role_option
@stdin_option
@click.option("--no-password", is_flag=True, help="Nobody can sign in by it: for `anonymous`.")
@description_option
@url_option
def add_user(
    name: str, roles: tuple[str, ...], from_stdin: bool, no_password: bool, description: str | None, url: str
) -> None:
    """Make the user NAME. The first one must have the role `administrator`: from then on nobody may do what
    nothing grants."""
    settings: dict[str, Any] = given({"roles": list(roles) or None, "description": description})
    if not no_password:
        settings["verifiers"] = _verifiers(from_stdin)
    _add(USER_TYPE, name, settings, url)


def _verifiers(from_stdin: bool) -> list[str]:
    password = _read_password(from_stdin)
    return [_hashed(password, scheme) for scheme in SCRAM_MECHANISMS]


@user.command("password")
@click.argument("name")
@stdin_option
@url_option
def change_password(name: str, from_stdin: bool, url: str) -> None:
    """Give the user NAME another password. Connections that are there stay."""
    _update(name, {"verifiers": _verifiers(from_stdin)}, url)
    click.echo(f"changed the password of {name}")


@user.command("lock")
@click.argument("name")
@url_option
def lock_user(name: str, url: str) -> None:
    """Close the connections of the user NAME, and let it sign in no more."""
    _update(name, {"locked": True}, url)
    click.echo(f"locked {name}")


@user.command("unlock")
@click.argument("name")
@url_option
def unlock_user(name: str, url: str) -> None:
    """Let the user NAME sign in again."""
    _update(name, {"locked": False}, url)
    click.echo(f"unlocked {name}")


@user.command("remove")
@click.argument("name")
@url_option
def remove_user(name: str, url: str) -> None:
    """Forget the user NAME, and close its connections."""
    _remove(USER_TYPE, name, url)


add_show(user, USER_TYPE, "Show the user NAME: roles, grants, how it signs in, how many connections it has.")
add_show(role, ROLE_TYPE, "Show the role NAME: grants, roles that it has, members.")


@user.command("list")
@url_option
@json_option
def list_users(url: str, as_json: bool) -> None:
    """List the users, those of the configuration too."""
    with connected(url) as connection:
        users = connection.create_management().query(USER_TYPE)
    show_rows(users, ("user", "roles", "own grants", "signs in by", "state"), _user_cells, as_json)


def _user_cells(row: Mapping[str, Any]) -> list[str]:
    state = "locked" if row["locked"] else "configured" if row["configured"] else ""
    own = "; ".join(row["grants"])
    return [str(row["name"]), ", ".join(row["roles"]), own, ", ".join(row["signs_in_by"]), state]


@role.command("add")
@click.argument("name")
@role_option
@description_option
@url_option
def add_role(name: str, roles: tuple[str, ...], description: str | None, url: str) -> None:
    """Make the role NAME, without rights of its own yet."""
    settings = given({"roles": list(roles) or None, "description": description})
    _add(ROLE_TYPE, name, settings, url)


@role.command("remove")
@click.argument("name")
@url_option
def remove_role(name: str, url: str) -> None:
    """Forget the role NAME; whoever had it has it no more."""
    _remove(ROLE_TYPE, name, url)


@role.command("list")
@url_option
@json_option
def list_roles(url: str, as_json: bool) -> None:
    """List the roles, those of the configuration too."""
    with connected(url) as connection:
        roles = connection.create_management().query(ROLE_TYPE)
    show_rows(roles, ("role", "grants", "has the roles", "members"), _role_cells, as_json)


def _role_cells(row: Mapping[str, Any]) -> list[str]:
    return [str(row["name"]), "; ".join(row["grants"]), ", ".join(row["roles"]), ", ".join(row["members"])]


@role.command("give")
@click.argument("role_name", metavar="ROLE")
@to_option
@url_option
def give_role(role_name: str, name: str, url: str) -> None:
    """Give ROLE to a user or to another role, at once."""
    _change_roles(role_name, name, True, url)
    click.echo(f"gave {role_name} to {name}")


@role.command("take")
@click.argument("role_name", metavar="ROLE")
@from_option
@url_option
def take_role(role_name: str, name: str, url: str) -> None:
    """Take ROLE from a user or role that has it directly, at once."""
    _change_roles(role_name, name, False, url)
    click.echo(f"took {role_name} from {name}")


def _change_roles(role_name: str, name: str, given_to: bool, url: str) -> None:
    with connected(url) as connection:
        management = connection.create_management()
        kind = _kind_of(management, name)
        before: Any = management.read(kind, name)["roles"]
        roles = [*(each for each in before if each != role_name), *([role_name] if given_to else [])]
        management.update(kind, name, {"roles": roles})


@click.command()
@click.argument("rights")
@on_option
@manager_option
@to_option
@url_option
def grant(rights: str, on: str | None, on_queue_manager: bool, name: str, url: str) -> None:
    """Grant RIGHTS (`put,get`, or `all`) to a user or a role, at once."""
    _change("GRANT", rights, on, on_queue_manager, name, url)
    click.echo(f"granted {rights} on {_object(on, on_queue_manager)} to {name}")


@click.command()
@click.argument("rights")
@on_option
@manager_option
@from_option
@url_option
def revoke(rights: str, on: str | None, on_queue_manager: bool, name: str, url: str) -> None:
    """Take RIGHTS that were granted on just that from a user or a role: links that needed them end."""
    _change("REVOKE", rights, on, on_queue_manager, name, url)
    click.echo(f"revoked {rights} on {_object(on, on_queue_manager)} from {name}")


@click.command()
@click.argument("name")
@url_option
@json_option
def rights(name: str, url: str, as_json: bool) -> None:
    """Show what the user or role NAME may do, and by which roles."""
    with connected(url) as connection:
        management = connection.create_management()
        kind = _kind_of(management, name)
        found: dict[str, Any] = dict(management.read(kind, name))
    if as_json:
        click.echo(json.dumps(found))
        return
    every = found["every_grant"] if kind == USER_TYPE else found["grants"]
    click.echo(f"{name}{_by(found['every_role'])}")
    for text in every or ["nothing"]:
        click.echo(f"  {text}")


def _by(roles: list[str]) -> str:
    return f", by {', '.join(roles)}" if roles else ""


def _object(on: str | None, on_queue_manager: bool) -> str:
    if on_queue_manager == (on is not None):
        raise click.UsageError("say what the rights are on: --on PATTERN, or --on-queue-manager")
    return QUEUE_MANAGER if on is None else on


def _change(operation: str, rights: str, on: str | None, on_queue_manager: bool, name: str, url: str) -> None:
    body = {"rights": [each.strip() for each in rights.split(",")], "on": _object(on, on_queue_manager)}
    with connected(url) as connection:
        management = connection.create_management()
        management.request(operation, kind=_kind_of(management, name), name=name, body=body)


def _kind_of(management: ManagementClient, name: str) -> str:
    """Whether a user or a role has that name."""
    roles = management.query(ROLE_TYPE)
    return ROLE_TYPE if any(row["name"] == name for row in roles) else USER_TYPE


def _add(kind: str, name: str, settings: Mapping[str, Any], url: str) -> None:
    with connected(url) as connection:
        connection.create_management().create(kind, name, settings)
    click.echo(f"added {name}")


def _update(name: str, settings: Mapping[str, Any], url: str) -> None:
    """Change a user."""
    with connected(url) as connection:
        connection.create_management().update(USER_TYPE, name, settings)


def _remove(kind: str, name: str, url: str) -> None:
    with connected(url) as connection:
        connection.create_management().delete(kind, name)
    click.echo(f"removed {name}")
