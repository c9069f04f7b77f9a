"""The link of a channel that sends to a foreign broker: messages of a transmission queue to an address there.

Each message leaves unsettled, without its transmission header, and with a message id: its own, or one that
is the same at every attempt. Its outcome is the partner's word for it; `channel.foreign` says what outcomes
mean. Up to `batch_size` messages make a batch: what is accepted of it is forwarded by one decision when all
have their outcomes. While the last of one batch are waited for, the next is filled.

When the link is lost, what has no outcome goes back to its place, and what was accepted is forwarded; after
a crash the whole batch goes back. So nothing is lost, and some may be sent again: at least once.

Non-persistent messages of a fast channel are in no batch: each is forwarded when it is accepted, and is not
sent again if it has no outcome when the connection breaks, or when this end closes the link: it is forwarded
then, too.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.errors import AmqpError
from postroom.amqp.frames.outcomes import DeliveryState, Received
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.rewrite import with_message_id
from postroom.channel import wire
from postroom.channel.foreign import refusal_of
from postroom.channel.undelivered import Step, UndeliveredHandler
from postroom.ledger.format.records import ArrivalFlag
from postroom.manager.channels.channel import SendingEnd
from postroom.manager.channels.undelivered import Action, ReceivedMessage
from postroom.manager.headers.transmission_header import TransmissionHeader, take_transmission
from postroom.manager.kernel.effects import Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ManagerError
from postroom.model.channel import SPEED_FAST, next_sequence
from postroom.model.channel_states import ChannelEvent
from postroom.model.mq import Reason, Undelivered, reason_name
from postroom.server.channels.agent_link import AgentLink
from postroom.server.channels.foreign_detach import how_it_ended
from postroom.server.channels.instance import LinkStatus
from postroom.server.channels.undeliverable import give_up, message_of
from postroom.server.configuration.retry_exits import load
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.delivery_headers import changed_sections, header_of
from postroom.server.logs import log

if TYPE_CHECKING:
    from postroom.server.channels.instance import ChannelInstance

AHEAD_BYTES: Final = 4 << 20
"""Messages taken from the transmission queue that have no outcome yet, at about their size: they are kept, to
be sent again."""
FIRST_AVERAGE_BYTES: Final = 4 << 10
"""Taken as the size of a message before the first has been seen."""
MAX_BATCHES: Final = 2
"""One is filled, one waits for its last outcomes."""
TAG_BYTES: Final = 8
US_PER_MS: Final = 1000
US_PER_S: Final = 1_000_000
_DURABLE = int(ArrivalFlag.DURABLE)


class Flight:
    """A batch: what of it is on its way, and what has arrived."""

    def __init__(self) -> None:
        self.taken = 0
        """Messages that belong to it, those that left it again (dead letters) included."""
        self.waiting: dict[Sent, None] = {}
        """Those without an outcome, as they were taken."""
        self.arrived: set[Entry] = set()
        """Those that the partner has accepted."""


class Sent:
    """A message that was sent, or is to be sent again, and has no outcome that counts."""

    def __init__(
        self, entry: Entry, destination: TransmissionHeader | None, stored: bytes, flight: Flight
    ) -> None:
        self.entry: Final = entry
        self.destination: Final = destination
        """Where it was addressed to; None: it was put on the transmission queue itself."""
        self.stored: Final = stored
        """Its sections from the message annotations on, as the partner gets them."""
        self.flight: Final = flight
        self.undelivered_handler: UndeliveredHandler | None = None
        self.message: ReceivedMessage | None = None
        """Both once the partner has not taken it."""
        self.due_us = 0
        """When it is to be sent again; 0: it is on its way."""
        self.left = False
        """It is on the wire, and the partner has said nothing of it."""


class ForeignSendingLink(AgentLink):
    """Between one `SenderLink` and the consumer of a transmission queue."""

    def __init__(self, binding: ConnectionState, link: SenderLink, instance: "ChannelInstance") -> None:
        super().__init__(binding, link, instance)
        self.link: Final = link
        self.address = instance.definition.transmission_queue
        self.end: SendingEnd | None = None
        self._channels = binding.broker.manager.channels
        self._definition: Final = instance.definition
        self._retry_exit = load(instance.definition.message_retry_exit)
        self._flights: deque[Flight] = deque([Flight()])
        """The last one is being filled."""
        self._outside: Final = Flight()
        """What is in no batch."""
        self._again: list[Sent] = []
        """To be sent again, the first due first."""
        self._unsent: deque[tuple[bytes, Sent]] = deque()
        """Of which the partner has taken the credit back meanwhile."""
        self._given = 0
        """Messages that the queue manager has given and that have come here."""
        self._sequence = 0
        self._heard_us = 0
        """When the partner has last said an outcome, or there was none to say."""
        self._patience_us: Final = instance.definition.heartbeat_interval_s * US_PER_S
        self._next_tag = 0
        self._average_bytes = FIRST_AVERAGE_BYTES
        self._batches = 0

    # Beginning.

    def begin(self, attach: Attach, now_us: int) -> None:
        """Nobody there knows of batches: what was on its way when the last link ended goes back."""
        self.instance.event(ChannelEvent.ATTACHED, "", now_us)
        self._sequence = self._channels.sync(self.name).last_sequence
        self._channels.resynchronise(self.name, b"", self._sequence, now_us)
        end = self.end = self._channels.open_sending(self.name, self, now_us)
        end.fast = self._definition.nonpersistent_speed == SPEED_FAST
        self.resynchronised(now_us)

    def flow(self, now_us: int) -> None:
        self._update_credit(now_us)

    # Credit.

    def credit_changed(self, now_us: int) -> None:
        while self._unsent and self.link.credit > 0:
            payload, sent = self._unsent.popleft()
            self._send(payload, sent)
        self._send_again(now_us)
        self._go_on(now_us)

    def set_writable(self, now_us: int) -> None:
        self._update_credit(now_us)

    def refill(self, now_us: int) -> None:
        """A burst of deliveries has left."""
        self._go_on(now_us)

    def _ahead(self) -> int:
        """Messages that are given to this link and have not come."""
        end = self.end
        return 0 if end is None else int(end.consumer.assigned) - self._given

    def _waiting(self) -> int:
        return len(self._outside.waiting) + sum(len(flight.waiting) for flight in self._flights)

    def _update_credit(self, now_us: int) -> None:
        """Tell the queue manager how many more messages this link can take: never more than the batch can."""
        end = self.end
        if end is None:
            return
        credit, ahead = 0, self._ahead()
        if self.binding.writable and not (self._unsent or self._again or self.stopping):
            room = max(1, AHEAD_BYTES // self._average_bytes) - self._waiting()
            room = min(room, self._definition.batch_size - self._flights[-1].taken, self.link.usable_credit())
            credit = max(0, room - ahead)
        if credit != end.consumer.credit:
            self._channels.set_sending_credit(end, credit, now_us)

    # Messages.

    def deliver(self, delivery: Delivery, now_us: int) -> None:
        end = self.end
        if end is None:
            return
        self._given += 1
        entry = delivery.entry
        destination, stored = take_transmission(changed_sections(delivery.body, delivery.annotations))
        if scan_head(stored).message_id_type == 0:
            stored = with_message_id(stored, f"{self.binding.broker.ledger_id}:{entry.serial}")
        fast = end.fast and entry.flags & _DURABLE == 0
        flight = self._outside if fast else self._flights[-1]
        sent = Sent(entry, destination, stored, flight)
        if self._waiting() == 0:
            self._heard_us = now_us
        flight.taken += 1
        flight.waiting[sent] = None
        self._leave(sent, now_us)
        self.binding.messages_out += 1
        self.binding.wrote(self)

    def _leave(self, sent: Sent, now_us: int) -> None:
        entry = sent.entry
        durable = entry.flags & _DURABLE != 0
        payload = header_of(durable, entry.priority, entry.expiry_us, 0, now_us) + sent.stored
        size_bytes = len(payload)
        self._average_bytes += (size_bytes - self._average_bytes) // 4
        most_bytes = min(self._definition.max_message_bytes, self.link.max_message_size_bytes or size_bytes)
        if size_bytes > most_bytes:
            what = f"message of {size_bytes} bytes; channel {self.name!r} and its partner take {most_bytes}"
            self._not_taken(sent, (int(Reason.MSG_TOO_BIG_FOR_CHANNEL), what), now_us)
            return
        self.count(size_bytes)
        if self.link.credit > 0 and not self._unsent:
            self._send(payload, sent)
        else:
            self._unsent.append((payload, sent))

    def _send(self, payload: bytes, sent: Sent) -> None:
        tag = self._next_tag.to_bytes(TAG_BYTES, "big")
        self._next_tag += 1
        sent.left = True
        self.link.send(payload, tag, False, 0, None, sent)

    # Outcomes.

    def disposed(
        self, deliveries: list[WireDelivery], state: DeliveryState | None, settled: bool, now_us: int
    ) -> None:
        if isinstance(state, Received) or (state is None and not settled):
            return
        refusal = refusal_of(state, self._definition)
        self._heard_us = now_us
        for delivery in deliveries:
            sent = delivery.context
            if not settled:
                self.link.settle(delivery.id, delivery.id, state)
            if isinstance(sent, Sent) and sent in sent.flight.waiting and not self.over:
                sent.left = False
                if refusal is None:
                    self._taken(sent, now_us)
                else:
                    self._not_taken(sent, refusal, now_us)
        self.binding.touch()
        self._go_on(now_us)

    def _taken(self, sent: Sent, now_us: int) -> None:
        flight, end = sent.flight, self.end
        del flight.waiting[sent]
        if flight is not self._outside:
            flight.arrived.add(sent.entry)
        elif end is not None:
            self._channels.forward_outside(end, [sent.entry], now_us)
        self.instance.succeeded(now_us)

    def _not_taken(self, sent: Sent, refusal: tuple[int, str], now_us: int) -> None:
        reason, description = refusal
        header = sent.destination
        if header is None:
            why = Undelivered(reason, self.address, "", description)
        else:
            why = Undelivered(reason, header.queue, header.queue_manager, description)
        undelivered_handler = sent.undelivered_handler
        if undelivered_handler is None:
            undelivered_handler = sent.undelivered_handler = UndeliveredHandler(
                self._definition, self._retry_exit
            )
            sent.message = message_of(sent.entry, sent.stored, sent.flight is self._outside, now_us)
            step = undelivered_handler.begin(why, sent.message)
        else:
            step = undelivered_handler.next(why)
        if step.complaint:
            log(logging.WARNING, "retry-exit-failed", channel=self.name, reason=step.complaint)
        if step.action is Action.WAIT:
            self._wait(sent, description, now_us + step.wait_ms * US_PER_MS, now_us)
        else:
            self._give_up(sent, undelivered_handler, step, why, now_us)

    def _wait(self, sent: Sent, why: str, due_us: int, now_us: int) -> None:
        """Send it again then; nothing else meanwhile."""
        sent.due_us = due_us
        if not self._again:
            self.instance.event(ChannelEvent.PAUSE, why, now_us)
        self._again.append(sent)
        self._again.sort(key=_due_us)
        self._update_credit(now_us)

    def _give_up(
        self, sent: Sent, undelivered_handler: UndeliveredHandler, step: Step, why: Undelivered, now_us: int
    ) -> None:
        """It goes the way of every message that a channel can't deliver."""
        end, message = self.end, sent.message
        if end is None or message is None:
            return
        log(
            logging.WARNING,
            "message-not-taken",
            channel=self.name,
            serial=int(sent.entry.serial),
            reason=reason_name(why.reason),
            description=why.description,
        )
        try:
            failure = give_up(self._channels, end, undelivered_handler, step, sent.entry, message, now_us)
        except ManagerError as error:
            self.refuse(error, now_us)
            return
        if failure is None:
            del sent.flight.waiting[sent]
        else:
            what = f"{reason_name(failure.reason)}: {failure.description}; no dead-letter queue takes it"
            self.refuse(AmqpError(wire.BATCH_REFUSED, what), now_us)

    # Batches.

    def _go_on(self, now_us: int) -> None:
        if self.end is None:
            return
        self._end_batches(self.end, now_us)
        if self.stopping and self._ahead() == 0 and self._waiting() == len(self._again):
            self.finish(now_us)
            return
        self._update_credit(now_us)

    def _end_batches(self, end: SendingEnd, now_us: int) -> None:
        """Forward what is complete, the oldest first, and begin another batch where one is full."""
        flights = self._flights
        while len(flights) > 1 and not flights[0].waiting:
            self._forward(end, flights.popleft(), now_us)
        filling = flights[-1]
        if filling.taken == 0 or self._ahead() > 0 or len(flights) == MAX_BATCHES:
            return
        if not filling.waiting:
            self._end_batch(end, filling, now_us)
            self._forward(end, flights.popleft(), now_us)
        elif filling.taken >= self._definition.batch_size:
            self._end_batch(end, filling, now_us)

    def _end_batch(self, end: SendingEnd, flight: Flight, now_us: int) -> None:
        self._channels.set_sending_credit(end, 0, now_us)
        for _ in range(flight.taken):
            self._sequence = next_sequence(self._sequence, self._definition.sequence_wrap)
        self._channels.end_batch(end, self._sequence, now_us)
        self._flights.append(Flight())

    def _forward(self, end: SendingEnd, flight: Flight, now_us: int) -> None:
        """All of it that is still in the batch was accepted."""
        self._channels.confirm_batch(end, end.in_doubt[0], now_us)
        self._batches += 1
        self.report_moved(now_us)
        self.instance.event(ChannelEvent.BATCH_CONFIRMED, "", now_us)

    # Time.

    def due_us(self) -> int:
        again_us = self._again[0].due_us if self._again and self.link.credit > 0 else 0
        overdue_us = self._overdue_us()
        return min(again_us, overdue_us) if again_us and overdue_us else again_us or overdue_us

    def _overdue_us(self) -> int:
        """When an outcome is so late that there will be none; 0: none is waited for, or for ever."""
        if self._patience_us == 0 or self._waiting() == len(self._again):
            return 0
        return self._heard_us + self._patience_us

    def due(self, now_us: int) -> None:
        if 0 < self._overdue_us() <= now_us:
            what = f"no outcome has come for {self._definition.heartbeat_interval_s} s (heartbeat_interval_s)"
            self.refuse(AmqpError(wire.BATCH_REFUSED, what), now_us)
            return
        self._send_again(now_us)
        self._go_on(now_us)

    def _send_again(self, now_us: int) -> None:
        again = self._again
        if not again:
            return
        while again and again[0].due_us <= now_us and self.link.credit > 0:
            sent = again.pop(0)
            sent.due_us = 0
            self._leave(sent, now_us)
        if not again:
            self.instance.event(ChannelEvent.RESUME, "", now_us)
        self.binding.touch()

    # Ends.

    def _how(self, lost: bool) -> tuple[ChannelEvent, str]:
        return how_it_ended(self._finished, self.detach_error, lost)

    def status(self) -> LinkStatus:
        """What the link has done so far."""
        end = self.end
        return LinkStatus(
            self.messages,
            self.bytes,
            self._batches,
            self._flights[-1].taken,
            self._sequence,
            b"" if end is None else end.batch.luwid,
            len(self._flights) > 1,
            len(self._outside.waiting),
        )

    def quiesce(self, now_us: int) -> None:
        if self.end is None:
            self.finish(now_us)
        else:
            self._update_credit(now_us)
            self._go_on(now_us)

    def let_go(self, lost: bool, now_us: int) -> None:
        """What was accepted is forwarded, and what has left in no batch, unless the partner has closed the
        link without taking it; what else has no outcome goes back to its place."""
        self.report_moved(now_us)
        end, self.end = self.end, None
        self._unsent.clear()
        self._again.clear()
        if end is None:
            return
        if lost or self.left:
            gone = [sent.entry for sent in self._outside.waiting if sent.left]
            self._channels.forward_outside(end, gone, now_us)
        arrived: set[Entry] = set()
        for flight in self._flights:
            arrived |= flight.arrived
        last_sequence = self._sequence
        for _ in self._flights[-1].arrived:
            last_sequence = next_sequence(last_sequence, self._definition.sequence_wrap)
        self._channels.close_partly(end, arrived, last_sequence, now_us)


def _due_us(sent: Sent) -> int:
    return sent.due_us
