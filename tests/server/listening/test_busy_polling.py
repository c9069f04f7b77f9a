"""When the loop waits awake for what comes next, and when it sleeps."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from postroom.server.listening import busy_polling
from postroom.server.listening.busy_polling import SHORT_GAPS, BusyPolling

LIMIT_US = 100


class World:
    """A loop that calls when it is told to, and a clock that each call takes a microsecond of."""

    def __init__(self, limit_us: int = LIMIT_US) -> None:
        self.now_us = 1_000
        self.soon: list[Callable[[], None]] = []
        self.idle = False
        self.polling = BusyPolling(cast(asyncio.AbstractEventLoop, self), limit_us, lambda: self.idle)

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
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(busy_polling, "monotonic_us", lambda: made.now_us)
    return made


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


def test_never_with_a_limit_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(limit_us=0)
    monkeypatch.setattr(busy_polling, "monotonic_us", lambda: world.now_us)
    assert [world.gap(0) for _ in range(3 * SHORT_GAPS)] == [0] * (3 * SHORT_GAPS)


def test_a_gap_is_begun_again_while_it_lasts_without_a_second_poll(world: World) -> None:
    """A turn that a timer asked for, within a gap."""
    for _ in range(SHORT_GAPS):
        world.gap(50)
    world.idle = True
    world.polling.begin_gap()
    world.polling.end_gap()
    world.polling.begin_gap()
    assert len(world.soon) == 1
