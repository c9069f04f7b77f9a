"""The way of a send: refused, taken, or blocked until there is room.

The quota of the destination decides between taking and blocking. First in, first out: a send that comes
while others wait stands behind them, even if it would fit. Preemptive: whatever fits goes in. In both, sends
of one link keep their order, as if the sender waited in each call.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.consuming import dispatch
from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel import overrides
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Rejected, Sink
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES
from postroom.manager.kernel.errors import ManagerError, QueueDeleted
from postroom.manager.kernel.overrides import Overrides
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.transaction import Transaction, check_open, fail
from postroom.manager.producing import blocked_sends, publication
from postroom.manager.producing.blocked_sends import (
    BlockedSend,
    as_blocked_send,
    blocked_sends_of,
    record_refused,
)
from postroom.manager.producing.put import (
    NO_ROOM,
    Message,
    error_of,
    lacking,
    no_room_text,
    put_in_transaction,
    refusal,
    store,
)
from postroom.manager.producing.report_checks import check_options
from postroom.manager.producing.upload import abort
from postroom.manager.queues import duplicate_detection as duplicates
from postroom.manager.queues.queue import Queue, as_queue
from postroom.model import numbers as n
from postroom.model.message import MessageHead

REFUSED: Final = 0
TAKEN: Final = 1
WAITS: Final = 2
DROPPED: Final = 3
"""It was sent before: accepted, and not put."""


def send(
    core: Core,
    producer: Producer,
    queue: Destination,
    message: Message,
    sink: Sink,
    token: i64,
    transaction: Transaction | None,
) -> i64:
    """Put a message, block it or refuse it; the answer is an effect. Raises QueueDeleted."""
    if queue.deleted:
        raise QueueDeleted(queue.deleted_text())
    if queue.overrides is not None:
        message = _overridden(core, queue.overrides, message)
    if queue.duplicates is not None and _dropped(core, queue, message.head, sink, token, transaction):
        return DROPPED
    refused = _unfit(core, queue, message)
    if refused is None:
        pool = _lacking(core, producer, queue, message)
        if pool is not None or producer.waiting is not None:
            blocked = BlockedSend(producer, queue, message, sink, token, transaction, core.now_us)
            refused = _block(core, blocked, pool)
            if refused is None:
                return WAITS
        else:
            refused = _take(core, producer, queue, message, transaction)
    if refused is not None:
        if token < 0:
            _refused_unheard(core, producer, queue, message.size, transaction, refused)
        core.effects.rejected.append(Rejected(sink, token, refused[0], refused[1]))
        return REFUSED
    if token >= 0:
        _accept(core, sink, token, transaction)
    if _is_awaited(queue):
        dispatch.dispatch(core, as_queue(queue))
    return TAKEN


def publish(core: Core, producer: Producer, topic: Topic, message: Message) -> int:
    """Publish without a link that could wait for room; returns to how many subscriptions it went.

    0 for one that the topic knows to be sent before. Raises MessageTooLarge, DestinationPaused, NotAllowed,
    LimitExceeded, ReportOptionsInvalid.
    """
    if topic.overrides is not None:
        message = _overridden(core, topic.overrides, message)
    if topic.duplicates is not None and duplicates.drops(core, topic, message.head, None):
        return 0
    refused = _unfit(core, topic, message)
    if refused is None:
        pool = _lacking(core, producer, topic, message)
        if pool is not None:
            refused = NO_ROOM, no_room_text(pool, message.size)
    if refused is not None:
        raise error_of(refused)
    takers = publication.count_takers(core, producer, topic, message)
    refused = publication.publish(core, producer, topic, message, None)
    if refused is not None:
        raise error_of(refused)
    return takers


def _overridden(core: Core, wanted: Overrides, message: Message) -> Message:
    """The message as its destination has it."""
    overrides.apply(core.now_us, wanted, message.head)
    if message.body is None or not wanted.bears:
        return message
    return Message(message.head, overrides.with_delivery_time(core.now_us, message.head, message.body))


def _is_awaited(queue: Destination) -> bool:
    """Whether somebody may take at once what has come."""
    if not isinstance(queue, Queue):
        return False
    attached = queue.attached
    return bool(attached.ready) or bool(attached.browsers) or queue.schedule.watched


def _refused_unheard(
    core: Core,
    producer: Producer,
    queue: Destination,
    size: i64,
    transaction: Transaction | None,
    refused: tuple[str, str],
) -> None:
    """Its sender had settled it, and is told nothing: the ledger is, and its transaction can't commit."""
    if transaction is not None:
        fail(core, transaction, "a pre-settled message in it was refused: " + refused[1], refused[0])
    record_refused(core, producer, queue.name, size, refused[0], refused[1])


def _dropped(
    core: Core, queue: Destination, head: MessageHead, sink: Sink, token: i64, transaction: Transaction | None
) -> bool:
    """Whether it was sent before: accepted again, and that is all."""
    if not duplicates.drops(core, queue, head, transaction):
        return False
    if token >= 0:
        _accept(core, sink, token, transaction)
    return True


def _accept(core: Core, sink: Sink, token: i64, transaction: Transaction | None) -> None:
    if transaction is None:
        core.effects.accept(sink, token)
    else:
        core.effects.accept_provisionally(sink, token)


def _unfit(core: Core, queue: Destination, message: Message) -> tuple[str, str] | None:
    """Why it can't be taken at all: what the destination refuses, or report options that can't be."""
    head = message.head
    refused = _refusal(core, queue, message.size, head.durable)
    if refused is None and head.report != 0:
        refused = check_options(core, queue, head, message.opening())
    return refused


