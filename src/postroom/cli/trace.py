"""`postroom trace`: the life of one message, event by event, from the ledger."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from postroom.cli.options import data_option, json_option, one_line_errors
from postroom.cli.talk import EXIT_NOTHING
from postroom.cli.which import id_value
from postroom.ledger.dump import Line
from postroom.ledger.trace import MessageId, TooManyMessages, trace
from postroom.model.codes import IdType

_ULONG_BYTES = 8


@click.command("trace")
@click.argument("message_id", metavar="MESSAGE-ID")
@click.option("--serial", "is_serial", is_flag=True, help="MESSAGE-ID is the message's serial.")
@data_option
@json_option
@click.option(
    "--undecided", is_flag=True, help="Also what is not known to be synced: for a broker that is dead."
)
def trace_command(message_id: str, is_serial: bool, folder: Path, as_json: bool, undecided: bool) -> None:
    """Show what happened to a message, and to what was made of it, from its arrival on.

    Works beside a running broker, too. Exit code 4: the ledger knows no such message (any more).
    """
    wanted = _serial(message_id) if is_serial else _id(message_id)
    shown = 0
    with one_line_errors():
        try:
            for line in trace(folder, wanted, undecided):
                shown += 1
                click.echo(json.dumps(line, ensure_ascii=False) if as_json else as_text(line))
        except TooManyMessages as error:
            raise click.ClickException(str(error)) from error
    if not shown:
        click.echo(f"{folder}: no message {message_id}; history may begin later (retention)", err=True)
        raise SystemExit(EXIT_NOTHING)


def _serial(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise click.BadParameter(f"{text!r} is no serial, a number from 1 on", param_hint="MESSAGE-ID")
    return int(text)


def _id(text: str) -> MessageId:
    value = id_value(text)
    if isinstance(value, UUID):
        return MessageId(value.bytes, IdType.UUID)
    if isinstance(value, int):
        return MessageId(value.to_bytes(_ULONG_BYTES, "big"), IdType.ULONG)
    if isinstance(value, bytes):
        return MessageId(value, IdType.BINARY)
    return MessageId(str(value).encode(), IdType.STRING)


def as_text(line: Line) -> str:
    """One event: when, where, what, by whom, why, and how it ended."""
    rest = dict(line)
    time, position = rest.pop("time"), rest.pop("position")
    place = f"{rest.pop('queue')}/{rest.pop('serial')}"
    words = [f"{time}  {position:>8}  {place}  {rest.pop('event')}: {rest.pop('from')} → {rest.pop('to')}"]
    outcome = rest.pop("outcome", None)
    if outcome not in (None, "none"):
        words.append(f"outcome {outcome}")
    words += _who(rest)
    if "causes" in rest:
        words.append(f"waits: {rest.pop('causes')}" + (f" until {rest.pop('due')}" if "due" in rest else ""))
    words += [f"{name}={_shown(value)}" for name, value in rest.items()]
    return "  ".join(words)


def _who(rest: dict[str, Any]) -> list[str]:
    """Who put it, or holds or held it."""
    user = f" as {rest.pop('user')}" if "user" in rest else ""
    if "producer" in rest:
        return [f"by {rest.pop('producer')}{user}"]
    if "holder_kind" not in rest:
        return []
    name = rest.pop("holder_name", "")
    number = rest.pop("holder", "")
    return [f"{rest.pop('holder_kind')} {number}{f' {name}' if name else ''}{user}"]


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
