"""The life of messages as a drawn time line: one lane for each, one box for each state.

The axis goes from event to event: where much happens in a millisecond there is room for it, and a night takes
no more than it needs; how long a state lasted is written into its box.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postroom.server.console.formats import duration, moment, words
from postroom.server.console.life import Life, Stay

WIDTH: Final = 1000.0
LANE: Final = 62.0
TOP: Final = 22.0
"""Of a lane: above its boxes stands the name."""
MAX_LANES: Final = 20
MAX_BOXES: Final = 200
"""Drawn; the tables below have the others."""
NARROWEST: Final = 1.0
"""The weight of an interval without a duration; one of a second has 4, of a day 9."""
CHARACTER: Final = 6.6
"""The width of one."""

COLORS: Final = {
    "available": "s1", "put_unconfirmed": "s5", "locked_for_browse": "s2", "get_unconfirmed": "s8",
    "browse_get_unconfirmed": "s7", "delayed": "s3",
}  # fmt: skip
"""Of states, as in the audit's report."""


@dataclass(frozen=True, slots=True)
class StateBox:
    """A state, drawn."""

    stay: Stay
    x: float
    width: float
    color: str
    text: str
    """As much of what it is as there is room for."""
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A message, drawn."""

    life: Life
    y: float
    boxes: list[StateBox]
    end_x: float
    end_text: str
    parent_y: float | None
    """Where the lane of what it was made of is."""
    begin_x: float


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it."""

    lanes: list[Lane]
    height: float
    marks: list[tuple[float, str]]
    """Times along the axis."""
    left_out: bool


def drawn(lives: Sequence[Life], now_us: int) -> Picture:
    """The lives, as far as there is room."""
    shown, boxes = list[Life](), 0
    for life in lives[:MAX_LANES]:
        boxes += len(life.stays)
        if shown and boxes > MAX_BOXES:
            break
        shown.append(life)
    axis = _Axis(shown, now_us)
    heights = {life.serial: index * LANE for index, life in enumerate(shown)}
    lanes = [_lane(life, heights, axis, now_us) for life in shown]
    return Picture(lanes, len(shown) * LANE + 26, axis.marks(), len(shown) < len(lives))


class _Axis:
    """Times to places: each interval between two events is as wide as the logarithm of its length."""

    def __init__(self, lives: Sequence[Life], now_us: int) -> None:
        times = {stay.since_us for life in lives for stay in life.stays[:MAX_BOXES]}
        times |= {life.ended_us for life in lives if life.ended_us is not None}
        if any(life.ended_us is None for life in lives):
            times.add(max(now_us, max(times, default=0)))
        self._times: Final = sorted(times)
        weights = [
            NARROWEST + math.log10(1 + (after - before) / 1000)
            for before, after in zip(self._times, self._times[1:], strict=False)
        ]
        scale = WIDTH / (sum(weights) or 1)
        places, x = [0.0], 0.0
        for weight in weights:
            x += weight * scale
            places.append(x)
        self._places: Final = dict(zip(self._times, places, strict=False))

    def place(self, time_us: int) -> float:
        """Of a time that something happened at."""
        return self._places.get(time_us, WIDTH)

    def marks(self) -> list[tuple[float, str]]:
        """Times to be written, as many as there is room for."""
        found, room = list[tuple[float, str]](), 0.0
        for time_us in self._times:
            x, text = self._places[time_us], moment(time_us)[11:]
            if x >= room and x + len(text) * CHARACTER <= WIDTH:
                found.append((round(x, 1), text))
                room = x + (len(text) + 3) * CHARACTER
        return found


def _lane(life: Life, heights: dict[int, float], axis: _Axis, now_us: int) -> Lane:
    boxes = [_box(stay, axis, now_us) for stay in life.stays[:MAX_BOXES]]
    end_x = WIDTH if life.ended_us is None else axis.place(life.ended_us)
    total = duration((now_us if life.ended_us is None else life.ended_us) - life.since_us)
    end_text = (
        f"{words(life.outcome or 'ended')} after {total}"
        if life.ended_us is not None
        else f"here for {total}"
    )
    begin_x = axis.place(life.since_us)
    return Lane(
        life,
        heights[life.serial],
        boxes,
        round(end_x, 1),
        end_text,
        heights.get(life.parent),
        round(begin_x, 1),
    )


def _box(stay: Stay, axis: _Axis, now_us: int) -> StateBox:
    x = axis.place(stay.since_us)
    end = WIDTH if stay.until_us is None else axis.place(stay.until_us)
    lasted = duration(stay.duration_us(now_us))
    name = words(stay.state) + (f" ({stay.causes})" if stay.causes else "")
    title = f"{name} for {lasted}" + (f", {stay.holder}" if stay.holder else "") + f", by {words(stay.event)}"
    width = max(end - x, 2.0)
    room = int((width - 10) / CHARACTER)
    text = next((each for each in (f"{name} {lasted}", name, lasted) if len(each) <= room), "")
    return StateBox(stay, round(x, 1), round(width, 1), COLORS.get(stay.state, "quiet"), text, title)
