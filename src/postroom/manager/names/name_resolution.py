"""Where names lead: to a queue here, or to a transmission queue from which a channel takes the message on.

The rules are IBM MQ's, and so are the reasons for which a name leads nowhere:

- ``QUEUE`` alone, or at this queue manager: the queue of that name here; else the remote queue that is
  defined by that name.
- ``QUEUE@MANAGER``: the transmission queue of that manager's name; else what the queue-manager alias of that
  name stands for; else the default transmission queue.
- The transmission queue that a definition names is taken before all others.

What a definition without one stands for is looked up again, by the same rules, up to `MAX_DEFINITIONS` times.
A queue or topic whose own name has an "@" is met before it is taken for an address.
"""

import json
from typing import Final, cast, final

from mypy_extensions import i64

from postroom.amqp.message.rewrite import reply_to_of, with_reply_to
from postroom.ledger.format.records import RecordType
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations.tables import DestinationListener, destinations_of
from postroom.manager.headers.transmission_header import MAX_HOPS, TransmissionHeader
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import (
    DefinitionInvalid,
    LimitExceeded,
    NameUnknown,
    NameUnusable,
    NotForInput,
    QueueExists,
    QueueNotFound,
)
from postroom.manager.kernel.name_rules import MAX_NAME_BYTES, UNDELIVERED, too_long
from postroom.manager.kernel.options import USAGE_TRANSMISSION, QueueDefinition
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.names.remote_queues import RemoteQueue, ResolvedName
from postroom.manager.queues.queue import Queue, Subscription
from postroom.model.mq import Reason, Undelivered, reason_name
from postroom.model.names import full_address, split_address

MAX_DEFINITIONS: Final = 16
"""Definitions that one name may lead through; more are a circle, or as good as one."""

_DEFINED: Final = int(RecordType.QUEUE_DEFINED)
_DELETED: Final = int(RecordType.QUEUE_DELETED)

_UNKNOWN_OBJECT_NAME: Final = int(Reason.UNKNOWN_OBJECT_NAME)
_UNKNOWN_REMOTE_Q_MGR: Final = int(Reason.UNKNOWN_REMOTE_Q_MGR)
_REMOTE_Q_NAME_ERROR: Final = int(Reason.REMOTE_Q_NAME_ERROR)
_UNKNOWN_XMIT_Q: Final = int(Reason.UNKNOWN_XMIT_Q)
_XMIT_Q_USAGE_ERROR: Final = int(Reason.XMIT_Q_USAGE_ERROR)
_UNKNOWN_DEF_XMIT_Q: Final = int(Reason.UNKNOWN_DEF_XMIT_Q)
_DEF_XMIT_Q_USAGE_ERROR: Final = int(Reason.DEF_XMIT_Q_USAGE_ERROR)
_USAGE_ERRORS: Final = (_REMOTE_Q_NAME_ERROR, _XMIT_Q_USAGE_ERROR, _DEF_XMIT_Q_USAGE_ERROR)
"""Reasons that a definition must be put right for; the others are names that nothing bears."""

MAX_RESOLVED: Final = 10_000
"""Names whose resolution is kept in mind; above it all of them are found anew."""


