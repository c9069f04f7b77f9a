"""`postroom get` and `postroom browse`: take messages from a queue, or look at them."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from postroom.cli.common.broker_connection import EXIT_NOTHING, connected, json_option, url_option
from postroom.cli.common.broker_group import QUEUE_NAME
from postroom.cli.common.message_files import as_json_line, as_text, body_bytes
from postroom.cli.common.message_selection import selector_option
from postroom.cli.common.names import check_there, check_topic_there
from postroom.cli.common.progress import PROGRESS_FROM, counting_bar
from postroom.cli.common.tables import new_table, show_table
from postroom.cli.groups import count_option, folder_option, number_option
from postroom.client import AcknowledgeMode, Message, MessageConsumer, Session, Topic

BODY_CHARS: Final = 60
"""Of each body in a table."""


@click.command()
@click.argument("queue", type=QUEUE_NAME)
@count_option("Take so many; 0: all.", default=1)
@number_option(
    "--wait-s", default=0.0, show_default=True, least=0, fractions=True, help="Wait so long for each."
)
@folder_option("--folder", help="Write each body to a file here.")
@click.option("--topic", "of_topic", is_flag=True, help="QUEUE is a topic, or a pattern of topics.")
@click.option(
    "--subscription",
    metavar="NAME",
    help="Of a topic: the shared durable subscription to take from, made if need be.",
)
@selector_option
@url_option
@json_option
def get(
    queue: str,
    count: int,
    wait_s: float,
    folder: Path | None,
    of_topic: bool,
    subscription: str | None,
    selector: str,
    url: str,
    as_json: bool,
) -> None:
    """Take messages from QUEUE and print their bodies.

    From a topic comes what is published meanwhile (give --wait-s), or what a subscription has kept.
    A message is accepted when it has been printed or written; one that could not be stays on the queue.
    Exit code 4: there was none.

    \b
    Examples:
      postroom get orders --count 0 --folder ./orders
      postroom get orders --wait-s 30 --selector "kind = 'new'"
      postroom get prices --topic --subscription mine --count 0
    """
    taken = 0
    with (
        connected(url, queue) as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        if not of_topic:
            check_there(connection, queue)
        elif subscription is None:
            check_topic_there(connection, queue)
        prefetch = min(count, 100) or 100
        destination = Topic(queue) if of_topic else queue
        consumer = _consumer(session, destination, subscription, selector or None, prefetch)
        is_shown = folder is not None and count >= PROGRESS_FROM
        with counting_bar("getting", count, is_shown) as progress:
            for message in _received(consumer, count, wait_s):
                taken += 1
                _put_out(message, as_json, folder, taken)
                consumer.accept(message)
                progress(taken)
    if taken == 0:
        click.echo(f"there is no message on {queue}", err=True)
        raise SystemExit(EXIT_NOTHING)


def _consumer(
    session: Session,
    destination: Topic | str,
    subscription: str | None,
    selector: str | None,
    prefetch: int,
) -> MessageConsumer:
    if subscription is None:
        return session.create_consumer(destination, selector=selector, prefetch=prefetch)
    if not isinstance(destination, Topic):
        raise click.BadParameter("only a topic has subscriptions: give --topic", param_hint="--subscription")
    return session.create_shared_durable_consumer(
        destination, subscription, selector=selector, prefetch=prefetch
    )


@click.command()
@click.argument("queue", type=QUEUE_NAME)
@count_option("Show so many; 0: all.")
@selector_option
@url_option
@json_option
def browse(queue: str, count: int, selector: str, url: str, as_json: bool) -> None:
    """Show the messages on QUEUE and leave them there."""
    numbers = ("priority", "deliveries", "bytes")
    table = new_table("message id", *numbers, "body", numbers=numbers)
    with connected(url, queue) as connection, connection.create_session() as session:
        check_there(connection, queue)
        browser = session.create_browser(queue, selector=selector or None)
        for message in itertools.islice(browser, count or None):
            if as_json:
                click.echo(as_json_line(message))
            else:
                table.add_row(*_cells(message))
    if not as_json:
        show_table(table)


def _received(consumer: MessageConsumer, count: int, wait_s: float) -> Iterator[Message]:
    taken = 0
    while count == 0 or taken < count:
        message = consumer.receive(wait_s) if wait_s > 0 else consumer.receive_no_wait()
        if message is None:
            return
        taken += 1
        yield message


def _put_out(message: Message, as_json: bool, folder: Path | None, number: int) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:08d}").write_bytes(body_bytes(message))
    elif as_json:
        click.echo(as_json_line(message))
    else:
        click.echo(body_bytes(message))


def _cells(message: Message) -> list[str]:
    numbers = (str(message.priority), str(message.delivery_count), f"{len(body_bytes(message)):,}")
    return [str(message.message_id or ""), *numbers, as_text(message, BODY_CHARS)]
