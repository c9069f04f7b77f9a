"""Links as the faces use them: what both directions have in common. One outlives the transport it was made
on: it is attached again on the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine import events
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.extensions import SEND_TIMEOUT_PROPERTY
from postroom.amqp.frames.termini import Source, Target
from postroom.client.connection.provider import Channel
from postroom.client.connection.transport import LinkHandler, within
from postroom.client.exceptions import (
    IllegalStateException,
    JMSException,
    ResourceAllocationException,
    from_error,
    usage_errors,
)

L = TypeVar("L", bound=Link)

MAX_REFUSALS: Final = 12
"""Attempts of a reconnect that a link may fail as taken by another; then it ends, and the others go on."""


def sending_properties(send_timeout_ms: int | None) -> dict[object, object] | None:
    """Link properties that say how long a send is to wait for room."""
    if send_timeout_ms is None:
        return None
    return {Symbol(SEND_TIMEOUT_PROPERTY): send_timeout_ms}


class Attachment(LinkHandler, Generic[L]):
    """A link from attach to detach; ``what`` names it in errors."""

    def __init__(
        self,
        channel: Channel,
        make: Callable[[EngineSession], L],
        what: str,
        terminus: Source | Target | None = None,
    ) -> None:
        """``make`` attaches the link to a session: now, and again on each new transport. ``terminus``: the
        broker's end as it is asked for, whose address follows a temporary destination.
        """
        self.provider = channel.provider
        self.what = what
        self.failure: JMSException | None = None
        """Why the link is no good any more."""
        self.address: str | None = None
        """The node that the broker gave: the name of a dynamic one."""
        self.makes_node = terminus is not None and terminus.dynamic
        self._channel = channel
        self._make = make
        self._terminus = terminus
        self._stable_address = None if terminus is None else self.provider.stable_name(terminus.address)
        self._link: L | None = None
        """That of the present transport."""
        self._attached: asyncio.Future[None] = self.provider.future()
        self._again: asyncio.Future[None] | None = None
        """Told when the link is attached on a new transport, or has failed there."""
        self._refusals = 0
        """How often in a row another broker hasn't taken it."""
        self._detached: asyncio.Future[None] = self.provider.loop.create_future()

    async def attach(self, timeout_s: float | None) -> None:
        """Attach and wait for the broker's answer, over a break where there is one; raises the reason when
        it refuses.
        """
        self.provider.check()
        self._channel.attachments[self] = None
        try:
            if self._channel.engine is not None:
                self._bind(self._channel.engine)
            await within(self._attached, timeout_s, f"attach of {self.what}")
        except BaseException as failed:
            self._give_up(failed)
            raise

    def _give_up(self, failed: BaseException) -> None:
        """The application has been told that there is no such link."""
        if self._link is not None and self.failure is None:
            self._link.detach()
            self.provider.flush_soon()
        self._attached.cancel()
        self.fail(failed if isinstance(failed, JMSException) else IllegalStateException("given up"))
        self._gone()

    def _bind(self, engine: EngineSession) -> None:
        if isinstance(self._terminus, Source | Target) and not self.makes_node:
            self._terminus.address = self.provider.current_name(self._stable_address)
        with usage_errors(f"attach of {self.what}"):
            self._link = self._make(engine)
        self._link.context = self
        self.provider.flush_soon()

    def attach_again(self) -> asyncio.Future[None]:
        assert self._channel.engine is not None and self.provider.transport is not None
        self._again = again = self.provider.transport.future()
        if self._link is not None:  # the application has made it since the session was begun
            if self._link.attached:
                again.set_result(None)
            return again
        try:
            self._bind(self._channel.engine)
        except JMSException as failure:
            self._end(failure)
        return again

    async def detach(self, timeout_s: float | None, closed: bool = True) -> None:
        """Detach and wait for the broker's answer; a link that is gone is detached already.

        ``closed``: its terminus goes with it.
        """
        if self.failure is None:
            self.fail(IllegalStateException(f"{self.what} is closed"))
            if self._link is None:
                self._gone()
                return
            self._link.detach(closed=closed)
            self.provider.flush_soon()
            await within(asyncio.shield(self._detached), timeout_s, f"detach of {self.what}")

    def check(self) -> None:
        """Raise what ended the link, if it has ended."""
        if self.failure is not None:
            raise self.failure

    # --- what the transport tells

    def on_attached(self, event: events.LinkAttached) -> None:
        if self._link is None or event.link is not self._link:
            return
        granted = self._granted(self._link)
        if granted is None:
            return  # the refusal follows
        address = granted.address if isinstance(granted, Source | Target) else None
        if self.makes_node and self.address is not None:
            self.provider.rename(self.address, address or "")
        self.address = address
        self._refusals = 0
        for waiting in (self._attached, self._again):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        self.attached()

    def attached(self) -> None:
        """The link works, for the first time or again."""

    def _granted(self, link: L) -> object:
        """The terminus in the broker's attach; None where it refuses the link (part 2, section 2.6.3)."""
        raise NotImplementedError

    def on_detached(self, event: events.LinkDetached) -> None:
        if event.link is not self._link:
            return
        again = self._again if self._again is not None and not self._again.done() else None
        refused = again is not None or not self._attached.done()
        failure = from_error(event.error, f"{self.what} was {'refused' if refused else 'closed'}")
        if not event.local:
            event.link.detach(closed=event.closed)
        if again is not None and self._attached.done() and self._may_be_late(failure):
            again.set_exception(failure)
            return
        self._end(failure)

    def _may_be_late(self, failure: JMSException) -> bool:
        """The broker may not have noticed yet that the old connection is gone: another attempt may help."""
        self._refusals += 1
        return isinstance(failure, ResourceAllocationException) and self._refusals < MAX_REFUSALS

    def _end(self, failure: JMSException) -> None:
        """The link has ended, the connection has not."""
        if not self._attached.done():
            self._attached.set_exception(failure)
            self._attached.exception()
        self.fail(failure)
        self._gone()
        if self._again is not None and not self._again.done():
            self._again.set_result(None)

    def interrupt(self, failure: JMSException) -> None:
        self._link = None
        if self.failure is not None:
            self._gone()
        else:
            self.interrupted(failure)

    def interrupted(self, failure: JMSException) -> None:
        """Those who wait for what can't come any more are told ``failure``; the others go on waiting."""
        raise NotImplementedError

    def lose(self, failure: JMSException) -> None:
        self.fail(failure)
        self._gone()

    def _gone(self) -> None:
        self._channel.attachments.pop(self, None)
        if self.makes_node and self.address is not None:
            self.provider.forget_name(self.address)
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


def was_woken(future: asyncio.Future[None]) -> bool:
    """Whether the one who waited was given what it waited for, even if it has given up in the same moment."""
    return future.done() and not future.cancelled() and future.exception() is None
