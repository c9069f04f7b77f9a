"""Sections about all messages over time: what queues held, and how long messages stayed in a state."""

import math
from collections.abc import Mapping
from html import escape
from typing import Final

from postroom.spark.report import html, svg
from postroom.spark.report.data import Dwell, ReportData
from postroom.spark.report.depth import depth_picture, key, layers_of
from postroom.spark.report.html import picture, section, table
from postroom.spark.report.style import STATE_COLORS
from postroom.spark.report.svg import Box, Picture, duration, line, n, rect, text
from postroom.spark.report.timeline import words

MAX_DEPTHS: Final = 6
"""So many queues have a picture of their depth: those where most happened."""
MAX_DWELLS: Final = 12


def depth(data: ReportData) -> str:
    """What queues held: current and pending by cause."""
    if not data.depths or data.steps is None:
        return ""
    shown = data.depths[:MAX_DEPTHS]
    layers = layers_of(data.depths)
    rows = [
        (one.queue, one.arrivals, one.ends, one.highest, *(one.at_end(layer) for layer in layers), one.last)
        for one in data.depths[: html.MAX_ROWS]
    ]
    heads = ("queue", "arrived", "ended", "highest", *map(words, layers), "in all")
    numbers = table(heads, rows, set(range(1, len(heads))), "What each queue holds at the end")
    rest = f" The table has all {len(data.depths):,} queues." if len(data.depths) > len(shown) else ""
    intro = (
        f"What the busiest queues held at the end of each step of {duration(data.steps.step_us)},"
        f" by state, and delayed messages by cause. Each has a scale of its own.{rest}"
    )
    drawn = svg.legend(key(shown)) + picture(depth_picture(shown, data.steps), numbers)
    return section("Current and pending over time", intro, drawn, data.remarks.get("depth", ""))


def waiting(data: ReportData) -> str:
    """How long messages stayed in each state."""
    if not data.dwells:
        return ""
    shown = data.dwells[:MAX_DWELLS]
    found = [bars(one.buckets, data.gamma) for one in shown]
    low = min(min(one) for one in found)
    high = max(max(max(one) for one in found), low + 7)
    parts = ""
    for one, by_bar in zip(shown, found, strict=True):
        half, most = duration(one.p50_us), duration(one.p99_us)
        within = escape(f"{one.entries:,} entries; half within {half}, 99 % within {most}")
        drawn = waiting_picture(one, by_bar, low, high).inline()
        parts += f"<div><h3>{escape(one.queue)}: {escape(words(one.state))}</h3><p>{within}</p>{drawn}</div>"
    rows = [
        (one.queue, words(one.state), one.entries, *map(duration, (one.p50_us, one.p90_us, one.p99_us)))
        for one in data.dwells[: html.MAX_ROWS]
    ]
    caption = f"{html.first_of('queues and states', len(data.dwells))}; quantiles within 2 %"
    numbers = table(("queue", "state", "entries", "p50", "p90", "p99"), rows, {2, 3, 4, 5}, caption)
    intro = "Of entries that have ended, per queue and state; all on one logarithmic scale of time."
    shown_parts = f"<div class=multiples>{parts}</div>{html.behind(numbers)}"
    return section("How long messages stayed", intro, shown_parts, data.remarks.get("dwell", ""))


# --- how long messages stayed: a sketch's buckets on a logarithmic scale of time -------------------

SIZE: Final = (420.0, 96.0)
TOP: Final = 14.0
BARS_A_DECADE: Final = 8
LABELS_AT_MOST: Final = 6


def bars(buckets: Mapping[int, int], gamma: float) -> dict[int, int]:
    """Buckets of the sketch put together to a few bars for each power of ten: bar b ends at 10^(b/8) µs."""
    found: dict[int, int] = {}
    for bucket, entries in buckets.items():
        bar = math.ceil(bucket * math.log10(gamma) * BARS_A_DECADE - 1e-9)
        found[bar] = found.get(bar, 0) + entries
    return found


def bar_end_us(bar: int) -> float:
    """The longest stay that falls into a bar."""
    return float(10 ** (bar / BARS_A_DECADE))


def waiting_picture(one: Dwell, found: Mapping[int, int], low: int, high: int) -> Picture:
    """Bars from ``low`` to ``high``, with the half and the 99 % marked."""
    width, height = SIZE
    top = max(found.values(), default=0) or 1
    step = (width - 20) / (high - low + 1)
    out = [line(10, height, width - 10, height, "axis")]
    for bar in range(low, high + 1):
        entries = found.get(bar, 0)
        if entries:
            tall = max(entries / top * (height - TOP - 4), 1.5)
            box = Box(10 + (bar - low) * step + 0.5, height - tall, max(step - 1, 1), tall)
            title = f"{entries:,} for {duration(bar_end_us(bar - 1))} to {duration(bar_end_us(bar))}"
            out.append(rect(box, STATE_COLORS.get(one.state, "s1"), title, 1))
    out.append(_marks(one, low, high, step))
    out.append(_labels(low, high, step))
    return Picture(f"Time {words(one.state)} on {one.queue}", width, height + 20, "".join(out))


def _marks(one: Dwell, low: int, high: int, step: float) -> str:
    out, used = [], -1e9
    for name, value_us in (("p50", one.p50_us), ("p90", one.p90_us), ("p99", one.p99_us)):
        place = math.log10(max(value_us, 1e-3)) * BARS_A_DECADE - low + 1
        x = 10 + min(max(place, 0.0), high - low + 1.0) * step
        out.append(line(x, TOP, x, SIZE[1], "mark"))
        if x - used > 26:
            out.append(text(x, TOP - 4, name, "middle", "tick"))
            used = x
    return "".join(out)


def _labels(low: int, high: int, step: float) -> str:
    """At powers of ten, few enough to be read."""
    powers = [bar for bar in range(low, high + 1) if bar % BARS_A_DECADE == 0]
    every = -(-len(powers) // LABELS_AT_MOST) or 1
    out = []
    for bar in powers[::every]:
        x = 10 + (bar - low + 1) * step
        out.append(f'<path d="M{n(x)} {n(SIZE[1])}v4" class="axis"/>')
        out.append(text(x, SIZE[1] + 17, duration(bar_end_us(bar)), "middle", "tick"))
    return "".join(out)
