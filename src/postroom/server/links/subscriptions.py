"""Subscriptions as links ask for them: whose, by which name, durable or not, shared or not.

The conventions are those of Qpid JMS. A durable subscription is named by its link, a shared one by what
stands before the first "|" of the link's name, so that several links can have it. The capability "shared"
makes it shared, "global" no client's own. Its terminus never expires; where a link gives no source at all,
the name alone says which subscription is meant.
"""

from typing import Final

from postroom.amqp.errors import INVALID_FIELD, NOT_FOUND, AmqpError
from postroom.amqp.extensions import GLOBAL_CAPABILITY, SHARED_CAPABILITY
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import DURABILITY_NONE, EXPIRY_NEVER, Source
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import QueueNotFound, SubscriptionInUse
from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import Queue
from postroom.server.links.terminus import Filters

NAME_DELIMITER: Final = "|"


def is_durable(source: Source) -> bool:
    """Whether the subscription is to outlive its link: the terminus is durable and never expires."""
    return source.durable != DURABILITY_NONE and source.expiry_policy == EXPIRY_NEVER


def wanted_subscription(
    container_id: str, link_name: str, source: Source, address: str, filters: Filters
) -> Subscribing:
    """What the attach of a link to the topic ``address`` asks for.

    Raises `AmqpError` for a shared one without a name.
    """
    durable = is_durable(source)
    shared = SHARED_CAPABILITY in source.capabilities
    name = ""
    if shared:
        name = link_name.partition(NAME_DELIMITER)[0]
        if not name:
            raise AmqpError(INVALID_FIELD, f"link {link_name!r} names no subscription to be shared")
    elif durable:
        name = link_name
    return Subscribing(
        topic=address,
        client="" if shared and GLOBAL_CAPABILITY in source.capabilities else container_id,
        name=name,
        durable=durable,
        shared=shared,
        selector=filters.selector,
        no_local=filters.no_local,
    )


def subscription_of_link(manager: QueueManager, container_id: str, attach: Attach) -> Queue:
    """The durable subscription that a link without source means. Raises `AmqpError`, SubscriptionInUse."""
    name, delimiter, more = attach.name.partition(NAME_DELIMITER)
    candidates = [(container_id, attach.name), (container_id, name)]
    if delimiter and (more.startswith(GLOBAL_CAPABILITY) or GLOBAL_CAPABILITY in attach.desired_capabilities):
        candidates.insert(0, ("", name))
    for client, each in candidates:
        try:
            queue = manager.durable_subscription(client, each)
        except QueueNotFound:
            continue
        if queue.attached.consumers:
            raise SubscriptionInUse(
                f"subscription {name!r} is in use by {len(queue.attached.consumers)} consumers"
            )
        return queue
    raise AmqpError(
        NOT_FOUND,
        f"link {attach.name!r} has no source to receive from, and is the name of no durable subscription of "
        f"client {container_id!r}",
    )
