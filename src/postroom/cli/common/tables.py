"""Tables for people: what one must copy (ids, names) is never cut.

In a pipe they are as wide as they are; on a terminal a cell that is too long goes on in the next line. Rich
is loaded with the first table, so that a command without one starts quickly.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.table import Table

WHOLE_WIDTH: Final = 1 << 16
"""Columns of a page that nobody looks at: enough for every row."""


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
        console = Console(width=WHOLE_WIDTH)
    console.print(table, highlight=False)
