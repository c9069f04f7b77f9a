"""What the commands that read a ledger folder share: options, and errors in one line."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from postroom.ledger.errors import LedgerError

if TYPE_CHECKING:
    from postroom.spark.tables.policy import Policy

Command = TypeVar("Command", bound=Callable[..., Any])

TOKEN_VARIABLE: Final = "POSTROOM_TOKEN"
HASH_KEY_VARIABLE: Final = "POSTROOM_HASH_KEY"

data_option = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("postroom-data"),
    show_default=True,
    metavar="FOLDER",
    help="The broker's data folder.",
)
tables_option = click.option(
    "--tables", required=True, metavar="ROOT", help="The folder or URI that the tables are in."
)
personal_option = click.option(
    "--personal",
    multiple=True,
    metavar="COLUMN=keep|hash|drop",
    help="What becomes of a column that may tell of persons; default keep, and drop of user.",
)


def _secret_option(flag: str, name: str, variable: str, what: str) -> Callable[[Command], Command]:
    """A secret from a file or the environment: other users of the machine can see a command line."""

    def read(context: click.Context, parameter: click.Parameter, file: Path | None) -> str:
        if file is None:
            return os.environ.get(variable, "")
        try:
            return file.read_text().strip()
        except OSError as error:
            raise click.ClickException(f"{file}: {error.strerror}") from error

    help = f"File with {what}; default: ${variable}."
    return click.option(flag, name, type=click.Path(path_type=Path), metavar="FILE", callback=read, help=help)


hash_key_option = _secret_option("--hash-key-file", "hash_key", HASH_KEY_VARIABLE, "the key of the hashes")
token_option = _secret_option("--token-file", "token", TOKEN_VARIABLE, "the token that brokers ask for")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")


@contextmanager
def one_line_errors(*others: type[Exception]) -> Iterator[None]:
    """What a ledger refuses, and ``others``, as one line and exit code 1."""
    refusals: tuple[type[Exception], ...] = (LedgerError, OSError, *others)
    try:
        yield
    except BrokenPipeError:  # `… dump | head`: click ends quietly
        raise
    except refusals as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def spark_extra() -> Iterator[None]:
    """Imports of the Spark room: what is not installed is said in one line."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed: pip install 'postroom[spark]'") from error


def policy_of(personal: tuple[str, ...], key: str) -> "Policy":
    """What `personal_option` and `hash_key_option` say. Raises UsageError, ``PolicyError``."""
    from postroom.spark.tables.policy import Policy

    columns = {}
    for one in personal:
        column, equals, action = one.partition("=")
        if not equals:
            raise click.UsageError(f"--personal is COLUMN=keep|hash|drop, not {one!r}")
        columns[column] = action
    return Policy(columns, key.encode())
