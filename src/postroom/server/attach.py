"""The peer attaches a link: find what it is to be bound to, and answer with the terminus actually granted.

A refusal is an attach without a terminus, then a detach with the error (part 2, section 2.6.3). The answer
leaves when what the attach has made (a queue, a producer) is durable.
"""

import logging
from typing import TYPE_CHECKING, Final

from postroom.amqp.composite import Error
from postroom.amqp.errors import INVALID_FIELD, NOT_FOUND, AmqpError
from postroom.amqp.link import Link
from postroom.amqp.performatives import Attach, Coordinator, Source, Target
from postroom.amqp.receiver import ReceiverLink
from postroom.amqp.sender import SenderLink
from postroom.amqp.states import UNOPENED
from postroom.manager.errors import ManagerError
from postroom.manager.queue import Queue
from postroom.server.bound import BoundLink
from postroom.server.config import is_reserved
from postroom.server.coordinator import CoordinatorLink, granted_coordinator
from postroom.server.incoming import IncomingLink
from postroom.server.logs import log
from postroom.server.management_links import MANAGEMENT_ADDRESS, ReplyLink, RequestLink
from postroom.server.outgoing import OutgoingLink
from postroom.server.terminus import (
    check_capabilities,
    check_distribution_mode,
    check_filter,
    granted_source,
    granted_target,
    is_copy,
)

if TYPE_CHECKING:
    from postroom.server.binding import ConnectionBinding


class Grant:
    """What a link is bound to, and the two ends as the attach reply states them."""

    def __init__(self, bound: BoundLink, source: Source | None, target: Target | Coordinator | None) -> None:
        self.bound: Final = bound
        self.source: Final = source
        self.target: Final = target


def bind_link(binding: "ConnectionBinding", link: Link, attach: Attach, now_us: int) -> None:
    """Answer the peer's attach of ``link``."""
    key = (binding.container_id, link.name, link.role)
    previous = binding.broker.registry.claim(key, now_us)
    try:
        grant = _grant(binding, link, attach, previous, now_us)
    except (AmqpError, ManagerError) as error:
        if previous is not None:
            previous.close(True, now_us)
        _refuse(binding, link, error)
        return
    bound = grant.bound
    link.context = bound
    binding.links[link] = bound
    binding.broker.registry.attached(key, bound)
    binding.broker.after_durable(binding, lambda later_us: _confirm(binding, link, grant, later_us))


def _refuse(binding: "ConnectionBinding", link: Link, error: AmqpError | ManagerError) -> None:
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


def _confirm(binding: "ConnectionBinding", link: Link, grant: Grant, now_us: int) -> None:
    """The answer, unless the link has gone meanwhile."""
    if link.context is grant.bound and link.local_state == UNOPENED:
        link.accept_attach(grant.source, grant.target, unsettled=grant.bound.unsettled_map())
        grant.bound.confirmed(now_us)
        binding.touch()


def _grant(
    binding: "ConnectionBinding", link: Link, attach: Attach, previous: BoundLink | None, now_us: int
) -> Grant:
    if isinstance(link, SenderLink):
        if isinstance(previous, OutgoingLink) and previous.may_resume(attach):
            return _resume_outgoing(binding, link, attach, previous)
        _close_previous(previous, now_us)
        return _grant_outgoing(binding, link, attach, now_us)
    assert isinstance(link, ReceiverLink)
    if isinstance(previous, IncomingLink) and previous.may_resume(attach):
        previous.resume(binding, link, attach)
        return Grant(previous, attach.source, _target_of(binding, attach, previous.address))
    _close_previous(previous, now_us)
    return _grant_incoming(binding, link, attach, now_us)


def _close_previous(previous: BoundLink | None, now_us: int) -> None:
    if previous is not None:
        previous.close(True, now_us)


# The peer receives.


def _grant_outgoing(binding: "ConnectionBinding", link: SenderLink, attach: Attach, now_us: int) -> Grant:
    source = attach.source
    if source is None:
        raise AmqpError(INVALID_FIELD, f"link {link.name!r} has no source to receive from")
    check_capabilities(source.capabilities)
    check_distribution_mode(source)
    check_filter(source)
    timeout_s = binding.broker.config.limits.suspended_timeout_s
    if source.address == MANAGEMENT_ADDRESS and not source.dynamic:
        granted = granted_source(source, MANAGEMENT_ADDRESS, timeout_s)
        return Grant(ReplyLink(binding, link, attach), granted, attach.target)
    queue, dynamic = _node(binding, source.address, source.dynamic, source.dynamic_node_properties, now_us)
    bound = OutgoingLink(binding, link, is_copy(source), queue.name)
    granted = granted_source(source, queue.name, timeout_s)
    bound.open(granted, attach, now_us)
    bound.dynamic = dynamic
    return Grant(bound, granted, attach.target)


def _resume_outgoing(
    binding: "ConnectionBinding", link: SenderLink, attach: Attach, previous: OutgoingLink
) -> Grant:
    source = attach.source or Source(address=previous.address)
    granted = granted_source(source, previous.address, binding.broker.config.limits.suspended_timeout_s)
    previous.resume(binding, link, granted, attach.unsettled or {})
    return Grant(previous, granted, attach.target)


# The peer sends.


def _grant_incoming(binding: "ConnectionBinding", link: ReceiverLink, attach: Attach, now_us: int) -> Grant:
    target = attach.target
    if isinstance(target, Coordinator):
        return Grant(CoordinatorLink(binding, link, attach), attach.source, granted_coordinator(target))
    if target is None:
        raise AmqpError(INVALID_FIELD, f"link {link.name!r} has no target to send to")
    check_capabilities(target.capabilities)
    if target.address == MANAGEMENT_ADDRESS and not target.dynamic:
        bound: BoundLink = RequestLink(binding, link)
        return Grant(bound, attach.source, _target_of(binding, attach, MANAGEMENT_ADDRESS))
    if not target.address and not target.dynamic:
        bound = IncomingLink(binding, link, None, attach)
        return Grant(bound, attach.source, _target_of(binding, attach, target.address))
    queue, dynamic = _node(binding, target.address, target.dynamic, target.dynamic_node_properties, now_us)
    bound = IncomingLink(binding, link, queue, attach)
    bound.dynamic = dynamic
    return Grant(bound, attach.source, _target_of(binding, attach, queue.name))


def _target_of(binding: "ConnectionBinding", attach: Attach, address: str | None) -> Target:
    asked = attach.target if isinstance(attach.target, Target) else Target(address=address)
    return granted_target(asked, address, binding.broker.config.limits.suspended_timeout_s)


def _node(
    binding: "ConnectionBinding",
    address: str | None,
    dynamic: bool,
    properties: dict[object, object] | None,
    now_us: int,
) -> tuple[Queue, str]:
    """The queue that an end names, and its name again where it was made for this link alone (else "")."""
    broker = binding.broker
    if dynamic:
        if address:
            raise AmqpError(INVALID_FIELD, "a dynamic node has no address: it is made and named here")
        queue = broker.dynamic.create(properties, now_us)
        return queue, queue.name
    if not address:
        raise AmqpError(INVALID_FIELD, "the source has no address and isn't dynamic")
    if is_reserved(address) and address not in broker.manager.queues:
        raise AmqpError(
            NOT_FOUND, f"there is no node {address!r}; names of that kind are not created on attach"
        )
    return broker.manager.queue_for_attach(address, now_us), ""
