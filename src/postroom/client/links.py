"""The two kinds of links as the faces use them: send and wait for the outcome, receive with credit."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from postroom.amqp import events
from postroom.amqp.link import Link
from postroom.amqp.outcomes import DeliveryState
from postroom.amqp.performatives import Target
from postroom.amqp.receiver import ReceiverLink
from postroom.amqp.sender import SenderLink
from postroom.amqp.types import Symbol
from postroom.client.exceptions import IllegalStateException, JMSException, from_error, usage_errors
from postroom.client.transport import LinkHandler, Transport, within

TAG_BYTES: Final = 8


SEND_TIMEOUT_PROPERTY: Final = "x-opt-send-timeout"


def sending_properties(send_timeout_ms: int | None) -> dict[object, object] | None:
    """Link properties that say how long a send is to wait for room."""
    if send_timeout_ms is None:
        return None
    return {Symbol(SEND_TIMEOUT_PROPERTY): send_timeout_ms}


class Attachment(LinkHandler):
    """A link from attach to detach; ``what`` names it in errors."""

    def __init__(self, transport: Transport, link: Link, what: str) -> None:
        self.transport = transport
        self.what = what
        self.failure: JMSException | None = None
        """Why the link is no good any more."""
        self._link = link
        self._attached: asyncio.Future[None] = transport.future()
        self._detached: asyncio.Future[None] = transport.loop.create_future()
        link.context = self
        transport.add(self)

    async def attach(self, timeout_s: float | None) -> None:
        """Wait for the broker's answer; raises the reason when it refuses."""
        self.transport.flush_soon()
        await within(self._attached, timeout_s, f"attach of {self.what}")

    async def detach(self, timeout_s: float | None, closed: bool = True) -> None:
        """Detach and wait for the broker's answer; a link that is gone is detached already.

        ``closed``: its terminus goes with it.
        """
        if self.failure is None:
            self.fail(IllegalStateException(f"{self.what} is closed"))
            self._link.detach(closed=closed)
            self.transport.flush_soon()
            await within(asyncio.shield(self._detached), timeout_s, f"detach of {self.what}")

    def check(self) -> None:
        """Raise what ended the link, if it has ended."""
        if self.failure is not None:
            raise self.failure

    def on_attached(self, event: events.LinkAttached) -> None:
        if self._is_granted() and not self._attached.done():
            self._attached.set_result(None)

    def _is_granted(self) -> bool:
        """Whether the broker's attach has the terminus that was asked for (part 2, section 2.6.3)."""
        raise NotImplementedError

    def on_detached(self, event: events.LinkDetached) -> None:
        refused = not self._attached.done()
        failure = from_error(event.error, f"{self.what} was {'refused' if refused else 'closed'}")
        if refused:
            self._attached.set_exception(failure)
            self._attached.exception()
        self.fail(failure)
        if not event.local:
            event.link.detach(closed=event.closed)
        self._gone()

    def on_lost(self, failure: JMSException) -> None:
        self.fail(failure)
        self._gone()

    def _gone(self) -> None:
        self.transport.remove(self)
        if not self._detached.done():
            self._detached.set_result(None)

    def fail(self, failure: JMSException) -> None:
        """The first reason counts; those who wait for the link are told."""
        if self.failure is None:
            self.failure = failure
            self.wake(failure)

    def wake(self, failure: JMSException) -> None:
        """Tell those who wait for the link."""
        raise NotImplementedError


def fail_all(waiting: deque[asyncio.Future[Any]], failure: JMSException) -> None:
    """Give ``failure`` to every future that still waits."""
    for future in waiting:
        if not future.done():
            future.set_exception(failure)
            future.exception()
    waiting.clear()


def was_woken(future: asyncio.Future[None]) -> bool:
    """Whether the one who waited was given what it waited for, even if it has given up in the same moment."""
    return future.done() and not future.cancelled() and future.exception() is None


