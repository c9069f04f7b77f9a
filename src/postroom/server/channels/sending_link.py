"""The link of a sending message channel agent: messages of a transmission queue to the partner.

Messages of batches leave settled, each behind a header that says what is left of its time to live; the end of
a batch leaves unsettled, and the partner accepts it when the batch is durable there. Fast messages leave
unsettled, too, and are accepted when they have been put. What they have to agree on
before, and every byte, is in the reference ("Channel protocol"); when a batch ends is the business of
`channel.sending_machine`, what it holds that of the queue manager.
"""

from collections import deque
from typing import Final

from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.errors import LINK_MESSAGE_SIZE_EXCEEDED, AmqpError
from postroom.amqp.frames.outcomes import Accepted, DeliveryState, Rejected
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import Source, Target
from postroom.channel import wire
from postroom.channel.negotiation import Offer, Terms, negotiate, read_offer, sending_offer
from postroom.channel.sending_machine import BEAT, FINISH, REQUEST_CONFIRM, SendingMachine
from postroom.channel.undelivered import UndeliveredHandler
from postroom.channel.wire import (
    BATCH_END_FORMAT,
    CHANNEL_ADDRESS,
    CONTROL,
    FAST,
    HEARTBEAT,
    HEARTBEAT_FORMAT,
    IN_BATCH,
    TAG,
    BatchEnd,
)
from postroom.ledger.format.records import ArrivalFlag
from postroom.manager.channels.channel import Batch, SendingEnd
from postroom.manager.headers.transmission_header import take_transmission
from postroom.manager.kernel.effects import Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.security.acts import ATTACH
from postroom.model import mq
from postroom.model.channel_states import ChannelEvent
from postroom.model.entity_types import CHANNEL_TYPE
from postroom.model.rights import Right
from postroom.server.access.access import access_of
from postroom.server.channels.agent_link import LINK_NAME_PREFIX, AgentLink
from postroom.server.channels.instance import ChannelInstance, LinkStatus, partner_runs_of
from postroom.server.channels.undeliverable import give_up, message_of
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.delivery_headers import changed_sections, header_of

AHEAD_BYTES: Final = 4 << 20
"""Messages taken from the transmission queue and not yet sent, at about their size."""
FIRST_AVERAGE_BYTES: Final = 4 << 10
"""Taken as the size of a message before the first has been seen."""
RECHECK_US: Final = 20_000
"""How soon a batch that is open notices that its queue has become empty without giving it anything (messages
expired, or were deleted)."""
NOTHING: Final = b""
"""In place of a message that can't travel."""
_DURABLE = int(ArrivalFlag.DURABLE)


class Outgoing:
    """A message that is to leave."""

    __slots__ = ("entry", "fast", "payload")

    def __init__(self, payload: bytes, fast: bool, entry: Entry) -> None:
        self.payload: Final = payload
        self.fast: Final = fast
        self.entry: Final = entry


