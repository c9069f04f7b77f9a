"""Sends that nobody waits for: their outcomes, told in the order of sending."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from postroom.amqp.frames.outcomes import Accepted, DeliveryState, Rejected, Released, TransactionalState
from postroom.client.connection.sender_link import Outcome
from postroom.client.connection.transport import within
from postroom.client.exceptions import (
    LOG,
    IllegalStateException,
    JMSException,
    MessageModifiedException,
    MessageRejectedException,
    MessageReleasedException,
    from_error,
)
from postroom.client.messages.message import Message
from postroom.client.sessions.connection_state import FailureCallback, MessageCallback, call_back
from postroom.client.sessions.session_state import SessionState


def raise_unless_accepted(state: DeliveryState | None) -> None:
    """Turn an outcome other than accepted, in a transaction too, into the exception that JMS has for it."""
    if isinstance(state, TransactionalState):
        state = state.outcome
    if state is None or isinstance(state, Accepted):
        return
    if isinstance(state, Rejected):
        raise from_error(state.error, "the message was rejected", MessageRejectedException)
    if isinstance(state, Released):
        raise MessageReleasedException("the message was released: the broker didn't take it")
    raise MessageModifiedException(f"the message came back: {state}")


@dataclass(frozen=True)
class Sent:
    """A message on its way, and whom to tell."""

    message: Message
    outcome: Outcome | None
    """None: settled, and so done."""
    what: str
    on_completion: MessageCallback | None
    on_exception: FailureCallback | None


class Completions:
    """Those of a session."""

    def __init__(self, state: SessionState) -> None:
        self._state: Final = state
        self._waiting: deque[Sent] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, sent: Sent) -> None:
        """Tell of ``sent`` when its outcome is there, and those before it have been told of."""
        self._waiting.append(sent)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def finished(self) -> None:
        """Wait until everything has been told; raises IllegalStateException in such a call."""
        if self._state.is_completing_here:
            raise IllegalStateException("it can't be closed in a call for a message sent")
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._waiting:
            sent = self._waiting.popleft()
            failure = await self._failure_of(sent)
            if sent.on_completion is None and sent.on_exception is None:
                if failure is not None:
                    self._state.shared.report(failure)
                continue
            async with self._state.completion_turn():
                await self._notify(sent, failure)

    async def _failure_of(self, sent: Sent) -> JMSException | None:
        if sent.outcome is None:
            return None
        try:
            timeout_s = self._state.shared.options.send_timeout_s
            raise_unless_accepted(await within(sent.outcome, timeout_s, f"send to {sent.what}"))
        except JMSException as failure:
            return failure
        return None

    async def _notify(self, sent: Sent, failure: JMSException | None) -> None:
        try:
            if failure is None:
                if sent.on_completion is not None:
                    await call_back(sent.on_completion, sent.message)
            elif sent.on_exception is not None:
                await call_back(sent.on_exception, sent.message, failure)
            else:
                self._state.shared.report(failure)
        except Exception:
            LOG.exception("the completion listener of %s failed", sent.what)
