"""Creating, finding and ending queues."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from postroom.ledger.format.records import RecordType
from postroom.manager.destinations import routing, switches, tap
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.destinations.topic import Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Detach
from postroom.manager.kernel.errors import (
    LimitExceeded,
    NameNotAllowed,
    QueueDeleted,
    QueueExists,
    QueueInUse,
    QueueNotFound,
)
from postroom.manager.kernel.name_rules import RESERVED_PREFIX
from postroom.manager.kernel.options import KIND_QUEUE, KIND_SUBSCRIPTION, KIND_TOPIC, QueueDefinition
from postroom.manager.queues.queue import Queue, Subscription, as_queue

_QUEUE_DEFINED: Final = int(RecordType.QUEUE_DEFINED)
_QUEUE_DELETED: Final = int(RecordType.QUEUE_DELETED)


def find(core: Core, name: str) -> Queue:
    """The queue of that name; raises QueueNotFound."""
    queue = destinations_of(core).queues.get(name)
    if queue is None:
        raise QueueNotFound(f"there is no queue {name!r}")
    return queue


def find_or_create(core: Core, name: str) -> Queue:
    """The queue that a client attaches to: created for it where the options allow.

    Raises QueueNotFound, NameNotAllowed, LimitExceeded.
    """
    destinations = destinations_of(core)
    queue = destinations.queues.get(name)
    if queue is None:
        _check_creation(core, name, KIND_QUEUE, KIND_TOPIC if name in destinations.topics else "")
        queue = as_queue(create(core, replace(core.options.new_queue(name, KIND_QUEUE), auto_created=True)))
    return queue


def find_or_create_topic(core: Core, name: str) -> Topic:
    """The topic likewise."""
    destinations = destinations_of(core)
    topic = destinations.topics.get(name)
    if topic is None:
        _check_creation(core, name, KIND_TOPIC, KIND_QUEUE if name in destinations.queues else "")
        create(core, replace(core.options.new_queue(name, KIND_TOPIC), auto_created=True))
        topic = destinations.topics[name]
    return topic


def _check_creation(core: Core, name: str, kind: str, other_kind: str) -> None:
    """Raise unless one of ``kind`` may be made by attaching; ``other_kind`` has the name, or ("") nothing."""
    if other_kind:
        raise QueueNotFound(f"there is no {kind} {name!r}: that name is a {other_kind}'s")
    if not core.options.auto_create:
        raise QueueNotFound(f"there is no {kind} {name!r}, and {kind}s are not created by attaching")
    if name.startswith(RESERVED_PREFIX):
        raise NameNotAllowed(f"{name!r}: names beginning with {RESERVED_PREFIX!r} belong to the broker")
    auto_created = destinations_of(core).auto_created
    if auto_created >= core.options.max_auto_created_queues:
        raise LimitExceeded(
            f"{kind} {name!r} can't be created: {auto_created} auto-created queues and topics are the "
            f"limit (max_auto_created_queues); delete some or create the {kind} explicitly"
        )


def create(core: Core, definition: QueueDefinition) -> Destination:
    """Create a queue, topic or subscription and write it to the ledger; the same definition again returns
    what is there."""
    destinations = destinations_of(core)
    existing = destinations.queues.get(definition.name) or destinations.topics.get(definition.name)
    if existing is not None:
        if existing.definition == definition:
            return existing
        kind = existing.definition.kind
        raise QueueExists(f"{kind} {definition.name!r} exists with another definition; delete it first")
    _check(core, definition)
    if len(destinations.queues) + len(destinations.topics) >= core.options.max_queues:
        raise LimitExceeded(
            f"{definition.kind} {definition.name!r} can't be created: {core.options.max_queues} queues, "
            "topics and subscriptions are the limit (max_queues)"
        )
    queue = _make(core, definition)
    if definition.auto_created:
        core.agenda.set_alarm(queue, core.now_us + core.options.auto_created_idle_ms * 1000)
    return queue


def _check(core: Core, definition: QueueDefinition) -> None:
    definition.check()
    for listener in destinations_of(core).listeners:
        listener.check(core, definition)


def make_own(core: Core, definition: QueueDefinition) -> Queue:
    """A queue that the queue manager needs for itself, above every limit and whatever its name."""
    return as_queue(_make(core, definition))


def _make(core: Core, definition: QueueDefinition) -> Destination:
    queue = register(core, int(destinations_of(core).next_id), definition)
    _write(core, queue)
    return queue


def update(core: Core, definition: QueueDefinition) -> Destination:
    """Give the queue or topic of that name another definition."""
    destinations = destinations_of(core)
    of_kind: Mapping[str, Destination] = (
        destinations.topics if definition.kind == KIND_TOPIC else destinations.queues
    )
    queue = of_kind.get(definition.name)
    if queue is None:
        raise QueueNotFound(f"there is no {definition.kind} {definition.name!r}")
    _check(core, definition)
    if isinstance(queue, Queue):
        _check_use(queue, definition)
    if definition != queue.definition:
        destinations.auto_created += int(definition.auto_created) - int(queue.definition.auto_created)
        queue.define(definition, core.options.max_message_bytes)
        for listener in destinations.listeners:
            listener.defined(core, queue)
        subscriptions_of(core).route_version += 1
        _write(core, queue)
    return queue


def _check_use(queue: Queue, definition: QueueDefinition) -> None:
    """Raise QueueInUse where ``queue`` can't be as it is defined while it is used as now."""
    if definition.access != queue.definition.access and queue.attached.consumers:
        raise QueueInUse(
            f"queue {queue.name!r} has {len(queue.attached.consumers)} consumers: its access can't change now"
        )
    if definition.usage != queue.definition.usage and (queue.attached.consumers or not queue.is_empty()):
        raise QueueInUse(
            f"queue {queue.name!r} is not empty, or somebody consumes from it: its usage can't change now"
        )
    if definition.unit_of_order != queue.definition.unit_of_order and not queue.is_empty():
        raise QueueInUse(f"queue {queue.name!r} is not empty: its unit_of_order can't change now")


