"""The peer attaches a link: find what it is to be bound to, and answer with the terminus actually granted.

A refusal is an attach without a terminus, then a detach with the error (part 2, section 2.6.3). The answer
leaves when what the attach has made (a queue, a producer) is durable.
"""

import logging
from typing import Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Described, Symbol
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.states import UNOPENED
from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, NOT_FOUND, AmqpError
from postroom.amqp.extensions import (
    CREATE_CAPABILITY,
    GLOBAL_CAPABILITY,
    MANAGEMENT_ADDRESS,
    NO_LOCAL_DESCRIPTOR,
    SELECTOR_DESCRIPTOR,
    SHARED_CAPABILITY,
)
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import DURABILITY_CONFIGURATION, EXPIRY_NEVER, Coordinator, Source, Target
from postroom.channel.wire import CHANNEL_ADDRESS
from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.name_rules import UNDELIVERED, is_pattern
from postroom.manager.queues.queue import Queue, Subscription
from postroom.model.names import DYNAMIC_PREFIX
from postroom.model.rights import REST, Right
from postroom.server.access.access import access_of
from postroom.server.access.traffic import traffic_of
from postroom.server.channels.receiving_link import grant_receiving
from postroom.server.channels.sending_link import grant_sending
from postroom.server.configuration.config import is_reserved
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.dynamic_nodes import dynamic_nodes_of
from postroom.server.links.incoming_link import IncomingLink
from postroom.server.links.outgoing_link import OutgoingLink
from postroom.server.links.registry import registry_of
from postroom.server.links.subscriptions import subscription_of_link, wanted_subscription
from postroom.server.links.terminus import (
    Filters,
    check_distribution_mode,
    granted_source,
    granted_target,
    is_copy,
    means_topic,
    read_filters,
)
from postroom.server.links.transaction_coordinator import CoordinatorLink, granted_coordinator
from postroom.server.logs import log
from postroom.server.management.links import ReplyLink, RequestLink


class Grant:
    """What a link is bound to, and the two ends as the attach reply states them."""

    def __init__(
        self,
        bound: BoundLink,
        source: Source | None,
        target: Target | Coordinator | None,
        *needs: tuple[Right, str],
    ) -> None:
        """``needs``: the rights by which it was let in."""
        self.bound: Final = bound
        self.source: Final = source
        self.target: Final = target
        bound.needs = list(needs)


def bind_link(binding: ConnectionState, link: Link, attach: Attach, now_us: int) -> None:
    """Answer the peer's attach of ``link``."""
    key = (binding.user, binding.container_id, link.name, link.role)
    previous = registry_of(binding.broker).claim(key, now_us)
    try:
        traffic_of(binding.broker).check_link(binding)
        grant = _grant(binding, link, attach, previous, now_us)
    except (AmqpError, ManagerError) as error:
        if previous is not None:
            previous.close(True, now_us)
        _refuse(binding, link, error)
        return
    bound = grant.bound
    link.context = bound
    binding.links[link] = bound
    registry_of(binding.broker).attached(key, bound)
    binding.broker.after_durable(binding, lambda later_us: _confirm(binding, link, grant, later_us))


def _refuse(binding: ConnectionState, link: Link, error: AmqpError | ManagerError) -> None:
    info = error.info if isinstance(error, AmqpError) else None
    log(
        logging.INFO,
        "attach-refused",
        remote=binding.remote,
        link=link.name,
        condition=error.condition,
        description=error.description,
    )
    link.refuse_attach(Error(error.condition, error.description, info))
    binding.touch()


def _confirm(binding: ConnectionState, link: Link, grant: Grant, now_us: int) -> None:
    """The answer, unless the link has gone meanwhile."""
    if link.context is grant.bound and link.local_state == UNOPENED:
        bound = grant.bound
        unsettled = bound.unsettled_map()
        link.accept_attach(
            grant.source,
            grant.target,
            unsettled=unsettled,
            max_message_size=bound.max_message_bytes if bound.max_message_bytes >= 0 else None,
            properties=bound.properties,
        )
        grant.bound.confirmed(now_us)
        binding.touch()


