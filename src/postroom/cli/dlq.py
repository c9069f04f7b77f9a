"""`postroom dlq`: what could not be delivered, sent back to where it came from."""

import json

import click

from postroom.cli.message import if_paused_option, in_pieces_of
from postroom.cli.talk import connected, json_option, url_option
from postroom.cli.which import which, which_options


@click.group()
def dlq() -> None:
    """Dead-letter queues of a running broker."""


@dlq.command("replay")
@click.argument("queue")
@which_options
@click.option("--to", default="", metavar="QUEUE", help="There instead of each message's origin.")
@if_paused_option
@url_option
@json_option
def replay(
    queue: str,
    selector: str,
    message_id: str | None,
    serial: int | None,
    every: bool,
    to: str,
    if_paused: bool,
    url: str,
    as_json: bool,
) -> None:
    """Send messages on the dead-letter queue QUEUE back to the queues that they came from.

    Counts of deliveries begin again. Many messages go in pieces, each of them all or nothing: if it breaks
    off, the rest is still on QUEUE, and the same command goes on.
    """
    said = which(selector, message_id, serial, every) | {"to": to, "if_paused": if_paused, "in_pieces": True}
    with connected(url) as connection:
        replayed, stay = in_pieces_of(connection.create_management(), "REPLAY", queue, said)
    if as_json:
        click.echo(json.dumps({"replayed": replayed, "without_origin": stay}))
        return
    click.echo(f"replayed {replayed} messages from {queue}")
    if stay:
        click.echo(f"{stay} were put on {queue} and have no origin: say where with --to", err=True)
