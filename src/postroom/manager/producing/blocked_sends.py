"""Sends that wait for room: who waits, for how long, and how the waiting ends without room; and the record of
what was refused though nobody is told, since its sender had settled it.

A blocked send is in state START: no record, no counter of its destination, nothing that a query shows. It is
held in memory (a large body in the ledger, as chunks without an arrival), bounded in bytes for each link and
for the broker, and gone when its link is.
"""

import heapq
import json
from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Rejected, Sink
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES
from postroom.manager.kernel.quota_pool import Pool, PoolWaiter
from postroom.manager.kernel.transaction import fail
from postroom.manager.producing.put import Message
from postroom.manager.producing.upload import drop
from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import Producer
    from postroom.manager.kernel.core import Core
    from postroom.manager.kernel.destination import Destination
    from postroom.manager.kernel.transaction import Transaction

NO_ROOM: Final = "amqp:resource-limit-exceeded"
ROLLED_BACK: Final = "amqp:transaction:rollback"
_WITHDRAWN: Final = "its link went while it waited for room"
_MIN_DEADLINES: Final = 64


@final
class BlockedSend(PoolWaiter):
    """One send that waits."""

    def __init__(
        self,
        producer: "Producer",
        queue: "Destination",
        message: Message,
        sink: Sink,
        token: i64,
        transaction: "Transaction | None",
        since_us: i64,
    ) -> None:
        super().__init__(message.size)
        self.producer = producer
        self.queue = queue
        self.message = message
        self.sink = sink
        self.token: i64 = token
        self.transaction = transaction
        self.since_us: i64 = since_us
        self.due_us: i64 = since_us + producer.send_timeout_us
        self.pool: Pool | None = None
        """Where it waits for room; None: only for those before it on its link."""
        self.waits = False

    def is_next(self) -> bool:
        waiting = self.producer.waiting
        return waiting is not None and waiting[0] is self


