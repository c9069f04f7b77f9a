"""Two queue managers, A and B, with a channel from A to B."""

from postroom.model.channel_states import ChannelState
from postroom.server.configuration.config import QueueConfig
from tests.channel.pair import Place, World

A_TO_B = "A.TO.B"


def sender(**changes: object) -> dict[str, object]:
    """The definition at A."""
    return {
        "name": A_TO_B,
        "type": "sender",
        "transmission_queue": "B",
        "connection": "amqp://B:5672",
        "short_retry_interval_s": 1,
        "triggered": False,
        **changes,
    }


def receiver(**changes: object) -> dict[str, object]:
    """The definition at B."""
    return {"name": A_TO_B, "type": "receiver", **changes}


def two(sending: dict[str, object], receiving: dict[str, object]) -> tuple[World, Place, Place]:
    """Both queue managers, the channel at rest; B has a queue IN."""
    world = World()
    a = world.add("A", QueueConfig(name="B", usage="transmission"))
    b = world.add("B", QueueConfig(name="IN"))
    b.define(**receiving)
    a.define(**sending)
    return world, a, b


def running(sending: dict[str, object], receiving: dict[str, object]) -> tuple[World, Place, Place]:
    """The same, the channel running."""
    world, a, b = two(sending, receiving)
    a.start(A_TO_B)
    world.settle()
    assert a.state(A_TO_B) == b.state(A_TO_B) == ChannelState.RUNNING, (a.reason(A_TO_B), b.reason(A_TO_B))
    return world, a, b
