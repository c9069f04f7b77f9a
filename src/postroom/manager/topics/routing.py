"""Which subscriptions a published message goes to."""

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.name_rules import is_pattern
from postroom.manager.producing import blocked_sends
from postroom.manager.producing.upload import Upload
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.topic import Route
from postroom.model.message import MessageHead


def enrol(core: Core, queue: Queue) -> None:
    """Messages come to the subscription ``queue`` from now on, and it is found by its client and name."""
    subscription = queue.subscription
    assert subscription is not None
    subscription.routed = True
    core.patterns.add(subscription.topic, queue)
    if subscription.name:
        core.subscriptions[subscription.key()] = queue
    forget_routes(core, subscription.topic)
    if queue.quota.pool is not None:
        queue.quota.pool.mark()  # one that waits there may need more than will ever fit


def dismiss(core: Core, queue: Queue) -> None:
    """Nothing comes to it any more."""
    subscription = queue.subscription
    if subscription is None or not subscription.routed:
        return
    subscription.routed = False
    core.patterns.remove(subscription.topic, queue)
    if core.subscriptions.get(subscription.key()) is queue:
        del core.subscriptions[subscription.key()]
    forget_routes(core, subscription.topic)
    if queue.quota.pool is not None and queue.quota.has_own_pool:
        blocked_sends.free_line(core, queue.quota.pool)
    elif queue.quota.pool is not None:
        queue.quota.pool.mark()  # those that wait there need less of it


def forget_routes(core: Core, pattern: str) -> None:
    """The routes of the topics that ``pattern`` matches are to be found anew."""
    if is_pattern(pattern):
        core.route_version += 1
        return
    node = core.topics.get(pattern)
    if node is not None and node.topic is not None:
        node.topic.route = None


def route_of(core: Core, node: Queue) -> Route:
    """The subscriptions that match the topic ``node``."""
    topic = node.topic
    assert topic is not None
    route = topic.route
    if route is None or route.version != core.route_version:
        route = _find(core, node)
        topic.route = route
    return route


def _find(core: Core, node: Queue) -> Route:
    queues = core.patterns.matching(node.name)
    queues.sort(key=_by_id)
    route = Route(queues, core.route_version)
    for queue in queues:
        subscription = queue.subscription
        if subscription is not None and subscription.choosy():
            route.choosy = True
        if queue.switches.closed_to_puts:
            route.closed.append(queue)
        if queue.quota.pool is not None:
            route.limited.append(queue)
        if queue.statistics.meter is not None:
            route.metered.append(queue)
    return route


def _by_id(queue: Queue) -> int:
    return int(queue.id)


def slows_down(core: Core, queue: Queue) -> bool:
    """Whether ``queue`` is above a threshold, or, of a topic, a subscription to it is."""
    if queue.topic is None:
        meter = queue.statistics.meter
        return meter is not None and meter.armed
    for each in route_of(core, queue).metered:
        meter = each.statistics.meter
        if meter is not None and meter.armed:
            return True
    return False


def members_of(queues: list[Queue]) -> bytes:
    """Their ids as a routing set has them."""
    members: list[bytes] = []
    for queue in queues:
        subscription = queue.subscription
        assert subscription is not None
        members.append(subscription.member)
    return b"".join(members)


def wanting(queues: list[Queue], fields: MessageFields, container: str) -> list[Queue]:
    """Of ``queues``, the subscriptions that want a message which ``container`` publishes."""
    return [queue for queue in queues if _wants(queue, fields, container)]


def _wants(queue: Queue, fields: MessageFields, container: str) -> bool:
    subscription = queue.subscription
    assert subscription is not None
    if subscription.no_local and subscription.client == container:
        return False
    selector = subscription.selector
    return selector is None or selector.matches(fields)


def fields_of(head: MessageHead, body: bytes | None, upload: Upload | None) -> MessageFields:
    """What selectors see of a message that is being published."""
    sections = upload.opening if upload is not None else body
    return MessageFields(head.priority, head.durable, 0, sections or b"", None)


def set_of(core: Core, route: Route, takers: list[Queue]) -> i64:
    """What an arrival names as its queues: the one, or the set of ``takers``, all or part of ``route``."""
    if len(takers) == 1:
        return takers[0].id
    if takers is not route.queues:
        return core.routing_sets.find(members_of(takers)).id
    found = route.set
    if found is None or found.dropped:
        found = core.routing_sets.find(members_of(takers))
        route.set = found
    return found.id
