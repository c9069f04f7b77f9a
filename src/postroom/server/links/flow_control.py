"""The links that are slowed down: a tick for all of them, ten times a second while there are any."""

from typing import Final, cast

from postroom.manager.producing.flow_control import TICK_US
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.broker_state import BrokerState


class Pacing:
    """Gives credit to senders that are slowed down."""

    def __init__(self) -> None:
        self._links: Final[dict[BoundLink, None]] = {}
        self._next_us = 0

    def begin(self, link: BoundLink, now_us: int) -> None:
        """``link`` is slowed down from now on."""
        if not self._links:
            self._next_us = now_us + TICK_US
        self._links[link] = None

    def end(self, link: BoundLink) -> None:
        """``link`` is free, or gone."""
        self._links.pop(link, None)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._next_us if self._links else 0

    def on_time(self, now_us: int) -> None:
        """Give every link what it has earned."""
        if self._links and self._next_us <= now_us:
            self._next_us = now_us + TICK_US
            for link in list(self._links):
                link.tick(now_us)


def pacing_of(broker: BrokerState) -> Pacing:
    """That of a broker."""
    return cast(Pacing, broker.state(Pacing))
