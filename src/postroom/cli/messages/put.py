"""`postroom put`: send messages from the command line, files or standard input."""

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.cli.common.broker_group import QUEUE_NAME
from postroom.cli.common.names import is_missing
from postroom.cli.common.progress import counting_bar
from postroom.cli.groups import count_option, number_option
from postroom.client import Message, Topic
from postroom.model.entity_types import QUEUE_TYPE, TOPIC_TYPE

BATCH: Final = 1000
"""Messages sent between two looks at the progress bar."""


@click.command()
@click.argument("queue", type=QUEUE_NAME)
@click.argument("bodies", nargs=-1, metavar="[BODY]...")
@click.option(
    "files",
    "--file",
    "-f",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Its content is a message; may be given again.",
)
@click.option("--lines", is_flag=True, help="Each line of standard input is a message.")
@count_option("Send all so many times.", default=1, least=1)
@click.option(
    "settings", "--property", "-p", multiple=True, metavar="KEY=VALUE", help="An application property."
)
@number_option("--priority", least=0, most=9, default=4, show_default=True, help="Its priority.")
@number_option("--ttl-ms", help="Time to live; default: for ever.")
@number_option("--delay-ms", least=0, help="Time to deliver: can be received after it.")
@click.option("--not-durable", is_flag=True, help="Lost when the broker restarts.")
@click.option("--subject", metavar="TEXT", help="What it is about: JMSType.")
@click.option("--reply-to", metavar="QUEUE", help="Where an answer is wanted: JMSReplyTo.")
@click.option("--correlation-id", metavar="ID", help="What it belongs to: JMSCorrelationID.")
@click.option("--topic", "to_topic", is_flag=True, help="QUEUE is a topic: publish to it.")
@url_option
@json_option
def put(
    queue: str,
    bodies: tuple[str, ...],
    files: tuple[Path, ...],
    lines: bool,
    count: int,
    settings: tuple[str, ...],
    priority: int,
    ttl_ms: int | None,
    delay_ms: int | None,
    not_durable: bool,
    subject: str | None,
    reply_to: str | None,
    correlation_id: str | None,
    to_topic: bool,
    url: str,
    as_json: bool,
) -> None:
    """Send messages to QUEUE: each BODY, each file; else standard input as one.

    "" is an empty message. Returns when the broker has made all of them durable, and says whether that has
    created QUEUE.

    \b
    Examples:
      postroom put orders '{"id": 7}' --property kind=new --ttl-ms 60000
      postroom put orders --file order.json
      seq 1000 | postroom put orders --lines
    """
    properties: dict[str, object] = dict(_property(text) for text in settings)

    def message(body: str | bytes) -> Message:
        return Message(
            body,
            properties=dict(properties),
            durable=not not_durable,
            priority=priority,
            ttl_ms=ttl_ms,
            delivery_delay_ms=delay_ms,
            subject=subject,
            reply_to=reply_to,
            correlation_id=correlation_id,
        )

    given = _bodies(bodies, files, lines)
    kind = TOPIC_TYPE if to_topic else QUEUE_TYPE
    with connected(url) as connection, connection.create_session() as session:
        was_missing = is_missing(connection, kind, queue)
        producer = session.create_producer(Topic(queue) if to_topic else queue)
        sent = _send(
            producer.send_all, (message(body) for body in _repeated(given, count)), _total(given, count)
        )
        created = was_missing and not is_missing(connection, kind, queue)
    if created:
        click.echo(f"created the {'topic' if to_topic else 'queue'} {queue}: it was not there", err=True)
    click.echo(json.dumps({"sent": sent}) if as_json else f"sent {sent} to {queue}")


def _send(send_all: Callable[[list[Message]], int], messages: Iterator[Message], total: int | None) -> int:
    sent = 0
    with counting_bar("sending", total, is_shown=total != 1) as progress:
        while batch := list(itertools.islice(messages, BATCH)):
            sent += send_all(batch)
            progress(sent)
    return sent


def _bodies(bodies: tuple[str, ...], files: tuple[Path, ...], lines: bool) -> Iterable[str | bytes]:
    """What is to be sent; standard input where nothing else is given."""
    if lines:
        return (line.rstrip("\n") for line in sys.stdin)
    if not bodies and not files:
        if sys.stdin.isatty():
            click.echo("the body is read from here until Ctrl-D", err=True)
        return [_text_if_it_is(sys.stdin.buffer.read())]
    return [*bodies, *(_text_if_it_is(file.read_bytes()) for file in files)]


def _repeated(given: Iterable[str | bytes], count: int) -> Iterator[str | bytes]:
    if count == 1:
        return iter(given)
    return itertools.chain.from_iterable(itertools.repeat(list(given), count))


def _total(given: Iterable[str | bytes], count: int) -> int | None:
    return len(given) * count if isinstance(given, list) else None


def _text_if_it_is(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _property(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--property")
    return key, value
