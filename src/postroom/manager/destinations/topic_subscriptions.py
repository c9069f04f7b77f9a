"""Who subscribes to what, in a queue manager: names and patterns of topics in a trie, a node for each level.

Looking up a name meets only the nodes that its own levels lead to, so that the number of unrelated patterns
doesn't matter.
"""

from typing import cast, final

from mypy_extensions import i64

from postroom.manager.destinations.topic import RoutingSets
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.name_rules import LEVEL_MARK, ONE_LEVEL, REST
from postroom.manager.queues.queue import Queue, Subscription


@final
class _Node:
    """What begins with the same levels."""

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.here: dict[Subscription, None] = {}
        """Subscriptions whose pattern ends here."""


@final
class Patterns:
    """Every subscription by its pattern; a topic's own name is a pattern that only it matches."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, pattern: str, queue: Subscription) -> None:
        node = self._root
        for level in pattern.split(LEVEL_MARK):
            child = node.children.get(level)
            if child is None:
                child = node.children[level] = _Node()
            node = child
        node.here[queue] = None

    def remove(self, pattern: str, queue: Subscription) -> None:
        """Take out what was added; nodes that lead nowhere go."""
        way = [self._root]
        levels = pattern.split(LEVEL_MARK)
        for level in levels:
            child = way[-1].children.get(level)
            if child is None:
                return
            way.append(child)
        way[-1].here.pop(queue, None)
        while levels and not way[-1].here and not way[-1].children:
            way.pop()
            del way[-1].children[levels.pop()]

    def exactly(self, pattern: str) -> list[Subscription]:
        """The subscriptions to this very pattern or name."""
        node = self._root
        for level in pattern.split(LEVEL_MARK):
            child = node.children.get(level)
            if child is None:
                return []
            node = child
        return list(node.here)

    def matching(self, name: str) -> list[Subscription]:
        """The subscriptions whose pattern matches the topic ``name``."""
        found: list[Subscription] = []
        nodes = [self._root]
        for level in name.split(LEVEL_MARK):
            reached: list[_Node] = []
            for node in nodes:
                _take_rest(node, found)
                for step in (level, ONE_LEVEL):
                    child = node.children.get(step)
                    if child is not None:
                        reached.append(child)
            nodes = reached
        for node in nodes:
            found.extend(node.here)
            _take_rest(node, found)
        return found


def _take_rest(node: _Node, found: list[Subscription]) -> None:
    """Whoever takes everything that begins with the levels of ``node``."""
    rest = node.children.get(REST)
    if rest is not None:
        found.extend(rest.here)


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
