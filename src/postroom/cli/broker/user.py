"""`postroom user`: passwords for the configuration."""

import sys

import click

from postroom.cli.groups import Group
from postroom.server.configuration.passwords import hash_password


@click.group(cls=Group)
def user() -> None:
    """Users of a broker."""


@user.command("hash")
@click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read the password from the first line of standard input."
)
def hash_command(from_stdin: bool) -> None:
    """Ask for a password and print its hash, for `[users]` in the configuration."""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        raise click.ClickException("the password is empty")
    click.echo(hash_password(password))