@final
class Names(DestinationListener):
    """The names of one queue manager that lead elsewhere."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.definitions: dict[str, RemoteQueue] = {}
        self.resolved: dict[tuple[str, str], ResolvedName] = {}
        """By queue and queue manager; forgotten with every change of a definition."""

    def check(self, core: Core, definition: QueueDefinition) -> None:
        """Raise QueueExists for the name of a remote queue, DefinitionInvalid for one, or for an address
        elsewhere, as dead-letter queue."""
        destinations = destinations_of(core)
        remote = self.definitions
        if definition.name in remote:
            raise QueueExists(f"there is a remote queue {definition.name!r}: delete that first")
        for key, other in (
            ("dead_letter_queue", definition.dead_letter_queue),
            ("expiry_queue", definition.expiry_queue),
        ):
            here = other in destinations.queues or other in destinations.topics
            if not here and (other in remote or split_address(other)[1] != ""):
                raise DefinitionInvalid(
                    f"queue {definition.name!r}: {key} is {other!r}, a remote queue; must be one here", key
                )

    def defined(self, core: Core, destination: Destination) -> None:
        self.forget()

    def removed(self, core: Core, destination: Destination) -> None:
        self.forget()

    def keep(self, queue: str, queue_manager: str, found: ResolvedName) -> None:
        """Have a resolution in mind until something changes."""
        if len(self.resolved) >= MAX_RESOLVED:
            self.resolved.clear()
        self.resolved[queue, queue_manager] = found

    def forget(self) -> None:
        """A queue or a definition has come, changed or gone."""
        if self.resolved:
            self.resolved.clear()

    # -- resolution

    def resolve(self, queue: str, queue_manager: str) -> ResolvedName | Undelivered:
        """Where a message for ``queue`` at ``queue_manager`` ("": here) is to be put.

        Nothing is created. Topics and subscriptions are no destinations: for them a message needs a
        publisher.
        """
        found = self.resolved.get((queue, queue_manager))
        if found is not None:
            return found
        for name in (queue, queue_manager):
            if too_long(name):
                why = f"a name of more than {MAX_NAME_BYTES} bytes: {name[:40]!r}…"
                return Undelivered(
                    _UNKNOWN_OBJECT_NAME, queue[:MAX_NAME_BYTES], queue_manager[:MAX_NAME_BYTES], why
                )
        resolved = self._resolve(queue, queue_manager)
        if isinstance(resolved, ResolvedName):
            self.keep(queue, queue_manager, resolved)
        return resolved

    def _resolve(self, queue: str, queue_manager: str) -> ResolvedName | Undelivered:
        destinations = destinations_of(self.core)
        own = self.core.options.queue_manager
        for _ in range(MAX_DEFINITIONS):
            here = queue_manager in ("", own)
            if here:
                local = destinations.queues.get(queue)
                if local is not None and not isinstance(local, Subscription) and queue != UNDELIVERED:
                    return ResolvedName(local, None)
            else:
                transmission = destinations.queues.get(queue_manager)
                if transmission is not None and transmission.definition.usage == USAGE_TRANSMISSION:
                    return _onto(transmission, queue, queue_manager)
            known = self.definitions.get(queue if here else queue_manager)
            if known is None:
                break
            definition = known.definition
            why = _unfit(definition, here, own)
            if why:
                reason = (
                    _REMOTE_Q_NAME_ERROR if here and not definition.remote_queue else _UNKNOWN_REMOTE_Q_MGR
                )
                return Undelivered(reason, queue, queue_manager, why)
            if here:
                queue = definition.remote_queue
            queue_manager = definition.remote_queue_manager
            if definition.transmission_queue:
                return self._by_name(definition.transmission_queue, queue, queue_manager)
        else:
            why = f"{queue!r} at {queue_manager!r} leads through more than {MAX_DEFINITIONS} definitions"
            return Undelivered(_UNKNOWN_REMOTE_Q_MGR, queue, queue_manager, why)
        if here:
            why = f"there is no queue {queue!r} at queue manager {own!r}"
            return Undelivered(_UNKNOWN_OBJECT_NAME, queue, queue_manager or own, why)
        return self._by_default(queue, queue_manager)

    def _by_name(self, name: str, queue: str, queue_manager: str) -> ResolvedName | Undelivered:
        """By the transmission queue that a definition names."""
        transmission = destinations_of(self.core).queues.get(name)
        if transmission is None:
            why = f"there is no transmission queue {name!r}, for {queue!r} at {queue_manager!r}"
            return Undelivered(_UNKNOWN_XMIT_Q, queue, queue_manager, why)
        if transmission.definition.usage != USAGE_TRANSMISSION:
            why = f"queue {name!r} is no transmission queue (usage), for {queue!r} at {queue_manager!r}"
            return Undelivered(_XMIT_Q_USAGE_ERROR, queue, queue_manager, why)
        return _onto(transmission, queue, queue_manager)

    def _by_default(self, queue: str, queue_manager: str) -> ResolvedName | Undelivered:
        name = self.core.options.default_transmission_queue
        if not name:
            why = (
                f"there is no transmission queue for queue manager {queue_manager!r}: create one of that "
                "name, define an alias, or set default_transmission_queue"
            )
            return Undelivered(_UNKNOWN_REMOTE_Q_MGR, queue, queue_manager, why)
        transmission = destinations_of(self.core).queues.get(name)
        if transmission is None:
            why = f"there is no queue {name!r}, the default transmission queue"
            return Undelivered(_UNKNOWN_DEF_XMIT_Q, queue, queue_manager, why)
        if transmission.definition.usage != USAGE_TRANSMISSION:
            why = f"queue {name!r}, the default transmission queue, is none (usage)"
            return Undelivered(_DEF_XMIT_Q_USAGE_ERROR, queue, queue_manager, why)
        return _onto(transmission, queue, queue_manager)

    # -- what clients say

    def is_remote(self, address: str) -> bool:
        """Whether an address isn't the name of a queue or topic here but may lead elsewhere."""
        destinations = destinations_of(self.core)
        if address in destinations.queues or address in destinations.topics:
            return False
        return address in self.definitions or split_address(address)[1] != ""

    def local(self, address: str) -> str:
        """An address without this queue manager's own name: ``QUEUE`` for ``QUEUE@THIS``."""
        destinations = destinations_of(self.core)
        if address in destinations.queues or address in destinations.topics:
            return address
        queue, queue_manager = split_address(address)
        return queue if queue_manager == self.core.options.queue_manager else address

    def destination(self, address: str) -> ResolvedName:
        """Where a message to ``address`` is to be put. Raises NameUnknown, NameUnusable."""
        queue, queue_manager = (address, "")
        if address not in destinations_of(self.core).queues and address not in self.definitions:
            queue, queue_manager = split_address(address)
        found = self.resolve(queue, queue_manager)
        if isinstance(found, ResolvedName):
            return found
        raise refused_name(found)

    def taker(self, address: str) -> ResolvedName:
        """As `destination`, for an address that need not be elsewhere: subscriptions are met, too. Raises
        QueueNotFound, NameUnknown, NameUnusable."""
        if self.is_remote(address):
            return self.destination(address)
        return ResolvedName(queues.find(self.core, address), None)

    def check_readable(self, address: str) -> None:
        """Raise NotForInput for an address that leads elsewhere: only its queue manager can read there."""
        if self.is_remote(address):
            raise NotForInput(
                f"MQRC_OPTION_NOT_VALID_FOR_TYPE ({int(Reason.OPTION_NOT_VALID_FOR_TYPE)}): {address!r} is "
                "at another queue manager: it can only be sent to from here"
            )

    def check_dead_letter_queue(self) -> None:
        """Raise NameUnusable if the queue manager's dead-letter queue is a topic or a transmission queue: it
        is a queue for messages here, as in MQ."""
        destinations = destinations_of(self.core)
        name = self.core.options.dead_letter_queue
        queue = destinations.queues.get(name)
        is_topic = queue is None and name in destinations.topics
        if is_topic or (queue is not None and queue.definition.usage == USAGE_TRANSMISSION):
            raise NameUnusable(
                f"{name!r} is a topic or a transmission queue; must be a queue for messages here"
            )

    # -- on the way

    def sent_to(self, found: ResolvedName, stored: bytes) -> bytes:
        """A message from here as it is put where it leads: for another queue manager with the transmission
        header on, and with a reply-to that others understand."""
        header = found.header
        return stored if header is None else header.put_on(self._completed(stored))

    def onward(self, found: ResolvedName, before: TransmissionHeader, stored: bytes) -> bytes | Undelivered:
        """A message that came through a channel as it is put where it leads now: ``stored`` without its
        transmission header, which was ``before``.

        One that has been on too many transmission queues is undelivered.
        """
        header = found.header
        if header is None:
            return stored
        hops = before.hops + 1
        if hops > self.core.options.max_hops or hops > MAX_HOPS:
            why = f"it has been on {before.hops} transmission queues, the limit (max_hops): does it go round?"
            return Undelivered(_UNKNOWN_REMOTE_Q_MGR, header.queue, header.queue_manager, why)
        return TransmissionHeader(header.queue, header.queue_manager, hops).put_on(stored)

    def _completed(self, stored: bytes) -> bytes:
        """The sections with a reply-to that others understand: a reply-to alias resolved, or this queue
        manager's name added. The reply-to of a topic stays: replies can't be sent there from elsewhere."""
        destinations = destinations_of(self.core)
        reply_to = reply_to_of(stored)
        if not reply_to or (reply_to in destinations.topics and reply_to not in destinations.queues):
            return stored
        own = self.core.options.queue_manager
        alias = self.definitions.get(reply_to)
        if alias is not None and alias.definition.remote_queue:
            known = alias.definition
            return with_reply_to(stored, full_address(known.remote_queue, known.remote_queue_manager or own))
        if reply_to not in destinations.queues and split_address(reply_to)[1]:
            return stored
        return with_reply_to(stored, full_address(reply_to, own))

    # -- definitions

    def find(self, name: str) -> RemoteQueue:
        """The definition of that name; raises QueueNotFound."""
        found = self.definitions.get(name)
        if found is None:
            raise QueueNotFound(f"there is no remote queue {name!r}")
        return found

    def define(self, definition: RemoteQueueDefinition, now_us: i64) -> RemoteQueue:
        """Define a remote queue or alias and write it to the ledger; the same definition again returns the
        one that is there.

        Raises QueueExists, NameNotAllowed, DefinitionInvalid, LimitExceeded.
        """
        self.core.begin(now_us)
        destinations = destinations_of(self.core)
        definition.check()
        existing = self.definitions.get(definition.name)
        if existing is not None:
            if existing.definition == definition:
                return existing
            raise QueueExists(f"remote queue {definition.name!r} exists with another definition; alter it")
        taken = destinations.queues.get(definition.name) or destinations.topics.get(definition.name)
        if taken is not None:
            raise QueueExists(
                f"there is a {taken.definition.kind} {definition.name!r}: a remote queue can't have that name"
            )
        self._check_not_target(definition.name)
        if len(self.definitions) >= self.core.options.max_remote_queues:
            raise LimitExceeded(f"{self.core.options.max_remote_queues} remote queues are the limit")
        remote = self.register(int(destinations.next_id), definition)
        self._write(remote)
        return remote

    def _check_not_target(self, name: str) -> None:
        """Raise QueueExists where a queue, or the queue manager, sends its dead letters or expired messages
        to ``name``: they go to queues here."""
        destinations = destinations_of(self.core)
        if name == self.core.options.dead_letter_queue:
            raise QueueExists(
                f"{name!r} is this queue manager's dead-letter queue, which must be a queue here"
            )
        for queue in (*destinations.queues.values(), *destinations.topics.values()):
            if name in (queue.definition.dead_letter_queue, queue.definition.expiry_queue):
                raise QueueExists(
                    f"{name!r} is the dead-letter or expiry queue of {queue.name!r}, which must be a queue "
                    "here"
                )

    def register(self, id: int, definition: RemoteQueueDefinition) -> RemoteQueue:
        """Make the definition known, without writing anything."""
        remote = RemoteQueue(id, definition)
        self.definitions[definition.name] = remote
        self.forget()
        destinations_of(self.core).take_id(id)
        return remote

    def alter(self, definition: RemoteQueueDefinition, now_us: i64) -> RemoteQueue:
        """Give the remote queue of that name another definition; what waits for a channel already goes where
        it was to go. Raises QueueNotFound, DefinitionInvalid."""
        self.core.begin(now_us)
        remote = self.find(definition.name)
        definition.check()
        if definition != remote.definition:
            remote.definition = definition
            self.forget()
            self._write(remote)
        return remote

    def delete(self, name: str, now_us: i64) -> None:
        """Delete a definition; what waits for a channel already goes where it was to go. Raises
        QueueNotFound."""
        self.core.begin(now_us)
        remote = self.find(name)
        del self.definitions[name]
        self.forget()
        self.core.ledger.record(_DELETED, 0, remote.id, 0, 0, 0, b"")

    def _write(self, remote: RemoteQueue) -> None:
        detail = json.dumps(remote.definition.to_ledger(), ensure_ascii=False).encode()
        self.core.ledger.record(_DEFINED, 0, remote.id, 0, 0, 0, detail)


def names_of(core: Core) -> Names:
    """Those of a queue manager."""
    return cast(Names, core.state(Names))


def _unfit(definition: RemoteQueueDefinition, as_queue: bool, own: str) -> str:
    """Why a definition can't be used as a queue, or as a queue-manager alias; "" if it can."""
    name = definition.name
    if not as_queue:
        alias = not definition.remote_queue
        return "" if alias else f"{name!r} is a remote queue and no queue-manager alias (remote_queue is set)"
    if not definition.remote_queue:
        return f"{name!r} is a queue-manager alias (it has no remote_queue) and no queue"
    if definition.remote_queue_manager in ("", own):
        return (
            f"remote queue {name!r} names {definition.remote_queue_manager!r} as its queue manager, must be "
            "another than this one"
        )
    return ""


def _onto(transmission: Queue, queue: str, queue_manager: str) -> ResolvedName:
    return ResolvedName(transmission, TransmissionHeader(queue, queue_manager, 1))


def refused_name(why: Undelivered) -> NameUnknown | NameUnusable:
    """What a client is told."""
    text = f"{reason_name(why.reason)} ({why.reason}): {why.description}"
    return NameUnusable(text) if why.reason in _USAGE_ERRORS else NameUnknown(text)
