"""The link of a channel that receives from a foreign broker: messages of an address there to a queue here.

Each message comes unsettled and is put in a batch, as from any partner. A batch is committed as soon as the
one before is durable, and at the latest when it is full; its messages are accepted when it is durable.
Whatever has no answer when the link is lost comes again: at least once. A queue with a `duplicate_window`
drops what it has taken before, by message id; a message that comes without one gets one here, by which
nothing that comes again can be known.

A message that can't be put goes through the steps of every channel. If that ends with the batch being backed
out, the link is closed, so that the partner keeps what it has not had accepted.
"""

from typing import Final

from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.errors import LINK_MESSAGE_SIZE_EXCEEDED, NOT_IMPLEMENTED, AmqpError
from postroom.amqp.frames.outcomes import ACCEPTED, Rejected
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.rewrite import with_message_id
from postroom.channel import wire
from postroom.manager.channels.channel import ReceivingEnd
from postroom.manager.channels.undelivered import ReceivedMessage
from postroom.manager.headers.transmission_header import TransmissionHeader
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.errors import ManagerError
from postroom.model.channel import LUWID_BYTES, SPEED_FAST, next_sequence
from postroom.model.channel_states import ChannelEvent
from postroom.model.mq import Undelivered
from postroom.server.channels.foreign_detach import how_it_ended
from postroom.server.channels.inbound_link import Arrival, TakingLink
from postroom.server.channels.instance import ChannelInstance, LinkStatus
from postroom.server.kernel.connection_state import ConnectionState


class BatchAnswer(Asker):
    """Waits for one batch to be durable."""

    def __init__(self, link: "ForeignReceivingLink", delivery_ids: list[int]) -> None:
        super().__init__()
        self.link: Final = link
        self.delivery_ids: Final = delivery_ids

    def answered(self, payload: object, now_us: i64) -> None:
        try:
            self.link.batch_durable(self.delivery_ids, payload, now_us)
        except Exception:
            self.link.binding.fail()


