"""A few messages of the story, each with what its row in the ``entries`` table says of its life."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from postroom.spark.store import open_store, read_folded

COLUMNS = [
    "serial", "queue", "message_id", "state", "outcome", "arrival_time", "ended_time", "delivery_count",
    "parent_serial",
]  # fmt: skip
SHOWN = [
    "serial",
    "queue",
    "state",
    "outcome",
    "arrival_time",
    "ended_time",
    "delivery_count",
    "parent_serial",
]

Row = dict[str, Any]
CHOICES: list[tuple[str, Callable[[Row], bool]]] = [
    ("the large order", lambda row: row["message_id"] == "order-large"),
    ("the crashed consumer had it", lambda row: row["queue"] == "orders" and row["delivery_count"] > 0),
    ("rejected", lambda row: row["outcome"] == "dead_lettered"),
    ("its dead letter", lambda row: row["queue"] == "payments.dead"),
    ("too late", lambda row: row["outcome"] == "expired"),
    ("not persistent", lambda row: row["outcome"] == "lost"),
    ("outlived the kill", lambda row: row["message_id"] == "storm-0"),
]


def table(tables: Path) -> Table:
    """One row for each kind of fate in the story."""
    found = read_folded(open_store(str(tables), "entries"), COLUMNS)
    rows: list[Row] = sorted(found.to_pylist(), key=lambda row: row["serial"])
    shown = Table("", *SHOWN, title="\nSome lives, from the entries table", title_justify="left")
    for words, chosen in CHOICES:
        row = next((row for row in rows if chosen(row)), None)
        if row is not None:
            shown.add_row(words, *(text_of(row[name]) for name in SHOWN))
    return shown


def text_of(value: Any) -> str:
    """A cell: times to the millisecond, nothing for null."""
    if value is None:
        return ""
    return value.strftime("%H:%M:%S.%f")[:-3] if hasattr(value, "strftime") else str(value)
