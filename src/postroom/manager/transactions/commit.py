"""Transactions: provisional puts and receipts, and one record that decides them all.

Local ones live here; of a branch, XA (`xa_verbs`) or of a Spark sink (`spark.sink_verbs`), this is the part
that holds its messages.
"""

from typing import final

from mypy_extensions import i64

from postroom.ledger.format.block import Group
from postroom.manager.consuming.settlement import exclude, let_go, take_up
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded, NotAllowed
from postroom.manager.kernel.group_transitions import decide, decision, groups_by, hand_over
from postroom.manager.kernel.memory import stored
from postroom.manager.kernel.transaction import Receipt, Transaction, check_open, make_room
from postroom.manager.kernel.transitions import lose, step
from postroom.manager.producing.blocked_sends import refuse_transacted
from postroom.manager.queues.duplicate_detection import HAS_TWIN, forget, has_twin, remember
from postroom.manager.queues.placement import add_committed, delay, ended, why_put_waits
from postroom.manager.queues.queue import as_queue
from postroom.manager.undeliverable.returned_entries import come_back, redelivery_delay_us, turn_down
from postroom.model import numbers as n


def begin(core: Core) -> Transaction:
    """Open a transaction; raises LimitExceeded."""
    if len(core.transactions.local) >= core.options.max_transactions:
        raise LimitExceeded(
            f"{core.options.max_transactions} open transactions are the limit (max_transactions)"
        )
    limit = core.options.max_transaction_entries
    transaction = Transaction(core.holders.ids.take(), core.now_us, n.LOCAL_TRANSACTION, limit, b"")
    core.transactions.local[int(transaction.id)] = transaction
    return transaction


def dispose(
    core: Core, transaction: Transaction, consumer: Consumer, entry: Entry, event: i64, settled: bool
) -> Receipt:
    """The consumer's outcome for ``entry`` takes effect with the commit."""
    take_up(core, consumer, entry)
    if transaction.kind == n.SPARK_BRANCH:
        raise NotAllowed(
            f"message {entry.serial}: nothing is received in a sink branch; settle the delivery outside of it"
        )
    if event != n.EVENT_CONFIRM and transaction.kind != n.LOCAL_TRANSACTION:
        raise NotAllowed(
            f"message {entry.serial}: in an XA branch a delivery can only be accepted; give other outcomes "
            "outside of it"
        )
    first = core.ledger.next_position
    make_room(core, transaction)
    step(core, entry, n.EVENT_ASSIGN, transaction.kind, transaction.id, transaction, 0)
    let_go(core, consumer, entry)
    as_queue(entry.queue).held.add(entry)
    receipt = Receipt(consumer, entry, event, settled)
    if transaction.acquired:
        receipt.acquired = transaction.acquired.pop(entry, None) is not None
    transaction.receipts.append(receipt)
    core.durability.provisional(first)
    return receipt


def commit(core: Core, transaction: Transaction) -> None:
    """Decide for it, by one record; raises TransactionRolledBack (having rolled back), TransactionTimedOut,
    TransactionUnknown, or NotAllowed while sends of it wait for room."""
    if not transaction.decided and not transaction.failed and has_twin(transaction):
        transaction.failed = HAS_TWIN
    if transaction.failed and not transaction.decided:
        rollback(core, transaction)
    check_open(transaction)
    if transaction.blocked:
        count = len(transaction.blocked)
        raise NotAllowed(f"transaction {transaction.id} has {count} sends that wait for room")
    _take_leave(core, transaction)
    decide_for(core, transaction)
    close(core, transaction)


def rollback(core: Core, transaction: Transaction, lost: bool = False) -> None:
    """Decide against it. Deliveries that their receivers have settled return; others stay with the
    receiver. ``lost``: its connection is; nobody has failed, and nothing is delayed."""
    if transaction.decided:
        return
    if transaction.blocked:
        refuse_transacted(core, transaction)
    _take_leave(core, transaction)
    decide_against(core, transaction, n.EVENT_LINK_LOST if lost else n.EVENT_UNDO)
    if transaction.acquired:
        _take_back(core, transaction, lost)
    close(core, transaction)


