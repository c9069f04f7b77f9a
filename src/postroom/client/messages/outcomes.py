"""The outcomes that an application gives messages that it has received, as AMQP has them."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import MAX_UINT, Symbol, ULong
from postroom.amqp.errors import AmqpError
from postroom.amqp.extensions import REDELIVERY_DELAY
from postroom.amqp.frames.outcomes import DeliveryState, Modified, Rejected
from postroom.client.durations import MS_A_SECOND, check_duration
from postroom.client.exceptions import MessageFormatException

FAILURE_REASON: Final = Symbol("x-opt-failure-reason")
"""Message annotation: why the last attempt failed."""
MAX_REASON_CHARS: Final = 1_000
"""What is said beyond that is cut off."""
PROCESSING_FAILED: Final = "postroom:processing-failed"
"""Condition of a message that its application has given up."""


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
