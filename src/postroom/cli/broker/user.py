"""`postroom user`: passwords for the configuration."""

import sys

import click

from postroom.cli.groups import Group
from postroom.server.configuration.passwords import SCHEMES, PasswordHashError, hash_password


@click.group(cls=Group)
def user() -> None:
    """Users of a broker."""


@user.command("hash")
@click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read the password from the first line of standard input."
)
@click.option(
    "--scheme",
    type=click.Choice(SCHEMES, case_sensitive=False),
    default=SCHEMES[0],
    show_default=True,
    help="SCRAM: clients prove that they know the password and never send it; scrypt: for SASL PLAIN alone.",
)
def hash_command(from_stdin: bool, scheme: str) -> None:
    """Ask for a password and print what the broker keeps of it, for `[users]` in the configuration."""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        raise click.ClickException("the password is empty")
    try:
        click.echo(hash_password(password, scheme))
    except PasswordHashError as error:
        raise click.ClickException(str(error)) from error
