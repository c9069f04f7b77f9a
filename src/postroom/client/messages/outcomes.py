"""What an application says of a message that it has received: its words, and ``message.process()``."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from librt.strings import BytesWriter

from postroom.amqp.encoding.types import MAX_UINT, Symbol, ULong
from postroom.amqp.errors import AmqpError
from postroom.amqp.extensions import REDELIVERY_DELAY
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, DeliveryState, Modified, Rejected
from postroom.amqp.frames.performatives import Error
from postroom.client.durations import MS_A_SECOND, check_duration
from postroom.client.exceptions import JMSException, MessageFormatException

if TYPE_CHECKING:
    from postroom.client.messages.base_message import Message

LOG: Final = logging.getLogger("postroom.client")

FAILURE_REASON: Final = Symbol("x-opt-failure-reason")
"""Message annotation: why the last attempt failed."""
MAX_REASON_CHARS: Final = 1_000
"""What is said beyond that is cut off."""
PROCESSING_FAILED: Final = "postroom:processing-failed"
"""Condition of a message that its application has given up."""


class Receiver(Protocol):
    """Where a message was received, which takes its outcome."""

    def acknowledge(self, message: Message) -> Awaitable[None]:
        """As :meth:`Message.acknowledge`."""

    def send_outcome(self, message: Message, state: DeliveryState) -> Awaitable[None]:
        """The outcome; IllegalStateException where it isn't the application's to say."""

    def check_open(self, message: Message) -> None:
        """Raises IllegalStateException where the outcome isn't the application's to say."""

    def holds(self, message: Message) -> bool:
        """Whether it has no outcome yet."""


def failed(after_s: float | None, reason: str) -> Modified:
    """A failed attempt; ValueError for a time that is none."""
    annotations: dict[object, object] = {}
    if after_s is not None:
        check_duration("after_s", after_s)
        annotations[REDELIVERY_DELAY] = ULong(min(round(after_s * MS_A_SECOND), MAX_UINT))
    if reason:
        annotations[FAILURE_REASON] = sendable(reason)
    return Modified(True, False, annotations or None)


def given_up(reason: str, condition: str) -> Rejected:
    """It will never be good."""
    return Rejected(Error(condition, sendable(reason)))


def sendable(reason: str) -> str:
    """A text that an exception may have brought, as UTF-8 can carry it, and not too long."""
    return reason[:MAX_REASON_CHARS].encode("utf-8", "replace").decode()


def check_sendable(state: DeliveryState) -> None:
    """Raises MessageFormatException for an outcome with something in it that AMQP has no encoding for: one
    that broke off on its way would end the connection.
    """
    if isinstance(state, Rejected | Modified):
        try:
            state.write(BytesWriter())
        except AmqpError as error:
            raise MessageFormatException(f"the outcome can't be encoded: {error.description}") from None


def text_of(error: BaseException) -> str:
    """An exception in one line, as the last of a traceback."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Processing:
    """What :meth:`Message.process` returns: leaving it says what became of the message."""

    def __init__(self, message: Message, receiver: Receiver, retry_after_s: float | None, suppress: bool):
        failed(retry_after_s, "")  # a time that is none is an error now, not with the first failure
        self._message = message
        self._receiver = receiver
        self._retry_after_s = retry_after_s
        self._suppress = suppress

    def __enter__(self) -> Message:
        self._receiver.check_open(self._message)
        return self._message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._receiver.holds(self._message):
            try:
                self._send_outcome(error)
            except JMSException as failure:
                self._unsaid(failure, error)
        return self._goes_on(error)

    async def __aenter__(self) -> Message:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._receiver.holds(self._message):
            try:
                await self._send_outcome(error)
            except JMSException as failure:
                self._unsaid(failure, error)
        return self._goes_on(error)

    def _send_outcome(self, error: BaseException | None) -> Awaitable[None]:
        """The outcome: an interrupted attempt is none, and isn't counted."""
        if error is None:
            return self._receiver.send_outcome(self._message, ACCEPTED)
        outcome: DeliveryState = RELEASED
        if isinstance(error, Exception):
            outcome = failed(self._retry_after_s, text_of(error))
        return self._receiver.send_outcome(self._message, outcome)

    def _unsaid(self, failure: JMSException, error: BaseException | None) -> None:
        """Its link is gone: the broker gives the message out again by itself, which matters to the
        application only where it believes that the work is done.
        """
        if error is None:
            raise failure
        LOG.warning("the outcome of a message couldn't be said: %s", failure)

    def _goes_on(self, error: BaseException | None) -> bool:
        if not self._suppress or not isinstance(error, Exception):
            return False
        LOG.error("a message could not be processed (%s)", self._message.message_id, exc_info=error)
        return True
