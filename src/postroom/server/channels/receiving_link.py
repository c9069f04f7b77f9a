"""The link of a receiving message channel agent: messages of the partner to queues of this queue manager.

What travels in a batch is put as in a transaction; the end of the batch commits it together with the batch's
name, in one block, and is accepted when that is durable. Fast messages are put at once, and accepted when
the ledger tells of that.
"""

from typing import Final

from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, NOT_IMPLEMENTED, AmqpError
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.message_head import scan_head
from postroom.channel import wire
from postroom.channel.negotiation import Offer, Terms, negotiate, read_offer, receiving_offer
from postroom.channel.receiving_machine import ReceivingMachine
from postroom.channel.wire import (
    BATCH_END_FORMAT,
    CHANNEL_ADDRESS,
    FAST,
    HEARTBEAT_FORMAT,
    BatchEnd,
    read_batch_end,
    read_tag,
)
from postroom.manager.channels.channel import NOBODY_ELSE, Caller
from postroom.manager.channels.undelivered import ReceivedMessage
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.security.acts import ATTACH
from postroom.model.channel_states import ChannelEvent
from postroom.model.entity_types import CHANNEL_TYPE
from postroom.model.rights import Right
from postroom.server.access.access import access_of
from postroom.server.channels.agent_link import CONTROL_BYTES, LINK_NAME_PREFIX
from postroom.server.channels.inbound_link import Arrival, TakingLink
from postroom.server.channels.instance import ChannelInstance, LinkStatus, partner_runs_of
from postroom.server.kernel.connection_state import ConnectionState


class BatchAnswer(Asker):
    """Waits for one batch to be durable."""

    def __init__(self, link: "ReceivingLink", end: BatchEnd, delivery_id: int) -> None:
        super().__init__()
        self.link: Final = link
        self.end: Final = end
        self.delivery_id: Final = delivery_id

    def answered(self, payload: object, now_us: i64) -> None:
        try:
            self.link.batch_durable(self, payload, now_us)
        except Exception:
            self.link.binding.fail()