class Sending(Attachment):
    """Messages to the broker."""

    def __init__(self, transport: Transport, link: SenderLink, what: str) -> None:
        super().__init__(transport, link, what)
        self._sender = link
        self._next_tag = 0
        self._for_credit: deque[asyncio.Future[None]] = deque()
        self._promised = 0
        """Those who waited for credit, have been told that there is some, and haven't sent yet."""
        self._for_outcome: dict[asyncio.Future[DeliveryState | None], None] = {}

    async def send(
        self, payload: bytes, settled: bool, timeout_s: float | None, state: DeliveryState | None = None
    ) -> asyncio.Future[DeliveryState | None] | None:
        """Send when there is credit; the future is the outcome, None for a settled message.

        ``state``: that of a transaction which the message belongs to.
        """
        await self._credit(timeout_s)
        future = None if settled else self._outcome_future()
        tag = self._next_tag.to_bytes(TAG_BYTES, "big")
        self._next_tag += 1
        try:
            with usage_errors(f"send to {self.what}"):
                self._sender.send(payload, tag, settled, state=state, context=future)
        except JMSException:
            if future is not None:
                future.cancel()
            raise
        self.transport.flush_soon()
        await self.transport.writable()
        return future

    def _outcome_future(self) -> asyncio.Future[DeliveryState | None]:
        future: asyncio.Future[DeliveryState | None] = self.transport.future()
        self._for_outcome[future] = None
        future.add_done_callback(lambda done: self._for_outcome.pop(done, None))
        return future

    async def _credit(self, timeout_s: float | None) -> None:
        """Wait for credit, first come first served."""
        self.check()
        if self._free_credit() > 0 and not self._for_credit:
            return
        future: asyncio.Future[None] = self.transport.future()
        self._for_credit.append(future)
        try:
            await within(future, timeout_s, f"send to {self.what} (no credit from the broker)")
        finally:
            if future in self._for_credit:
                self._for_credit.remove(future)
            if was_woken(future):
                self._promised -= 1
                self.transport.loop.call_soon(self.on_credit)  # for others, should this one have given up

    def _free_credit(self) -> int:
        """Credit that nobody has been promised."""
        return self._sender.usable_credit() - self._promised

    def on_credit(self) -> None:
        while self._for_credit and self._free_credit() > 0:
            future = self._for_credit.popleft()
            if not future.done():
                self._promised += 1
                future.set_result(None)
        if self._sender.drain and not self._for_credit and not self._promised:
            self._sender.drained()
            self.transport.flush_soon()

    def _is_granted(self) -> bool:
        return self._sender.target is not None

    @property
    def address(self) -> str | None:
        """The node that the broker gave: the name of a dynamic one."""
        target = self._sender.target
        return target.address if isinstance(target, Target) else None

    def wake(self, failure: JMSException) -> None:
        fail_all(self._for_credit, failure)
        fail_all(deque(self._for_outcome), failure)


class Incoming:
    """A message as it came: its bytes and what to say of it."""

    __slots__ = ("delivery_id", "payload", "settled")

    def __init__(self, delivery_id: int, payload: bytes, settled: bool) -> None:
        self.delivery_id = delivery_id
        self.payload = payload
        self.settled = settled


