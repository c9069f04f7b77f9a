"""Two queue managers, A and B, with a channel from A to B, in virtual time."""

from typing import Any

from postroom.model.channel_states import Verdict
from postroom.server.channels.instance import StopMode
from tests.server.channels.stations import Stations

SENDER: dict[str, Any] = {
    "name": "A.B",
    "type": "sender",
    "connection": "amqp://B:1",
    "transmission_queue": "B",
    "disconnect_interval_s": 100,
    "heartbeat_interval_s": 0,
    "short_retry_count": 2,
    "short_retry_interval_s": 10,
    "long_retry_count": 2,
    "long_retry_interval_s": 60,
}


RECEIVER: dict[str, Any] = {"name": "A.B", "type": "receiver"}


AT_A: dict[str, Any] = {"queue": [{"name": "B", "usage": "transmission"}], "limits": {"idle_timeout_ms": 0}}


AT_B: dict[str, Any] = {"queue": [{"name": "in"}], "limits": {"idle_timeout_ms": 0}}


def make(sender: dict[str, Any] | None = None, receiver: dict[str, Any] | None = None) -> Stations:
    """A with a sender to B with a receiver; each as usual but for what is said."""
    return Stations(
        A={**AT_A, "channel": [{**SENDER, **(sender or {})}]},
        B={**AT_B, "channel": [{**RECEIVER, **(receiver or {})}]},
    )


def start(world: Stations, name: str = "A") -> Verdict:
    verdict = world.channel(name).start(world.now_us)
    world.nodes[name].turn_wanted = True
    world.settle()
    return verdict


def stop(
    world: Stations, name: str = "A", mode: StopMode = StopMode.QUIESCE, to_inactive: bool = False
) -> None:
    world.channel(name).stop(mode, to_inactive, world.now_us)
    world.nodes[name].turn_wanted = True
    world.settle()
