"""Which subscriptions a published message goes to."""

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.destinations.topic import Route, Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.name_rules import is_pattern
from postroom.manager.queues.queue import Subscription


def enrol(core: Core, queue: Subscription) -> None:
    """Messages come to the subscription ``queue`` from now on, and it is found by its client and name."""
    subscriptions = subscriptions_of(core)
    queue.routed = True
    subscriptions.patterns.add(queue.topic, queue)
    if queue.label:
        subscriptions.named[queue.key()] = queue
    forget_routes(core, queue.topic)
    if queue.quota.pool is not None:
        queue.quota.pool.mark()  # one that waits there may need more than will ever fit


def dismiss(core: Core, queue: Subscription) -> None:
    """Nothing comes to it any more."""
    if not queue.routed:
        return
    subscriptions = subscriptions_of(core)
    queue.routed = False
    subscriptions.patterns.remove(queue.topic, queue)
    if subscriptions.named.get(queue.key()) is queue:
        del subscriptions.named[queue.key()]
    forget_routes(core, queue.topic)
    for listener in destinations_of(core).listeners:
        listener.unrouted(core, queue)


def forget_routes(core: Core, pattern: str) -> None:
    """The routes of the topics that ``pattern`` matches are to be found anew."""
    if is_pattern(pattern):
        subscriptions_of(core).route_version += 1
        return
    topic = destinations_of(core).topics.get(pattern)
    if topic is not None:
        topic.route = None


def route_of(core: Core, topic: Topic) -> Route:
    """The subscriptions that match the topic."""
    route = topic.route
    if route is None or route.version != subscriptions_of(core).route_version:
        route = _find(core, topic)
        topic.route = route
    return route


def _find(core: Core, topic: Topic) -> Route:
    subscriptions = subscriptions_of(core)
    queues = subscriptions.patterns.matching(topic.name)
    queues.sort(key=lambda queue: int(queue.id))
    route = Route(queues, subscriptions.route_version)
    for queue in queues:
        if queue.choosy():
            route.choosy = True
        if queue.switches.closed_to_puts:
            route.closed.append(queue)
        if queue.quota.pool is not None:
            route.limited.append(queue)
        if queue.statistics.meter is not None:
            route.metered.append(queue)
    return route


def slows_down(core: Core, queue: Destination) -> bool:
    """Whether ``queue`` is above a threshold, or, of a topic, a subscription to it is."""
    if not isinstance(queue, Topic):
        meter = queue.statistics.meter
        return meter is not None and meter.armed
    for each in route_of(core, queue).metered:
        meter = each.statistics.meter
        if meter is not None and meter.armed:
            return True
    return False


def wanting(queues: list[Subscription], fields: MessageFields, container: str) -> list[Subscription]:
    """Of ``queues``, those that want a message which ``container`` publishes."""
    return [queue for queue in queues if _wants(queue, fields, container)]


def _wants(queue: Subscription, fields: MessageFields, container: str) -> bool:
    if queue.no_local and queue.client == container:
        return False
    selector = queue.selector
    return selector is None or selector.matches(fields)


def set_of(core: Core, route: Route, takers: list[Subscription]) -> i64:
    """What an arrival names as its queues: the one, or the set of ``takers``, all or part of ``route``."""
    if len(takers) == 1:
        return takers[0].id
    is_whole = takers is route.queues
    found = route.set if is_whole else None
    if found is None or found.dropped:
        found = subscriptions_of(core).routing_sets.find(b"".join([queue.member for queue in takers]))
        if is_whole:
            route.set = found
    return found.id
