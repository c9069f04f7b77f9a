"""Dynamic nodes: queues and topics that live as long as the link that asked for them (part 3, section 3.5.9
and on).

A lifetime policy other than delete-on-close lets the node live on after that link, until it has no links, no
messages, or neither. None outlives a restart of the broker: who knew the address is gone. One that was asked
for as a temporary destination of JMS is consumed by its own connection only; everybody may send to it.
"""

from collections.abc import Callable
from typing import Final, cast

from postroom.amqp.encoding.types import Described
from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, AmqpError
from postroom.amqp.extensions import LIFETIME_POLICY, TEMPORARY_QUEUE_CAPABILITY, TEMPORARY_TOPIC_CAPABILITY
from postroom.amqp.frames.termini import (
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    DELETE_ON_NO_MESSAGES,
)
from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.options import KIND_QUEUE, KIND_TOPIC
from postroom.manager.manager import QueueManager
from postroom.model.names import DYNAMIC_PREFIX
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.links.terminus import means_topic

CHECK_INTERVAL_US: Final = 1_000_000
"""How often a queue that waits to be empty is looked at."""

_BY_NAME: Final = {
    "amqp:delete-on-close:list": DELETE_ON_CLOSE,
    "amqp:delete-on-no-links:list": DELETE_ON_NO_LINKS,
    "amqp:delete-on-no-messages:list": DELETE_ON_NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": DELETE_ON_NO_LINKS_OR_MESSAGES,
}
_WAITS_FOR_LINKS: Final = (DELETE_ON_NO_LINKS, DELETE_ON_NO_LINKS_OR_MESSAGES)
_WAITS_FOR_MESSAGES: Final = (DELETE_ON_NO_MESSAGES, DELETE_ON_NO_LINKS_OR_MESSAGES)


class DynamicNodes:
    """Every dynamic node with its lifetime policy."""

    def __init__(
        self,
        manager: QueueManager,
        new_name: Callable[[], str],
        links_of: Callable[[str], int],
        users: dict[str, str],
    ) -> None:
        """``links_of`` tells how many links a node has; ``users`` is to know who has had it made."""
        self._manager = manager
        self._new_name = new_name
        self._links_of = links_of
        self._users: Final = users
        self._policies: Final[dict[str, int]] = {}
        self._owners: Final[dict[str, str]] = {}
        """Container ids of those whose temporary destinations they are."""
        self._orphans: Final[set[str]] = set()
        """Nodes whose own link is gone, but whose policy lets them live on."""
        self._check_us = 0

    def create(
        self,
        container_id: str,
        user: str,
        capabilities: list[str],
        properties: dict[object, object] | None,
        now_us: int,
    ) -> Destination:
        """A new queue or topic, as the capabilities say. Raises `AmqpError` for a lifetime policy that is
        none.
        """
        policy = _policy(properties or {})
        kind = KIND_TOPIC if means_topic(capabilities) else KIND_QUEUE
        name = DYNAMIC_PREFIX + self._new_name()
        definition = self._manager.options.new_queue(name, kind, temporary=True)
        node = self._manager.create_queue(definition, now_us)
        self._policies[name] = policy
        self._users[name] = user
        if TEMPORARY_QUEUE_CAPABILITY in capabilities or TEMPORARY_TOPIC_CAPABILITY in capabilities:
            self._owners[name] = container_id
        return node

    def check_consumer(self, name: str, container_id: str) -> None:
        """Raises `AmqpError` where the node is a temporary destination of somebody else."""
        owner = self._owners.get(name)
        if owner is not None and owner != container_id:
            raise AmqpError(
                NOT_ALLOWED, f"{name!r} is a temporary destination: only the connection that made it consumes"
            )

    def link_closed(self, name: str, own: bool, now_us: int) -> None:
        """A link to the node ``name`` is gone for good; ``own``: the one that had it made."""
        if name in self._policies:
            if own:
                self._orphans.add(name)
            if name in self._orphans:
                self._delete_if_due(name, now_us)

    def on_time(self, now_us: int) -> None:
        """Look at the nodes that wait to be empty."""
        if self._orphans and now_us >= self._check_us:
            self._check_us = now_us + CHECK_INTERVAL_US
            for name in list(self._orphans):
                self._delete_if_due(name, now_us)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._check_us if self._orphans else 0

    def delete_left_over(self, now_us: int) -> int:
        """Delete what a former run has left; how many those were. Before the first connection."""
        names = [name for name in self._manager.queues if name.startswith(DYNAMIC_PREFIX)]
        for name in names:
            self._manager.delete_queue(name, False, False, now_us)
        return len(names)

    def _delete_if_due(self, name: str, now_us: int) -> None:
        manager = self._manager
        queue = manager.queues.get(name) or manager.topics.get(name)
        policy = self._policies[name]
        if queue is not None:
            if policy in _WAITS_FOR_LINKS and self._links_of(name) > 0:
                return
            if policy in _WAITS_FOR_MESSAGES and queue.statistics.depth > 0:
                return
            try:
                if isinstance(queue, Topic):
                    manager.delete_topic(name, False, now_us)
                else:
                    manager.delete_queue(name, False, False, now_us)
            except ManagerError:
                return  # a holder has what may not be decided for it: checked again
        del self._policies[name]
        self._owners.pop(name, None)
        self._users.pop(name, None)
        self._orphans.discard(name)


def _policy(properties: dict[object, object]) -> int:
    wanted = properties.get(LIFETIME_POLICY)
    if wanted is None:
        return DELETE_ON_CLOSE
    descriptor = wanted.descriptor if isinstance(wanted, Described) else wanted
    if isinstance(descriptor, str):
        descriptor = _BY_NAME.get(descriptor)
    if isinstance(descriptor, int) and DELETE_ON_CLOSE <= descriptor <= DELETE_ON_NO_LINKS_OR_MESSAGES:
        return int(descriptor)
    raise AmqpError(INVALID_FIELD, f"lifetime-policy {wanted!r} is none of the specification's")


def dynamic_nodes_of(broker: BrokerState) -> DynamicNodes:
    """Those of a broker."""
    return cast(DynamicNodes, broker.state(DynamicNodes))