@final
class BlockedSends:
    """Those of a queue manager."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.deadlines: list[tuple[int, int, BlockedSend]] = []
        """Heap of (due_us, order of coming, send)."""
        self.last_order: i64 = 0
        """`BlockedSend.order` of the one that came last."""


def blocked_sends_of(core: "Core") -> BlockedSends:
    """Those of a queue manager."""
    return cast(BlockedSends, core.state(BlockedSends))


def cost(send: BlockedSend) -> i64:
    """What it is charged with where blocked bytes are bounded."""
    return send.size + ENTRY_OVERHEAD_BYTES


def enter(core: "Core", send: BlockedSend) -> None:
    """``send`` waits from now on, in the line of its pool if it has one."""
    line = blocked_sends_of(core)
    producer = send.producer
    line.last_order += 1
    send.order = line.last_order
    send.waits = True
    if producer.waiting is None:
        producer.waiting = []
    producer.waiting.append(send)
    producer.blocked_bytes += cost(send)
    line.bytes += cost(send)
    line.count += 1
    send.sink.blocked += 1
    send.queue.statistics.blocked += 1
    send.queue.statistics.blocked_total += 1
    if send.transaction is not None:
        send.transaction.blocked.append(send)
    if send.pool is not None:
        send.pool.line.join(send)
    heapq.heappush(line.deadlines, (send.due_us, send.order, send))


def change_pool(send: BlockedSend, pool: Pool) -> bool:
    """Of all the pools that a publish needs, ``pool`` is the one that lacks room now; whether that is
    another one than before.

    It stands there by when it came: who came later, as the next of its own link, may itself wait for it, and
    each would wait for the other."""
    before = send.pool
    if before is pool:
        return False
    if before is not None:
        before.line.leave(send)
        before.mark()
    send.pool = pool
    pool.line.join(send)
    return True


def leave(core: "Core", send: BlockedSend) -> None:
    """``send`` waits no longer, for whatever reason; the next of its link is looked at."""
    blocked = blocked_sends_of(core)
    producer = send.producer
    send.waits = False
    _leave_link(core, producer, send)
    producer.blocked_bytes -= cost(send)
    blocked.bytes -= cost(send)
    blocked.count -= 1
    send.sink.blocked -= 1
    if send.sink.blocked == 0:
        core.effects.unblocked.append(send.sink)
    send.queue.statistics.blocked -= 1
    send.queue.statistics.blocked_us += core.now_us - send.since_us
    if send.pool is not None:
        send.pool.line.leave(send)
        send.pool.mark()  # who stood behind it may fit
    if send.transaction is not None:
        send.transaction.blocked.remove(send)
        if not send.transaction.blocked:
            core.effects.unblocked.extend(send.transaction.dischargers)
    # those that were let in leave their deadlines behind: dropped when they are the most
    blocked = blocked_sends_of(core)
    deadlines = blocked.deadlines
    if len(deadlines) > _MIN_DEADLINES and len(deadlines) > 2 * blocked.count:
        blocked.deadlines = [item for item in deadlines if item[2].waits]
        heapq.heapify(blocked.deadlines)


def _leave_link(core: "Core", producer: "Producer", send: BlockedSend) -> None:
    waiting = producer.waiting
    assert waiting is not None
    was_next = waiting[0] is send
    waiting.remove(send)
    if not waiting:
        producer.waiting = None
    elif was_next:
        let_in_next(core, as_blocked_send(waiting[0]))


def let_in_next(core: "Core", send: BlockedSend) -> None:
    """It has become the first of its link: it goes in before the command ends if there is room."""
    if send.pool is not None:
        send.pool.mark()
    else:
        core.agenda.free_sends.append(send)


def free_line(core: "Core", pool: Pool) -> None:
    """No publish needs room in ``pool`` any more: those that wait for it are looked at, in their order."""
    waiting = [as_blocked_send(each) for each in pool.line.sends()]
    publishes = [send for send in waiting if isinstance(send.queue, Topic)]
    for send in reversed(publishes):  # the last that is added is looked at first
        pool.line.leave(send)
        send.pool = None
        if send.is_next():
            let_in_next(core, send)


def refuse(core: "Core", send: BlockedSend, condition: str, description: str) -> None:
    """The waiting ends with an error for the sender."""
    leave(core, send)
    reject(core, send, condition, description)


def reject(core: "Core", send: BlockedSend, condition: str, description: str) -> None:
    """Answer a send that has left the line; a commit that has waited for it fails."""
    discard(core, send)
    transaction = send.transaction
    if transaction is not None and (send.token < 0 or transaction.dischargers):
        fail(core, transaction, "a message in it was refused: " + description)
    if send.token < 0:
        record_refused(core, send.producer, send.queue.name, send.size, condition, description)
    core.effects.rejected.append(Rejected(send.sink, send.token, condition, description))


def discard(core: "Core", send: BlockedSend) -> None:
    """Nothing of a send that has left the line stays."""
    send.message.body = None
    if send.message.upload is not None:
        drop(core, send.message.upload)


def withdraw_all(core: "Core", producer: "Producer") -> list[int]:
    """The link is gone: what it had blocked vanishes, without answer. Returns the tokens."""
    tokens: list[int] = []
    waiting = producer.waiting
    while waiting:
        send = as_blocked_send(waiting[-1])
        leave(core, send)
        discard(core, send)
        if send.token < 0:
            if send.transaction is not None:
                fail(core, send.transaction, "a pre-settled message in it vanished with its link")
            record_refused(core, producer, send.queue.name, send.size, NO_ROOM, _WITHDRAWN)
        tokens.append(int(send.token))
    return tokens


def refuse_all(core: "Core", queue: "Destination", condition: str, description: str) -> None:
    """Everything that waits for ``queue`` is refused."""
    if queue.statistics.blocked == 0:
        return
    for _, _, send in sorted(blocked_sends_of(core).deadlines, key=lambda item: item[1]):
        if send.waits and send.queue is queue:
            refuse(core, send, condition, description)


def refuse_transacted(core: "Core", transaction: "Transaction") -> None:
    """The transaction is rolled back: what of it still waits is refused."""
    for send in list(transaction.blocked):
        refuse(core, as_blocked_send(send), ROLLED_BACK, f"transaction {transaction.id} has been rolled back")


def time_out(core: "Core") -> None:
    """Refuse those that have waited as long as their link wants."""
    due_us = next_timeout_us(core)
    while due_us != 0 and due_us <= core.now_us:
        send = blocked_sends_of(core).deadlines[0][2]
        refuse(core, send, NO_ROOM, _timed_out_text(core, send))
        due_us = next_timeout_us(core)


def _timed_out_text(core: "Core", send: BlockedSend) -> str:
    waited_ms = (core.now_us - send.since_us) // 1000
    what = send.pool.what if send.pool is not None else f"queue {send.queue.name!r}"
    return f"{what} had no room for {send.size} bytes within {waited_ms} ms (the send time-out)"


def next_timeout_us(core: "Core") -> i64:
    """When the first send has waited long enough; 0 never."""
    deadlines = blocked_sends_of(core).deadlines
    while deadlines and not deadlines[0][2].waits:
        heapq.heappop(deadlines)
    return deadlines[0][0] if deadlines else 0


def as_blocked_send(waiter: PoolWaiter) -> BlockedSend:
    """Nothing else waits for room."""
    assert isinstance(waiter, BlockedSend)
    return waiter


_MESSAGE_REFUSED: Final = int(RecordType.MESSAGE_REFUSED)
_MAX_CHARS: Final = 512
"""Of an address or description that a client may have made: so much of it is written to the ledger."""


def record_refused(
    core: Core, producer: Producer, address: str, size_bytes: i64, condition: str, description: str
) -> None:
    """A message was refused that its sender had settled: nobody hears of it but the ledger and the log."""
    if not producer.recorded:
        core.holders.open_producer(producer)
    record = {
        "address": address[:_MAX_CHARS],
        "bytes": size_bytes,
        "condition": condition,
        "description": description[:_MAX_CHARS],
    }
    detail = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
    core.effects.discard(address[:_MAX_CHARS], condition, description[:_MAX_CHARS])
    ledger = core.ledger
    ledger.record(_MESSAGE_REFUSED, ledger.next_position, 0, producer.id, 0, n.EVENT_DISCARD, detail)
