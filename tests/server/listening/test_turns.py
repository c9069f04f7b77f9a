"""Who works when: pieces in rotation, and what is looked at between them."""

import asyncio
from collections.abc import Callable
from typing import cast

from postroom.server.listening.turns import (
    LARGE_PIECE_BYTES,
    LITTLE_BYTES,
    MUCH_FOR_US,
    PIECE_BYTES,
    PIECE_EVENTS,
    SHARED_BLOCK_BYTES,
    SHARED_FOR_US,
    TURN_FRAMES,
    Turns,
)
from postroom.server.listening.turns import Worker as TurnsWorker


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
        self.now_us = 0
        """Stands still, so that no turn ends by its time."""
        self.turns = Turns(cast(asyncio.AbstractEventLoop, self.loop), self, 0, lambda: self.now_us)
        self.seen: list[str] = []
        self.open = True
        self.syncing = False
        self.waiting_bytes = 0

    def in_flight(self) -> bool:
        return self.syncing

    def next_block_bytes(self) -> int:
        return self.waiting_bytes

    def may_take_in(self) -> bool:
        return self.open

    def between_pieces(self) -> None:
        self.seen.append("look")

    def end_turn(self) -> None:
        self.seen.append("end")


class Worker(TurnsWorker):
    def __init__(
        self, world: World, name: str, pieces: int, frames: int = 1, inbox_bytes: int = LITTLE_BYTES + 1
    ) -> None:
        super().__init__()
        self.world, self.name, self.pieces, self.frames = world, name, pieces, frames
        self.inbox_bytes = inbox_bytes
        self.messages, self.sends = 0, True
        self.limits: list[int] = []
        """Of its goes."""
        self.takes_all = False
        world.turns.wake(self)

    def work(self, limit_bytes: int) -> int:
        self.limits.append(limit_bytes)
        if self.takes_all:
            self.inbox_bytes = 0
        self.pieces -= 1
        self.messages += self.sends
        self.world.seen.append(self.name)
        return self.frames

    def has_work(self) -> bool:
        return self.pieces > 0

    @property
    def messages_in(self) -> int:
        return self.messages


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


def _shared(world: World) -> tuple[Worker, Worker]:
    """A flood and one who sends little, each with one go taken; a block that is full, and one in flight."""
    flood, modest = Worker(world, "flood", 1), Worker(world, "modest", 1, inbox_bytes=LITTLE_BYTES)
    world.loop.run()
    world.seen.clear()
    world.syncing, world.waiting_bytes = True, SHARED_BLOCK_BYTES
    return flood, modest


def test_a_flood_waits_for_the_block_in_flight_when_the_next_is_full_and_others_share_it() -> None:
    world = World()
    flood, modest = _shared(world)
    for worker in (flood, modest):
        worker.pieces = 1
        world.turns.wake(worker)
    world.loop.run()
    assert world.seen == ["modest", "look", "end"]
    assert world.loop.soon == []  # no turn until the block in flight is durable
    world.syncing, world.waiting_bytes = False, 0
    world.turns.go_on()
    world.loop.run()
    assert world.seen[3:] == ["flood", "look", "end"]


def test_a_flood_that_shares_with_nobody_fills_blocks_as_it_likes() -> None:
    world = World()
    flood, _ = _shared(world)
    world.now_us = SHARED_FOR_US
    flood.pieces = 2
    world.turns.wake(flood)
    world.loop.run()
    assert world.seen == ["flood", "look", "flood", "look", "end"]


def test_who_sends_no_messages_shares_no_block() -> None:
    """A consumer's outcomes are small, too, and many: it doesn't wait for each."""
    world = World()
    flood, consumer = _shared(world)
    world.now_us = SHARED_FOR_US
    consumer.sends = False
    for worker in (consumer, flood):
        worker.pieces = 1
        world.turns.wake(worker)
    world.loop.run()
    assert world.seen == ["modest", "look", "flood", "look", "end"]


def test_a_flood_goes_on_while_the_shared_block_has_room() -> None:
    world = World()
    flood, _ = _shared(world)
    world.waiting_bytes = SHARED_BLOCK_BYTES - 1
    flood.pieces = 1
    world.turns.wake(flood)
    world.loop.run()
    assert world.seen == ["flood", "look", "end"]