class ReceivingLink(TakingLink):
    """Receives from another Postroom."""

    def __init__(
        self, binding: ConnectionState, link: ReceiverLink, instance: ChannelInstance, offer: Offer
    ) -> None:
        super().__init__(binding, link, instance)
        self.offer: Final = offer
        self.properties = offer.properties()
        self.terms: Terms | None = None
        self.machine: ReceivingMachine | None = None
        self._closing = False
        """Stopped between two batches: what still comes is for another link to bring."""
        self._durable: list[int] = []
        """Delivery ids of the ends of batches that have become durable, and are about to be accepted."""
        self._taken: list[tuple[int, int]] = []
        """The same of fast messages that have been put, first and last of each run without anything between
        that wants an answer of its own."""
        self._run_is_open = False
        """Whether the next one can belong to the last run."""
        self._undelivered_id = 0
        """Delivery id of the message that can't be put, if that is a fast one."""

    # Beginning.

    def begin(self, attach: Attach, now_us: int) -> None:
        """Of a requester."""
        self.meet(read_offer(attach.properties, False), now_us)
        self.confirmed(now_us)

    def meet(self, theirs: Offer, now_us: int) -> None:
        """Agree with the partner on terms. Raises `AmqpError`, `ManagerError`."""
        terms = self.terms = negotiate(self.offer, theirs)
        self.instance.partner = theirs.queue_manager
        self.instance.event(ChannelEvent.ATTACHED, "", now_us)
        called = self.instance.outward is None
        caller = Caller(self.binding.user, self.binding.roles) if called else NOBODY_ELSE
        end = self.channels.open_receiving(
            self.name, theirs.queue_manager, theirs.ledger, now_us, theirs.reset_sequence, caller
        )
        self.end = end
        self.machine = ReceivingMachine(terms, end.last_sequence, end.last_luwid)

    def confirmed(self, now_us: int) -> None:
        if self.end is not None:
            self.resynchronised(now_us)

    def credit_limit(self) -> int:
        machine = self.machine
        return 0 if machine is None else int(machine.credit)

    def wants_more(self) -> bool:
        """A batch that is arriving is to come to its end."""
        return not self._closing

    # What comes.

    def take(self, arrival: Arrival, now_us: int) -> None:
        if self._closing:
            return
        if arrival.format == 0:
            self._take_message(arrival, now_us)
        elif arrival.format == BATCH_END_FORMAT and not arrival.settled:
            self._commit(read_batch_end(arrival.payload), arrival.delivery_id, now_us)
        elif arrival.format == HEARTBEAT_FORMAT and not arrival.settled:
            self._accept(arrival.delivery_id)
        else:
            what = "settled" if arrival.settled else "unsettled"
            raise AmqpError(
                NOT_IMPLEMENTED,
                f"message format {arrival.format:#x}, {what}, means nothing on a channel: messages are of "
                "format 0, ends of batches and heartbeats unsettled",
            )

    def take_past(self, arrival: Arrival) -> bool:
        """A heartbeat only asks whether anybody is here."""
        if arrival.format != HEARTBEAT_FORMAT or arrival.settled:
            return False
        self._accept(arrival.delivery_id)
        return True

    def _accept(self, delivery_id: int) -> None:
        self.link.settle(delivery_id, delivery_id, ACCEPTED)
        self.binding.touch()

    def _take_message(self, arrival: Arrival, now_us: int) -> None:
        end, machine = self.end, self.machine
        if end is None or machine is None:
            return
        message = self._message(arrival)
        if not message.fast:
            machine.arrived(message.sequence)
        self.count(len(arrival.payload))
        self.binding.messages_in += 1
        failure = self.put(end, message, now_us)
        if failure is not None:
            self._undelivered_id = arrival.delivery_id
            self.undelivered(message, failure, now_us)
        elif message.fast:
            self._has_taken(arrival.delivery_id)

    def _message(self, arrival: Arrival) -> ReceivedMessage:
        """What has come. Raises `AmqpError` for what can't come so."""
        tag = read_tag(arrival.tag)
        fast = tag.kind == FAST
        head = scan_head(arrival.payload)
        if fast and (self.terms is None or not self.terms.fast):
            raise AmqpError(NOT_ALLOWED, "a fast message on a channel that has agreed on normal speed")
        if fast and head.durable:
            raise AmqpError(INVALID_FIELD, "a durable message outside of a batch")
        if fast == arrival.settled:
            what = "fast messages are unsettled" if fast else "messages of a batch are settled"
            raise AmqpError(NOT_IMPLEMENTED, f"{what}: this one isn't")
        body = arrival.payload[head.bare_offset :]
        return ReceivedMessage(head, body, int(tag.sequence), int(tag.serial), fast)

    def placed(self, message: ReceivedMessage, now_us: int) -> None:
        if message.fast:
            self._has_taken(self._undelivered_id)

    def _has_taken(self, delivery_id: int) -> None:
        """A fast message has been put, or has its end: accept it soon, with those around it."""
        runs = self._taken
        if runs and self._run_is_open:
            runs[-1] = runs[-1][0], delivery_id
        else:
            runs.append((delivery_id, delivery_id))
            self._run_is_open = True
        if len(runs) == 1:
            self.binding.broker.after_durable(self.binding, self._accept_now)

    def _accept_now(self, now_us: int) -> None:
        """The ledger tells of the fast messages that have been put so far."""
        if not self.over:
            self._accept_taken()
            self.instance.succeeded(now_us)

    def _accept_taken(self) -> None:
        runs, self._taken = self._taken, []
        for first, last in runs:
            self.link.settle(first, last, ACCEPTED)
        if runs:
            self.binding.touch()

    # Batches.

    def _commit(self, batch: BatchEnd, delivery_id: int, now_us: int) -> None:
        end, machine = self.end, self.machine
        if end is None or machine is None:
            return
        machine.ended(batch)
        self._run_is_open = False
        answer = BatchAnswer(self, batch, delivery_id)
        self.channels.commit_received(end, batch.luwid, int(batch.last_sequence), answer, now_us)
        self._closing = self.stopping

    def batch_durable(self, answer: BatchAnswer, payload: object, now_us: int) -> None:
        """The batch is kept here, whatever comes: say so."""
        machine = self.machine
        if self.over or machine is None:
            return
        if isinstance(payload, ManagerError):
            machine.failed()
            self.refuse(payload, now_us)
            return
        machine.confirmed(answer.end)
        self._durable.append(answer.delivery_id)
        self.binding.wrote(self)

    def refill(self, now_us: int) -> None:
        """Accept, in one frame, all that has become durable by now."""
        if self.over or not self._durable:
            return
        self._accept_durable()
        self.report_moved(now_us)
        self.instance.event(ChannelEvent.BATCH_CONFIRMED, "", now_us)
        if self.refuses_now(now_us):
            return
        if self._closing and self.machine is not None and self.machine.unanswered == 0:
            self._stopped(now_us)

    def _accept_durable(self) -> None:
        durable, self._durable = self._durable, []
        if durable:
            self.link.settle(durable[0], durable[-1], ACCEPTED)
            self.binding.touch()

    def status(self) -> LinkStatus:
        machine = self.machine
        if machine is None:
            return LinkStatus(self.messages, self.bytes)
        return LinkStatus(
            self.messages, self.bytes, int(machine.batches), int(machine.count), int(machine.sequence)
        )

    # Ends.

    def quiesce(self, now_us: int) -> None:
        """A message that can't be put would never let the batch end."""
        machine, end = self.machine, self.end
        if machine is None or end is None or machine.at_rest():
            self._stopped(now_us)
        elif not self.paused:
            self._closing = machine.count == 0
        elif machine.unanswered == 0:
            self._stopped(now_us)
        else:
            self._closing = True
            self.give_batch_up(end, now_us)

    def unanswered(self) -> int:
        return 0 if self.machine is None else int(self.machine.unanswered)

    def let_go(self, lost: bool, now_us: int) -> None:
        if self.left:
            self._accept_taken()
            self._accept_durable()
        super().let_go(lost, now_us)

    def comes_again(self, message: ReceivedMessage) -> bool:
        return not message.fast

    def last_message(self, arrival: Arrival) -> ReceivedMessage | None:
        return self._message(arrival) if arrival.format == 0 and not arrival.settled else None

    def _stopped(self, now_us: int) -> None:
        """The partner hears why; the channel, that it has ended."""
        self.finish(now_us, Error(wire.CHANNEL_STOPPED, f"channel {self.name!r} was stopped by a command"))


