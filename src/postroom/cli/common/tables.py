"""Tables for people: what one must copy (ids, names) is never cut.

In a pipe they are as wide as they are; on a terminal a cell that is too long goes on in the next line. Rich
is loaded with the first table, so that a command without one starts quickly. Times are in µs since 1970.
"""

import json
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.table import Table

Rows = Iterable[Mapping[str, Any]]

_US_A_S: Final = 1_000_000
WHOLE_WIDTH: Final = 1 << 16
"""Columns of a page that nobody looks at: enough for every row."""
WIDTH: Final = "postroom.columns"
"""Of the context of a command: the columns of the terminal that it is shown on in the end."""


def new_table(*heads: str, numbers: tuple[str, ...] = (), title: str = "") -> "Table":
    """A table with a column for each of ``heads``; ``numbers`` of them stand at the right."""
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in numbers else "left", overflow="fold")
    return table


def show_table(table: "Table") -> None:
    """Print it on standard output."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        context = click.get_current_context(silent=True)
        console = Console(width=WHOLE_WIDTH if context is None else context.meta.get(WIDTH, WHOLE_WIDTH))
    console.print(table, highlight=False)


def shown(value: object) -> str:
    """A value in a table: numbers with marks at the thousands."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def age_s(time_us: int) -> int:
    """So many seconds ago."""
    return max(0, round(time.time() - time_us / _US_A_S))


def moment(time_us: int) -> str:
    """In UTC, with the number that it is; 0 is never."""
    if time_us == 0:
        return "never"
    whole = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_us // _US_A_S))
    return f"{whole} ({time_us})"


def by_name(rows: Rows) -> list[Mapping[str, Any]]:
    """The rows in order of their names."""
    return sorted(rows, key=lambda each: str(each["name"]))


def show_json(rows: Rows) -> None:
    """An object a line."""
    for each in rows:
        click.echo(json.dumps(each, default=str))


def show_rows(
    rows: Rows,
    heads: Sequence[str],
    cells: Callable[[Any], Iterable[str]],
    as_json: bool,
    numbers: Sequence[str] = (),
) -> None:
    """The rows as a table with the columns ``heads``, of which ``numbers`` hold numbers, and the ``cells`` of
    each; or all as JSON."""
    if as_json:
        show_json(rows)
        return
    table = new_table(*heads, numbers=tuple(numbers))
    for each in rows:
        table.add_row(*cells(each))
    show_table(table)


def show_list(rows: Rows, listed: Sequence[tuple[str, str]], as_json: bool) -> None:
    """The rows as a table of the attributes ``listed``, each with the head of its column; or all as JSON."""
    heads = [head for _, head in listed]
    show_rows(
        rows, heads, lambda each: (shown(each.get(attribute)) for attribute, _ in listed), as_json, heads[1:]
    )


def show_one(row: Mapping[str, Any], as_json: bool, hidden: Container[str] = ("identity", "type")) -> None:
    """Its attributes but for ``hidden``, one a line; or all as JSON."""
    if as_json:
        click.echo(json.dumps(row, default=str))
        return
    for key, value in row.items():
        if key not in hidden:
            click.echo(f"{key}: {moment(int(value)) if key.endswith('_us') else shown(value)}")
