"""Parts of the page: sections, tables, and pictures with their numbers behind them."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from postroom.spark.report.svg import Picture

MAX_ROWS: Final = 100
"""No table of the page is longer, so that the page stays small however large the tables are."""
MAX_CELL: Final = 300
"""Characters shown of a text."""
WIDE: Final = 32
"""A cell with more characters may be broken into lines."""


def section(title: str, intro: str, content: str, remark: str = "") -> str:
    """A part of the page; ``remark`` says what was left out."""
    text = f"{intro} {remark}".strip()
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{content}</section>"


def picture(drawn: Picture, numbers: str) -> str:
    """A picture, and the same as a table that can be opened, or read aloud."""
    return drawn.inline() + behind(numbers)


def behind(numbers: str, title: str = "The numbers") -> str:
    """A table that is shown when asked for."""
    return f"<details><summary>{escape(title)}</summary>{numbers}</details>"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: set[int], caption: str, bad: str = ""
) -> str:
    """Rows under heads; columns ``numbers`` stand right, a cell that says ``bad`` in red."""
    head = "".join(
        f"<th scope=col{' class=n' if i in numbers else ''}>{escape(name)}</th>"
        for i, name in enumerate(heads)
    )
    body = "".join(
        f"<tr>{''.join(_cell(value, i in numbers, bad) for i, value in enumerate(row))}</tr>" for row in rows
    )
    return (
        f"<div class=scroll tabindex=0><table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: object, is_number: bool, bad: str) -> str:
    shown = f"{value:,}" if isinstance(value, int) else str(value)
    shown = shown if len(shown) <= MAX_CELL else shown[: MAX_CELL - 1] + "…"
    holds = (("n", is_number), ("wide", len(shown) > WIDE), ("bad", shown == bad))
    kinds = " ".join(name for name, is_so in holds if is_so)
    attribute = f' class="{kinds}"' if kinds else ""
    return f"<td{attribute}>{escape(shown)}</td>"


def first_of(what: str, number: int) -> str:
    """The caption of a table that has no more than `MAX_ROWS` rows."""
    return f"The first {MAX_ROWS} of {number:,} {what}" if number > MAX_ROWS else f"All {what}"
