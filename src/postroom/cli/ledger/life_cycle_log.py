"""`postroom ledger log`: the life-cycle log of messages, from the ledger."""

import json
import time
from pathlib import Path
from typing import Final

import click

from postroom.cli.common.options import data_option, json_option, one_line_errors
from postroom.ledger.reading.message_log import LogRecord, MessageLog
from postroom.ledger.reading.reader import LedgerReader

FOLLOW_S: Final = 1.0
"""How often `--follow` looks for more."""


@click.command("log")
@data_option
@json_option
@click.option(
    "--queue", "names", multiple=True, metavar="NAME", help="Only this destination; may be repeated."
)
@click.option("--from", "first", type=click.IntRange(min=1), metavar="POSITION", help="Begin here.")
@click.option("--follow", is_flag=True, help="Go on with what is written from now on, until interrupted.")
def log_command(folder: Path, as_json: bool, names: tuple[str, ...], first: int | None, follow: bool) -> None:
    """What happened to messages, one event a line, with the fields of WebLogic's message life-cycle log."""
    log = MessageLog(lambda definition, _: not names or definition.get("name") in names)
    with one_line_errors():
        position = first or 1
        while True:
            reader = LedgerReader(folder)
            for record in log.records(reader, max(position, reader.first_position), reader.durable_through):
                click.echo(_line(record, as_json))
            position = reader.durable_through + 1
            if not follow:
                return
            time.sleep(FOLLOW_S)


def _line(record: LogRecord, as_json: bool) -> str:
    return json.dumps(record.fields(), ensure_ascii=False) if as_json else record.text()
