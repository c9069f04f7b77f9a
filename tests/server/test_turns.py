"""Who works when: pieces in rotation, and what is looked at between them."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from postroom.server import turns
from postroom.server.turns import PIECE_BYTES, TURN_FRAMES, Turns


@pytest.fixture(autouse=True)
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn ends by its time."""
    monkeypatch.setattr(turns, "monotonic_us", lambda: 0)


class Loop:
    """Calls when it is told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, action: Callable[[], None]) -> None:
        self.soon.append(action)

    def run(self) -> None:
        soon, self.soon = self.soon, []
        for action in soon:
            action()


class World:
    """The end of turns, and workers that note when they had their go."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.turns = Turns(cast(asyncio.AbstractEventLoop, self.loop), self)
        self.seen: list[str] = []
        self.open = True

    def may_take_in(self) -> bool:
        return self.open

    def between_pieces(self) -> None:
        self.seen.append("look")

    def end_turn(self) -> None:
        self.seen.append("end")


class Worker:
    def __init__(self, world: World, name: str, pieces: int, frames: int = 1) -> None:
        self.world, self.name, self.pieces, self.frames = world, name, pieces, frames
        world.turns.wake(self)

    def work(self, limit_bytes: int) -> int:
        assert limit_bytes == PIECE_BYTES
        self.pieces -= 1
        self.world.seen.append(self.name)
        return self.frames

    def has_work(self) -> bool:
        return self.pieces > 0


def test_pieces_rotate_and_the_commit_is_looked_at_after_each() -> None:
    world = World()
    Worker(world, "flood", 2, TURN_FRAMES // 4)
    Worker(world, "small", 1)
    world.loop.run()
    assert world.seen == ["flood", "look", "small", "look", "flood", "look", "end"]
    assert world.loop.soon == []


def test_a_turn_ends_at_its_bound_and_the_next_goes_on_in_rotation() -> None:
    world = World()
    Worker(world, "a", 2, TURN_FRAMES)
    Worker(world, "b", 1)
    world.loop.run()
    assert world.seen == ["a", "look", "end"]
    world.loop.run()
    assert world.seen[3:] == ["b", "look", "a", "look", "end"]


def test_nothing_is_taken_while_too_much_waits() -> None:
    world = World()
    Worker(world, "a", 1)
    world.open = False
    world.loop.run()
    assert world.seen == ["end"] and world.loop.soon == []
    world.open = True
    world.turns.go_on()
    world.loop.run()
    assert world.seen == ["end", "a", "look", "end"]
