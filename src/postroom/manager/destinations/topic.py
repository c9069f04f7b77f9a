"""A topic, and where messages published to it go."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues.queue import Subscription

if TYPE_CHECKING:
    from postroom.manager.destinations.routing_sets import RoutingSet


@final
class Route:
    """The subscriptions that match one topic's name, as long as none comes or goes."""

    def __init__(self, queues: list[Subscription], version: i64) -> None:
        self.version: i64 = version
        self.queues = queues
        self.choosy = False
        """Some take only part of what is published."""
        self.closed: list[Subscription] = []
        """Those whose production or insertion is paused."""
        self.limited: list[Subscription] = []
        """Those that may have no room."""
        self.metered: list[Subscription] = []
        """Those that may be above a threshold."""
        self.set: RoutingSet | None = None
        """Of all of them, once something was published to all."""


@final
class Topic(Destination):
    """A topic: it holds no entries, it passes messages on to its subscriptions."""

    def __init__(
        self, id: i64, definition: QueueDefinition, max_message_bytes: i64, held_by_all: HeldByAll
    ) -> None:
        super().__init__(id, definition, max_message_bytes, held_by_all)
        self.route: Route | None = None
        self.unrouted: i64 = 0
        """Messages published while nobody subscribed, or wanted them."""
