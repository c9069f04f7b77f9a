"""When rows are final: what several tables have in common."""

from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.range import MINUTE_US, Range

HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US


def newest(rows: pa.Table, column: str) -> Array:
    """For each row the newest time (µs) in a column among the rows of its ledger."""
    times, ledgers = arrays.numbers(rows.column(column)), arrays.codes(rows.column("ledger_id")).numbers
    if not len(times):
        return times
    found = np.full(int(ledgers.max()) + 1, 0, np.int64)
    np.maximum.at(found, ledgers, times)
    by_row: Array = found[ledgers]
    return by_row


def is_quiet(rows: pa.Table, column: str, age_us: int) -> Array:
    """Which rows are older than the newest of their ledger by more than that."""
    quiet: Array = arrays.numbers(rows.column(column)) < newest(rows, column) - age_us
    return quiet


def is_past_minute(rows: pa.Table, events: Range | None, settled: bool) -> Array:
    """Rows of a minute: done if it lies within the range that they were made of, other minutes before and
    behind it (times never go back), or, when all are at hand, if it is an hour older than the newest."""
    if settled:
        return is_quiet(rows, "minute", HOUR_US)
    if events is None or not len(events):
        return np.zeros(len(rows), bool)
    first, last = _minutes(events)
    minutes = arrays.numbers(rows.column("minute"))
    ledgers = arrays.codes(rows.column("ledger_id"))
    inside = np.zeros(len(rows), bool)
    for number, text in enumerate(ledgers.texts):
        mine = ledgers.numbers == number
        inside |= mine & (minutes > first[text]) & (minutes < last[text])
    return inside


def _minutes(events: Range) -> tuple[dict[str, int], dict[str, int]]:
    """The first and the last minute of each ledger's events; what is carried is older than any."""
    minutes, ledgers = events.minutes_us, events.ledgers
    first, last = {}, {}
    for number, text in enumerate(events.codes("ledger_id").texts):
        mine = minutes[(ledgers == number) & ~events.is_carried]
        first[text], last[text] = (int(mine.min()), int(mine.max())) if len(mine) else (0, 0)
    return first, last


def arrived_within(rows: pa.Table, events: Range | None) -> Array:
    """Which rows are of a message that arrived in the range: its serial is a position of it."""
    if events is None or not len(events):
        return np.zeros(len(rows), bool)
    serials, ledgers = arrays.numbers(rows.column("serial")), arrays.codes(rows.column("ledger_id"))
    begins = np.array([events.begins[text] for text in ledgers.texts])
    within: Array = serials >= begins[ledgers.numbers]
    return within
