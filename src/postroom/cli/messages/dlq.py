"""`postroom dlq`: what could not be delivered, looked at, handled by rules, and sent back."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import click

from postroom.channel.rules.lines import MAX_TABLE_CHARS
from postroom.channel.rules.parser import check_table
from postroom.channel.rules.table import RulesTable
from postroom.cli.common.broker_connection import (
    BrokerError,
    connected,
    json_option,
    own_tls,
    url_option,
)
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.message_files import as_text
from postroom.cli.common.message_selection import (
    Found,
    id_text,
    selector_option,
    serial_option,
    which,
    which_options,
)
from postroom.cli.common.names import check_there
from postroom.cli.common.tables import new_table, show_list, show_table, shown
from postroom.cli.groups import count_option
from postroom.cli.messages.message import as_fields, if_paused_option, in_pieces_of, show_fields
from postroom.client import JMSException, ManagementClient, Message
from postroom.client.messages.message import decode_message
from postroom.manager.headers.dead_letter_header import DEAD_LETTER, DeadLetterHeader, header_of
from postroom.manager.undeliverable.dead_letters import ORIGIN_KEY, REASON_KEY
from postroom.model.entity_types import (
    BROKER_NAME,
    BROKER_TYPE,
    DEAD_LETTER_HANDLER_TYPE,
    MESSAGE_TYPE,
    QUEUE_TYPE,
)
from postroom.model.mq import reason_name
from postroom.model.names import full_address

LISTED: Final = ("serial", "reason", "destination", "put", "message id", "body")
HANDLERS_LISTED: Final = ("queue", "state", "at_hand", "retried", "forwarded", "discarded", "failed", "left")
BODY_CHARS: Final = 30
EXIT_INVALID: Final = 1
"""The rules table can't be used."""

queue_argument = click.argument("queue", required=False, default="")


@click.group(cls=BrokerGroup, names=QUEUE_TYPE)
def dlq() -> None:
    """Dead-letter queues of a running broker."""


# Rules.


@dlq.command("check")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--print", "printed", is_flag=True, help="Print the table as it was understood.")
def check(file: Path, printed: bool) -> None:
    """Check the rules table in FILE (-: standard input): everything that is wrong with it, line by line.

    Exit code 1 if it can't be used.
    """
    table = _table_of(file)
    if printed:
        click.echo(str(table), nl=False)


