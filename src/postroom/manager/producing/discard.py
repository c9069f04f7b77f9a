"""Messages that end as they come: discarded, returned to their senders or dropped.

Each is an arrival on the queue `UNDELIVERED`, without its body, and ends in the block that makes it
available; so the ledger tells of every message what became of it.
"""

import json
from typing import Final, final

from mypy_extensions import i64

from postroom.manager.destinations import registry as queues
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import begin_available
from postroom.manager.kernel.memory import admit
from postroom.manager.kernel.name_rules import UNDELIVERED
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.transaction import Disposal
from postroom.manager.kernel.transitions import step
from postroom.manager.producing.put import Message, new_entry
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue
from postroom.model import numbers as n
from postroom.model.message import MessageHead
from postroom.model.mq import Undelivered, reason_name

CONDITION: Final = "postroom:undelivered"
"""In the detail of the event that ends such a message, as other ends have the condition of an error."""
NO_BODY: Final = b""


def queue_for_undelivered(core: Core) -> Queue:
    """The queue `UNDELIVERED`, made when it is first needed."""
    queue = destinations_of(core).queues.get(UNDELIVERED)
    return queue if queue is not None else queues.make_own(core, QueueDefinition(UNDELIVERED))


def detail_of(why: Undelivered, more: dict[str, object]) -> bytes:
    """What the ledger is told with the event that ends it."""
    record: dict[str, object] = {
        "condition": CONDITION,
        "description": why.description,
        "reason": int(why.reason),
        "queue": why.queue,
        "queue_manager": why.queue_manager,
    }
    return json.dumps(record | more, ensure_ascii=False).encode("utf-8", "replace")


def bare_head(head: MessageHead) -> MessageHead:
    """The head of a message that nobody will be given: its ids, and nothing that asks for anything."""
    bare = MessageHead()
    bare.durable = head.durable
    bare.priority = head.priority
    bare.creation_us = head.creation_us
    bare.message_id, bare.message_id_type = head.message_id, head.message_id_type
    bare.correlation_id, bare.correlation_id_type = head.correlation_id, head.correlation_id_type
    bare.group_id, bare.group_sequence = head.group_id, head.group_sequence
    return bare


def discard_new(core: Core, producer: Producer, head: MessageHead, detail: bytes) -> None:
    """Write a message that can be put nowhere, and end it at once."""
    queue = queue_for_undelivered(core)
    entry = new_entry(core, producer, queue, Message(bare_head(head), NO_BODY), 0, None)
    begin_available(entry)
    admit(core, entry)
    end(core, entry, n.EVENT_DISCARD, detail)


def end(core: Core, entry: Entry, event: i64, detail: bytes) -> None:
    """End an available entry that is in no order."""
    step(core, entry, event, 0, 0, None, 0, detail)
    ended(core, entry)
    if event == n.EVENT_DISCARD:
        record = json.loads(detail)
        if record["condition"] == CONDITION:  # else it is here already, or a channel's own business
            core.effects.discard(record["queue"], reason_name(record["reason"]), record["description"])


@final
class Ending(Disposal):
    """By ``event`` (DISCARD, RETURN_TO_SENDER), with this detail."""

    def __init__(self, event: i64, detail: bytes) -> None:
        self.event: i64 = event
        self.detail = detail

    def carry_out(self, core: Core, entry: Entry) -> None:
        end(core, entry, self.event, self.detail)