def _grant(
    binding: ConnectionState, link: Link, attach: Attach, previous: BoundLink | None, now_us: int
) -> Grant:
    if isinstance(link, SenderLink):
        if isinstance(previous, OutgoingLink) and previous.may_resume(attach):
            _require_again(binding, previous)
            return _resume_outgoing(binding, link, attach, previous)
        _close_previous(previous, now_us)
        return _grant_outgoing(binding, link, attach, now_us)
    assert isinstance(link, ReceiverLink)
    if isinstance(previous, IncomingLink) and previous.may_resume(attach):
        _require_again(binding, previous)
        previous.resume(binding, link, attach)
        target = _target_of(binding, attach, previous.address)
        return Grant(previous, attach.source, target, *previous.needs)
    _close_previous(previous, now_us)
    return _grant_incoming(binding, link, attach, now_us)


def _require_again(binding: ConnectionState, previous: BoundLink) -> None:
    """Raise `AmqpError` for a link that wouldn't be let in any more."""
    for right, name in previous.needs:
        access_of(binding.broker).require(binding, right, name)


def _close_previous(previous: BoundLink | None, now_us: int) -> None:
    if previous is not None:
        previous.close(True, now_us)


# The peer receives.


def _grant_outgoing(binding: ConnectionState, link: SenderLink, attach: Attach, now_us: int) -> Grant:
    source = attach.source
    if source is None:
        return _grant_by_name(binding, link, attach, now_us)
    if source.address == CHANNEL_ADDRESS and not source.dynamic:
        return Grant(grant_sending(binding, link, attach, now_us), source, attach.target)
    check_distribution_mode(source)
    filters = read_filters(source)
    timeout_s = binding.broker.config.limits.suspended_timeout_s
    if source.address == MANAGEMENT_ADDRESS and not source.dynamic:
        granted = granted_source(source, MANAGEMENT_ADDRESS, timeout_s, Filters())
        return Grant(ReplyLink(binding, link, attach), granted, attach.target)
    right = Right.BROWSE if is_copy(source) else Right.GET
    address, topic, dynamic = _source_node(binding, source, right, now_us)
    need = _need(binding, Right.GET if topic else right, address, dynamic)
    dynamic_nodes_of(binding.broker).check_consumer(address, binding.container_id)
    if not topic:
        filters.leave_out_no_local()
    given = address if dynamic else source.address or ""  # as it was asked for, its queue manager included
    granted = granted_source(source, given, timeout_s, filters, topic)
    bound = OutgoingLink(binding, link, is_copy(source) and not topic, address)
    bound.dynamic = dynamic
    manager = binding.broker.manager
    if not topic:
        bound.open(manager.queue(address), granted, attach, now_us, filters.selector)
        return Grant(bound, granted, attach.target, *need)
    wanted = wanted_subscription(binding.container_id, link.name, source, address, filters)
    queue = manager.subscribe(wanted, now_us)
    try:
        bound.open(queue, granted, attach, now_us)
    except ManagerError:
        if not wanted.durable:
            manager.forsake(queue, now_us)
        raise
    return Grant(bound, granted, attach.target, *need)


def _need(binding: ConnectionState, right: Right, address: str, dynamic: str) -> list[tuple[Right, str]]:
    """What the link is let in by; a node that was made for it alone needs no more than that."""
    return [] if dynamic else [(right, access_of(binding.broker).governing_name(address))]


