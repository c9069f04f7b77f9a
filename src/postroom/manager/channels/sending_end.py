"""A channel that sends: one batch is filled while those before wait for their confirmations."""

from mypy_extensions import i64

from postroom.manager.channels import batches
from postroom.manager.channels import registry as channels
from postroom.manager.channels.batches import BatchReceiver, forward
from postroom.manager.channels.channel import Batch, Channel, SendingEnd
from postroom.manager.consuming import registry as consumers
from postroom.manager.consuming import settlement
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ChannelInUse, LimitExceeded, NotAllowed, QueueNotFound
from postroom.manager.kernel.options import USAGE_TRANSMISSION, ConsumerOptions
from postroom.manager.kernel.transitions import step
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.undeliverable.returned_entries import come_back
from postroom.model import numbers as n
from postroom.model.channel import MAX_BATCH_MESSAGES


def open_sending(core: Core, name: str, sink: Sink) -> SendingEnd:
    """Bind the channel to its transmission queue, which nobody else may take from."""
    channel = channels.find(core, name)
    if not channel.definition.sending:
        raise NotAllowed(f"channel {name!r} is a {channel.definition.type}: it doesn't send")
    if channel.sending is not None:
        raise ChannelInUse(f"channel {name!r} sends already")
    if channel.batches:
        raise ChannelInUse(f"channel {name!r} has a batch in doubt: resynchronise with the partner first")
    options = ConsumerOptions(exclusive=True, name=name, container=core.options.queue_manager, channel=name)
    consumer = consumers.open_consumer(core, _transmission_queue(core, channel), sink, options)
    end = SendingEnd(channel, consumer, _new_batch(core, channel))
    consumer.receiver = BatchReceiver(core, end)
    channel.sending = end
    return end


def _transmission_queue(core: Core, channel: Channel) -> Queue:
    name = channel.definition.transmission_queue
    queue = destinations_of(core).queues.get(name)
    if queue is None:
        raise QueueNotFound(f"channel {channel.name!r}: there is no transmission queue {name!r}")
    if queue.definition.usage != USAGE_TRANSMISSION:
        raise NotAllowed(f"channel {channel.name!r}: queue {name!r} is no transmission queue (usage)")
    return queue


def _new_batch(core: Core, channel: Channel) -> Batch:
    return channel.new_batch(core.holders.ids.take(), core.now_us)


def set_credit(core: Core, end: SendingEnd, count: i64) -> None:
    """It can take ``count`` messages now. Raises LimitExceeded where they don't fit into the batch."""
    if end.batch_size == 0 and end.batch.count + count > MAX_BATCH_MESSAGES:
        raise LimitExceeded(
            f"channel {end.channel.name!r}: {end.batch.count} messages of the batch and {count} more are "
            f"above {MAX_BATCH_MESSAGES}: end the batch first"
        )
    consumers.set_credit(core, end.consumer, count, False)


def is_empty(end: SendingEnd) -> bool:
    """Whether its transmission queue has nothing for it now."""
    queue = as_queue(end.consumer.queue)
    return queue.top_band() is None or queue.switches.consumption_paused or queue.switches.get_inhibited


def end_batch(core: Core, end: SendingEnd, last_sequence: i64) -> Batch:
    """The oldest batch that is not ended is now, and in doubt until it is confirmed; where it is the one that
    is being filled, what is taken from now on belongs to the next."""
    _check(end)
    batch = _oldest(core, end)
    batch.last_sequence = last_sequence
    end.in_doubt.append(batch)
    return batch


def _oldest(core: Core, end: SendingEnd) -> Batch:
    while end.full:
        batch = end.full.pop(0)
        if batch.entries:
            return batch
        _back_out(core, end.channel, batch)  # nothing of it could travel
    batch = end.batch
    end.batch = _new_batch(core, end.channel)
    end.seen = 0
    return batch


def _back_out(core: Core, channel: Channel, batch: Batch) -> None:
    _decided(channel, batch)
    batches.back_out(core, batch)


def confirm(core: Core, end: SendingEnd, batch: Batch) -> None:
    """The partner has it: one block says so. Raises NotAllowed."""
    _check(end)
    channel = end.channel
    if not end.in_doubt or end.in_doubt[0] is not batch:
        raise NotAllowed(f"channel {channel.name!r}: batches are confirmed in their order, each once")
    end.in_doubt.pop(0)
    channel.luwid, channel.sequence = batch.luwid, batch.last_sequence
    channel.reset_sequence = 0
    _decided(channel, batch)
    forward(core, batch)
    channels.write_state(core, channel)


def forward_outside(core: Core, end: SendingEnd, entries: list[Entry]) -> None:
    """The partner has taken these, which are in no batch; or nobody will ever know: they won't leave again.
    Raises NotAllowed."""
    _check(end)
    consumer = end.consumer
    for entry in entries:
        if entry.owner is consumer:
            settlement.let_go(core, consumer, entry)
            step(core, entry, n.EVENT_FORWARD, 0, 0, None, 0)
            ended(core, entry)
            core.ledger.boundary()


def _check(end: SendingEnd) -> None:
    if end.closed:
        raise NotAllowed(f"channel {end.channel.name!r}: this end has been closed")


def _decided(channel: Channel, batch: Batch) -> None:
    if batch.recorded:
        channel.batches.remove(batch)


def close(core: Core, end: SendingEnd, refused: bool) -> None:
    """It sends no more: batches of which no confirmation was asked go back, and what it holds outside of
    them; those in doubt are kept, unless they are ``refused``: the partner has said that it has none of
    them."""
    if end.closed:
        return
    end.closed = True
    channel = end.channel
    channel.sending = None
    consumers.close_reader(core, end.consumer, False)
    for batch in (end.batch, *reversed(end.full)):
        _back_out(core, channel, batch)
    for batch in reversed(end.in_doubt) if refused else ():
        _back_out(core, channel, batch)


def close_partly(core: Core, end: SendingEnd, arrived: "set[Entry]", last_sequence: i64) -> None:
    """It sends no more, to a partner who says of each message whether it has it: what has arrived is
    forwarded, the last one having that number, and everything else goes back."""
    if end.closed:
        return
    for batch in (end.batch, *reversed(end.in_doubt)):
        for entry in reversed([entry for entry in batch.entries if entry not in arrived]):
            batches.let_go(batch, entry)
            come_back(core, entry, n.EVENT_UNDO, 0)
            core.ledger.boundary()
    if end.batch.entries:
        end_batch(core, end, last_sequence)
    for batch in end.in_doubt[:]:
        confirm(core, end, batch)
    close(core, end, False)
