"""Receiving: credit ahead, messages in order, their outcomes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from postroom.amqp.engine import events
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.frames.outcomes import RELEASED, DeliveryState
from postroom.amqp.frames.termini import DISTRIBUTION_COPY, Source
from postroom.client.connection.link import Attachment, was_woken
from postroom.client.connection.provider import Channel
from postroom.client.connection.transport import fail_all, within
from postroom.client.exceptions import IllegalStateException, JMSException
from postroom.client.messages.base_message import Post


class Incoming:
    """A message as it came: its bytes and what to say of it."""

    __slots__ = ("delivery_id", "link", "payload", "redeliveries", "settled", "wire_id")

    def __init__(
        self, delivery_id: int, wire_id: int, link: ReceiverLink, payload: bytes, settled: bool
    ) -> None:
        self.delivery_id = delivery_id
        """Counted by the consumer, over all its transports."""
        self.wire_id = wire_id
        self.link = link
        """The one it came on: an outcome means something there only."""
        self.payload = payload
        self.settled = settled
        self.redeliveries = 0
        """How often the application has had it and asked for it again, without the broker's knowledge."""


class Receiving(Attachment[ReceiverLink]):
    """Messages from the broker. ``prefetch`` of them are asked for ahead; 0 asks only when somebody wants
    one.

    A break makes the broker give out again what had no outcome. So what was prefetched is forgotten, and an
    outcome said later of what came before the break is passed over without an error.
    """

    def __init__(
        self,
        channel: Channel,
        make: Callable[[EngineSession], ReceiverLink],
        what: str,
        terminus: Source | None,
        prefetch: int,
        drain_timeout_s: float | None = None,
    ) -> None:
        """``drain_timeout_s``: how long the broker may take to say that it has no message now."""
        super().__init__(channel, make, what, terminus)
        self.prefetch = prefetch
        self._drain_timeout_s = drain_timeout_s
        self._received_count = 0
        self._parts: list[bytes] = []
        self._buffer: deque[Incoming] = deque()
        self._for_message: deque[asyncio.Future[None]] = deque()
        self._for_drain: dict[asyncio.Future[None], bool] = {}
        """Who waits until the broker has no more, and whether that goes on over a break."""
        self._drain_credit = 0
        """What the drain under way offers."""
        self._for_settled: dict[int, asyncio.Future[None]] = {}
        self._run: tuple[int, int, DeliveryState] | None = None
        """Outcomes not yet sent: first and last id, state; neighbours leave as one disposition."""
        self._is_copying = terminus is not None and terminus.distribution_mode == DISTRIBUTION_COPY
        self._is_paused = False
        self._stopped: DeliveryState | None = None
        """What becomes of messages, since nobody takes them any more."""

    def attached(self) -> None:
        """Offer credit: what is asked for ahead, or what somebody waits for."""
        if self._is_paused or self._link is None:
            return
        if any(not waiting.done() for waiting in self._for_drain):
            self._flow(self._drain_credit, drain=True)
        elif self.prefetch:
            self._flow(self.prefetch - len(self._buffer))
        elif self._for_message:
            self._flow(sum(not waiting.done() for waiting in self._for_message))

    def _flow(self, credit: int, drain: bool = False) -> None:
        if self._link is not None:
            self._link.flow(credit, drain=drain)
            self.provider.flush_soon()

    # --- receive

    async def receive(self, timeout_s: float | None) -> Incoming | None:
        """The next message; None when none came in ``timeout_s`` seconds (None: wait for ever)."""
        message = self.take_buffered()
        if message is not None:
            return message
        if not self.prefetch:
            self._flow(1)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._next()
        except TimeoutError:
            return None if self._link is None else await self.receive_now(1, over_breaks=False)

    async def receive_now(self, credit: int, over_breaks: bool = True) -> Incoming | None:
        """A message that the broker has for us now; None when it says that there is none.

        The broker is asked to drain; without prefetch, up to ``credit`` messages are asked for at once. While
        there is no connection, the next one is waited for, unless ``over_breaks`` is False.
        """
        message = self.take_buffered()
        if message is None:
            await self.drain(self.prefetch or credit, over_breaks)
            message = self.take_buffered()
            if self.prefetch and self.failure is None:
                self._flow(self.prefetch - len(self._buffer))
        return message

    async def drain(self, credit: int, over_breaks: bool = True) -> None:
        """Let the broker send up to ``credit`` messages that it has now, and wait until it has none or they
        are here.
        """
        self.check()
        future: asyncio.Future[None] = self.provider.future()
        self._for_drain[future] = over_breaks
        self._drain_credit = credit
        self._flow(credit, drain=True)
        await within(future, self._drain_timeout_s, f"drain of {self.what}")

    async def _next(self) -> Incoming:
        """Wait until a message is there; others may wait, too."""
        while True:
            message = self.take_buffered()
            if message is not None:
                return message
            future: asyncio.Future[None] = self.provider.future()
            self._for_message.append(future)
            try:
                await future
            except asyncio.CancelledError:
                if was_woken(future):
                    self._wake_one()
                raise

    def take_buffered(self) -> Incoming | None:
        """A message that is here already. Raises what ended the link."""
        if not self._buffer:
            self.check()
            return None
        message = self._buffer.popleft()
        self._renew_credit()
        return message

    def take_elsewhere(self, post: Post) -> Incoming | None:
        """The same in another thread than the loop's, which does what is posted; None also where the link
        has ended.
        """
        if self.failure is not None:
            return None
        try:
            message = self._buffer.popleft()
        except IndexError:
            return None
        link = self._link
        if link is not None and self._wants_more(link.credit):
            post(self._renew_credit)
        return message

    def _renew_credit(self) -> None:
        if self._link is not None and self.failure is None and self._wants_more(self._link.credit):
            self._flow(self.prefetch - len(self._buffer))

    def _wants_more(self, credit: int) -> bool:
        """As Qpid JMS does: half of the credit is used up, and at most 70 % of what is asked for ahead is
        here or under way.
        """
        if not self.prefetch or self._is_paused:
            return False
        return 2 * credit <= self.prefetch and 10 * (credit + len(self._buffer)) <= 7 * self.prefetch

    def on_transfer(self, event: events.TransferReceived) -> None:
        if event.link is not self._link:
            return
        if event.aborted:
            self._parts.clear()
            return
        self._parts.append(event.payload)
        if event.more:
            return
        payload = b"".join(self._parts)
        self._parts.clear()
        message = Incoming(self._received_count, event.delivery_id, event.link, payload, event.settled)
        self._received_count += 1
        if self._stopped is not None:
            self.settle(message, self._stopped)
            return
        self._buffer.append(message)
        self._wake_one()

    def _wake_one(self) -> None:
        """Tell one of those who wait that there is a message."""
        while self._for_message:
            future = self._for_message.popleft()
            if not future.done():
                future.set_result(None)
                return

    def on_drained(self) -> None:
        self._end_drains(list(self._for_drain))

    def _end_drains(self, waiting: list[asyncio.Future[None]]) -> None:
        for future in waiting:
            del self._for_drain[future]
            if not future.done():
                future.set_result(None)

    # --- outcomes

    def is_current(self, message: Incoming) -> bool:
        """Whether an outcome of ``message`` can still be said: no break has come between."""
        return message.link is self._link and self._link is not None

    def settle(self, message: Incoming, state: DeliveryState, settled: bool = True) -> None:
        """Say what became of ``message`` and be done with it; nothing when the broker has settled it
        already, or a break has come between.

        ``settled`` False: the delivery stays with this link until the broker settles it, as a branch of a
        transaction may want.
        """
        if message.settled:
            return
        self.check()
        message.settled = settled
        if self._link is None or not self.is_current(message):
            return
        if not settled:
            self.before_flush()
            self._link.settle(message.wire_id, message.wire_id, state, settled=False)
            self.provider.flush_soon()
            return
        run = self._run
        if run is not None and run[1] + 1 == message.wire_id and run[2] == state:
            self._run = (run[0], message.wire_id, state)
            return
        if run is not None:
            self.before_flush()
        self._run = (message.wire_id, message.wire_id, state)
        self.provider.flush_soon(self)

    async def settle_second(self, message: Incoming, state: DeliveryState, timeout_s: float | None) -> None:
        """Say what became of ``message`` and wait until the broker has answered (receiver settle mode
        second); a break ends the wait, and the message may come again.
        """
        if message.settled:
            return
        self.check()
        if self._link is not None and self.is_current(message):
            future: asyncio.Future[None] = self.provider.future()
            self._for_settled[message.wire_id] = future
            self._link.settle(message.wire_id, message.wire_id, state, settled=False)
            self.provider.flush_soon()
            await within(future, timeout_s, f"outcome of a message from {self.what}")
        message.settled = True

    async def give_back(
        self, messages: Sequence[Incoming], state: DeliveryState, timeout_s: float | None
    ) -> None:
        """Say ``state`` of ``messages``, which may come again: before what was sent ahead, which goes back
        unseen. Raises JMSTimeoutException if the broker doesn't answer.
        """
        self.pause()
        try:
            # The answers come behind everything that was sent before the pause.
            await asyncio.gather(*(self.settle_second(each, state, timeout_s) for each in messages))
        finally:
            if self.failure is None:
                self.resume_anew()

    def resume_anew(self) -> None:
        """Return what the broker has sent ahead of a pause, and let it send again."""
        for incoming in self.unseen():
            self.settle(incoming, RELEASED)
        self.before_flush()  # what goes back is there again before the credit for it
        self.resume()

    def before_flush(self) -> None:
        if self._run is not None and self.failure is None and self._link is not None:
            first, last, state = self._run
            self._link.settle(first, last, state)
        self._run = None

    def on_settled(self, event: events.SenderDispositionReceived) -> None:
        if not event.settled or event.link is not self._link:
            return
        for delivery_id in event.delivery_ids:
            future = self._for_settled.pop(delivery_id, None)
            if future is not None and not future.done():
                future.set_result(None)

    # --- pause, end, break

    def pause(self) -> None:
        """Take credit back: nothing more comes once the broker has read that."""
        self._is_paused = True
        self._flow(0)

    def resume(self) -> None:
        """Offer credit again, unless nobody takes messages any more."""
        if self._stopped is None:
            self._is_paused = False
            self.attached()

    def put_back(self, messages: Sequence[Incoming]) -> None:
        """These are the next to be taken, in this order; without those that come again since a break."""
        messages = [each for each in messages if each.settled or self.is_current(each)]
        if self._stopped is not None:
            for message in messages:
                self.settle(message, self._stopped)
            return
        self._buffer.extendleft(reversed(messages))
        for _ in messages:
            self._wake_one()

    def stop(self, state: DeliveryState) -> None:
        """Nobody takes messages any more: what is here and what still comes gets the outcome ``state``, and
        those who wait are told that the consumer is closed.
        """
        self._stopped = state
        for message in self.unseen():
            self.settle(message, state)
        self.pause()
        fail_all(self._for_message, IllegalStateException(f"{self.what} is closed"))

    def unseen(self) -> list[Incoming]:
        """The messages that nobody has taken; they are not given out any more."""
        waiting: list[Incoming] = []
        with contextlib.suppress(IndexError):  # another thread may take from it, too
            while True:
                waiting.append(self._buffer.popleft())
        return waiting

    async def detach(self, timeout_s: float | None, closed: bool = True) -> None:
        self.before_flush()
        await super().detach(timeout_s, closed)

    def interrupted(self, failure: JMSException) -> None:
        """What the broker had given to us alone is ours; the rest comes again, and a browser begins anew.
        Answers to a queue that is gone with the connection are not waited for any longer.
        """
        self._parts.clear()
        self._run = None
        self._buffer.extend(each for each in self.unseen() if each.settled and not self._is_copying)
        for future in self._for_settled.values():
            if not future.done():
                future.set_result(None)
        self._for_settled.clear()
        self._end_drains([future for future, over_breaks in self._for_drain.items() if not over_breaks])
        if self.makes_node:
            fail_all(self._for_message, failure)
            self._for_message.clear()

    def wake(self, failure: JMSException) -> None:
        fail_all(self._for_message, failure)
        fail_all(self._for_drain, failure)
        fail_all(self._for_settled.values(), failure)
        self._for_settled.clear()

    def _granted(self, link: ReceiverLink) -> object:
        return link.source