class SendingLink(AgentLink):
    """Between one `SenderLink` and the consumer of a transmission queue."""

    def __init__(
        self, binding: ConnectionState, link: SenderLink, instance: ChannelInstance, offer: Offer
    ) -> None:
        super().__init__(binding, link, instance)
        self.link: Final = link
        self.offer: Final = offer
        self.properties = offer.properties()
        self.terms: Terms | None = None
        self.machine: SendingMachine | None = None
        """From the moment on that both ends agree."""
        self.end: SendingEnd | None = None
        self._channels = binding.broker.manager.channels
        self._sent = 0
        """Of the messages that the queue manager has given those that have left, or couldn't travel."""
        self._unsent: deque[Outgoing] = deque()
        """Those that can't leave now: the partner has taken its credit back, or the batch before them is
        whole and can't be asked for yet."""
        self._outside: dict[Entry, None] = {}
        """Fast messages that have left and have no answer; as they left."""
        self._rejected = False
        """The partner has rejected the oldest batch in doubt: it can't have those behind it either."""
        self._average_bytes = FIRST_AVERAGE_BYTES
        self._most_ahead = binding.broker.config.limits.deliveries_ahead
        self._recheck_us = 0

    # Beginning.

    def begin(self, attach: Attach, now_us: int) -> None:
        theirs = read_offer(attach.properties, True)
        self.meet(theirs, theirs.last_sequence, now_us)
        self._start(now_us)

    def meet(self, theirs: Offer, last_sequence: int, now_us: int) -> None:
        """Agree with the partner on terms, and on what has arrived: there the last message has number
        ``last_sequence``. Raises `AmqpError`, `ManagerError`."""
        self.terms = negotiate(self.offer, theirs)
        self.instance.partner = theirs.queue_manager
        self.instance.event(ChannelEvent.ATTACHED, "", now_us)
        self._channels.resynchronise(self.name, theirs.last_luwid, last_sequence, now_us)

    def confirmed(self, now_us: int) -> None:
        """The requester has its answer."""
        try:
            self._start(now_us)
        except (AmqpError, ManagerError) as error:
            self.refuse(error, now_us)

    def _start(self, now_us: int) -> None:
        terms = self.terms
        assert terms is not None
        sync = self._channels.sync(self.name)
        self.end = self._channels.open_sending(self.name, self, now_us)
        self.end.fast = terms.fast
        definition = self.instance.definition
        machine = self.machine = SendingMachine(terms, definition, sync.last_sequence, now_us)
        if machine.small:
            self.end.batch_size = terms.batch_size
        self.resynchronised(now_us)

    def flow(self, now_us: int) -> None:
        self._update_credit(now_us)

    # Credit.

    def credit_changed(self, now_us: int) -> None:
        self._go_on(now_us)

    def set_writable(self, now_us: int) -> None:
        self._update_credit(now_us)

    def refill(self, now_us: int) -> None:
        """A burst of deliveries has left."""
        self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        """Send what waits, ask for what is whole, as far as both can be; then have more given."""
        self.report_moved(now_us)
        self._flush(now_us)
        while self._step(now_us):
            self._flush(now_us)
        end = self.end
        if end is not None and end.consumer.credit * 2 < min(self._limit_ahead(), self._room()):
            self._update_credit(now_us)

    def _ahead(self) -> int:
        """Messages that are given to this link and have not left."""
        end = self.end
        return 0 if end is None else int(end.consumer.assigned) - self._sent

    def _room(self) -> int:
        machine = self.machine
        return 0 if machine is None else int(machine.room()) - self._ahead()

    def _update_credit(self, now_us: int) -> None:
        """Tell the queue manager how many more messages this link can take."""
        end = self.end
        if end is None:
            return
        credit = 0
        if self.binding.writable:
            ahead = self._ahead()
            credit = min(self._room(), self._limit_ahead() - ahead, self.link.usable_credit() - ahead)
        if credit < 0:
            credit = 0
        if credit != end.consumer.credit:
            self._channels.set_sending_credit(end, credit, now_us)

    def _limit_ahead(self) -> int:
        return max(1, min(self._most_ahead, AHEAD_BYTES // self._average_bytes))

    # Messages.

    def deliver(self, delivery: Delivery, now_us: int) -> None:
        end, machine, terms = self.end, self.machine, self.terms
        if end is None or machine is None or terms is None:
            return
        entry = delivery.entry
        durable = entry.flags & _DURABLE != 0
        payload = header_of(durable, entry.priority, entry.expiry_us, 0, now_us)
        payload += changed_sections(delivery.body, delivery.annotations)
        size_bytes = len(payload)
        if size_bytes > terms.max_message_bytes:
            if not self._refuse_message(end, delivery, size_bytes, now_us):
                return
            payload = NOTHING
        self._average_bytes += (size_bytes - self._average_bytes) // 4
        outgoing = Outgoing(payload, end.fast and not durable, entry)
        if self._unsent or self.link.credit <= 0 or machine.full:
            self._unsent.append(outgoing)
        else:
            self._send(machine, outgoing, now_us)
        self.binding.wrote(self)

    def _send(self, machine: SendingMachine, outgoing: Outgoing, now_us: int) -> None:
        payload = outgoing.payload
        size_bytes = len(payload)
        self._sent += 1
        if size_bytes == 0:
            machine.skip()
        else:
            self._transfer(machine, outgoing, size_bytes, now_us)
        if machine.full:
            self._step(now_us)

    def _transfer(self, machine: SendingMachine, outgoing: Outgoing, size_bytes: int, now_us: int) -> None:
        entry = outgoing.entry
        if outgoing.fast:
            self._outside[entry] = None
            machine.add_fast(size_bytes)
            tag = TAG.pack(FAST, machine.sequence, entry.serial)
            self.link.send(outgoing.payload, tag, False, 0, None, entry)
        else:
            tag = TAG.pack(IN_BATCH, machine.add(size_bytes, now_us), entry.serial)
            self.link.send(outgoing.payload, tag, True)
        self.count(size_bytes)
        self.binding.messages_out += 1

    def _flush(self, now_us: int) -> None:
        machine = self.machine
        while self._unsent and machine is not None and self.link.credit > 0 and not machine.full:
            self._send(machine, self._unsent.popleft(), now_us)

    def _refuse_message(self, end: SendingEnd, delivery: Delivery, size_bytes: int, now_us: int) -> bool:
        """It is too large to travel: a dead letter here. Whether it could be one; else the link is over."""
        assert self.terms is not None
        most_bytes = self.terms.max_message_bytes
        what = f"message of {size_bytes} bytes; channel {self.name!r} takes {most_bytes} (max_message_bytes)"
        header, sections = take_transmission(changed_sections(delivery.body, delivery.annotations))
        queue, queue_manager = (
            (self.instance.definition.transmission_queue, "")
            if header is None
            else (header.queue, header.queue_manager)
        )
        why = mq.Undelivered(mq.Reason.MSG_TOO_BIG_FOR_CHANNEL, queue, queue_manager, what)
        message = message_of(delivery.entry, sections, end.fast, now_us)
        undelivered_handler = UndeliveredHandler(self.instance.definition, None)
        try:
            step = undelivered_handler.begin(why, message)
            if (
                give_up(self._channels, end, undelivered_handler, step, delivery.entry, message, now_us)
                is None
            ):
                return True
            self.refuse(AmqpError(LINK_MESSAGE_SIZE_EXCEEDED, what), now_us)
        except ManagerError as error:
            self.refuse(error, now_us)
        return False

    # Batches.

    def _step(self, now_us: int) -> bool:
        """Do what is to be done now; whether anything was."""
        machine, end = self.machine, self.end
        if machine is None or end is None:
            return False
        empty = not machine.full and self._channels.is_empty(end)
        step = machine.step(self._ahead(), empty, now_us)
        if step == REQUEST_CONFIRM and self.link.credit > 0:
            self._request_confirm(machine, end, now_us)
        elif step == BEAT and self.link.credit > 0:
            machine.beat()
            self.link.send(HEARTBEAT, TAG.pack(CONTROL, machine.sequence, 0), False, HEARTBEAT_FORMAT)
        elif step == FINISH:
            self.finish(now_us)
        else:
            return False
        self.binding.touch()
        return True

    def _request_confirm(self, machine: SendingMachine, end: SendingEnd, now_us: int) -> None:
        batch = self._channels.end_batch(end, machine.sequence, now_us)
        if len(batch.entries) != machine.count:
            raise AssertionError(
                f"batch of {machine.count} messages, the queue manager's {len(batch.entries)}"
            )
        batch_end = BatchEnd(batch.luwid, machine.sequence, machine.count)
        tag = TAG.pack(CONTROL, machine.sequence, machine.count)
        self.link.send(batch_end.encode(), tag, False, BATCH_END_FORMAT, None, batch)
        machine.confirm_requested()

    def disposed(
        self, deliveries: list[WireDelivery], state: DeliveryState | None, settled: bool, now_us: int
    ) -> None:
        """The partner's answer to fast messages, to the ends of batches, and to heartbeats."""
        confirmed = False
        taken: list[Entry] = []
        for delivery in deliveries:
            machine, end, what = self.machine, self.end, delivery.context
            if machine is None or end is None:
                return
            if not settled:
                self.link.settle(delivery.id, delivery.id)
            if not isinstance(state, Accepted):
                self._rejected = isinstance(state, Rejected) and what is end.oldest_in_doubt
                self._not_confirmed(state, now_us)
            elif isinstance(what, Entry):
                taken.append(what)
            elif isinstance(what, Batch):
                self._channels.confirm_batch(end, what, now_us)
                machine.confirmed(now_us)
                confirmed = True
            else:
                machine.beat_answered(now_us)
        if taken:
            self._taken(taken, now_us)
        if confirmed:
            self.instance.event(ChannelEvent.BATCH_CONFIRMED, "", now_us)
        self._go_on(now_us)

    def _taken(self, entries: list[Entry], now_us: int) -> None:
        """The partner has these fast messages."""
        machine, end = self.machine, self.end
        if machine is None or end is None:
            return
        for entry in entries:
            self._outside.pop(entry, None)
        machine.taken(len(entries), now_us)
        self._channels.forward_outside(end, entries, now_us)
        self.instance.succeeded(now_us)

    def _not_confirmed(self, state: DeliveryState | None, now_us: int) -> None:
        """An answer after which this link can't go on; unless it is a rejection, it leaves open what the
        partner has, and the next start will tell."""
        why = "the partner has not accepted the end of a batch, or a fast message"
        if isinstance(state, Rejected) and state.error is not None:
            why = f"{why}: {state.error.condition} {state.error.description or ''}"
        self.refuse(AmqpError(wire.BATCH_REFUSED, why), now_us)

    # Time.

    def due_us(self) -> int:
        machine = self.machine
        over_us = 0 if machine is None else int(machine.next_deadline_us())
        return 0 if over_us == 0 else max(over_us, self._recheck_us)

    def due(self, now_us: int) -> None:
        self._recheck_us = now_us + RECHECK_US
        self._go_on(now_us)

    def status(self) -> LinkStatus:
        machine, end = self.machine, self.end
        if machine is None:
            return LinkStatus(self.messages, self.bytes)
        batch = None if end is None else (end.full[0] if end.full else end.batch)
        return LinkStatus(
            self.messages,
            self.bytes,
            int(machine.batches),
            int(machine.count),
            int(machine.sequence),
            b"" if batch is None else batch.luwid,
            machine.in_doubt_count > 0,
            int(machine.outside),
        )

    # Ends.

    def quiesce(self, now_us: int) -> None:
        machine = self.machine
        if machine is None:
            self.finish(now_us)
            return
        machine.stopping = True
        self._update_credit(now_us)
        self._step(now_us)

    def let_go(self, lost: bool, now_us: int) -> None:
        """What the partner hasn't taken goes back. Of fast messages only the partner's own end of the link
        tells that: else those that have left are forwarded, whatever has become of them."""
        self.report_moved(now_us)
        end, self.end = self.end, None
        self._unsent.clear()
        if end is None:
            return
        if (lost or self.left) and not end.closed:  # else the queue manager has taken back what it held
            self._channels.forward_outside(end, list(self._outside), now_us)
        self._outside.clear()
        error = self.detach_error
        answered = not self.left and error is not None and error.condition in wire.ALL_ANSWERED
        self._channels.close_sending(end, now_us, answered or self._rejected)


def begin_sending(binding: ConnectionState, instance: ChannelInstance, now_us: int) -> SendingLink:
    """Attach the link of a sending end to ``$channel`` of the partner that ``binding`` has called."""
    offer = _offer(binding, instance)
    session = binding.engine.begin()
    link = session.attach_sender(
        LINK_NAME_PREFIX + offer.channel,
        Source(address=instance.definition.transmission_queue),
        Target(address=CHANNEL_ADDRESS),
        properties=offer.properties(),
    )
    bound = SendingLink(binding, link, instance, offer)
    link.context = bound
    binding.links[link] = bound
    bound.attaching(now_us)
    binding.touch()
    return bound


def grant_sending(binding: ConnectionState, link: SenderLink, attach: Attach, now_us: int) -> SendingLink:
    """A requester has attached to ``$channel``: the end that sends to it. Raises `AmqpError`,
    `ManagerError`."""
    theirs = read_offer(attach.properties, True)
    access, channel = access_of(binding.broker), theirs.channel
    access.require_on_queue_manager(binding, Right.CHANNEL, ATTACH, CHANNEL_TYPE, channel)
    instance = partner_runs_of(binding.broker).partner_attaches(
        theirs.channel, theirs.queue_manager, True, binding, now_us
    )
    try:
        access.require(binding, Right.GET, instance.definition.transmission_queue)
        offer = _offer(binding, instance)
        bound = SendingLink(binding, link, instance, offer)
        reset = offer.reset_sequence  # the requester takes it over from our answer
        bound.meet(theirs, reset - 1 if reset > 0 else theirs.last_sequence, now_us)
    except (AmqpError, ManagerError) as error:
        instance.event(ChannelEvent.REFUSED, error.description, now_us)
        raise
    instance.link = bound
    return bound


def _offer(binding: ConnectionState, instance: ChannelInstance) -> Offer:
    broker = binding.broker
    definition = instance.definition
    sync = broker.manager.channels.sync(definition.name)
    return sending_offer(
        definition, broker.manager.options.queue_manager, broker.ledger_id, sync.reset_sequence
    )
