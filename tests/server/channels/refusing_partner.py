"""A channel whose partner doesn't take every message."""

from typing import Any

from postroom.manager.kernel.options import QueueDefinition
from tests.server.channels.channel_pair import AT_A, AT_B, RECEIVER, SENDER
from tests.server.channels.stations import Stations

TEN = [f"fast {number}" for number in range(10)]


NEIGHBOURS = [f"slow {number}" for number in range(5)]


def make(
    sender: dict[str, Any] | None = None, receiver: dict[str, Any] | None = None, **at_b: Any
) -> Stations:
    """A, which sends to B when it is told to; B has no dead-letter queue."""
    settings = {**SENDER, "triggered": False, "short_retry_interval_s": 1, **(sender or {})}
    at_b = {**AT_B, "channel": [{**RECEIVER, **(receiver or {})}], **at_b}
    return Stations(A={**AT_A, "channel": [settings]}, B=at_b)


def create_queue(world: Stations, name: str) -> None:
    world.nodes["B"].manager.create_queue(QueueDefinition(name=name), world.now_us)


def put_behind_a_refused_one(world: Stations, refused: str = "LATE@B") -> None:
    world.put("A", refused, "refused")
    for fast, slow in zip(TEN, [*NEIGHBOURS, *[""] * 5], strict=True):
        world.put("A", "in@B", fast, durable=False)
        if slow:
            world.put("A", "in@B", slow)
