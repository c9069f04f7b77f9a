"""Progress bars on standard error, where a person is looking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(unit: str, is_shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error while work goes on, where a person is looking."""
    console = Console(stderr=True)
    if not (is_shown and console.is_terminal):
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(unit)
        yield lambda done, total: bar.update(task, completed=done, total=total)
