"""Progress bars on standard error, where a person is looking. Rich is loaded where one is shown."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PROGRESS_FROM: Final = 1000
"""A bar is shown for so many messages and more."""


def _is_watched() -> bool:
    """Whether a person sees standard error, to whom a bar says something."""
    return sys.stderr.isatty()


@contextmanager
def progress_bar(unit: str, is_shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error while work goes on, where a person is looking."""
    if not (is_shown and _is_watched()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def counting_bar(what: str, total: int | None, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """Such a bar for as many as ``total``, None where that isn't known; what it yields is told how many are
    done."""
    if not (is_shown and _is_watched()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
