"""What the commands that start Spark share: options, the session, errors in one line."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from postroom.cli.common.options import spark_extra
from postroom.cli.groups import number_option
from postroom.ledger.errors import LedgerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_CORES: Final = 2

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that spark-submit sets: there is a session already."""

ledgers_option = click.option(
    "--data",
    multiple=True,
    metavar="URI",
    help="A ledger: the broker's folder, http(s)://BROKER, store:URI. Again for each queue manager.",
)
cores_option = number_option("--cores", default=DEFAULT_CORES, show_default=True, help="Of the local Spark.")


def absolute(uri: str) -> str:
    """A path as it is from anywhere: executors have another working directory."""
    return uri if ":" in uri else str(Path(uri).resolve())


@contextmanager
def spark_session(
    name: str, cores: int, is_short: bool, log_level: str = "ERROR"
) -> Iterator["SparkSession"]:
    """The session that spark-submit brings, or a local one; `is_short`: for few rows."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from postroom.spark.session import local_session

    if SUBMITTED in os.environ:
        spark = SparkSession.builder.appName(name).getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        yield spark
        return
    with tempfile.TemporaryDirectory(prefix="postroom-spark-", ignore_cleanup_errors=True) as scratch:
        spark = local_session(name, cores, Path(scratch), is_short)
        spark.sparkContext.setLogLevel(log_level)
        try:
            yield spark
        finally:
            with suppress(PySparkException):
                spark.stop()


class _Failed(click.ClickException):
    """An error in one line, with the exit code that it asks for."""

    exit_code: int  # type: ignore[misc]

    def __init__(self, error: Exception, text: str, code: int) -> None:
        super().__init__(text or type(error).__name__)
        self.exit_code = code


def _one(error: Exception) -> int:
    return 1


def in_one_line(error: Exception) -> str:
    """What an error says, in one line."""
    return cause_of(str(error))


@contextmanager
def spark_errors(
    exit_code_of: Callable[[Exception], int] = _one, text_of: Callable[[Exception], str] = in_one_line
) -> Iterator[None]:
    """What a ledger, a table or Spark refuses, as a text with its exit code."""
    with spark_extra():
        from pyspark.errors import PySparkException
    try:
        yield
    except (LedgerError, OSError, PySparkException) as error:
        raise _Failed(error, text_of(error), exit_code_of(error)) from error


_RAISED: Final = re.compile(r"^(?:postroom\.[\w.]+|\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
"""The end of a Python traceback, which Spark puts into the middle of its own words."""


def cause_of(text: str) -> str:
    """The one line of an error's text that tells why: of a task's failure, what was raised in the task."""
    raised = _RAISED.findall(text)
    return str(raised[-1]) if raised else text.strip().split("\n", 1)[0]
