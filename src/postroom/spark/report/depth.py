"""The picture of what queues held over time: areas by state and by cause of delay, one on another."""

from collections.abc import Sequence
from html import escape
from typing import Final

from postroom.spark.report.data import LAYERS, Depth, Steps
from postroom.spark.report.style import STATE_COLORS
from postroom.spark.report.svg import (
    WIDTH,
    Box,
    Picture,
    clipped,
    count,
    drawn_legend,
    n,
    text,
    ticks,
    time_axis,
    value_axis,
)

COLUMNS: Final = 2
GAP: Final = 28.0
HEAD: Final = 24.0
PLOT_HEIGHT: Final = 110.0
FOOT: Final = 40.0
QUEUE_NAME: Final = 34
"""Characters shown of a name."""
AXIS: Final = 52.0
"""Room for the numbers at the left."""


def layers_of(depths: Sequence[Depth]) -> list[str]:
    """The layers that hold anything anywhere, in the order of `LAYERS`."""
    return [layer for layer in LAYERS if any(any(one.layers.get(layer, ())) for one in depths)]


def key(depths: Sequence[Depth]) -> list[tuple[str, str]]:
    """Words and colours of the layers."""
    return [(LAYERS[layer], STATE_COLORS[layer]) for layer in layers_of(depths)]


def depth_picture(depths: Sequence[Depth], steps: Steps, has_legend: bool = False) -> Picture:
    """One small picture a queue, side by side, all over the same time, each on a scale of its own."""
    columns = min(COLUMNS, len(depths))
    width = (WIDTH - GAP * (columns - 1)) / columns
    tall = HEAD + PLOT_HEIGHT + FOOT
    top = 26.0 if has_legend else 0.0
    drawn = [drawn_legend(key(depths), AXIS, 12)] if has_legend else []
    for index, one in enumerate(depths):
        place = Box((index % columns) * (width + GAP), top + index // columns * tall, width, tall)
        drawn.append(_one(one, steps, place))
    rows = -(-len(depths) // columns)
    return Picture("Messages on queues over time, by state", WIDTH, top + rows * tall - 14, "".join(drawn))


def _one(one: Depth, steps: Steps, place: Box) -> str:
    plot = Box(place.x + AXIS, place.y + HEAD, place.width - AXIS - 6, PLOT_HEIGHT)
    shown = layers_of([one])
    sums = [sum(values) for values in zip(*(one.layers[layer] for layer in shown), strict=True)] or [0]
    marks = ticks(max(sums), 3)
    out = [text(plot.x, place.y + 15, clipped(one.queue, QUEUE_NAME), kind="name")]
    out.append(text(plot.x + plot.width, place.y + 15, f"highest {count(one.highest)}", "end", "tick"))
    out.append(value_axis(plot, marks))
    floor = [0] * steps.count
    for layer in shown:
        ceiling = [low + high for low, high in zip(floor, one.layers[layer], strict=True)]
        out.append(_area(plot, floor, ceiling, marks[-1], layer, one.queue))
        floor = ceiling
    out.append(time_axis(plot, steps.first_us, steps.last_us, 2))
    return "".join(out)


def _area(plot: Box, floor: Sequence[int], ceiling: Sequence[int], top: float, layer: str, queue: str) -> str:
    width = plot.width / len(floor)

    def y(value: float) -> str:
        return n(plot.y + plot.height * (1 - value / top))

    path = [f"M{n(plot.x)} {y(ceiling[0])}"]
    for index, value in enumerate(ceiling):
        path.append(f"V{y(value)}H{n(plot.x + (index + 1) * width)}")
    for index in range(len(floor) - 1, -1, -1):
        path.append(f"V{y(floor[index])}H{n(plot.x + index * width)}")
    title = escape(f"{queue}: {LAYERS[layer]}")
    style = f"fill:var(--{STATE_COLORS[layer]})"
    return f'<path d="{"".join(path)}Z" class="area" style="{style}"><title>{title}</title></path>'
