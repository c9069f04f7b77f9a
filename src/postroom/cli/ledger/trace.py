"""`postroom trace`: the life of one message, event by event, from a broker's ledger."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import click

from postroom.cli.common.broker_connection import EXIT_NOTHING, connected, json_option, url_option
from postroom.cli.common.message_selection import id_value
from postroom.cli.common.options import one_line_errors
from postroom.client import ManagementClient
from postroom.ledger.reading.dump import Line
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.trace import FolderHistory, MessageId, TooManyMessages, trace_in
from postroom.model.codes import IdType
from postroom.model.entity_types import LEDGER_TYPE

PATIENCE_S: Final = 60.0
"""How much longer than usual one answer may take: others look into the ledger, too."""
MAX_SERIAL: Final = (1 << 63) - 1
_ULONG_BYTES: Final = 8


class Extent(NamedTuple):
    """How far back the ledger goes, and how far it is durable."""

    first_position: int
    durable_through: int


@click.command("trace")
@click.argument("message_id", metavar="MESSAGE-ID")
@click.option("--serial", "is_serial", is_flag=True, help="MESSAGE-ID is the message's serial.")
@url_option
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Read the files in this data folder, and ask no broker: it may be down.",
)
@json_option
@click.option(
    "--undecided",
    is_flag=True,
    help="With --data: also what is not known to be synced, of a broker that is dead.",
)
def trace(
    message_id: str, is_serial: bool, url: str, folder: Path | None, as_json: bool, undecided: bool
) -> None:
    """Show what happened to a message, and to what was made of it, from its arrival on.

    MESSAGE-ID is a string, or ID:AMQP_UUID:…, ID:AMQP_ULONG:…, ID:AMQP_BINARY:… as JMS writes other ids.
    Exit code 4: the ledger knows no such message (any more).
    """
    if undecided and folder is None:
        raise click.UsageError("--undecided is about files: give --data FOLDER, too")
    serial = _serial(message_id) if is_serial else 0
    wanted = serial or id_value(message_id, "MESSAGE-ID")
    shown = 0
    if folder is not None:
        with one_line_errors(TooManyMessages):
            history = FolderHistory(LedgerReader(folder, undecided))
            extent = Extent(history.first_position, history.durable_through)
            for line in trace_in(history, serial or _id(wanted)):
                shown += 1
                _show(line, as_json)
    else:
        with connected(url) as connection:
            remote = RemoteTrace(connection.create_management(), wanted, is_serial)
            for line in remote.lines():
                shown += 1
                _show(line, as_json)
            extent = remote.extent
    if not shown:
        click.echo(_nothing(message_id, serial, extent), err=True)
        raise SystemExit(EXIT_NOTHING)


def _show(line: Line, as_json: bool) -> None:
    click.echo(json.dumps(line, ensure_ascii=False) if as_json else as_text(line))


def _nothing(message_id: str, serial: int, extent: Extent) -> str:
    """Why there is nothing to show."""
    first, last = extent
    if serial and first <= serial <= last:
        return f"position {serial} is no message: the record there is of another kind"
    if serial > last:
        return f"there is no message {serial} yet: the ledger ends at position {last}"
    what = f"no message {message_id} in the ledger, from position {first} to {last}"
    return what + ("; retention has dropped the history before" if first > 1 else "")


class RemoteTrace:
    """A trace that a broker is asked for, part by part."""

    def __init__(self, management: ManagementClient, wanted: object, is_serial: bool) -> None:
        self._management: Final = management
        self._wanted: Final[dict[str, object]] = {"serial" if is_serial else "message_id": wanted}
        self.extent = Extent(1, 0)

    def lines(self) -> Iterator[Line]:
        """What has happened until now, oldest first: the ledger grows while it is asked."""
        serials = self._find()
        last = self.extent.durable_through
        at, skip = min(serials, default=0), 0
        while 0 < at <= last:
            arguments = {"serials": sorted(serials), "first": at, "skip": skip}
            answer = self._request("FOLLOW-MESSAGES", arguments)
            for text in answer["lines"]:
                yield json.loads(text)
            serials = set(answer["serials"])
            at, skip = answer["next"], answer["skip"]

    def _find(self) -> set[int]:
        serials: set[int] = set()
        at, last = 1, 0
        while at and (at <= last or last == 0):
            answer = self._request("FIND-MESSAGES", {**self._wanted, "first": at})
            serials.update(answer["serials"])
            at, last = answer["next"], last or self.extent.durable_through
        return serials

    def _request(self, operation: str, arguments: dict[str, object]) -> dict[str, Any]:
        reply = self._management.request(operation, kind=LEDGER_TYPE, body=arguments, patience_s=PATIENCE_S)
        answer = reply.attributes()
        self.extent = Extent(int(str(answer["first_position"])), int(str(answer["durable_through"])))
        return answer


def _serial(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= MAX_SERIAL:
        raise click.BadParameter(f"{text!r} is no serial, a number from 1 on", param_hint="MESSAGE-ID")
    return int(text)


def _id(value: object) -> MessageId:
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
