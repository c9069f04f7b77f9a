"""`postroom message`: look at messages in any state, delete, move, export and import them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import click

from postroom.cli.common.broker_connection import BrokerError, connected, json_option, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.message_files import FORMATS, as_text, message_fields, messages_of, writer_of
from postroom.cli.common.message_selection import (
    Found,
    id_text,
    id_value,
    selector_option,
    serial_option,
    state_option,
    which,
    which_options,
)
from postroom.cli.common.progress import PROGRESS_FROM, counting_bar
from postroom.cli.common.tables import new_table, show_table, shown
from postroom.cli.groups import count_option
from postroom.client import ManagementClient
from postroom.client.messages.message import decode_message
from postroom.model.entity_types import MESSAGE_TYPE, QUEUE_TYPE

LISTED: Final = ("serial", "message id", "states", "bytes", "body")
"""What fits a terminal; the rest is told by `show` and by JSON."""
BODY_CHARS: Final = 40
IMPORT_ROWS: Final = 100
IMPORT_BYTES: Final = 512 << 10
"""Of one request, unless a single message is larger."""
MAX_IMPORT_BYTES: Final = 1000 << 10
"""A request to the management node has at most 1 MiB."""
PATIENCE_S: Final = 600.0
"""How much longer than usual an answer may take that needs the bodies of a deep queue."""

if_paused_option = click.option(
    "--if-paused", is_flag=True, help="Only if consumption of QUEUE is paused, as WebLogic JMS wants it."
)


@click.group(cls=BrokerGroup, names=QUEUE_TYPE)
def message() -> None:
    """Messages on the queues of a running broker, in whatever state."""


@message.command("list")
@click.argument("queue")
@selector_option
@state_option
@count_option("Show so many; 0: all.", shows_default=False)
@url_option
@json_option
def list_messages(
    queue: str, selector: str, states: tuple[str, ...], count: int, url: str, as_json: bool
) -> None:
    """List messages on QUEUE, those too that are held, delayed or not committed."""
    table = new_table(*LISTED, numbers=("serial", "bytes"))
    arguments = {"selector": selector, "states": list(states)}
    with (
        connected(url, queue) as connection,
        Found(connection.create_management(), queue, arguments, True) as found,
    ):
        for row in found.rows(count):
            if as_json:
                click.echo(json.dumps(as_fields(row), default=str, ensure_ascii=False))
            else:
                table.add_row(*_cells(row))
    if not as_json:
        show_table(table)
        if count and found.count > count:
            click.echo(f"{count} of {found.count:,}")


@message.command("show")
@click.argument("queue")
@click.option("--id", "message_id", metavar="ID", help="The message with this message id.")
@serial_option()
@url_option
@json_option
def show_message(queue: str, message_id: str | None, serial: int | None, url: str, as_json: bool) -> None:
    """Show one message on QUEUE with everything that is known of it."""
    if (message_id is None) == (serial is None):
        raise click.UsageError("say which message: --id or --serial")
    arguments = {"message_id": id_value(message_id)} if message_id is not None else {"serial": serial}
    with connected(url, queue) as connection:
        reply = connection.create_management().request("READ", kind=MESSAGE_TYPE, name=queue, body=arguments)
        rows = reply.attributes()["messages"]
    assert isinstance(rows, list)
    show_fields(as_fields(rows[0]), as_json)


def show_fields(fields: dict[str, Any], as_json: bool) -> None:
    """The fields of a message, one a line, or as JSON."""
    if as_json:
        click.echo(json.dumps(fields, default=str, ensure_ascii=False))
        return
    for name, value in fields.items():
        click.echo(f"{name}: {value}")


@message.command("delete")
@click.argument("queue")
@which_options
@if_paused_option
@url_option
@json_option
def delete_messages(queue: str, if_paused: bool, url: str, as_json: bool, **meant: Any) -> None:
    """Delete messages on QUEUE that nobody holds."""
    arguments = which(**meant) | {"if_paused": if_paused}
    with connected(url, queue) as connection:
        deleted = _request(connection.create_management(), "DELETE-MESSAGES", queue, arguments)["count"]
    click.echo(json.dumps({"deleted": deleted}) if as_json else f"deleted {deleted} messages from {queue}")


@message.command("move")
@click.argument("queue")
@click.argument("to")
@which_options
@if_paused_option
@click.option("--in-pieces", is_flag=True, help="As many moves as it takes, each of which is all or nothing.")
@url_option
@json_option
def move_messages(
    queue: str, to: str, if_paused: bool, in_pieces: bool, url: str, as_json: bool, **meant: Any
) -> None:
    """Move messages from QUEUE to the queue TO: all that are meant, or none."""
    arguments = which(**meant)
    arguments |= {"to": to, "if_paused": if_paused, "in_pieces": in_pieces}
    with connected(url, queue) as connection:
        moved, _ = in_pieces_of(connection.create_management(), "MOVE-MESSAGES", queue, arguments)
    click.echo(json.dumps({"moved": moved}) if as_json else f"moved {moved} messages from {queue} to {to}")


def _request(
    management: ManagementClient, operation: str, queue: str, arguments: dict[str, object]
) -> dict[str, object]:
    reply = management.request(
        operation, kind=MESSAGE_TYPE, name=queue, body=arguments, patience_s=PATIENCE_S
    )
    return reply.attributes()


def in_pieces_of(
    management: ManagementClient, operation: str, queue: str, arguments: dict[str, object]
) -> tuple[int, int]:
    """Ask again while there is more; returns how many messages it was done to, and how many of the last
    piece have no origin."""
    done = without_origin = 0
    with counting_bar(operation.lower(), None, True) as progress:
        while True:
            reply = _request(management, operation, queue, arguments)
            count = int(str(reply["count"]))
            done += count
            without_origin = int(str(reply["without_origin"]))
            progress(done)
            if not reply["more"] or count == 0:
                return done, without_origin


@message.command("export")
@click.argument("queue")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@selector_option
@state_option
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="jsonl",
    show_default=True,
    help="JSON, an object a line; or AMQP messages, byte for byte.",
)
@url_option
def export_messages(
    queue: str, file: Path, selector: str, states: tuple[str, ...], form: str, url: str
) -> None:
    """Write messages on QUEUE to FILE (-: standard output) and leave them where they are."""
    arguments = {"selector": selector, "states": list(states)}
    exported = 0
    with (
        connected(url, queue) as connection,
        Found(connection.create_management(), queue, arguments, True) as found,
        click.open_file(str(file), "wb") as out,
        counting_bar("exporting", found.count, found.count >= PROGRESS_FROM) as progress,
    ):
        write = writer_of(form, out)
        for row in found.rows():
            if "message" in row:
                write(row)
                exported += 1
            progress(exported)
    click.echo(f"exported {exported} messages from {queue}", err=True)


@message.command("import")
@click.argument("queue")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--overrides", is_flag=True, help="The overrides of QUEUE apply, as to messages that are sent.")
@url_option
@json_option
def import_messages(queue: str, file: Path, overrides: bool, url: str, as_json: bool) -> None:
    """Put the messages of FILE, which `export` wrote, on QUEUE.

    One that has the message id of a message there, which nobody holds, takes its place.
    """
    created = replaced = 0
    with (
        connected(url, queue) as connection,
        click.open_file(str(file), "rb") as source,
        counting_bar("importing", None, True) as progress,
    ):
        management = connection.create_management()
        for batch in _batches(source, queue):
            arguments = {"messages": batch, "overrides": overrides}
            reply = _request(management, "IMPORT-MESSAGES", queue, arguments)
            created += int(str(reply["created"]))
            replaced += int(str(reply["replaced"]))
            progress(created + replaced)
    if as_json:
        click.echo(json.dumps({"created": created, "replaced": replaced}))
    else:
        click.echo(f"imported {created + replaced} messages into {queue}, {replaced} of them replaced others")


def _batches(source: IO[bytes], queue: str) -> Iterator[list[dict[str, object]]]:
    batch: list[dict[str, object]] = []
    size = 0
    try:
        for number, each in enumerate(messages_of(source, queue), 1):
            message = each["message"]
            assert isinstance(message, bytes)
            if len(message) > MAX_IMPORT_BYTES:
                raise ValueError(
                    f"message {number} of {len(message)} bytes: an import takes messages of at most "
                    f"{MAX_IMPORT_BYTES} bytes; those before it are imported: send it, and import the rest"
                )
            if batch and (len(batch) == IMPORT_ROWS or size + len(message) > IMPORT_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(each)
            size += len(message)
    except ValueError as error:
        if batch:
            yield batch
        raise BrokerError(str(error)) from error
    if batch:
        yield batch


def as_fields(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON-able fields, the message decoded."""
    fields = {name: value for name, value in row.items() if name != "message"}
    for name in ("message_id", "correlation_id"):
        if name in fields:
            fields[name] = id_text(fields[name])
    if "message" in row:
        decoded = message_fields(decode_message(row["message"]))
        fields |= {name: value for name, value in decoded.items() if name not in fields}
    return fields


def _cells(row: dict[str, Any]) -> list[str]:
    body = as_text(decode_message(row["message"]), BODY_CHARS) if "message" in row else ""
    states = "+".join(row["states"])
    return [shown(row["serial"]), id_text(row.get("message_id")), states, shown(row["body_bytes"]), body]
