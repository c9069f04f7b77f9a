"""What all pictures are made of, as inline SVG. Colours are CSS variables of the page.

Drawn by hand: ECharts refuses flows in a circle, and puts 667 KB of script into a page that needs none
(docs/explanation/own-parts.md).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from postroom.spark.report.style import COLORS, PICTURES

WIDTH: Final = 900
LABEL_WIDTH: Final = 190
BAR_HEIGHT: Final = 18
ROW_HEIGHT: Final = 32
NAME_CHARACTERS: Final = 26
MARGIN: Final = 16
"""Around a picture that is a file of its own."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in SVG units."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing: what a screen reader says of it, its size, and its SVG parts."""

    label: str
    width: float
    height: float
    body: str

    def inline(self) -> str:
        """For a page that has the style sheet."""
        return self._svg(f"0 0 {n(self.width)} {n(self.height)}", self.body)

    def alone(self) -> str:
        """As a file of its own, light or dark as its reader's screen is."""
        box = Box(-MARGIN, -MARGIN, self.width + 2 * MARGIN, self.height + 2 * MARGIN)
        ground = f'<rect x="{-MARGIN}" y="{-MARGIN}" width="100%" height="100%" style="fill:var(--card)"/>'
        style = f"<style>{COLORS}{PICTURES}</style>"
        view = f"{n(box.x)} {n(box.y)} {n(box.width)} {n(box.height)}"
        return self._svg(view, style + ground + self.body, ' xmlns="http://www.w3.org/2000/svg"')

    def _svg(self, view: str, body: str, more: str = "") -> str:
        label = escape(self.label)
        return (
            f'<svg viewBox="{view}" role="img" aria-label="{label}"{more}><title>{label}</title>{body}</svg>'
        )


# --- numbers for people ---------------------------------------------------------------------------


def n(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def count(value: float) -> str:
    """A count for people: 950, 12.3 k, 4.1 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (1000 if unit == ' k' else limit):.3g}{unit}"
    return f"{value:,.0f}"


def duration(us: float) -> str:
    """Microseconds for people: 40 µs, 4 ms, 2 s, 3.5 min, 5 h, 2 d."""
    for limit, unit in ((86_400e6, "d"), (3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms")):
        if us >= limit:
            value = us / limit
            is_round = value >= 10 or abs(value - round(value)) < 0.05
            return f"{value:.0f} {unit}" if is_round else f"{value:.1f} {unit}"
    return f"{us:.3g} µs"


def moment(us: int | None) -> str:
    """A time in UTC, to the second."""
    return "–" if us is None else at(us).strftime("%d %b %Y %H:%M:%S")


def at(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)


# --- shapes ---------------------------------------------------------------------------------------


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "label") -> str:
    return f'<text x="{n(x)}" y="{n(y)}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'


def clipped(content: str, limit: int = NAME_CHARACTERS) -> str:
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


def legend(names: Iterable[tuple[str, str]]) -> str:
    """Names with their colours, as HTML above a picture."""
    items = (f'<span><i style="background:var(--{color})"></i>{escape(name)}</span>' for name, color in names)
    return f'<p class="legend">{"".join(items)}</p>'


def drawn_legend(names: Sequence[tuple[str, str]], x: float, y: float) -> str:
    """The same inside a picture, in one line: for one that stands alone."""
    out = []
    for name, color in names:
        out.append(rect(Box(x, y - 10, 11, 11), color, name, 3))
        out.append(text(x + 17, y, name))
        x += 17 + 7.2 * len(name) + 18
    return "".join(out)


# --- axes -----------------------------------------------------------------------------------------


def value_axis(plot: Box, marks: Sequence[float]) -> str:
    """Numbers at the left, with lines across."""
    out = []
    for mark in marks:
        y = plot.y + plot.height * (1 - mark / marks[-1])
        kind = "axis" if mark == 0 else "grid"
        out += [line(plot.x, y, plot.x + plot.width, y, kind)]
        out += [text(plot.x - 8, y + 4, count(mark), "end", "tick")]
    return "".join(out)


def time_axis(plot: Box, first_us: int, last_us: int, places: int = 4) -> str:
    """Times of day, or dates, below."""
    span_s = (last_us - first_us) / 1e6
    pattern = "%H:%M:%S" if span_s < 3600 else "%H:%M" if span_s < 86_400 else "%d %b %H:%M"
    out = []
    for i in range(places + 1):
        x = plot.x + plot.width * i / places
        anchor = "start" if i == 0 else "end" if i == places else "middle"
        words = at(first_us + (last_us - first_us) * i // places).strftime(pattern)
        out.append(text(x, plot.y + plot.height + 18, words, anchor, "tick"))
    return "".join(out)


# --- stacked bars ---------------------------------------------------------------------------------


def stacked_bars(rows: Sequence[tuple[str, Sequence[tuple[str, str, int]]]], label: str) -> Picture:
    """One bar a row: (name, [(part, colour, count)…]), with the sum at its end."""
    longest = max((sum(c for _, _, c in parts) for _, parts in rows), default=0) or 1
    room = WIDTH - LABEL_WIDTH - 90
    drawn = (
        _stacked_bar(i * ROW_HEIGHT, name, parts, room / longest) for i, (name, parts) in enumerate(rows)
    )
    return Picture(label, WIDTH, max(1, len(rows)) * ROW_HEIGHT, "".join(drawn))


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
