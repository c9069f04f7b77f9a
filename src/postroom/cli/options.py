"""What the commands that read a ledger folder share: options, and errors in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from postroom.ledger.errors import LedgerError

data_option = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("postroom-data"),
    show_default=True,
    metavar="FOLDER",
    help="The broker's data folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What a ledger refuses, as one line and exit code 1."""
    try:
        yield
    except BrokenPipeError:  # `… dump | head`: click ends quietly
        raise
    except (LedgerError, OSError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def spark_extra() -> Iterator[None]:
    """Imports of the Spark room: what is not installed is said in one line."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed: pip install 'postroom[spark]'") from error