class ForeignReceivingLink(TakingLink):
    """Between one `ReceiverLink` and a receiving end of the queue manager."""

    def __init__(self, binding: ConnectionState, link: ReceiverLink, instance: ChannelInstance) -> None:
        super().__init__(binding, link, instance)
        self._definition: Final = instance.definition
        self.address = instance.definition.local_queue
        own_name = binding.broker.manager.options.queue_manager
        self._destination: Final = TransmissionHeader(instance.definition.local_queue, own_name, 1)
        self._sequence = 0
        self._batch: list[int] = []
        """Delivery ids of the batch that is being received."""
        self._uncommitted = 0
        """Batches whose being durable is waited for."""
        self._batches = 0
        self._undelivered_id: int | None = None
        """Delivery id of the message that can't be put; None if it came settled."""

    # Beginning.

    def begin(self, attach: Attach, now_us: int) -> None:
        self.instance.event(ChannelEvent.ATTACHED, "", now_us)
        self.end = self.channels.open_receiving(self.name, self._definition.connection, "", now_us)
        self._sequence = self.end.last_sequence
        self.resynchronised(now_us)

    # Messages.

    def credit_limit(self) -> int:
        """For a batch, and for another one while that becomes durable."""
        return 2 * self._definition.batch_size

    def take(self, arrival: Arrival, now_us: int) -> None:
        end = self.end
        if end is None:
            return
        try:
            message = self._message(arrival)
        except AmqpError as error:
            self._reject(arrival, Error(error.condition, error.description))
            return
        self.count(len(arrival.payload))
        self.binding.messages_in += 1
        delivery_id = None if arrival.settled else arrival.delivery_id
        failure = self.put(end, message, now_us)
        if failure is None:
            self._taken(delivery_id, message.fast, now_us)
        else:
            self._undelivered_id = delivery_id
            self.undelivered(message, failure, now_us)

    def _message(self, arrival: Arrival) -> ReceivedMessage:
        """What has come, with its number. Raises `AmqpError` for what can't be kept."""
        payload = arrival.payload
        most_bytes = self._definition.max_message_bytes
        if len(payload) > most_bytes:
            what = f"message of {len(payload)} bytes; channel {self.name!r} takes {most_bytes}"
            raise AmqpError(LINK_MESSAGE_SIZE_EXCEEDED, f"{what} (max_message_bytes)")
        if arrival.format != 0:
            raise AmqpError(
                NOT_IMPLEMENTED, f"message format {arrival.format} is not kept here; send format 0"
            )
        head = scan_head(payload)
        if head.message_id_type == 0:
            named = with_message_id(payload[head.bare_offset :], self.binding.broker.new_name())
            payload = payload[: head.bare_offset] + named
            head = scan_head(payload)
        fast = not head.durable and self._definition.nonpersistent_speed == SPEED_FAST
        if not fast:
            self._sequence = next_sequence(self._sequence, self._definition.sequence_wrap)
        return ReceivedMessage(head, payload[head.bare_offset :], 0 if fast else self._sequence, 0, fast)

    def put(self, end: ReceivingEnd, message: ReceivedMessage, now_us: int) -> Undelivered | None:
        return self.channels.receive(
            end, message.head, message.body, message.sequence, 0, message.fast, now_us, self._destination
        )

    def placed(self, message: ReceivedMessage, now_us: int) -> None:
        self._taken(self._undelivered_id, message.fast, now_us)

    def _reject(self, arrival: Arrival, error: Error) -> None:
        if not arrival.settled:
            self.link.settle(arrival.delivery_id, arrival.delivery_id, Rejected(error), True)
            self.binding.touch()

    def _taken(self, delivery_id: int | None, fast: bool, now_us: int) -> None:
        """It is in the batch; or, fast, where it belongs, and as safe as it will ever be."""
        if fast:
            if delivery_id is not None:
                self._accept(delivery_id, delivery_id)
            self.instance.succeeded(now_us)
            return
        if delivery_id is not None:
            self._batch.append(delivery_id)
        if self._uncommitted == 0 or len(self._batch) >= self._definition.batch_size:
            self._commit(now_us)

    # Batches.

    def _commit(self, now_us: int) -> None:
        end = self.end
        if end is None:
            return
        batch, self._batch = self._batch, []
        luwid = self._sequence.to_bytes(LUWID_BYTES, "big")
        try:
            self.channels.commit_received(end, luwid, self._sequence, BatchAnswer(self, batch), now_us)
        except ManagerError as error:
            raise AmqpError(wire.BATCH_REFUSED, error.description) from error
        self._uncommitted += 1

    def batch_durable(self, delivery_ids: list[int], payload: object, now_us: int) -> None:
        """The batch is kept here, whatever comes: say so."""
        if self.over:
            return
        self._uncommitted -= 1
        if isinstance(payload, ManagerError):
            self.refuse(payload, now_us)
            return
        self._batches += 1
        self._accept_all(delivery_ids)
        self.report_moved(now_us)
        self.instance.event(ChannelEvent.BATCH_CONFIRMED, "", now_us)
        if self.refuses_now(now_us):
            return
        try:
            if self._batch and self._uncommitted == 0:
                self._commit(now_us)
        except AmqpError as error:
            self.refuse(error, now_us)
        if self.stopping and self._at_rest():
            self.finish(now_us)

    def _accept_all(self, delivery_ids: list[int]) -> None:
        """In runs: one frame says it of many."""
        first = 0
        for place, delivery_id in enumerate(delivery_ids):
            if place + 1 == len(delivery_ids) or delivery_ids[place + 1] != delivery_id + 1:
                self._accept(delivery_ids[first], delivery_id)
                first = place + 1

    def _accept(self, first: int, last: int) -> None:
        self.link.settle(first, last, ACCEPTED, True)
        self.binding.touch()

    # Ends.

    def _how(self, lost: bool) -> tuple[ChannelEvent, str]:
        return how_it_ended(self._finished, self.detach_error, lost)

    def unanswered(self) -> int:
        return self._uncommitted

    def comes_again(self, message: ReceivedMessage) -> bool:
        return self._undelivered_id is not None or not message.fast

    def last_message(self, arrival: Arrival) -> ReceivedMessage | None:
        return self._message(arrival) if arrival.settled else None

    def give_batch_up(self, end: ReceivingEnd, now_us: int) -> None:
        self._batch.clear()
        super().give_batch_up(end, now_us)

    def status(self) -> LinkStatus:
        """What it has done so far."""
        return LinkStatus(self.messages, self.bytes, self._batches, len(self._batch), self._sequence)

    def quiesce(self, now_us: int) -> None:
        """A message that can't be put would never let the batch end."""
        if self.end is None or self.paused or self._at_rest():
            self.finish(now_us)
        elif self.link.attached and self.link.credit > 0:
            self.link.flow(0)
            self.binding.touch()

    def _at_rest(self) -> bool:
        return self._uncommitted == 0 and not self._batch
