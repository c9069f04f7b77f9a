"""A link by which messages come from a partner, and what is done with one that can't be put.

Frames become messages; a message that can't be put goes through the steps of `channel.undelivered`. While it
waits for another attempt the channel is paused: it takes nothing else, so that nothing is overtaken, and
gives no credit. What was under way by then waits in memory.

A link that this end gives up waits until every batch that it has taken is durable and answered: whatever has
no answer then, the partner may send again.
"""

import logging
from collections import deque
from dataclasses import replace
from typing import Final

from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from postroom.channel import wire
from postroom.channel.undelivered import Step, UndeliveredHandler
from postroom.manager.channels.channel import ReceivingEnd
from postroom.manager.channels.undelivered import Action, ReceivedMessage
from postroom.manager.kernel.errors import ManagerError
from postroom.model.channel_states import ChannelEvent
from postroom.model.mq import Undelivered, reason_name
from postroom.server.channels.agent_link import US_PER_MS, AgentLink
from postroom.server.channels.instance import ChannelInstance
from postroom.server.configuration.retry_exits import load
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.logs import log

MAX_HELD_BYTES: Final = 64 << 20
"""What may come behind a message that waits for another attempt, before the other end knows that its credit
was taken back; a partner that sends more loses the link."""


class Arrival:
    """A message that has come, or another transfer that the protocol knows."""

    __slots__ = ("delivery_id", "format", "payload", "settled", "tag")

    def __init__(self, format: int, tag: bytes, payload: bytes, delivery_id: int, settled: bool) -> None:
        self.format: Final = format
        self.tag: Final = tag
        self.payload: Final = payload
        self.delivery_id: Final = delivery_id
        self.settled: Final = settled


