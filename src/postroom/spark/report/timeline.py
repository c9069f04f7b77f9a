"""The picture of single messages: each one's states as a bar, from its arrival on."""

import math
from collections.abc import Sequence
from typing import Final

from postroom.spark.report.data import Life
from postroom.spark.report.style import STATE_COLORS
from postroom.spark.report.svg import WIDTH, Box, Picture, clipped, duration, line, rect, text

LABEL: Final = 200.0
ROOM_AT_END: Final = 110.0
ROW: Final = 40.0
BAR: Final = 16.0
FOOT: Final = 26.0
NARROWEST: Final = 2.0
MARKS: Final = 4


def end_us(life: Life, now_us: int) -> int:
    """When it ended; now, while it is there."""
    return now_us if life.ended_us is None else life.ended_us


def states_of(lives: Sequence[Life]) -> list[str]:
    """The states that any of them was in, in the order of the colours."""
    seen = {phase.state for life in lives for phase in life.phases}
    return [state for state in STATE_COLORS if state in seen]


def timeline_picture(lives: Sequence[Life], now_us: int, label: str) -> Picture:
    """One row a message; all begin at the left, so that lengths can be compared."""
    longest = max((end_us(life, now_us) - life.arrival_us for life in lives), default=0) or 1
    plot = Box(LABEL, 4, WIDTH - LABEL - ROOM_AT_END, len(lives) * ROW)
    out = [_axis(plot, longest)]
    for index, life in enumerate(lives):
        out.append(_row(life, plot.y + index * ROW, now_us, plot.width / longest))
    return Picture(label, WIDTH, plot.y + plot.height + FOOT, "".join(out))


def _axis(plot: Box, longest_us: int) -> str:
    out = []
    step = duration_step_us(longest_us / MARKS)
    for mark in range(int(longest_us / step) + 1):
        x = plot.x + plot.width * mark * step / longest_us
        out.append(line(x, plot.y, x, plot.y + plot.height))
        out.append(
            text(x, plot.y + plot.height + 18, duration(mark * step) if mark else "put", "middle", "tick")
        )
    return "".join(out)


def duration_step_us(wanted_us: float) -> float:
    """The first round duration that is at least so long."""
    for unit in (60e6, 3_600e6, 86_400e6):
        if unit < wanted_us <= unit * 60:
            return next((unit * m for m in (1, 2, 5, 10, 15, 30) if unit * m >= wanted_us), unit * 60)
    scale = 10 ** math.floor(math.log10(max(wanted_us, 1)))
    return next(float(m * scale) for m in (1, 2, 5, 10) if m * scale >= wanted_us)


def _row(life: Life, y: float, now_us: int, scale: float) -> str:
    name = life.message_id or f"serial {life.serial}"
    out = [text(LABEL - 10, y + 16, clipped(name, 28), "end", "name")]
    out.append(text(LABEL - 10, y + 31, clipped(life.queue, 30), "end", "tick"))
    x = LABEL
    for phase in life.phases:
        x = max(x, LABEL + (phase.begin_us - life.arrival_us) * scale)
        width = max((phase.end_us - phase.begin_us) * scale, NARROWEST)
        stayed = duration(phase.end_us - phase.begin_us)
        why = f" ({phase.why})" if phase.why else ""
        box = Box(x, y + 8, width, BAR)
        out.append(
            rect(box, STATE_COLORS.get(phase.state, "quiet"), f"{words(phase.state)}{why}: {stayed}", 1)
        )
        x += width
    x = max(x, LABEL + (end_us(life, now_us) - life.arrival_us) * scale)
    out.append(text(x + 6, y + 16, duration(end_us(life, now_us) - life.arrival_us), kind="value"))
    out.append(text(x + 6, y + 31, words(life.outcome or "still there"), kind="tick"))
    return "".join(out)


def words(name: str) -> str:
    """A state or outcome for people."""
    return name.replace("_", " ")