@dlq.command("handle")
@click.option(
    "--rules",
    "file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="The rules table, in the language of IBM MQ's dead-letter queue handler.",
)
@click.option("--inputq", default="", metavar="QUEUE", help="This queue, whatever INPUTQ says.")
@click.option("--inputqm", default="", metavar="NAME", help="This queue manager, whatever INPUTQM says.")
@url_option
@json_option
def handle(file: Path, inputq: str, inputqm: str, url: str, as_json: bool) -> None:
    """Handle dead letters by the rules in a file, until there is nothing left to do (WAIT), or Ctrl-C.

    Each message is forwarded or discarded in a transaction of its own. Rules are read once, at the start.
    """
    from postroom.cli.messages import dead_letter_handler

    table = _table_of(file)

    def report(event: dict[str, Any]) -> None:
        click.echo(json.dumps(event, ensure_ascii=False) if as_json else _sentence(event))

    _check_input(url, inputq.strip() or table.control.input_queue)
    try:
        handling = dead_letter_handler.handle(url, table, inputq, inputqm, report, own_tls())
        counts = asyncio.run(_until_stopped(handling))
    except JMSException as error:
        raise BrokerError(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    report({"event": "ended", **(counts or {})})


def _check_input(url: str, queue: str) -> None:
    """Refuse a queue that isn't there, unless it is the queue manager's own dead-letter queue, which is made
    with the first dead letter."""
    with connected(url, queue) as connection:
        own = connection.create_management().read(BROKER_TYPE, BROKER_NAME)["dead_letter_queue"]
        if queue not in ("", own):
            check_there(connection, queue)


async def _until_stopped(work: Coroutine[Any, Any, dict[str, int]]) -> dict[str, int] | None:
    """Do ``work`` until it is done, or a signal asks to stop: then it ends in order, and there is None."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not in this thread, or on this system
            loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return None


def _table_of(file: Path) -> RulesTable:
    """The table in a file; what was found in it is printed, and where it can't be used that is the end."""
    try:
        with click.open_file(str(file), encoding="utf-8", errors="strict") as stream:
            text = stream.read(MAX_TABLE_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: can't be read: {error}") from error
    table, findings = check_table(text)
    for each in findings:
        click.echo(each.formatted(str(file)), err=True)
    if table is None:
        raise SystemExit(EXIT_INVALID)
    return table


def _sentence(event: dict[str, Any]) -> str:
    """What happened, for people."""
    name, message = event["event"], event.get("message_id") or "a message without an id"
    if name == "started":
        return f"handling {event['queue']} by {event['rules']} rules"
    if name == "ended":
        counts = ", ".join(
            f"{count} {what.replace('_', ' ')}" for what, count in event.items() if what != "event"
        )
        return f"ended: {counts or 'nothing was done'}"
    rule = f" (rule at line {event['line']})" if "line" in event else ""
    if name == "failed":
        return f"{message}: attempt {event['attempt']} of {event['of']} failed{rule}: {event['why']}"
    if name == "left":
        return f"{message}: left where it is{rule}: {event['why']}"
    return f"{message}: {name}{' to ' + event['to'] if 'to' in event else ''}{rule}"


@dlq.command("handlers")
@url_option
@json_option
def list_handlers(url: str, as_json: bool) -> None:
    """List the handlers inside the broker: what each has done since the start, or why it wasn't begun."""
    with connected(url) as connection:
        rows = connection.create_management().query(DEAD_LETTER_HANDLER_TYPE)
    show_list(rows, [(name, name.replace("_", " ")) for name in HANDLERS_LISTED], as_json)
    for each in [] if as_json else rows:
        if each["error"]:
            click.echo(str(each["error"]), err=True)


# Dead letters.


@dlq.command("list")
@queue_argument
@selector_option
@count_option("Show so many; 0: all.", shows_default=False)
@url_option
@json_option
def list_dead_letters(queue: str, selector: str, count: int, url: str, as_json: bool) -> None:
    """List the dead letters on QUEUE (default: the queue manager's): why they are there, and for where.

    What has no dead-letter header is listed, too, without a reason.
    """
    table = new_table(*LISTED, numbers=("serial",))
    with connected(url, queue) as connection:
        management = connection.create_management()
        arguments = {"selector": selector, "states": []}
        with Found(management, _queue(management, queue), arguments, True) as found:
            for row in found.rows(count):
                if "message" not in row:
                    continue  # it has ended meanwhile
                if as_json:
                    click.echo(json.dumps(_fields(row), default=str, ensure_ascii=False))
                else:
                    table.add_row(*_cells(row))
    if not as_json:
        show_table(table)


@dlq.command("show")
@queue_argument
@serial_option(required=True)
@url_option
@json_option
def show_dead_letter(queue: str, serial: int, url: str, as_json: bool) -> None:
    """Show one dead letter on QUEUE (default: the queue manager's), header and all."""
    with connected(url, queue) as connection:
        management = connection.create_management()
        name = _queue(management, queue)
        reply = management.request("READ", kind=MESSAGE_TYPE, name=name, body={"serial": serial})
        rows = reply.attributes()["messages"]
    assert isinstance(rows, list)
    show_fields(_fields(rows[0]), as_json)


def _queue(management: ManagementClient, queue: str) -> str:
    """The queue that was named, or the queue manager's dead-letter queue."""
    if queue:
        return queue
    found = management.read(BROKER_TYPE, BROKER_NAME).get("dead_letter_queue")
    if not found:
        raise click.UsageError(
            "the queue manager has no dead-letter queue (dead_letter_queue in [queue_manager]): name QUEUE"
        )
    return str(found)


def _header(message: Message) -> DeadLetterHeader | None:
    return header_of(message.annotations.get(DEAD_LETTER))


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON-able fields, its header as fields of their own."""
    header = _header(decode_message(row["message"])) if "message" in row else None
    header_fields = None
    if header is not None:
        reason = {"reason": reason_name(header.reason)}
        header_fields = reason | header.annotation() | {"reason_code": header.reason} | reason
    fields = as_fields(row)
    if isinstance(annotations := fields.get("annotations"), dict):
        others = {key: value for key, value in annotations.items() if key != DEAD_LETTER}
        fields["annotations"] = others or None
    return {"dead_letter": header_fields} | fields


def _cells(row: dict[str, Any]) -> list[str]:
    message = decode_message(row["message"])
    header = _header(message)
    if header is None:
        why, where = (str(message.annotations.get(key, "")) for key in (REASON_KEY, ORIGIN_KEY))
        put = ""
    else:
        why, where = reason_name(header.reason), full_address(header.queue, header.queue_manager)
        put = f"{header.put_date} {header.put_time}"
    body = as_text(message, BODY_CHARS)
    return [shown(row["serial"]), why, where, put, id_text(row.get("message_id")), body]


@dlq.command("replay")
@click.argument("queue")
@which_options
@click.option("--to", default="", metavar="QUEUE", help="There instead of each message's origin.")
@if_paused_option
@url_option
@json_option
def replay(queue: str, to: str, if_paused: bool, url: str, as_json: bool, **meant: Any) -> None:
    """Send messages on the dead-letter queue QUEUE back to the queues that they came from.

    Counts of deliveries begin again. Many messages go in pieces, each of them all or nothing: if it breaks
    off, the rest is still on QUEUE, and the same command goes on.
    """
    arguments = which(**meant)
    arguments |= {"to": to, "if_paused": if_paused, "in_pieces": True}
    with connected(url, queue) as connection:
        replayed, stay = in_pieces_of(connection.create_management(), "REPLAY", queue, arguments)
    if as_json:
        click.echo(json.dumps({"replayed": replayed, "without_origin": stay}))
        return
    click.echo(f"replayed {replayed} messages from {queue}")
    if stay:
        click.echo(f"{stay} were put on {queue} and have no origin: say where with --to", err=True)