def _source_node(
    binding: ConnectionState, source: Source, right: Right, now_us: int
) -> tuple[str, bool, str]:
    """The node to receive from: its address, whether it is a topic, and the address again where the node was
    made for this link alone (else "").

    A queue that isn't there is made if the client asks for it, or `[auto_create]` says so; a topic when it is
    subscribed to. Raises `AmqpError` where the user lacks ``right`` on it, or may not make it.
    """
    broker, access = binding.broker, access_of(binding.broker)
    if source.dynamic:
        node = _dynamic_node(binding, source, now_us)
        return node.name, isinstance(node, Topic), node.name
    address = source.address
    if not address:
        raise AmqpError(INVALID_FIELD, "the source has no address and isn't dynamic")
    if _names_topic(binding, address, source.capabilities, is_pattern(address)):
        access.require(binding, Right.GET, address)
        _check_reserved(address, address in broker.manager.topics)
        return address, True, ""
    access.require(binding, right, address)
    address = broker.manager.names.local(address)
    broker.manager.names.check_readable(address)
    _check_reserved(address, address in broker.manager.queues)
    _check_may_create(binding, address, source.capabilities)
    if address not in broker.manager.queues:
        access.require(binding, Right.CREATE, address)
    return broker.manager.queue_for_attach(address, now_us).name, False, ""


def _grant_by_name(binding: ConnectionState, link: SenderLink, attach: Attach, now_us: int) -> Grant:
    """Without a source: the durable subscription that has the name of the link."""
    queue = subscription_of_link(binding.broker.manager, binding.container_id, attach)
    need = access_of(binding.broker).require(binding, Right.GET, queue.definition.topic)
    source = _source_of(queue)
    bound = OutgoingLink(binding, link, False, queue.definition.topic)
    bound.open(queue, source, attach, now_us)
    return Grant(bound, source, attach.target, need)


def _source_of(queue: Queue) -> Source:
    """The terminus of a durable subscription, as it was asked for."""
    known = queue.definition
    filters = Filters()
    if known.selector:
        filters.granted[Symbol("jms-selector")] = Described(SELECTOR_DESCRIPTOR, known.selector)
    if known.no_local:
        filters.granted[Symbol("no-local")] = Described(NO_LOCAL_DESCRIPTOR, [])
    requested = Source(
        durable=DURABILITY_CONFIGURATION,
        expiry_policy=EXPIRY_NEVER,
        capabilities=["topic"]
        + ([SHARED_CAPABILITY] if known.shared else [])
        + ([GLOBAL_CAPABILITY] if known.shared and not known.client else []),
    )
    return granted_source(requested, known.topic, 0, filters, True)


def _resume_outgoing(
    binding: ConnectionState, link: SenderLink, attach: Attach, previous: OutgoingLink
) -> Grant:
    source = attach.source or Source(address=previous.address)
    timeout_s = binding.broker.config.limits.suspended_timeout_s
    granted = granted_source(source, previous.address, timeout_s, read_filters(source), previous.of_topic())
    previous.resume(binding, link, granted, attach.unsettled or {})
    return Grant(previous, granted, attach.target, *previous.needs)


# The peer sends.


def _grant_incoming(binding: ConnectionState, link: ReceiverLink, attach: Attach, now_us: int) -> Grant:
    target = attach.target
    if isinstance(target, Coordinator):
        return Grant(CoordinatorLink(binding, link, attach), attach.source, granted_coordinator(target))
    if target is None:
        raise AmqpError(INVALID_FIELD, f"link {link.name!r} has no target to send to")
    if target.address == MANAGEMENT_ADDRESS and not target.dynamic:
        bound: BoundLink = RequestLink(binding, link)
        return Grant(bound, attach.source, _target_of(binding, attach, MANAGEMENT_ADDRESS))
    if target.address == CHANNEL_ADDRESS and not target.dynamic:
        bound = grant_receiving(binding, link, attach, now_us)
        return Grant(bound, attach.source, _target_of(binding, attach, CHANNEL_ADDRESS))
    if not target.address and not target.dynamic:
        bound = IncomingLink(binding, link, None, attach)
        return Grant(bound, attach.source, _target_of(binding, attach, target.address))
    if _leads_elsewhere(binding, target):
        return _grant_remote(binding, link, attach, target.address or "")
    node = _dynamic_node(binding, target, now_us) if target.dynamic else _target_node(binding, target, now_us)
    need = _need(binding, Right.PUT, node.name, node.name if target.dynamic else "")
    bound = IncomingLink(binding, link, node, attach)
    bound.dynamic = node.name if target.dynamic else ""
    given = node.name if target.dynamic else target.address  # as it was asked for, its queue manager included
    return Grant(bound, attach.source, _target_of(binding, attach, given, isinstance(node, Topic)), *need)


