"""`--watch`: what a command shows, again and again until Ctrl-C: on the whole terminal, or one after the
other where there is none. Rich is loaded where there is one.
"""

import contextlib
import functools
import io
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from postroom.cli.common.tables import WIDTH

USUAL_INTERVAL_S: Final = 2.0
LEAST_INTERVAL_S: Final = 0.2
MOST_INTERVAL_S: Final = 3600.0


def add_watch(command: click.Command) -> None:
    """Give ``command``, which shows something and ends, the option ``--watch``."""
    show = command.callback
    assert show is not None
    option = click.Option(
        ["--watch", "interval_s"],
        is_flag=False,
        flag_value=USUAL_INTERVAL_S,
        default=None,
        type=click.FloatRange(LEAST_INTERVAL_S, MOST_INTERVAL_S),
        metavar="[SECONDS]",
        help="Show it again every 2 seconds, or as many as this says (--watch=5), until Ctrl-C.",
    )
    command.params.append(option)

    @functools.wraps(show)
    def again(interval_s: float | None = None, **given: Any) -> Any:
        if interval_s is None:
            return show(**given)
        _watch(functools.partial(show, **given), interval_s, bool(given.get("as_json")))
        return None

    command.callback = again


def _watch(show: Callable[[], object], interval_s: float, as_json: bool) -> None:
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        if sys.stdout.isatty() and not as_json:
            _watch_screen(show, interval_s)
        while True:
            show()
            sys.stdout.flush()
            time.sleep(interval_s)


def _watch_screen(show: Callable[[], object], interval_s: float) -> None:
    """On the whole terminal; lines that don't fit are counted."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            lines = _printed(show, console.width).splitlines()
            live.update(Text("\n".join(_fitting(lines, console.height, interval_s))), refresh=True)
            time.sleep(interval_s)


def _printed(show: Callable[[], object], columns: int) -> str:
    printed = io.StringIO()
    meta = click.get_current_context().meta
    meta[WIDTH] = columns
    with contextlib.redirect_stdout(printed):
        show()
    return printed.getvalue()


def _fitting(lines: list[str], height: int, interval_s: float) -> list[str]:
    heading = f"{time.strftime('%H:%M:%S')}, every {interval_s:g} s; Ctrl-C ends it"
    room = max(1, height - 2)
    if len(lines) <= room:
        return [heading, *lines]
    return [heading, *lines[: room - 1], f"… {len(lines) - room + 1:,} lines more"]
