"""Small pictures as inline SVG: stacked bars, lines over time, histograms. Colours are CSS variables of the
page."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Final

WIDTH: Final = 900
LABEL_WIDTH: Final = 190
BAR_HEIGHT: Final = 18
ROW_HEIGHT: Final = 32
SERIES_COUNT: Final = 8
"""So many series have a colour of their own."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in SVG units."""

    x: float
    y: float
    width: float
    height: float


def n(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def count(value: float) -> str:
    """A count for people: 950, 12.3 k, 4.1 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (1000 if unit == ' k' else limit):.3g}{unit}"
    return f"{value:,.0f}"


def duration_ms(ms: float) -> str:
    """Milliseconds for people: 4 ms, 2 s, 3.5 min, 5 h, 2 d."""
    for limit, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")):
        if ms >= limit:
            value = ms / limit
            return (
                f"{value:.0f} {unit}"
                if value >= 10 or abs(value - round(value)) < 0.05
                else f"{value:.1f} {unit}"
            )
    return f"{ms:.3g} ms"


def document(height: float, label: str, parts: Iterable[str], width: float = WIDTH) -> str:
    """An SVG element with a spoken label."""
    body = "".join(parts)
    return f'<svg viewBox="0 0 {n(width)} {n(height)}" role="img" aria-label="{escape(label)}">{body}</svg>'


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "label") -> str:
    return f'<text x="{n(x)}" y="{n(y)}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'


def clipped(content: str, limit: int = 26) -> str:
    """A name short enough for its place."""
    return content if len(content) <= limit else content[: limit - 1] + "…"


def rect(box: Box, color: str, title: str, radius: float = 2) -> str:
    shape = f'x="{n(box.x)}" y="{n(box.y)}" width="{n(box.width)}" height="{n(box.height)}" rx="{n(radius)}"'
    return f'<rect {shape} style="fill:var(--{color})"><title>{escape(title)}</title></rect>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    return f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}" class="{kind}"/>'


def ticks(top: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 to at least `top`."""
    if top <= 0:
        return [0, 1]
    raw = top / wanted
    scale = 10 ** math.floor(math.log10(raw))
    step = max(1.0, next(m for m in (1, 2, 5, 10) if m * scale >= raw) * scale)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def legend(names: Sequence[tuple[str, str]]) -> str:
    """Names with their colours, as HTML above a picture."""
    items = (f'<span><i style="background:var(--{color})"></i>{escape(name)}</span>' for name, color in names)
    return f'<p class="legend">{"".join(items)}</p>'


# --- stacked bars ---------------------------------------------------------------------------------


def stacked_bars(rows: Sequence[tuple[str, Sequence[tuple[str, str, int]]]], label: str) -> str:
    """One bar a row: (name, [(part, colour, count)…]), with the sum at its end."""
    longest = max((sum(c for _, _, c in parts) for _, parts in rows), default=0) or 1
    room = WIDTH - LABEL_WIDTH - 90
    drawn = (
        _stacked_bar(i * ROW_HEIGHT, name, parts, room / longest) for i, (name, parts) in enumerate(rows)
    )
    return document(max(1, len(rows)) * ROW_HEIGHT, label, drawn)


def _stacked_bar(y: float, name: str, parts: Sequence[tuple[str, str, int]], scale: float) -> str:
    middle = y + ROW_HEIGHT / 2
    out = [text(LABEL_WIDTH - 10, middle + 4, clipped(name), "end")]
    x = float(LABEL_WIDTH)
    for part, color, number in parts:
        if number == 0:
            continue
        width = max(number * scale, 1.5)
        box = Box(x, middle - BAR_HEIGHT / 2, max(width - 1, 1), BAR_HEIGHT)
        out.append(rect(box, color, f"{name}: {number:,} {part}"))
        x += width
    out.append(text(x + 6, middle + 4, count(sum(c for _, _, c in parts)), kind="value"))
    return "".join(out)


# --- lines over time ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A named value over time: what it was at first, and what it has been since each point."""

    name: str
    before: float
    points: Sequence[tuple[datetime, float]]


def lines(series: Sequence[Line], first: datetime, last: datetime, label: str) -> str:
    """Lines over one time axis; each value holds until the next, as a queue keeps its messages."""
    marks = ticks(max(max(line.before, *(value for _, value in line.points)) for line in series))
    plot = Box(60, 12, WIDTH - 60 - 20, 230)
    out = _value_axis(plot, marks)
    for index, one in enumerate(series):
        out.append(_step_path(one, plot, first, last, marks[-1], f"s{index % SERIES_COUNT + 1}"))
    out += _time_axis(plot, first, last)
    return document(plot.y + plot.height + 34, label, out)


def _step_path(one: Line, plot: Box, first: datetime, last: datetime, top: float, color: str) -> str:
    span_s = max((last - first).total_seconds(), 1e-9)

    def y(value: float) -> str:
        return n(plot.y + plot.height * (1 - value / top))

    steps = [f"M{n(plot.x)} {y(one.before)}"]
    for time, value in one.points:
        x = plot.x + max(0.0, (time - first).total_seconds()) / span_s * plot.width
        steps.append(f"H{n(x)}V{y(value)}")
    steps.append(f"H{n(plot.x + plot.width)}")
    path, style = "".join(steps), f"stroke:var(--{color})"
    return f'<path d="{path}" class="line" style="{style}"><title>{escape(one.name)}</title></path>'


def _value_axis(plot: Box, marks: Sequence[float]) -> list[str]:
    out = []
    for mark in marks:
        y = plot.y + plot.height * (1 - mark / marks[-1])
        out += [line(plot.x, y, plot.x + plot.width, y), text(plot.x - 8, y + 4, count(mark), "end", "tick")]
    return out


def _time_axis(plot: Box, first: datetime, last: datetime) -> list[str]:
    span_s = (last - first).total_seconds()
    pattern = "%H:%M:%S" if span_s < 3600 else "%H:%M" if span_s < 86_400 else "%d %b %H:%M"
    out = []
    for i in range(5):
        x = plot.x + plot.width * i / 4
        anchor = ("start", "middle", "middle", "middle", "end")[i]
        out.append(
            text(
                x,
                plot.y + plot.height + 20,
                (first + (last - first) * i / 4).strftime(pattern),
                anchor,
                "tick",
            )
        )
    return out


# --- histograms -----------------------------------------------------------------------------------


def histogram(buckets: dict[int, int], low: int, high: int, color: str, label: str) -> str:
    """Bars for buckets of a doubling number of milliseconds, from bucket `low` to `high`."""
    width, height = 420.0, 120.0
    top = max(buckets.values(), default=0) or 1
    step = (width - 20) / (high - low + 1)
    out = [line(10, height, width - 10, height, "axis")]
    for bucket in range(low, high + 1):
        number = buckets.get(bucket, 0)
        x = 10 + (bucket - low) * step
        if number:
            tall = max(number / top * (height - 14), 1.5)
            title = f"{number:,} waited {bucket_text(bucket)}"
            out.append(rect(Box(x + 1, height - tall, max(step - 2, 1), tall), color, title))
        if (bucket - low) % max(1, math.ceil(46 / step)) == 0:
            out.append(
                text(x, height + 15, duration_ms(_bucket_floor(bucket)) if bucket else "0", "start", "tick")
            )
    return document(height + 22, label, out, width)


def bucket_text(bucket: int) -> str:
    """A bucket in words."""
    if bucket == 0:
        return "under 1 ms"
    return f"{duration_ms(_bucket_floor(bucket))} to {duration_ms(2.0**bucket)}"


def bucket_end_text(bucket: int) -> str:
    """The time that a bucket ends at."""
    return duration_ms(2.0**bucket)


def _bucket_floor(bucket: int) -> float:
    return 2.0 ** (bucket - 1) if bucket else 0.0


def percentile_bucket(buckets: dict[int, int], share: float) -> int:
    """The bucket in which the given share of all entries is reached."""
    wanted = share * sum(buckets.values())
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return bucket
    return 0