def _leads_elsewhere(binding: ConnectionState, target: Target) -> bool:
    """Whether what is sent there goes to a queue that another queue manager has, or by an alias."""
    names, address = binding.broker.manager.names, target.address or ""
    return (
        not target.dynamic and not means_topic(target.capabilities) and names.is_remote(names.local(address))
    )


def _grant_remote(binding: ConnectionState, link: ReceiverLink, attach: Attach, address: str) -> Grant:
    """A name that leads nowhere now is refused now; where it leads is looked up again for each message."""
    need = access_of(binding.broker).require(binding, Right.PUT, address)
    binding.broker.manager.names.destination(address)
    bound = IncomingLink(binding, link, None, attach, address)
    return Grant(bound, attach.source, _target_of(binding, attach, address), need)


def _target_of(binding: ConnectionState, attach: Attach, address: str | None, topic: bool = False) -> Target:
    requested = attach.target if isinstance(attach.target, Target) else Target(address=address)
    return granted_target(requested, address, binding.broker.config.limits.suspended_timeout_s, topic)


def _target_node(binding: ConnectionState, target: Target, now_us: int) -> Destination:
    """The queue or topic to send to; one that isn't there is made."""
    manager, access = binding.broker.manager, access_of(binding.broker)
    address = target.address or ""
    access.require(binding, Right.PUT, address)
    if _names_topic(binding, address, target.capabilities, False):
        _check_reserved(address, address in manager.topics)
        if address not in manager.topics:
            access.require(binding, Right.CREATE, address)
        return manager.topic_for_attach(address, now_us)
    address = manager.names.local(address)
    _check_reserved(address, address in manager.queues)
    if address not in manager.queues:
        access.require(binding, Right.CREATE, address)
    queue = manager.queue_for_attach(address, now_us)
    if isinstance(queue, Subscription):
        raise AmqpError(NOT_ALLOWED, f"{address!r} is a subscription: publish to its topic {queue.topic!r}")
    return queue


# Both.


def _names_topic(binding: ConnectionState, address: str, capabilities: list[str], by_default: bool) -> bool:
    """Whether an address is a topic's: its capabilities say so, or without any the one that is there."""
    of_capabilities = means_topic(capabilities)
    if of_capabilities is not None:
        return of_capabilities
    manager = binding.broker.manager
    return address in manager.topics or (by_default and address not in manager.queues)


def _check_reserved(address: str, exists: bool) -> None:
    if is_reserved(address) and (not exists or address == UNDELIVERED):
        raise AmqpError(
            NOT_FOUND, f"there is no node {address!r}; names of that kind are not created on attach"
        )


def _check_may_create(binding: ConnectionState, address: str, capabilities: list[str]) -> None:
    """Raises `AmqpError` for a queue that isn't there and that whoever receives is not to make: a mistyped
    name would be a queue on which nothing ever comes."""
    broker = binding.broker
    auto, manager = broker.config.auto_create, broker.manager
    if address in manager.queues or address in manager.topics or auto.consumers or not auto.enabled:
        return
    if CREATE_CAPABILITY not in capabilities:
        raise AmqpError(
            NOT_FOUND,
            f"there is no queue {address!r}, and to receive from one doesn't create it: send to it first, "
            f"create it, or ask for that by the source capability {CREATE_CAPABILITY}",
        )


def _dynamic_node(binding: ConnectionState, end: Source | Target, now_us: int) -> Destination:
    """A node for this link alone."""
    if end.address:
        raise AmqpError(INVALID_FIELD, "a dynamic node has no address: it is made and named here")
    access_of(binding.broker).require(binding, Right.CREATE, f"{DYNAMIC_PREFIX}{REST}")
    return dynamic_nodes_of(binding.broker).create(
        binding.container_id, binding.user, end.capabilities, end.dynamic_node_properties, now_us
    )
