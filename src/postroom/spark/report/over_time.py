"""Sections about all messages over time: what queues held, and how long messages stayed in a state."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from postroom.spark.report import html, svg
from postroom.spark.report.data import Depth, Dwell, ReportData
from postroom.spark.report.depth import depth_picture, key, layers_of
from postroom.spark.report.html import picture, section, table
from postroom.spark.report.svg import duration
from postroom.spark.report.timeline import words
from postroom.spark.report.waiting import bars, waiting_picture

MAX_DEPTHS: Final = 6
"""So many queues have a picture of their depth: those where most happened."""
MAX_DWELLS: Final = 12


def depth(data: ReportData) -> str:
    """What queues held: current and pending by cause."""
    if not data.depths or data.steps is None:
        return ""
    shown = data.depths[:MAX_DEPTHS]
    numbers = _last_of(data.depths)
    rest = f" The table has all {len(data.depths):,} queues." if len(data.depths) > len(shown) else ""
    intro = (
        f"What the busiest queues held at the end of each step of {duration(data.steps.step_us)},"
        f" by state, and delayed messages by cause. Each has a scale of its own.{rest}"
    )
    drawn = svg.legend(key(shown)) + picture(depth_picture(shown, data.steps), numbers)
    return section("Current and pending over time", intro, drawn, data.remarks.get("depth", ""))


def _last_of(depths: Sequence[Depth]) -> str:
    layers = layers_of(depths)
    rows = [
        (one.queue, one.arrivals, one.ends, one.highest, *(one.at_end(layer) for layer in layers), one.last)
        for one in depths[: html.MAX_ROWS]
    ]
    heads = ("queue", "arrived", "ended", "highest", *map(words, layers), "in all")
    return table(heads, rows, set(range(1, len(heads))), "What each queue holds at the end")


def waiting(data: ReportData) -> str:
    """How long messages stayed in each state."""
    if not data.dwells:
        return ""
    shown = data.dwells[:MAX_DWELLS]
    found = [bars(one.buckets, data.gamma) for one in shown]
    low = min(min(one) for one in found)
    high = max(max(max(one) for one in found), low + 7)
    parts = "".join(_waited(one, by_bar, low, high) for one, by_bar in zip(shown, found, strict=True))
    rows = [
        (one.queue, words(one.state), one.entries, *map(duration, (one.p50_us, one.p90_us, one.p99_us)))
        for one in data.dwells[: html.MAX_ROWS]
    ]
    caption = f"{html.first_of('queues and states', len(data.dwells))}; quantiles within 2 %"
    numbers = table(("queue", "state", "entries", "p50", "p90", "p99"), rows, {2, 3, 4, 5}, caption)
    intro = "Of entries that have ended, per queue and state; all on one logarithmic scale of time."
    shown_parts = f"<div class=multiples>{parts}</div>{html.behind(numbers)}"
    return section("How long messages stayed", intro, shown_parts, data.remarks.get("dwell", ""))


def _waited(one: Dwell, by_bar: Mapping[int, int], low: int, high: int) -> str:
    text = f"{one.entries:,} entries; half within {duration(one.p50_us)}, 99 % within {duration(one.p99_us)}"
    drawn = waiting_picture(one, by_bar, low, high).inline()
    return f"<div><h3>{escape(one.queue)}: {escape(words(one.state))}</h3><p>{escape(text)}</p>{drawn}</div>"
