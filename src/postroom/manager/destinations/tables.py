"""The queues and topics of a queue manager by name, and what concerns all of them."""

from typing import cast, final

from mypy_extensions import i64

from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.queues.queue import Queue, Subscription


class DestinationListener:
    """A feature that has its part in making, redefining and removing queues, subscriptions and topics."""

    def check(self, core: Core, definition: QueueDefinition) -> None:
        """Raise a ManagerError where ``definition`` can't be."""

    def defined(self, core: Core, destination: Destination) -> None:
        """``destination`` is there, newly or by another definition."""

    def unrouted(self, core: Core, subscription: Subscription) -> None:
        """Nothing that is published comes to ``subscription`` any more."""

    def removed(self, core: Core, destination: Destination) -> None:
        """``destination``, which is empty, is no more."""


@final
class Destinations:
    """Queues, subscriptions among them, and topics, each by name."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self.listeners: list[DestinationListener] = []
        self.next_id: i64 = 1
        self.auto_created: i64 = 0
        self.leased_names: frozenset[str] = frozenset()
        """Those that leases in force name, whether there are such or not."""
        self.tapped: i64 = 0
        """How many of them all have `Destination.taps`."""

    def take_id(self, id: i64) -> None:
        """It belongs to a destination, a quota or a remote queue now."""
        self.next_id = max(self.next_id, id + 1)


def destinations_of(core: Core) -> Destinations:
    """Those of a queue manager."""
    return cast(Destinations, core.state(Destinations))
