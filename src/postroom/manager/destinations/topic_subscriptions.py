"""Who subscribes to what, in a queue manager."""

from typing import cast, final

from mypy_extensions import i64

from postroom.manager.destinations.routing_sets import RoutingSets
from postroom.manager.destinations.topic_trie import Patterns
from postroom.manager.kernel.core import Core
from postroom.manager.queues.queue import Queue, Subscription


@final
class TopicSubscriptions:
    """Subscriptions by pattern and by name, and those that end."""

    def __init__(self, core: Core) -> None:
        options = core.options
        self.patterns = Patterns()
        self.named: dict[tuple[str, str, bool], Subscription] = {}
        """Those with a name, by client, name, and whether they are durable."""
        self.route_version: i64 = 0
        """Rises when routes to many topics are to be found anew."""
        self.routing_sets = RoutingSets(
            core.ledger, options.max_routing_sets, options.max_routing_set_members
        )
        self.forsaken: list[Queue] = []
        """Subscriptions, and temporary queues from before the start, that go when this command is over."""
        self.doomed: list[Queue] = []
        """Those of them that wait until a transaction is decided."""


def subscriptions_of(core: Core) -> TopicSubscriptions:
    """Those of a queue manager."""
    return cast(TopicSubscriptions, core.state(TopicSubscriptions))


def forsake(core: Core, queue: Queue) -> None:
    """Nobody uses ``queue``, a subscription that isn't durable or is to end, or a temporary queue from before
    the start: it goes when this command is over."""
    subscriptions_of(core).forsaken.append(queue)
    core.agenda.due = True
