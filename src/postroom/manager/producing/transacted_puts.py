"""Puts in a transaction: invisible until it is committed."""

from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import begin_held
from postroom.manager.kernel.memory import admit
from postroom.manager.kernel.transaction import Transaction, make_room
from postroom.manager.producing.message import Message
from postroom.manager.producing.put import due_of, new_entry
from postroom.manager.queues.duplicate_detection import note
from postroom.manager.queues.queue import Queue, as_queue
from postroom.model import numbers as n


def put_in_transaction(
    core: Core,
    transaction: Transaction,
    producer: Producer,
    queue: Queue,
    message: Message,
) -> Entry:
    """Put provisionally: invisible until the commit. Raises as `make_room`."""
    make_room(core, transaction, 1, message.size)
    entry = new_entry(core, producer, queue, message, due_of(core, message.head), transaction)
    note(queue, message.head, transaction)
    hold_put(core, transaction, entry)
    return entry


def hold_put(core: Core, transaction: Transaction, entry: Entry) -> None:
    """The transaction has put ``entry``, a new object in no order."""
    begin_held(entry, transaction.kind, transaction.id, transaction)
    as_queue(entry.queue).held.add(entry)
    if transaction.kind == n.SPARK_BRANCH:
        entry.body = None  # it may be held for long, and there may be very many: read again when it goes out
    admit(core, entry)
    transaction.puts.append(entry)
