"""The receiving message channel agent: whether what comes is what must come.

Every numbered message has the number after that of the one before; the end of a batch names the last of them
and says how many there were. Anything else means that the two ends don't speak of the same messages: then
nothing of the batch is confirmed, the link is closed, and the next one begins where both agree.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.errors import NOT_ALLOWED, AmqpError
from postroom.channel.negotiation import NO_LUWID, Terms
from postroom.channel.sending_machine import MAX_IN_DOUBT_MESSAGES
from postroom.channel.wire import SEQUENCE_ERROR, BatchEnd

MIN_CREDIT: Final = 256
"""A link gets no less: as many small batches as may be in doubt, with their ends."""
MAX_UNANSWERED: Final = MAX_IN_DOUBT_MESSAGES
"""Batches: a sender that keeps to its bound of messages never has more in doubt."""


@final
class ReceivingMachine:
    """One link's worth of batches."""

    def __init__(self, terms: Terms, last_sequence: i64, last_luwid: bytes) -> None:
        self.sequence: i64 = last_sequence
        """The number that came last."""
        self.confirmed_sequence: i64 = last_sequence
        self.confirmed_luwid = last_luwid or NO_LUWID
        self._ended_luwid = self.confirmed_luwid
        self.count: i64 = 0
        """Numbered messages of the batch that is arriving."""
        self.unanswered: i64 = 0
        """Batches that have ended and are being made durable."""
        self.batches: i64 = 0
        """Confirmed on this link."""
        self._size: i64 = terms.batch_size
        self._wrap: i64 = terms.sequence_wrap
        self.credit: i64 = max(2 * (terms.batch_size + 2), MIN_CREDIT)
        """What the partner may send ahead: two batches with their ends and heartbeats."""

    def arrived(self, sequence: i64) -> None:
        """A numbered message has come. Raises `AmqpError` unless it is the next one."""
        expected: i64 = 1 if self.sequence >= self._wrap else self.sequence + 1
        if sequence != expected:
            raise sequence_error(
                f"a message with sequence number {sequence} came where {expected} is the next"
            )
        if self.count >= self._size:
            raise AmqpError(
                NOT_ALLOWED, f"a batch of more than {self._size} messages, the size that was agreed on"
            )
        self.count += 1
        self.sequence = sequence

    def ended(self, end: BatchEnd) -> None:
        """The partner wants the batch confirmed. Raises `AmqpError` where it means another one."""
        if end.last_sequence != self.sequence or end.count != self.count:
            raise sequence_error(
                f"the end of a batch of {end.count} messages up to number {end.last_sequence} came after "
                f"{self.count} up to number {self.sequence}"
            )
        if self.unanswered >= MAX_UNANSWERED:
            raise AmqpError(
                NOT_ALLOWED, f"more than {MAX_UNANSWERED} batches have no answer yet: wait for one"
            )
        if end.luwid == self._ended_luwid:
            raise AmqpError(NOT_ALLOWED, f"two batches are called {end.luwid.hex()}")
        self._ended_luwid = end.luwid
        self.count = 0
        self.unanswered += 1

    def confirmed(self, end: BatchEnd) -> None:
        """It is durable here."""
        self.unanswered -= 1
        self.batches += 1
        self.confirmed_sequence = end.last_sequence
        self.confirmed_luwid = end.luwid

    def failed(self) -> None:
        """One that has ended couldn't be kept."""
        self.unanswered -= 1

    def at_rest(self) -> bool:
        """Between two batches: nothing has come that isn't confirmed."""
        return self.count == 0 and self.unanswered == 0


def sequence_error(what: str) -> AmqpError:
    """Raised where two ends don't agree on their messages."""
    return AmqpError(
        SEQUENCE_ERROR, f"{what}; resolve what may be in doubt, then reset the sequence number of the channel"
    )
