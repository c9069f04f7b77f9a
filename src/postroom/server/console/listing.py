"""Tables of many rows: searched, in the order of any column, page by page; all of it is in the URL."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

ROWS_PER_PAGE: Final = 100
MAX_SEARCH_CHARS: Final = 200
TEXT, COUNT, SIZE, TIME, DURATION, BADGE = "text", "count", "size", "time", "duration", "badge"
NUMERIC: Final = frozenset({COUNT, SIZE, TIME, DURATION})


@dataclass(frozen=True, slots=True)
class Column:
    """One column: an attribute of the rows."""

    key: str
    title: str
    kind: str = TEXT
    """``text``, ``count``, ``size``, ``time`` (µs since 1970), ``duration`` (µs) or ``badge`` (a word)."""
    link: Callable[[Attributes], str] | None = None
    """The page of what a cell names."""
    wide: bool = False
    """Left out on phones."""

    @property
    def is_numeric(self) -> bool:
        return self.kind in NUMERIC


class Listing:
    """One page of rows, as the URL's parameters ``q``, ``sort`` and ``page`` want it."""

    def __init__(
        self,
        visit: Visit,
        rows: Iterable[Attributes],
        columns: Sequence[Column],
        what: str,
        searched: Sequence[str] = ("name",),
        sort: str = "",
    ) -> None:
        """``what``: the rows' plural, ``searched``: attributes that a search goes through; ``sort``: the
        order unless the URL has one, a column's key, with "-" before it downwards."""
        self.columns: Final = columns
        self.what: Final = what
        self.path: Final = visit.path
        self.q: Final = visit.parameter("q")[:MAX_SEARCH_CHARS]
        self.sort: Final = self._known(visit.parameter("sort")) or sort
        found = self._found(list(rows), searched)
        self.total: Final = len(found)
        self.pages: Final = max(1, math.ceil(self.total / ROWS_PER_PAGE))
        self.page: Final = min(max(1, _number(visit.parameter("page"))), self.pages)
        first = (self.page - 1) * ROWS_PER_PAGE
        self.first: Final = min(first + 1, self.total)
        self.rows: Final = self._sorted(found)[first : first + ROWS_PER_PAGE]
        self.last: Final = first + len(self.rows)

    def url(self, **changes: object) -> str:
        """Of the same table with other parameters."""
        parameters = {"q": self.q, "sort": self.sort, "page": self.page if self.page > 1 else "", **changes}
        query = urlencode({key: value for key, value in parameters.items() if value})
        return f"?{query}" if query else "?"

    def sort_url(self, column: Column) -> str:
        """In that column's order; numbers begin with the largest, a second time turns it round."""
        down, up = f"-{column.key}", column.key
        first, second = (down, up) if column.is_numeric else (up, down)
        return self.url(sort=second if self.sort == first else first, page="")

    def direction(self, column: Column) -> str:
        """As ``aria-sort`` has it."""
        if self.sort == column.key:
            return "ascending"
        return "descending" if self.sort == f"-{column.key}" else "none"

    def _known(self, sort: str) -> str:
        return sort if sort.removeprefix("-") in {each.key for each in self.columns} else ""

    def _found(self, rows: list[Attributes], searched: Sequence[str]) -> list[Attributes]:
        wanted = self.q.casefold()
        if not wanted:
            return rows
        return [row for row in rows if any(wanted in str(row.get(key, "")).casefold() for key in searched)]

    def _sorted(self, rows: list[Attributes]) -> list[Attributes]:
        key = self.sort.removeprefix("-")
        if not key:
            return rows
        return sorted(rows, key=lambda row: _order(row.get(key)), reverse=self.sort.startswith("-"))


def _order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool) or value is None:
        return 0, bool(value)
    return (1, value) if isinstance(value, int | float) else (2, str(value).casefold())


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 1
