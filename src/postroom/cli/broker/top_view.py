"""What `postroom top` shows: two looks at a broker as tables, the later one with the rates between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]
Column = tuple[str, bool, Callable[[Row], str | Text]]
"""Head, whether it holds numbers, and what stands in it."""

HEADER_LINES: Final = 1
SECTION_LINES: Final = 2
"""Title and heads of the columns."""
COLUMN_GAP: Final = 2
LEAST_WIDTH: Final = 8
"""Of the column that gives way."""
LEAST_ROWS: Final = 3
"""Of a section, however small the terminal."""

SORTS: Final = ("rate", "depth", "name")

_STATE_STYLES: Final = {
    "running": "green",
    "stopped": "bold red",
    "retrying": "yellow",
    "paused": "yellow",
    "stopping": "yellow",
}
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Snapshot:
    """What the broker has said at one time."""

    at_s: float
    """Any clock that doesn't go back."""
    broker: Row
    queues: Sequence[Row]
    channels: Sequence[Row]
    connections: Sequence[Row]
    members: Sequence[Row] = ()
    """Of a replicated queue manager; else none."""


@dataclass(frozen=True)
class Section:
    """One table: its columns, and its rows in order."""

    title: str
    columns: Sequence[tuple[str, bool]]
    """Head, and whether it holds numbers."""
    rows: Sequence[Sequence[str | Text]]
    gives_way: int
    """The column that is cut where the terminal is too narrow."""


class View:
    """The look ``now``; with the one ``before`` there are rates."""

    def __init__(self, before: Snapshot | None, now: Snapshot, sort: str = "rate") -> None:
        """``sort``: one of SORTS."""
        self._before: Final = before
        self._now: Final = now
        self._sort: Final = sort

    # The whole.

    def render(self, columns: int, lines: int = 0) -> RenderableType:
        """For a terminal of so many columns and lines; 0 lines: everything."""
        sections = self.sections()
        most = self._most_rows(sections, lines) if lines else [len(section.rows) for section in sections]
        tables = [_table(section, count, columns) for section, count in zip(sections, most, strict=True)]
        return Group(self._header(), *tables)

    def sections(self) -> list[Section]:
        """Members where there are any, channels, queues, connections."""
        members = [self._members()] if self._now.members else []
        return [*members, self._channels(), self._queues(), self._connections()]

    def as_json(self) -> dict[str, object]:
        """The same for scripts; rates are null where there is no look before."""
        now = self._now
        return {
            "broker": dict(now.broker),
            "queues": [
                {**row, "in_s": self._rate("queues", row, _received), "out_s": self._out(row)}
                for row in now.queues
            ],
            "channels": [{**row, "messages_s": self._rate("channels", row, _moved)} for row in now.channels],
            "connections": [
                row
                | {
                    f"{what}_s": self._rate("connections", row, count)
                    for what, count in (("in", _in), ("out", _sent))
                }
                for row in map(dict, now.connections)
            ],
            "members": [dict(row) for row in now.members],
        }

    def _header(self) -> Text:
        broker = self._now.broker
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(str(broker["container_id"]), "bold")
        text.append(f"  Postroom {broker['version']}")
        text.append(f"   {_whole(broker['queues'])} queues, {_whole(broker['connections'])} connections")
        if broker["blocked_sends"]:
            text.append(f"   {_whole(broker['blocked_sends'])} sends blocked", "yellow")
        for alarm in broker["alarms"]:
            text.append(f"   {alarm['name']}", "bold red")
        return text

    def _most_rows(self, sections: Sequence[Section], lines: int) -> list[int]:
        """How many rows of each section fit: each as many as it has, the largest give way first."""
        room = lines - HEADER_LINES - SECTION_LINES * len(sections)
        wanted = [len(section.rows) for section in sections]
        while sum(wanted) > room and max(wanted) > LEAST_ROWS:
            wanted[wanted.index(max(wanted))] -= 1
        return wanted

    # Sections.

    def _members(self) -> Section:
        columns: list[Column] = [
            *(_text("member", "name"), _text("state", "state"), _count("entries behind", "behind")),
            ("bytes", True, lambda row: _size(int(row["behind_bytes"]))),
            *(_count("seconds", "behind_s"), _count("position", "position")),
        ]
        return _section("Members", columns, sorted(self._now.members, key=lambda row: str(row["name"])), 0)

    def _queues(self) -> Section:
        def pending(row: Row) -> Text:
            count = int(row["messages_pending"])
            return Text(_whole(count), "yellow" if count else "")

        columns: list[Column] = [
            *(_text("queue", "name"), ("depth", True, lambda row: _whole(_depth(row)))),
            *(("pending", True, pending), ("bytes", True, lambda row: _size(int(row["bytes_current"])))),
            ("in/s", True, lambda row: _per_s(self._rate("queues", row, _received))),
            ("out/s", True, lambda row: _per_s(self._out(row))),
            _count("consumers", "consumers"),
        ]
        rows = self._sorted(self._now.queues, self._queue_rate, _depth)
        return _section("Queues", columns, rows, 0)

    def _channels(self) -> Section:
        def state(row: Row) -> Text:
            return Text(str(row["state"]), _STATE_STYLES.get(str(row["state"]), ""))

        def doubt(row: Row) -> Text:
            is_in_doubt = row["in_doubt"]
            text = _whole(row["in_doubt_messages"]) if is_in_doubt else "no"
            return Text(text, "bold yellow" if is_in_doubt else "")

        def rate(row: Row) -> float | None:
            return self._rate("channels", row, _moved)

        def sequence(row: Row) -> str:
            return _whole(max(int(row["current_sequence"]), int(row["last_sequence"])))

        columns: list[Column] = [
            *(_text("channel", "name"), ("state", False, state), _text("partner", "partner")),
            *(("in doubt", True, doubt), ("sequence", True, sequence), _count("messages", "messages")),
            *(("msg/s", True, lambda row: _per_s(rate(row))), ("why", False, _why)),
        ]
        return _section("Channels", columns, self._sorted(self._now.channels, rate, _moved), len(columns) - 1)

    def _connections(self) -> Section:
        def name(row: Row) -> str:
            return f"{'→' if row['outgoing'] else '←'} {row['name']}"

        def blocked(row: Row) -> Text:
            count = int(row["blocked_sends"])
            return Text(_whole(count), "yellow" if count else "")

        columns: list[Column] = [
            *(("connection", False, name), _text("container", "container_id"), _text("user", "user")),
            _count("links", "links"),
            ("in/s", True, lambda row: _per_s(self._rate("connections", row, _in))),
            ("out/s", True, lambda row: _per_s(self._rate("connections", row, _sent))),
            *(_count("unsettled", "unsettled"), ("blocked", True, blocked)),
        ]
        rows = self._sorted(self._now.connections, self._connection_rate, _links)
        return _section("Connections", columns, rows, 1)

    # Rates.

    def _rate(self, kind: str, row: Row, count: Callable[[Row], int]) -> float | None:
        """How much more of ``count`` there has been a second; None where nobody knows."""
        before = self._before
        if before is None or self._now.at_s <= before.at_s:
            return None
        rows: Sequence[Row] = getattr(before, kind)
        earlier = next((each for each in rows if each["name"] == row["name"]), None)
        if earlier is None:
            return None
        return max(0.0, (count(row) - count(earlier)) / (self._now.at_s - before.at_s))

    def _out(self, row: Row) -> float | None:
        """Whatever has left the queue, by whatever way: what came, less what it has grown by."""
        return self._rate("queues", row, lambda each: _received(each) - _depth(each))

    def _queue_rate(self, row: Row) -> float:
        return (self._rate("queues", row, _received) or 0) + (self._out(row) or 0)

    def _connection_rate(self, row: Row) -> float:
        rates = [self._rate("connections", row, count) for _, count in _IN_AND_OUT]
        return sum(rate or 0 for rate in rates)

    def _sorted(
        self, rows: Sequence[Row], rate: Callable[[Row], float | None], depth: Callable[[Row], int]
    ) -> list[Row]:
        by_name = sorted(rows, key=lambda row: str(row["name"]))
        if self._sort == "name":
            return by_name
        if self._sort == "depth":
            return sorted(by_name, key=lambda row: -depth(row))
        return sorted(by_name, key=lambda row: (-(rate(row) or 0), -depth(row)))