class Receiving(Attachment):
    """Messages from the broker. ``prefetch`` of them are asked for ahead; 0 asks only when somebody wants
    one.
    """

    def __init__(self, transport: Transport, link: ReceiverLink, what: str, prefetch: int) -> None:
        super().__init__(transport, link, what)
        self.prefetch = prefetch
        self._receiver = link
        self._parts: list[bytes] = []
        self._buffer: deque[Incoming] = deque()
        self._for_message: deque[asyncio.Future[None]] = deque()
        self._for_drain: deque[asyncio.Future[None]] = deque()
        self._for_settled: dict[int, asyncio.Future[None]] = {}
        self._run: tuple[int, int, DeliveryState] | None = None
        """Outcomes not yet sent: first and last id, state; neighbours leave as one disposition."""

    async def attach(self, timeout_s: float | None) -> None:
        await super().attach(timeout_s)
        if self.prefetch:
            self._receiver.flow(self.prefetch)
            self.transport.flush_soon()

    # --- receive

    async def receive(self, timeout_s: float | None) -> Incoming | None:
        """The next message; None when none came in ``timeout_s`` seconds (None: wait for ever)."""
        message = self._take()
        if message is not None:
            return message
        if not self.prefetch:
            self._ask(1)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._next()
        except TimeoutError:
            return await self.receive_now(1)

    async def receive_now(self, credit: int) -> Incoming | None:
        """A message that the broker has for us now; None when it says that there is none.

        The broker is asked to drain; without prefetch, up to ``credit`` messages are asked for at once.
        """
        message = self._take()
        if message is None:
            await self.drain(self.prefetch or credit)
            message = self._take()
            if self.prefetch and self.failure is None:
                self._ask(self.prefetch - len(self._buffer))
        return message

    async def drain(self, credit: int) -> None:
        """Let the broker send up to ``credit`` messages that it has now, and wait until it has none or they
        are here.
        """
        self.check()
        future: asyncio.Future[None] = self.transport.future()
        self._for_drain.append(future)
        self._receiver.flow(credit, drain=True)
        self.transport.flush_soon()
        await future

    def _ask(self, credit: int) -> None:
        self._receiver.flow(credit)
        self.transport.flush_soon()

    async def _next(self) -> Incoming:
        """Wait until a message is there; others may wait, too."""
        while True:
            message = self._take()
            if message is not None:
                return message
            future: asyncio.Future[None] = self.transport.future()
            self._for_message.append(future)
            try:
                await future
            except asyncio.CancelledError:
                if was_woken(future):
                    self._wake_one()
                raise

    def _take(self) -> Incoming | None:
        if not self._buffer:
            self.check()
            return None
        message = self._buffer.popleft()
        if (
            self._receiver.credit + len(self._buffer) <= self.prefetch // 2
            and self.failure is None
            and self.prefetch
        ):
            self._ask(self.prefetch - len(self._buffer))
        return message

    def on_transfer(self, event: events.TransferReceived) -> None:
        if event.aborted:
            self._parts.clear()
            return
        self._parts.append(event.payload)
        if event.more:
            return
        payload = b"".join(self._parts)
        self._parts.clear()
        self._buffer.append(Incoming(event.delivery_id, payload, event.settled))
        self._wake_one()

    def _wake_one(self) -> None:
        """Tell one of those who wait that there is a message."""
        while self._for_message:
            future = self._for_message.popleft()
            if not future.done():
                future.set_result(None)
                return

    def on_drained(self) -> None:
        for future in self._for_drain:
            if not future.done():
                future.set_result(None)
        self._for_drain.clear()

    # --- outcomes

    def settle(self, message: Incoming, state: DeliveryState, settled: bool = True) -> None:
        """Say what became of ``message`` and be done with it; nothing when the broker has settled it
        already.

        ``settled`` False: the delivery stays with this link until the broker settles it, as a branch of a
        transaction may want.
        """
        if message.settled:
            return
        self.check()
        if not settled:
            self.before_flush()
            self._receiver.settle(message.delivery_id, message.delivery_id, state, settled=False)
            self.transport.flush_soon()
            return
        message.settled = True
        run = self._run
        if run is not None and run[1] + 1 == message.delivery_id and run[2] == state:
            self._run = (run[0], message.delivery_id, state)
            return
        if run is not None:
            self.before_flush()
        self._run = (message.delivery_id, message.delivery_id, state)
        self.transport.flush_soon(self)

    async def settle_second(self, message: Incoming, state: DeliveryState, timeout_s: float | None) -> None:
        """Say what became of ``message`` and wait until the broker has answered (receiver settle mode
        second).
        """
        if message.settled:
            return
        self.check()
        future: asyncio.Future[None] = self.transport.future()
        self._for_settled[message.delivery_id] = future
        self._receiver.settle(message.delivery_id, message.delivery_id, state, settled=False)
        self.transport.flush_soon()
        await within(future, timeout_s, f"outcome of a message from {self.what}")
        message.settled = True

    def before_flush(self) -> None:
        if self._run is not None and self.failure is None:
            first, last, state = self._run
            self._receiver.settle(first, last, state)
        self._run = None

    def on_settled(self, event: events.SenderDispositionReceived) -> None:
        if not event.settled:
            return
        for delivery_id in event.delivery_ids:
            future = self._for_settled.pop(delivery_id, None)
            if future is not None and not future.done():
                future.set_result(None)

    def unseen(self) -> list[Incoming]:
        """The messages that nobody has taken; they are not given out any more."""
        waiting = list(self._buffer)
        self._buffer.clear()
        return waiting

    async def detach(self, timeout_s: float | None, closed: bool = True) -> None:
        self.before_flush()
        await super().detach(timeout_s, closed)

    def _is_granted(self) -> bool:
        return self._receiver.source is not None

    @property
    def address(self) -> str | None:
        """The node that the broker gave: the name of a dynamic one."""
        return self._receiver.source.address if self._receiver.source is not None else None

    def wake(self, failure: JMSException) -> None:
        fail_all(self._for_message, failure)
        fail_all(self._for_drain, failure)
        fail_all(deque(self._for_settled.values()), failure)
        self._for_settled.clear()
