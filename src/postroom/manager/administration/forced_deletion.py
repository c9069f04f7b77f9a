"""A deletion that is forced: who holds something of the queue, and hasn't decided, loses all of its work.

Nothing is half done: a transaction is rolled back as a whole, wherever its messages are, and its client is
told at the commit; a prepared branch gets the heuristic outcome "rolled back", which its transaction manager
is told until it forgets the branch. A channel's batch is backed out, one that its partner may have as by
RESOLVE: if it has, the audit tells of each message that arrived though its sender says that it stayed.
"""

from collections import Counter
from typing import Final

from postroom.manager.channels import receiving_end, sending_end
from postroom.manager.channels import registry as channels
from postroom.manager.channels.channel import Batch, Channel, channels_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Detach
from postroom.manager.kernel.errors import QueueDeleted
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.queues.queue import Queue
from postroom.manager.spark import sink_verbs as sinks
from postroom.manager.transactions import commit as transactions
from postroom.manager.transactions import xa_verbs as branches
from postroom.model import numbers as n

_KINDS: Final[dict[int, str]] = {
    n.LOCAL_TRANSACTION: "transactions",
    n.XA_BRANCH: "branches",
    n.XA_PREPARED: "prepared_branches",
    n.SPARK_BRANCH: "sink_branches",
}
"""How the ledger counts them in the queue's last record."""
_BATCHES: Final = "batches"
_IN_DOUBT: Final = "batches_in_doubt"


def roll_back_holders(core: Core, queue: Queue, user: str) -> dict[str, int]:
    """Roll back the work of every holder that has something of ``queue``; how many of each kind."""
    counts: Counter[str] = Counter()
    for channel in _channels_of(core, queue):
        counts += _back_out(core, queue, channel)
    for transaction in _transactions_of(queue):
        counts[_KINDS[int(transaction.kind)]] += 1
        _roll_back(core, transaction, queue, user)
    return dict(counts)


def _transactions_of(queue: Queue) -> list[Transaction]:
    """In the order in which they were made."""
    found: dict[int, Transaction] = {}
    for entry in queue.held:
        if isinstance(entry.owner, Transaction):
            found[int(entry.owner.id)] = entry.owner
    return [found[id] for id in sorted(found)]


def _channels_of(core: Core, queue: Queue) -> list[Channel]:
    """Sending channels with a batch that holds something of ``queue``."""
    held = {int(entry.owner.id) for entry in queue.held if isinstance(entry.owner, Batch)}
    return [
        channel
        for channel in channels_of(core).by_name.values()
        if any(int(batch.id) in held for batch in channel.batches)
    ]


def _back_out(core: Core, queue: Queue, channel: Channel) -> Counter[str]:
    """It holds no batch any more, and sends no more; how many batches there were, and in doubt."""
    end, count = channel.sending, len(channel.batches)
    doubtful = count if end is None else len(end.in_doubt)
    if end is not None:
        sink = end.consumer.sink
        sending_end.close(core, end, True)
        core.effects.detached.append(Detach(sink, QueueDeleted.condition, queue.deleted_text()))
    else:
        channels.resolve(core, channel.name, False)
    return Counter({_BATCHES: count - doubtful, _IN_DOUBT: doubtful})


def _roll_back(core: Core, transaction: Transaction, queue: Queue, user: str) -> None:
    by = f" by {user}" if user else ""
    why = f"queue {queue.name!r}, of which it held messages, has been deleted by force{by}"
    if transaction.kind in (n.XA_BRANCH, n.XA_PREPARED):
        branches.lose(core, transaction, why, user)
    elif transaction.kind == n.SPARK_BRANCH:
        sinks.lose(core, transaction, why)
    elif int(transaction.id) in core.transactions.local:
        transactions.rollback(core, transaction)
        transaction.failed = f"rolled back: {why}"
    else:
        receiving_end.lose(core, transaction, why)
