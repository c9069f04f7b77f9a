"""Where a message goes that comes on a link without a queue of its own."""

from typing import Final, final

from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, NOT_FOUND, AmqpError
from postroom.amqp.message.message_head import to_address
from postroom.amqp.message.rewrite import reply_to_of
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.name_rules import UNDELIVERED
from postroom.manager.names.remote_queues import ResolvedName
from postroom.manager.queues.queue import Subscription
from postroom.manager.security.acts import TRANSFER
from postroom.model.message import MessageHead
from postroom.model.rights import Right
from postroom.server.access.access import access_of
from postroom.server.configuration.config import is_reserved
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.links.incoming_message import Unroutable, is_to_topic


@final
class Addressing:
    """Of one link, for what its user may do: by ``remote``, the name of its target, which leads to another
    queue manager, or ("": anonymous terminus) by the ``to`` of each message."""

    def __init__(self, owner: BoundLink, remote: str, queue: Destination | None) -> None:
        self._owner: Final = owner
        self._remote: Final = remote
        self._manager: Final = owner.binding.broker.manager
        self._access: Final = access_of(owner.binding.broker)
        self._allowed = ""
        """The name in ``to`` to which the user may put, as of the version of the rights."""
        self._allowed_version = -1
        self.onward: ResolvedName | None = None
        """Where the last message went, if that was to another queue manager."""
        self.last_queue = queue
        """Where the last message went; before the first, the link's queue."""

    def destination(self, tag: bytes, payload: bytes, head: MessageHead, now_us: int) -> Destination:
        """For the message of the delivery ``tag``. Raises Unroutable for one whose ``to`` leads nowhere."""
        self.onward = None
        if self._remote:
            return self._elsewhere(self._remote)
        address = to_address(payload, head) or ""
        try:
            if address:
                self._require_put(address)
            return self._routed(address, payload, head, now_us)
        except (AmqpError, ManagerError) as error:
            raise Unroutable(error, address, tag) from error

    def sent_on(self, sections: bytes) -> bytes:
        """The last message's sections, as they are sent to where it goes."""
        return sections if self.onward is None else self._manager.names.sent_to(self.onward, sections)

    def check_reply_to(self, payload: bytes, head: MessageHead) -> None:
        """The queue manager puts reports where a message says, in the name of its sender. Raises `AmqpError`
        where that user may not put."""
        reply_to = reply_to_of(payload[head.bare_offset :])
        if reply_to:
            self._access.require(self._owner.binding, Right.PUT, reply_to, TRANSFER)

    def _routed(self, address: str, payload: bytes, head: MessageHead, now_us: int) -> Destination:
        if not address:
            raise AmqpError(INVALID_FIELD, "a message to the anonymous terminus needs `to` in its properties")
        manager = self._manager
        queue = manager.queues.get(address) or manager.topics.get(address)
        if address == UNDELIVERED:
            queue = None
        if queue is None and is_to_topic(payload, head) and not is_reserved(address):
            queue = manager.topic_for_attach(address, now_us)
        if queue is None and manager.names.is_remote(address):
            return self._elsewhere(address)
        if queue is None:
            raise AmqpError(NOT_FOUND, f"there is no queue or topic {address!r}, the message's `to`")
        if isinstance(queue, Subscription):
            raise AmqpError(
                NOT_ALLOWED, f"{address!r}, the message's `to`, is a subscription: publish to its topic"
            )
        self.last_queue = queue
        return queue

    def _require_put(self, address: str) -> None:
        """Raises `AmqpError` where the user may not put there; a name that was allowed is remembered."""
        version = self._manager.security.principals.version
        if address != self._allowed or version != self._allowed_version:
            self._access.require(self._owner.binding, Right.PUT, address, TRANSFER)
            self._allowed, self._allowed_version = address, version

    def _elsewhere(self, address: str) -> Destination:
        """The transmission queue for a name that leads to another queue manager; the queue for one that leads
        back here by an alias."""
        destination = self._manager.names.destination(address)
        if destination.header is not None:
            self.onward = destination
        self.last_queue = destination.queue
        return destination.queue