def _table(section: Section, most: int, columns: int) -> Table:
    count = len(section.rows)
    more = "" if most >= count else f", {most} shown"
    title = Text(f"{section.title} ({count}{more})", "bold")
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="")
    rows = section.rows[:most]
    widths = [
        max([len(head), *(cell_len(str(row[at])) for row in rows)])
        for at, (head, _) in enumerate(section.columns)
    ]
    flexible = section.gives_way
    left = columns - sum(widths) + widths[flexible] - COLUMN_GAP * (len(widths) - 1)
    widths[flexible] = max(LEAST_WIDTH, min(widths[flexible], left))
    for (head, number), width in zip(section.columns, widths, strict=True):
        align: JustifyMethod = "right" if number else "left"
        style = "" if number else "bold" if head == section.columns[0][0] else ""
        table.add_column(head, justify=align, no_wrap=True, overflow="ellipsis", width=width, style=style)
    for row in rows:
        table.add_row(*row)
    return table


def _why(row: Row) -> str:
    """What people want to know of a channel that doesn't run."""
    state, reason = row["state"], str(row["reason"])
    if state == "running":
        return ""
    if state != "retrying":
        return reason
    short, long = int(row["short_retries_left"]), int(row["long_retries_left"])
    left = f"{short} short retries left" if short else f"{long:,} long retries left"
    return f"{left}: {reason}"


def _counter(name: str) -> Callable[[Row], int]:
    return lambda row: int(row[name])


_received: Final = _counter("messages_received")
_moved: Final = _counter("messages")
_in: Final = _counter("messages_in")
_sent: Final = _counter("messages_out")
_links: Final = _counter("links")
_IN_AND_OUT: Final = (("in_s", _in), ("out_s", _sent))


def _depth(row: Row) -> int:
    return int(row["messages_current"]) + int(row["messages_pending"])


def _text(head: str, name: str) -> Column:
    return head, False, lambda row: str(row[name])


def _count(head: str, name: str) -> Column:
    return head, True, lambda row: _whole(row[name])


def _section(title: str, columns: Sequence[Column], rows: Sequence[Row], gives_way: int) -> Section:
    cells = [[cell(row) for _, _, cell in columns] for row in rows]
    return Section(title, [(head, number) for head, number, _ in columns], cells, gives_way)


def _whole(value: Any) -> str:
    return f"{int(value):,}"


def _per_s(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _size(count_bytes: float) -> str:
    """With three digits or so, and a unit."""
    for unit in _UNITS[:-1]:
        if count_bytes < 1000:
            return f"{count_bytes:.{0 if unit == 'B' or count_bytes >= 100 else 1}f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:,.1f} {_UNITS[-1]}"
