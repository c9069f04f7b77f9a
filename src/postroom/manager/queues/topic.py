"""What makes a queue object a topic or a subscription, and where messages published to a topic go."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.model.selector import Selector, parse

if TYPE_CHECKING:
    from postroom.manager.kernel.options import QueueDefinition
    from postroom.manager.queues.queue import Queue
    from postroom.manager.topics.routing_sets import RoutingSet


@final
class Route:
    """The subscriptions that match one topic's name, as long as none comes or goes."""

    def __init__(self, queues: "list[Queue]", version: i64) -> None:
        self.version: i64 = version
        self.queues = queues
        self.choosy = False
        """Some take only part of what is published."""
        self.closed: list[Queue] = []
        """Those whose production or insertion is paused."""
        self.limited: list[Queue] = []
        """Those that may have no room."""
        self.metered: list[Queue] = []
        """Those that may be above a threshold."""
        self.set: RoutingSet | None = None
        """Of all of them, once something was published to all."""


@final
class Topic:
    """The part of a topic's node that a queue has not: it holds no entries, it passes them on."""

    def __init__(self) -> None:
        self.route: Route | None = None
        self.unrouted: i64 = 0
        """Messages published while nobody subscribed, or wanted them."""


@final
class Subscription:
    """The part of a subscription that a queue has not; what it is never changes."""

    def __init__(self, queue_id: i64, definition: "QueueDefinition") -> None:
        self.topic = definition.topic
        """Its name, or a pattern of names."""
        self.client = definition.client
        self.name = definition.subscription
        self.durable = not definition.temporary
        self.shared = definition.shared
        self.no_local = definition.no_local
        self.selector: Selector | None = parse(definition.selector) if definition.selector else None
        self.member = int(queue_id).to_bytes(4, "little")
        """Its queue's id as the details of routing sets have it."""
        self.routed = False
        """Whether messages still come to it."""

    def choosy(self) -> bool:
        """Whether it takes only part of what is published."""
        return self.no_local or self.selector is not None

    def key(self) -> tuple[str, str, bool]:
        """What tells subscriptions apart: client, name, and whether it is durable."""
        return (self.client, self.name, self.durable)