def _take_back(core: Core, transaction: Transaction, lost: bool) -> None:
    """What was acquired in it and had no outcome returns to its place, as after a failed delivery."""
    for entry, consumer in transaction.acquired.items():
        if entry.owner is not consumer:
            continue
        failed = not (lost or consumer.suspended)
        let_go(core, consumer, entry)
        delay_us = redelivery_delay_us(entry, consumer) if failed else 0
        come_back(core, entry, n.EVENT_FAIL if failed else n.EVENT_LINK_LOST, delay_us)
        core.ledger.boundary()


def decide_for(core: Core, transaction: Transaction) -> None:
    """Everything in it takes effect."""
    transaction.decided = True
    remember(transaction)
    groups = _groups_of_puts(core, transaction.puts, transaction.kind)
    taken = [receipt.entry for receipt in transaction.receipts if receipt.event == n.EVENT_CONFIRM]
    groups += groups_by(taken, n.GET_UNCONFIRMED, transaction.kind, n.EVENT_CONFIRM)
    if groups:
        position = decision(core, transaction.id, transaction.kind, n.EVENT_CONFIRM, groups)
        _make_available(core, transaction, position)
        for entry in taken:
            as_queue(entry.queue).held.discard(entry)
            decide(entry, n.EVENT_CONFIRM, 0)
            if entry.flags & n.FLAG_REPORTS != 0:
                core.reports.note(entry, n.FEEDBACK_COD)
            ended(core, entry)
    for receipt in transaction.receipts:
        if receipt.event != n.EVENT_CONFIRM:
            _apply(core, receipt)


def decide_against(core: Core, transaction: Transaction, event: i64) -> None:
    """Nothing in it takes effect. ``event``: UNDO, or LINK_LOST where nobody has failed. For a branch all of
    it is one block."""
    transaction.decided = True
    if transaction.kind == n.XA_PREPARED:
        forget(transaction)
    groups = groups_by(transaction.puts, n.PUT_UNCONFIRMED, transaction.kind, event)
    if groups:
        decision(core, transaction.id, transaction.kind, event, groups)
        for entry in transaction.puts:
            as_queue(entry.queue).held.discard(entry)
            decide(entry, event, 0)
            ended(core, entry)
    for receipt in transaction.receipts:
        _undo(core, transaction, receipt, event)
        if transaction.kind == n.LOCAL_TRANSACTION:
            core.ledger.boundary()


def prepare(core: Core, transaction: Transaction) -> None:
    """From now on only a decision ends it, whatever happens: one record says so of everything in it."""
    before = transaction.kind
    transaction.kind = n.XA_PREPARED
    remember(transaction)
    core.holders.open(transaction.id, transaction.kind, transaction.detail)
    groups: list[Group] = []
    for causes in (0, n.UNBORN):
        puts = [entry for entry in transaction.puts if entry.causes == causes]
        groups += groups_by(puts, n.PUT_UNCONFIRMED, before, n.EVENT_PREPARE, transaction.kind, causes)
    taken = [receipt.entry for receipt in transaction.receipts]
    groups += groups_by(taken, n.GET_UNCONFIRMED, before, n.EVENT_PREPARE, transaction.kind)
    decision(core, transaction.id, transaction.kind, n.EVENT_PREPARE, groups)
    for entry in (*transaction.puts, *taken):
        hand_over(entry, n.EVENT_PREPARE, transaction.kind)


def _take_leave(core: Core, transaction: Transaction) -> None:
    transaction.decided = True
    del core.transactions.local[int(transaction.id)]


def close(core: Core, transaction: Transaction) -> None:
    """It is decided: as a holder it is no more."""
    core.holders.close(transaction.id, transaction.kind, transaction.recorded)
    let_go_of(core, transaction)


def let_go_of(core: Core, transaction: Transaction) -> None:
    """It holds nothing any more."""
    subscriptions = subscriptions_of(core)
    transaction.puts = []
    transaction.receipts = []
    transaction.acquired = {}
    transaction.disposals = {}
    if subscriptions.doomed:
        subscriptions.forsaken.extend(subscriptions.doomed)
        core.agenda.due = True
        subscriptions.doomed.clear()


def _groups_of_puts(core: Core, puts: list[Entry], kind: i64) -> list[Group]:
    """Available from now on, still to be born, or held back by a pause."""
    by_causes: dict[int, list[Entry]] = {0: [], n.UNBORN: [], n.PAUSED: []}
    for entry in puts:
        entry.causes = why_put_waits(core, entry)
        by_causes[int(entry.causes)].append(entry)
    groups: list[Group] = []
    for causes, entries in by_causes.items():
        groups += groups_by(entries, n.PUT_UNCONFIRMED, kind, n.EVENT_CONFIRM, n.NO_HOLDER, causes)
    return groups