def _refusal(core: Core, queue: Destination, size: i64, durable: bool) -> tuple[str, str] | None:
    """Why it can't be taken however long it waits: (condition, description)."""
    if isinstance(queue, Topic):
        return None  # said by `publication.publish`, which knows who would get it
    return refusal(core, queue, size, durable)


def _lacking(core: Core, producer: Producer, queue: Destination, message: Message) -> Pool | None:
    """Where there is no room now for one that has just come; None where there is."""
    if isinstance(queue, Topic):
        return publication.lacking(core, producer, queue, message, blocked_sends_of(core).last_order + 1)
    return lacking(core, queue, message.size)


def _take(
    core: Core, producer: Producer, queue: Destination, message: Message, transaction: Transaction | None
) -> tuple[str, str] | None:
    """Store it; why not, as (condition, description)."""
    first = core.ledger.next_position
    try:
        if isinstance(queue, Topic):
            refused = publication.publish(core, producer, queue, message, transaction)
            if refused is not None:
                return refused
        elif isinstance(queue, Queue):
            if transaction is not None:
                put_in_transaction(core, transaction, producer, queue, message)
            else:
                store(core, producer, queue, message)
    except ManagerError as error:
        return error.condition, error.description
    if transaction is not None:
        core.durability.provisional(first)
    return None


def _block(core: Core, blocked: BlockedSend, pool: Pool | None) -> tuple[str, str] | None:
    """Have it wait for ``pool``, or only for those before it on its link; else why it can't."""
    refused = _not_to_wait(core, blocked, pool)
    if refused is not None:
        return refused
    overrides.fix_times(core.now_us, blocked.message.head)
    blocked.pool = pool if pool is not None else blocked.queue.quota.pool
    blocked_sends.enter(core, blocked)
    return None


def _not_to_wait(core: Core, blocked: BlockedSend, pool: Pool | None) -> tuple[str, str] | None:
    transaction = blocked.transaction
    of_sink = transaction is not None and transaction.kind == n.SPARK_BRANCH
    if pool is not None and (of_sink or blocked.producer.send_timeout_us == 0):
        return NO_ROOM, no_room_text(pool, blocked.size)
    if of_sink:
        return NO_ROOM, "sends of this link wait for room: a sink branch waits for nobody, send it on another"
    if transaction is not None:
        try:
            check_open(transaction)
        except ManagerError as error:
            return error.condition, error.description
    more = blocked.size + ENTRY_OVERHEAD_BYTES
    options = core.options
    if blocked.producer.blocked_bytes + more > options.max_blocked_bytes_per_link:
        return NO_ROOM, (
            f"the sends of this link that wait for room fill {options.max_blocked_bytes_per_link} bytes "
            "(max_blocked_bytes_per_link): send it when they are answered"
        )
    if blocked_sends_of(core).bytes + more > options.max_blocked_bytes:
        return NO_ROOM, (
            f"sends that wait for room fill the {options.max_blocked_bytes} bytes that the queue manager "
            "has for them (max_blocked_bytes): send it later"
        )
    return None


def _let_in_line(core: Core, pool: Pool) -> None:
    """A publish for which there is too little room, for it makes several entries, holds up those behind it
    only where that is the policy."""
    passed: i64 = 0
    blocked = pool.next_send(passed)
    while blocked is not None:
        if _let_in(core, as_blocked_send(blocked)):
            _let_in_unlimited(core)  # who waits behind one of those for this pool came before its others
        else:
            passed = blocked.order
        blocked = pool.next_send(passed)


def _let_in_unlimited(core: Core) -> None:
    """Take what waited only for those before it on its link."""
    while core.agenda.free_sends:
        free = as_blocked_send(core.agenda.free_sends.pop())
        if free.waits and free.is_next():
            _let_in(core, free)


def _let_in(core: Core, blocked: BlockedSend) -> bool:
    """It has room, or nothing to wait for: take it. False: it goes on waiting, where it was."""
    queue, message = blocked.queue, blocked.message
    if isinstance(queue, Topic):
        lacks = publication.lacking(core, blocked.producer, queue, message, blocked.order)
        if lacks is not None:
            return blocked_sends.change_pool(blocked, lacks)
    refused = _refusal(core, queue, message.size, message.head.durable)
    if refused is not None:
        blocked_sends.refuse(core, blocked, refused[0], refused[1])
        return True
    blocked_sends.leave(core, blocked)
    if _dropped(core, queue, message.head, blocked.sink, blocked.token, blocked.transaction):
        if message.upload is not None:
            abort(core, message.upload)
        return True
    refused = _take(core, blocked.producer, queue, message, blocked.transaction)
    if refused is not None:
        blocked_sends.reject(core, blocked, refused[0], refused[1])
        return True
    message.body = None
    if blocked.token >= 0:
        _accept(core, blocked.sink, blocked.token, blocked.transaction)
    if _is_awaited(queue):
        core.agenda.woken.append(queue)
    return True


@final
class SendPart(TurnPart):
    """Sends that wait go in, or have waited long enough."""

    def follow(self, core: Core) -> None:
        """Take what waits and has room now, in the order that each pool's policy says."""
        while core.agenda.changed_pools or core.agenda.free_sends:
            _let_in_unlimited(core)
            if core.agenda.changed_pools:
                pool = core.agenda.changed_pools.pop()
                pool.marked = False
                _let_in_line(core, pool)

    def time_out(self, core: Core) -> None:
        blocked_sends.time_out(core)

    def next_timeout_us(self, core: Core) -> i64:
        return blocked_sends.next_timeout_us(core)
