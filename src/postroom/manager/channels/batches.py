"""What a sending channel holds, in batches and outside of them: taken, forwarded, backed out."""

import json
from typing import final

from postroom.manager.channels.channel import Batch, SendingEnd
from postroom.manager.kernel.consumer import Receiver
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.group_transitions import decide, decision, groups_by
from postroom.manager.kernel.memory import drop_body
from postroom.manager.kernel.transitions import acquire, step
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import as_queue
from postroom.manager.undeliverable.returned_entries import come_back
from postroom.model import numbers as n


@final
class BatchReceiver(Receiver):
    """The sending end of a channel, as its consumer sees it."""

    def __init__(self, core: Core, end: SendingEnd) -> None:
        self._core = core
        self._end = end

    def take(self, entry: Entry) -> None:
        _take(self._core, self._end, entry)


def _take(core: Core, end: SendingEnd, entry: Entry) -> None:
    """``entry`` is about to leave: in the batch that is being filled, or, non-persistent on a fast channel,
    by itself: its consumer holds it until the partner has it."""
    if end.fast and entry.flags & n.FLAG_DURABLE == 0:
        if not end.consumer.recorded:
            core.holders.open_consumer(end.consumer)
        acquire(core, entry, end.consumer.id, end.consumer)
        end.consumer.held.add(entry)
        drop_body(core, entry)
        _count(core, end)
        return
    batch = end.batch
    if not batch.recorded:
        name = end.channel.name
        batch.recorded = True
        record = {"name": f"{name} {batch.luwid.hex()}", "channel": name, "luwid": batch.luwid.hex()}
        core.holders.open(batch.id, n.CHANNEL_BATCH, json.dumps(record).encode())
        end.channel.batches.append(batch)
    step(core, entry, n.EVENT_ACQUIRE, n.CHANNEL_BATCH, batch.id, batch, 0)
    hold(batch, entry)
    drop_body(core, entry)
    _count(core, end)


def _count(core: Core, end: SendingEnd) -> None:
    """A message was taken: the batch may be full."""
    if end.batch_size == 0:
        return
    end.seen += 1
    if end.seen >= end.batch_size:
        end.seen = 0
        if end.batch.recorded:
            end.full.append(end.batch)
            end.batch = end.channel.new_batch(core.holders.ids.take(), core.now_us)


def hold(batch: Batch, entry: Entry) -> None:
    """``entry`` is the batch's."""
    entry.owner = batch
    as_queue(entry.queue).held.add(entry)
    batch.entries.append(entry)
    batch.count += 1


def let_go(batch: Batch, entry: Entry) -> None:
    """It isn't any more; what becomes of it is the caller's to say."""
    as_queue(entry.queue).held.discard(entry)
    batch.entries.remove(entry)


def forward(core: Core, batch: Batch) -> None:
    """All of it has arrived: one record says so."""
    entries = batch.entries
    batch.entries = []
    if entries:
        groups = groups_by(entries, n.GET_UNCONFIRMED, n.CHANNEL_BATCH, n.EVENT_FORWARD)
        decision(core, batch.id, n.CHANNEL_BATCH, n.EVENT_FORWARD, groups)
    for entry in entries:
        as_queue(entry.queue).held.discard(entry)
        decide(entry, n.EVENT_FORWARD, 0)
        ended(core, entry)
    _close(core, batch)


def back_out(core: Core, batch: Batch) -> None:
    """None of it has arrived: everything goes back to its place, the last first."""
    entries = batch.entries
    batch.entries = []
    for entry in reversed(entries):
        as_queue(entry.queue).held.discard(entry)
        come_back(core, entry, n.EVENT_UNDO, 0)
        core.ledger.boundary()
    _close(core, batch)


def _close(core: Core, batch: Batch) -> None:
    core.holders.close(batch.id, n.CHANNEL_BATCH, batch.recorded)
