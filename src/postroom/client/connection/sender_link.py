"""Sending: credit, outcomes, and what is sent again after a break."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.termini import Target
from postroom.client.connection.link import Attachment, was_woken
from postroom.client.connection.provider import Channel
from postroom.client.connection.transport import fail_all, within
from postroom.client.exceptions import ConnectionLostException, JMSException, usage_errors

TAG_BYTES: Final = 8

Outcome = asyncio.Future[DeliveryState | None]


@dataclass(slots=True)
class Unsettled:
    """A message whose outcome isn't known."""

    payload: bytes
    may_be_sent_again: bool


class Sending(Attachment[SenderLink]):
    """Messages to the broker.

    Of what has no outcome when the connection breaks, and is in no transaction, everything is sent again in
    order, before anything new; who gives up waiting for an outcome takes the message out of that. So it is
    never more than the application has under way.
    """

    def __init__(
        self,
        channel: Channel,
        make: Callable[[EngineSession], SenderLink],
        what: str,
        terminus: Target | None = None,
        *,
        sends_again: bool = True,
    ) -> None:
        """``sends_again`` False: a break fails what has no outcome, as for requests whose answer is lost."""
        super().__init__(channel, make, what, terminus)
        self._sends_again = sends_again
        self._next_tag = 0
        self._for_credit: deque[tuple[asyncio.Future[None], bool]] = deque()
        """Those who wait for credit, and whether they go on waiting over a break."""
        self._promised: set[asyncio.Future[None]] = set()
        """Those who waited for credit, have been told that there is some, and haven't sent yet."""
        self._unsettled: dict[Outcome, Unsettled] = {}
        """In order of sending."""
        self._again_first: deque[Outcome] = deque()
        """Those of them that are to be sent again."""

    async def send(
        self, payload: bytes, settled: bool, timeout_s: float | None, state: DeliveryState | None = None
    ) -> Outcome | None:
        """Send when there is credit; the future is the outcome, None for a settled message.

        ``state``: that of a transaction which the message belongs to; such a transaction doesn't outlive a
        break, so that a break while the message waits or is under way raises ConnectionLostException.
        """
        if self.provider.is_busy:
            await self.provider.writable()
        self.check()
        if self._for_credit or self._again_first or self._free_credit() <= 0:
            await within(
                self._credit(state is None and self._sends_again),
                timeout_s,
                f"send to {self.what} (no credit from the broker)",
            )
        outcome = None if settled else self._outcome(payload, state is None)
        try:
            self._transmit(payload, outcome, state)
        except JMSException:
            if outcome is not None:
                outcome.cancel()
            raise
        return outcome

    def _outcome(self, payload: bytes, again: bool) -> Outcome:
        outcome: Outcome = self.provider.future()
        self._unsettled[outcome] = Unsettled(payload, again and self._sends_again)
        outcome.add_done_callback(lambda done: self._unsettled.pop(done, None))
        return outcome

    def _transmit(self, payload: bytes, outcome: Outcome | None, state: DeliveryState | None) -> None:
        assert self._link is not None
        tag = self._next_tag.to_bytes(TAG_BYTES, "big")
        self._next_tag += 1
        with usage_errors(f"send to {self.what}"):
            self._link.send(payload, tag, outcome is None, state=state, context=outcome)
        self.provider.flush_soon()

    async def answered(self, timeout_s: float | None) -> None:
        """Wait until everything sent has its outcome, whatever it is."""
        if self._unsettled:
            waiting = asyncio.ensure_future(asyncio.wait(list(self._unsettled)))
            await within(waiting, timeout_s, f"outcomes of what was sent to {self.what}")

    # --- credit

    async def _credit(self, over_breaks: bool) -> None:
        """Wait for credit, first come first served."""
        place = self._for_credit.append
        while True:
            waiting: asyncio.Future[None] = self.provider.future()
            place((waiting, over_breaks))
            if await self._is_promised(waiting):
                return
            # It broke between the promise and this task's turn: the next credit is for this one.
            if not over_breaks:
                raise ConnectionLostException(f"the connection broke before the send to {self.what}")
            place = self._for_credit.appendleft

    async def _is_promised(self, waiting: asyncio.Future[None]) -> bool:
        """Wait to be woken; whether the credit is still there then."""
        try:
            await waiting
            return waiting in self._promised
        finally:
            self._promised.discard(waiting)
            self._for_credit = deque(each for each in self._for_credit if each[0] is not waiting)
            if was_woken(waiting):
                self.provider.loop.call_soon(self.on_credit)  # for others, should this one have given up

    def _free_credit(self) -> int:
        """Credit that nobody has been promised."""
        return 0 if self._link is None else self._link.usable_credit() - len(self._promised)

    def on_credit(self) -> None:
        if self._link is None:
            return
        while self._again_first and self._link.usable_credit() > 0:
            self._send_again(self._again_first.popleft())
        while self._for_credit and self._free_credit() > 0:
            future, _ = self._for_credit.popleft()
            if not future.done():
                self._promised.add(future)
                future.set_result(None)
        if self._link.drain and not self._for_credit and not self._promised:
            self._link.drained()
            self.provider.flush_soon()

    def _send_again(self, outcome: Outcome) -> None:
        if outcome.done():
            return  # given up
        try:
            self._transmit(self._unsettled[outcome].payload, outcome, None)
        except JMSException as failure:
            fail_all([outcome], failure)

    # --- breaks

    def interrupted(self, failure: JMSException) -> None:
        self._promised.clear()
        fail_all([future for future, over_breaks in self._for_credit if not over_breaks], failure)
        fail_all([each for each, kept in self._unsettled.items() if not kept.may_be_sent_again], failure)
        self._again_first = deque(outcome for outcome in self._unsettled if not outcome.done())

    def wake(self, failure: JMSException) -> None:
        fail_all([future for future, _ in self._for_credit], failure)
        fail_all(self._unsettled, failure)

    def _granted(self, link: SenderLink) -> object:
        return link.target
