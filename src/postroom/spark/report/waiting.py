"""The picture of how long messages stayed in a state: the sketch's buckets on a logarithmic scale of time."""

import math
from collections.abc import Mapping
from typing import Final

from postroom.spark.report.data import Dwell
from postroom.spark.report.style import STATE_COLORS
from postroom.spark.report.svg import Box, Picture, duration, line, n, rect, text

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
            words = f"{entries:,} for {duration(bar_end_us(bar - 1))} to {duration(bar_end_us(bar))}"
            out.append(rect(box, STATE_COLORS.get(one.state, "s1"), words, 1))
    out.append(_marks(one, low, high, step))
    out.append(_labels(low, high, step))
    return Picture(f"Time {one.state.replace('_', ' ')} on {one.queue}", width, height + 20, "".join(out))


def _marks(one: Dwell, low: int, high: int, step: float) -> str:
    out, used = [], -1e9
    for words, value_us in (("p50", one.p50_us), ("p90", one.p90_us), ("p99", one.p99_us)):
        place = math.log10(max(value_us, 1e-3)) * BARS_A_DECADE - low + 1
        x = 10 + min(max(place, 0.0), high - low + 1.0) * step
        out.append(line(x, TOP, x, SIZE[1], "mark"))
        if x - used > 26:
            out.append(text(x, TOP - 4, words, "middle", "tick"))
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