def _make_available(core: Core, transaction: Transaction, position: i64) -> None:
    """Places follow the decision record: its position, and the rank in its groups."""
    ordinal: i64 = 0
    for entry in _as_decided(transaction.puts):
        as_queue(entry.queue).held.discard(entry)
        decide(entry, n.EVENT_CONFIRM, entry.causes)
        if entry.causes != 0:
            delay(core, entry)
            continue
        entry.place = position
        entry.ordinal = ordinal
        ordinal += 1
        if entry in transaction.disposals:
            transaction.disposals[entry].carry_out(core, entry)
            continue
        if entry.flags & n.FLAG_REPORTS != 0:
            core.reports.note(entry, n.FEEDBACK_COA)
        core.agenda.woken.append(entry.queue)
        add_committed(core, as_queue(entry.queue), entry)


def _as_decided(puts: list[Entry]) -> list[Entry]:
    """In the order in which the groups of the decision name them: what waits comes last, then by queue and
    serial."""
    queue: Destination | None = None
    serial: i64 = 0
    for entry in puts:
        in_order = entry.causes == 0 and entry.serial > serial and (queue is None or entry.queue is queue)
        if not in_order:
            return sorted(puts, key=lambda entry: (entry.causes != 0, entry.queue.id, entry.serial))
        queue = entry.queue
        serial = entry.serial
    return puts


def _apply(core: Core, receipt: Receipt) -> None:
    """An outcome other than accepted, now that the transaction is committed."""
    entry = receipt.entry
    as_queue(entry.queue).held.discard(entry)
    if receipt.event == n.EVENT_DEAD_LETTER:
        turn_down(core, entry, receipt.consumer, receipt.condition, receipt.description)
        return
    consumer = receipt.consumer
    assert consumer is not None, "only a branch outlives its consumers"
    if receipt.not_here and not consumer.closed:
        exclude(core, consumer, entry)
    if receipt.annotations:
        entry.annotations = {**(entry.annotations or {}), **receipt.annotations}
    failed = receipt.event == n.EVENT_FAIL
    delay_us = redelivery_delay_us(entry, consumer, receipt.delay_us) if failed else 0
    come_back(core, entry, receipt.event, delay_us)


def _undo(core: Core, transaction: Transaction, receipt: Receipt, event: i64) -> None:
    entry, consumer = receipt.entry, receipt.consumer
    as_queue(entry.queue).held.discard(entry)
    if consumer is None:
        _undo_of_before(core, entry, event)
    elif transaction.kind == n.LOCAL_TRANSACTION and not (
        receipt.settled or receipt.acquired or consumer.closed or consumer.suspended
    ):
        step(core, entry, n.EVENT_RESUME, n.CONSUMER, consumer.id, consumer, 0)
        consumer.held.add(entry)
    else:
        delay_us = redelivery_delay_us(entry, consumer) if event == n.EVENT_UNDO else 0
        come_back(core, entry, event, delay_us)


def _undo_of_before(core: Core, entry: Entry, event: i64) -> None:
    """A message received before the start: of one that was not stored nothing is left but its name."""
    if stored(entry):
        come_back(core, entry, event, redelivery_delay_us(entry, None))
        return
    step(core, entry, event, 0, 0, None, 0)
    lose(core, entry)
    ended(core, entry)


@final
class LocalTransactionPart(TurnPart):
    """Transactions that have been open for too long are rolled back."""

    def time_out(self, core: Core) -> None:
        due_us = self.next_timeout_us(core)
        while due_us != 0 and due_us <= core.now_us:
            transaction = next(iter(core.transactions.local.values()))
            rollback(core, transaction)
            transaction.failed = f"rolled back after {core.options.transaction_timeout_ms} ms (time-out)"
            transaction.timed_out = True
            due_us = self.next_timeout_us(core)

    def next_timeout_us(self, core: Core) -> i64:
        if not core.transactions.local or core.options.transaction_timeout_ms == 0:
            return 0
        return (
            next(iter(core.transactions.local.values())).begun_us + core.options.transaction_timeout_ms * 1000
        )