def note_pauses(core: Core, queue: Destination, durably_paused: str) -> None:
    """Which of its pauses hold beyond a restart, is another part of its definition now."""
    if durably_paused != queue.definition.durably_paused:
        queue.definition = replace(queue.definition, durably_paused=durably_paused)
        _write(core, queue)


def _write(core: Core, queue: Destination) -> None:
    detail = json.dumps(queue.definition.to_ledger(), ensure_ascii=False).encode()
    core.ledger.record(_QUEUE_DEFINED, 0, queue.id, 0, 0, 0, detail)


def register(core: Core, id: int, definition: QueueDefinition) -> Destination:
    """Make the queue, subscription or topic known, without writing anything."""
    destinations = destinations_of(core)
    queue = _instance(core, id, definition)
    queue.schedule.active_us = core.now_us
    queue.statistics.beginning.since_us = core.now_us
    core.destinations[id] = queue
    for listener in destinations.listeners:
        listener.defined(core, queue)
    switches.at_startup(core, queue)
    tap.note_leased(core, queue)
    if isinstance(queue, Subscription):
        routing.enrol(core, queue)
    destinations.take_id(id)
    if definition.auto_created:
        destinations.auto_created += 1
    return queue


def _instance(core: Core, id: int, definition: QueueDefinition) -> Destination:
    destinations = destinations_of(core)
    bound = core.options.max_message_bytes
    if definition.kind == KIND_TOPIC:
        topic = destinations.topics[definition.name] = Topic(id, definition, bound, core.counters.held_by_all)
        return topic
    if definition.kind == KIND_SUBSCRIPTION:
        queue: Queue = Subscription(id, definition, bound, core.counters.held_by_all)
    else:
        queue = Queue(id, definition, bound, core.counters.held_by_all)
    destinations.queues[definition.name] = queue
    return queue


def remove(core: Core, queue: Destination, detail: bytes = b"") -> None:
    """Write that the queue, which is empty, is no more (``detail``: how that came), and forget it; its
    senders are detached."""
    destinations = destinations_of(core)
    core.ledger.record(_QUEUE_DELETED, 0, queue.id, 0, 0, 0, detail)
    if isinstance(queue, Topic):
        del destinations.topics[queue.name]
    else:
        del destinations.queues[queue.name]
        core.counters.removed.add_all(queue.statistics)
    if isinstance(queue, Subscription):
        routing.dismiss(core, queue)
    for listener in destinations.listeners:
        listener.removed(core, queue)
    tap.forget(core, queue)
    del core.destinations[int(queue.id)]
    queue.deleted = True
    # nothing that they send goes to another queue of the name: whoever wants that attaches anew
    for producer in queue.producers:
        if producer.sink is not None:
            core.effects.detached.append(Detach(producer.sink, QueueDeleted.condition, queue.deleted_text()))
    queue.producers = {}
    if queue.definition.auto_created:
        destinations.auto_created -= 1


def target(core: Core, queue: Destination, name: str) -> Destination | None:
    """Where ``queue`` sends its dead letters or expired entries; None for "", itself, or a topic to which
    nobody subscribes.

    It is created if missing, above every limit: what can be delivered nowhere must find room.
    """
    if not name or name == queue.name:
        return None
    destinations = destinations_of(core)
    found = destinations.queues.get(name)
    if found is not None:
        return found
    topic = destinations.topics.get(name)
    if topic is not None:
        return topic if routing.route_of(core, topic).queues else None
    return _make(core, core.options.new_queue(name))