def begin_requesting(binding: ConnectionState, instance: ChannelInstance, now_us: int) -> ReceivingLink:
    """Attach the link of a requester to ``$channel`` of the partner that ``binding`` has called."""
    offer = _offer(binding, instance, None)
    session = binding.engine.begin()
    link = session.attach_receiver(
        LINK_NAME_PREFIX + offer.channel,
        Source(address=CHANNEL_ADDRESS),
        Target(address=CHANNEL_ADDRESS),
        max_message_size=offer.max_message_bytes + CONTROL_BYTES,
        properties=offer.properties(),
    )
    bound = ReceivingLink(binding, link, instance, offer)
    link.context = bound
    binding.links[link] = bound
    bound.attaching(now_us)
    binding.touch()
    return bound


def grant_receiving(
    binding: ConnectionState, link: ReceiverLink, attach: Attach, now_us: int
) -> ReceivingLink:
    """A sender has attached to ``$channel``: the end that receives from it. Raises `AmqpError`,
    `ManagerError`."""
    theirs = read_offer(attach.properties, False)
    broker = binding.broker
    access_of(broker).require_on_queue_manager(binding, Right.CHANNEL, ATTACH, CHANNEL_TYPE, theirs.channel)
    instance = partner_runs_of(broker).partner_attaches(
        theirs.channel, theirs.queue_manager, False, binding, now_us
    )
    try:
        bound = _receiving(binding, link, instance, theirs, now_us)
    except (AmqpError, ManagerError) as error:
        instance.event(ChannelEvent.REFUSED, error.description, now_us)
        raise
    instance.link = bound
    return bound


def _receiving(
    binding: ConnectionState, link: ReceiverLink, instance: ChannelInstance, theirs: Offer, now_us: int
) -> ReceivingLink:
    bound = ReceivingLink(binding, link, instance, _offer(binding, instance, theirs))
    bound.max_message_bytes = min(bound.offer.max_message_bytes, theirs.max_message_bytes) + CONTROL_BYTES
    bound.meet(theirs, now_us)
    return bound


def _offer(binding: ConnectionState, instance: ChannelInstance, theirs: Offer | None) -> Offer:
    """What this end says; a requester doesn't know yet to whom."""
    broker = binding.broker
    definition = instance.definition
    sync = broker.manager.channels.sync(definition.name, "" if theirs is None else theirs.ledger)
    reset_sequence = 0 if theirs is None else theirs.reset_sequence
    return receiving_offer(
        definition,
        broker.manager.options.queue_manager,
        broker.ledger_id,
        reset_sequence - 1 if reset_sequence > 0 else sync.last_sequence,
        sync.last_luwid,
    )