class TakingLink(AgentLink):
    """Between one `ReceiverLink` and a receiving end of the queue manager."""

    def __init__(self, binding: ConnectionState, link: ReceiverLink, instance: ChannelInstance) -> None:
        super().__init__(binding, link, instance)
        self.link: Final = link
        self.end: ReceivingEnd | None = None
        """From the moment on that both ends agree; None again when the link is over."""
        self.retry_due_us = 0
        """When the message that can't be put is put again; 0: there is none."""
        self.channels: Final = binding.broker.manager.channels
        definition = instance.definition
        self._undelivered_handler: Final = UndeliveredHandler(definition, load(definition.message_retry_exit))
        self._waiting: ReceivedMessage | None = None
        self._held: Final[deque[Arrival]] = deque()
        self._held_bytes = 0
        self._refusing: AmqpError | ManagerError | None = None
        """Why the link is closed as soon as what was asked for is answered."""
        self._parts: Final[list[bytes]] = []
        """Of a message of which some frames have come; the engine bounds its size."""

    # What differs.

    def credit_limit(self) -> int:
        """How many transfers the partner may send ahead."""
        raise NotImplementedError

    def wants_more(self) -> bool:
        """Whether the partner is to send on."""
        return not self.stopping

    def take(self, arrival: Arrival, now_us: int) -> None:
        """Something has come, and nothing is in its way. Raises `AmqpError`, `ManagerError`: the link is
        closed."""
        raise NotImplementedError

    def unanswered(self) -> int:
        """How many batches are being made durable."""
        raise NotImplementedError

    def take_past(self, arrival: Arrival) -> bool:
        """Something has come while the channel is paused; whether it needn't wait, and is done."""
        return False

    def placed(self, message: ReceivedMessage, now_us: int) -> None:
        """A message that couldn't be put at first is somewhere, or its end is in the ledger."""

    # Credit.

    @property
    def paused(self) -> bool:
        """Whether a message waits for another attempt."""
        return self._waiting is not None

    def flow(self, now_us: int) -> None:
        self.grant()

    def grant(self) -> None:
        """Credit, said again when half of it is used; none while a message is tried again."""
        if self._waiting is not None or not self.wants_more() or not self.link.attached:
            return
        if self._refusing is not None:
            return
        limit = self.credit_limit()
        if self.link.credit * 2 <= limit:
            self.link.flow(limit)
            self.binding.touch()

    def _pause(self, now_us: int) -> None:
        if self.link.attached and self.link.credit > 0:
            self.link.flow(0)
            self.binding.touch()
        self.instance.event(ChannelEvent.PAUSE, "", now_us)

    # What comes.

    def transfer(self, event: TransferReceived, now_us: int) -> None:
        if event.aborted:
            self._parts.clear()
            return
        payload = event.payload
        if event.more or not event.first:
            self._parts.append(payload)
            if event.more:
                return
            payload = b"".join(self._parts)
            self._parts.clear()
        if self.end is None or self._refusing is not None:
            return
        arrival = Arrival(event.message_format, event.tag, payload, event.delivery_id, event.settled)
        try:
            if self._waiting is None:
                self.take(arrival, now_us)
            elif not self.take_past(arrival):
                self._hold(arrival)
        except (AmqpError, ManagerError) as error:
            self.refuse(error, now_us)
        self.grant()

    def _hold(self, arrival: Arrival) -> None:
        self._held.append(arrival)
        self._held_bytes += len(arrival.payload)
        if self._held_bytes > MAX_HELD_BYTES:
            raise AmqpError(
                RESOURCE_LIMIT_EXCEEDED,
                f"channel {self.name!r} is paused and has got {self._held_bytes} bytes since: it had taken "
                "its credit back",
            )

    # Messages.

    def put(self, end: ReceivingEnd, message: ReceivedMessage, now_us: int) -> Undelivered | None:
        """Put it, for the first time or again."""
        return self.channels.receive(
            end, message.head, message.body, message.sequence, message.origin_serial, message.fast, now_us
        )

    def undelivered(self, message: ReceivedMessage, failure: Undelivered, now_us: int) -> None:
        """It couldn't be put, the first time. Raises `AmqpError` where the batch must be backed out,
        `ManagerError`."""
        self._climb(self._undelivered_handler.begin(failure, message), message, now_us)

    def _climb(self, step: Step, message: ReceivedMessage, now_us: int) -> None:
        """Carry out its steps until the handler is done with the message, or wants to wait."""
        undelivered_handler, end = self._undelivered_handler, self.end
        while step.action is not Action.DONE and end is not None:
            if step.complaint:
                log(logging.WARNING, "retry-exit-failed", channel=self.name, reason=step.complaint)
            failure = undelivered_handler.undelivered
            assert failure is not None
            if step.action is Action.WAIT:
                self._wait(message, now_us + step.wait_ms * US_PER_MS, now_us)
                return
            if step.action is Action.BACK_OUT:
                raise backed_out(failure)
            step = undelivered_handler.next(
                self.channels.put_undelivered(end, step.action, message, failure, now_us)
            )
        waited, self._waiting = self._waiting, None
        self.retry_due_us = 0
        if waited is not None:
            self.instance.event(ChannelEvent.RESUME, "", now_us)
        self.placed(message, now_us)

    def _wait(self, message: ReceivedMessage, due_us: int, now_us: int) -> None:
        self.retry_due_us = due_us
        if self._waiting is None:
            self._waiting = message
            self._pause(now_us)

    def due_us(self) -> int:
        return self.retry_due_us

    def due(self, now_us: int) -> None:
        """Try the put again; when it is done, go on with what has come meanwhile."""
        message, end = self._waiting, self.end
        if message is None or end is None or now_us < self.retry_due_us:
            return
        try:
            self._climb(self._undelivered_handler.next(self.put(end, message, now_us)), message, now_us)
            while self._held and self._waiting is None and self.end is not None:
                arrival = self._held.popleft()
                self._held_bytes -= len(arrival.payload)
                self.take(arrival, now_us)
        except (AmqpError, ManagerError) as error:
            self.refuse(error, now_us)
        self.grant()

    # Ends.

    def refuse(self, error: AmqpError | ManagerError, now_us: int) -> None:
        """What is on its way to the disk is answered first, or the partner would not know what it has to send
        again."""
        if self.end is None or self.unanswered() == 0:
            super().refuse(error, now_us)
        elif self._refusing is None:
            self._refusing = error
            self.give_batch_up(self.end, now_us)

    def give_batch_up(self, end: ReceivingEnd, now_us: int) -> None:
        """Nothing of the batch that is arriving is taken; what comes from now on isn't either."""
        self._waiting = None
        self.retry_due_us = 0
        self._held.clear()
        self._held_bytes = 0
        self.channels.roll_back_received(end, now_us)

    def refuses_now(self, now_us: int) -> bool:
        """Whether the link was to be given up; it is, once nothing is unanswered."""
        if self._refusing is None:
            return False
        if self.unanswered() == 0:
            super().refuse(self._refusing, now_us)
        return True

    def let_go(self, lost: bool, now_us: int) -> None:
        self.report_moved(now_us)
        end, self.end = self.end, None
        if end is not None and not self.left:
            self._take_last(end, now_us)
        self._waiting = None
        self.retry_due_us = 0
        self._held.clear()
        self._parts.clear()
        if end is not None:
            self.channels.close_receiving(end, now_us)

    def comes_again(self, message: ReceivedMessage) -> bool:
        """Whether the partner will send the message that can't be put again, on another link."""
        raise NotImplementedError

    def last_message(self, arrival: Arrival) -> ReceivedMessage | None:
        """What has come behind it, if that is a message that may not come again. Raises `AmqpError`."""
        raise NotImplementedError

    def _take_last(self, end: ReceivingEnd, now_us: int) -> None:
        """The partner has closed the link, or the connection is gone: what waits here in no batch, and won't
        be sent again, is put now, is a dead letter, or is dropped."""
        waiting = self._waiting
        if waiting is None:
            return
        definition = replace(self.instance.definition, message_retry_count=0, message_retry_exit="")
        undelivered_handler = UndeliveredHandler(definition, None)
        try:
            if not self.comes_again(waiting):
                self._put_last(end, undelivered_handler, waiting, now_us)
            for arrival in self._held:
                message = self.last_message(arrival)
                if message is not None and message.fast:
                    self._put_last(end, undelivered_handler, message, now_us)
        except (AmqpError, ManagerError) as error:
            log(logging.WARNING, "message-not-taken", channel=self.name, description=error.description)

    def _put_last(
        self,
        end: ReceivingEnd,
        undelivered_handler: UndeliveredHandler,
        message: ReceivedMessage,
        now_us: int,
    ) -> None:
        failure = self.put(end, message, now_us)
        step = Step(Action.DONE) if failure is None else undelivered_handler.begin(failure, message)
        while step.action is not Action.DONE:
            why = undelivered_handler.undelivered
            assert why is not None
            step = undelivered_handler.next(
                self.channels.put_undelivered(end, step.action, message, why, now_us)
            )


def backed_out(failure: Undelivered) -> AmqpError:
    """What the partner is told whose batch can't be taken."""
    return AmqpError(
        wire.BATCH_REFUSED,
        f"{reason_name(failure.reason)}: {failure.description}; no dead-letter queue takes it, so the batch "
        "was backed out",
    )
