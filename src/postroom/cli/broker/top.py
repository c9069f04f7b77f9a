"""`postroom top`: a live view of a broker's channels, queues and connections."""

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import click
from rich.console import Console
from rich.live import Live

from postroom.cli.broker.top_view import SORTS, Snapshot, View
from postroom.cli.common.broker_connection import connected, json_option, url_option
from postroom.client import ManagementClient
from postroom.model.entity_types import (
    BROKER_NAME,
    BROKER_TYPE,
    CHANNEL_TYPE,
    CONNECTION_TYPE,
    MEMBER_TYPE,
    QUEUE_TYPE,
)

LEAST_INTERVAL_S: Final = 0.2
QUIT_KEYS: Final = ("q", "Q", "\x03")
SORT_KEY: Final = "s"

QUEUE_ATTRIBUTES: Final = (
    *("name", "usage", "messages_current", "messages_pending", "bytes_current"),
    *("messages_received", "consumers", "dynamic"),
)
CHANNEL_ATTRIBUTES: Final = (
    *("name", "channel_type", "state", "reason", "partner", "in_doubt", "in_doubt_messages"),
    *("last_sequence", "current_sequence", "messages", "batches"),
    *("short_retries_left", "long_retries_left"),
)
CONNECTION_ATTRIBUTES: Final = (
    *("name", "container_id", "user", "links", "messages_in", "messages_out", "unsettled"),
    *("blocked_sends", "outgoing"),
)
MEMBER_ATTRIBUTES: Final = ("name", "state", "behind", "behind_bytes", "behind_s", "position")


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=LEAST_INTERVAL_S),
    metavar="N",
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option(
    "--once", is_flag=True, help="Print one look and end; with no look before it there are no rates."
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="rate",
    show_default=True,
    help="What comes first in each table.",
)
@click.option("--all", "every", is_flag=True, help="Dynamic queues of clients too.")
@url_option
@json_option
def top(interval_s: float, once: bool, sort: str, every: bool, url: str, as_json: bool) -> None:
    """Watch channels, queues, connections and members of a running broker.

    Keys: q ends it, s changes the order.
    """
    with connected(url) as connection:
        management = connection.create_management()
        if once:
            _print(View(None, snapshot(management, every), sort), as_json)
        elif as_json or not sys.stdout.isatty():
            _stream(management, interval_s, sort, every, as_json)
        else:
            _watch(management, interval_s, sort, every)


def snapshot(management: ManagementClient, every: bool = False) -> Snapshot:
    """Ask the broker; dynamic queues only if ``every``."""
    queues = management.query(QUEUE_TYPE, QUEUE_ATTRIBUTES)
    return Snapshot(
        time.monotonic(),
        management.read(BROKER_TYPE, BROKER_NAME),
        [each for each in queues if every or not each["dynamic"]],
        management.query(CHANNEL_TYPE, CHANNEL_ATTRIBUTES),
        management.query(CONNECTION_TYPE, CONNECTION_ATTRIBUTES),
        management.query(MEMBER_TYPE, MEMBER_ATTRIBUTES),
    )


def _print(view: View, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(view.as_json(), default=str))
    else:
        console = Console(soft_wrap=True)
        console.print(view.render(console.width))


def _stream(management: ManagementClient, interval_s: float, sort: str, every: bool, as_json: bool) -> None:
    """No terminal: one look after the other, until the reader has enough."""
    before = snapshot(management, every)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            time.sleep(interval_s)
            now = snapshot(management, every)
            _print(View(before, now, sort), as_json)
            before = now


def _watch(management: ManagementClient, interval_s: float, sort: str, every: bool) -> None:
    """On the whole terminal, until a key or Ctrl-C ends it."""
    console = Console()
    before, now = None, snapshot(management, every)
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(View(before, now, sort).render(console.width, console.height), refresh=True)
            key = _key(interval_s)
            if key in QUIT_KEYS:
                return
            if key == SORT_KEY:
                sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]
                continue
            before, now = now, snapshot(management, every)


def _has_keys() -> bool:
    """Whether a person sits there whose keys can be read; on Windows there is Ctrl-C alone."""
    return sys.stdin.isatty() and find_spec("termios") is not None


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys are read one by one and not shown."""
    if not _has_keys():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _key(timeout_s: float) -> str:
    """The key that was hit meanwhile; "" when the time is over."""
    if not _has_keys():
        time.sleep(timeout_s)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""