def test_a_flood_that_is_held_back_has_its_turn_at_once_when_nothing_is_in_flight() -> None:
    world = World()
    flood, _ = _shared(world)
    world.syncing = False
    flood.pieces = 1
    world.turns.wake(flood)
    world.loop.run()
    assert world.seen == ["end"]
    world.waiting_bytes = 0  # as the end of the turn leaves it: the block has gone
    world.loop.run()
    assert world.seen == ["end", "flood", "look", "end"]


def test_the_last_drops_of_a_flood_are_no_reason_to_hold_it_back() -> None:
    world = World()
    flood = Worker(world, "flood", 1, inbox_bytes=LITTLE_BYTES)
    world.loop.run()
    flood.inbox_bytes, flood.pieces = LITTLE_BYTES + 1, 1
    world.syncing, world.waiting_bytes = True, SHARED_BLOCK_BYTES
    world.turns.wake(flood)
    world.loop.run()
    assert world.seen == ["flood", "look", "end", "flood", "look", "end"]


def _goes(world: World, worker: Worker, inbox_bytes: int, events: int = 1) -> None:
    """``worker`` has one go with so much in its inbox."""
    worker.inbox_bytes, worker.frames, worker.pieces = inbox_bytes, events, 1
    world.turns.wake(worker)
    world.loop.run()


def test_larger_messages_come_in_larger_pieces_up_to_a_bound() -> None:
    world = World()
    worker = Worker(world, "large", 1)
    world.loop.run()
    worker.takes_all = True
    for waiting_bytes, events in (
        (PIECE_BYTES, PIECE_EVENTS),  # of 2 KiB each
        (PIECE_BYTES, 2),
        (PIECE_BYTES, 0),  # the middle of a frame says nothing
        (PIECE_BYTES, 1),
        (PIECE_BYTES, 500),
        (PIECE_BYTES, 1),
    ):
        _goes(world, worker, waiting_bytes, events)
    usual, large = PIECE_BYTES, PIECE_EVENTS * PIECE_BYTES
    assert worker.limits == [usual, usual, usual, large // 2, large // 2, large, usual]
    assert large == LARGE_PIECE_BYTES == worker.piece_bytes
    _goes(world, worker, LARGE_PIECE_BYTES, 1)
    assert worker.piece_bytes == LARGE_PIECE_BYTES


def test_pieces_stay_small_beside_those_who_send_little() -> None:
    world = World()
    flood, _ = _shared(world)
    flood.takes_all = True
    world.syncing, world.waiting_bytes = False, 0
    _goes(world, flood, PIECE_BYTES, 1)
    _goes(world, flood, PIECE_BYTES, 1)
    assert flood.limits[-1] == PIECE_BYTES
    world.now_us = SHARED_FOR_US
    _goes(world, flood, PIECE_BYTES, 1)
    assert flood.limits[-1] == LARGE_PIECE_BYTES


def test_many_floods_at_once_share_no_block_with_one_another() -> None:
    """Each often has only a few messages there when its go comes: that doesn't make it one that sends
    little, for whom the others would wait."""
    world = World()
    floods = [Worker(world, "a", 1), Worker(world, "b", 1)]
    world.loop.run()
    world.now_us = MUCH_FOR_US - 1
    _goes(world, floods[0], LITTLE_BYTES)
    world.seen.clear()
    world.syncing, world.waiting_bytes = True, SHARED_BLOCK_BYTES
    _goes(world, floods[1], LITTLE_BYTES + 1)
    assert world.seen == ["b", "look", "end"]


def test_who_has_sent_much_sends_little_again_after_a_while() -> None:
    world = World()
    modest, flood = Worker(world, "modest", 1), Worker(world, "flood", 1)
    world.loop.run()
    world.now_us = MUCH_FOR_US
    _goes(world, modest, LITTLE_BYTES)
    world.seen.clear()
    world.syncing, world.waiting_bytes = True, SHARED_BLOCK_BYTES
    _goes(world, flood, LITTLE_BYTES + 1)
    assert world.seen == ["end"]
