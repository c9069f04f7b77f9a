"""When the loop waits awake for what comes next, and when it sleeps."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from postroom.server.listening.busy_polling import PROMPT_SWITCH_S, SHORT_GAPS, BusyPolling

LIMIT_US = 100


class World:
    """A loop that calls when it is told to, and a clock that each call takes a microsecond of."""

    def __init__(self, limit_us: int = LIMIT_US) -> None:
        self.now_us = 1_000
        self.soon: list[Callable[[], None]] = []
        self.idle = False
        loop = cast(asyncio.AbstractEventLoop, self)
        self.polling = BusyPolling(loop, limit_us, lambda: self.idle, lambda: self.now_us)

    def call_soon(self, action: Callable[[], None]) -> None:
        self.soon.append(action)

    def gap(self, us: int) -> int:
        """A gap of so long; how often the loop polled in it."""
        self.idle = True
        self.polling.begin_gap()
        until_us, polls = self.now_us + us, 0
        while self.soon and self.now_us < until_us:
            self.now_us += 1
            polls += 1
            self.soon.pop()()
        self.now_us = until_us
        self.idle = False
        self.polling.end_gap()
        while self.soon:
            self.soon.pop()()
        return polls


@pytest.fixture
def world() -> Iterator[World]:
    before_s = sys.getswitchinterval()
    yield World()
    sys.setswitchinterval(before_s)


def test_short_gaps_in_a_row_are_polled_through(world: World) -> None:
    assert [world.gap(50) for _ in range(SHORT_GAPS)] == [0] * SHORT_GAPS
    assert world.gap(50) == 50
    assert world.gap(LIMIT_US) == LIMIT_US


def test_one_long_gap_ends_it_at_the_limit(world: World) -> None:
    for _ in range(SHORT_GAPS):
        world.gap(50)
    assert world.gap(10 * LIMIT_US) == LIMIT_US + 1, "it goes to sleep when the limit is over"
    assert [world.gap(50) for _ in range(SHORT_GAPS)] == [0] * SHORT_GAPS, "and counts anew"
    assert world.gap(50) == 50


def test_gaps_that_are_seldom_short_are_slept_through(world: World) -> None:
    pattern = ([50] * (SHORT_GAPS - 1) + [LIMIT_US + 1]) * 5
    assert [world.gap(us) for us in pattern] == [0] * len(pattern)


def test_never_with_a_limit_of_zero() -> None:
    world = World(limit_us=0)
    assert [world.gap(0) for _ in range(3 * SHORT_GAPS)] == [0] * (3 * SHORT_GAPS)


def test_others_give_the_interpreter_back_sooner_while_gaps_are_short(world: World) -> None:
    usual_s = sys.getswitchinterval()
    seen = []
    for us in [50] * (SHORT_GAPS + 1) + [10 * LIMIT_US, 50]:
        world.gap(us)
        seen.append(sys.getswitchinterval())
    prompt = [PROMPT_SWITCH_S] * 2
    assert seen == pytest.approx([usual_s] * (SHORT_GAPS - 1) + prompt + [usual_s] * 2)


def test_a_gap_is_begun_again_while_it_lasts_without_a_second_poll(world: World) -> None:
    """A turn that a timer asked for, within a gap."""
    for _ in range(SHORT_GAPS):
        world.gap(50)
    world.idle = True
    world.polling.begin_gap()
    world.polling.end_gap()
    world.polling.begin_gap()
    assert len(world.soon) == 1
