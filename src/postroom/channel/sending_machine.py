"""The sending message channel agent: when a batch begins, when it ends, when to ask for its confirmation.

A batch ends with its last message (BATCHSZ), with the message that fills it (BATCHLIM), or when the
transmission queue is empty and the batch has been open for BATCHINT. Then the partner is asked to confirm it;
until it answers, the batch is *in doubt*. Meanwhile the next one is filled and sent. One that an empty queue
has ended waits for the answers to those before it, growing as long as messages come; one that is full is
confirmed at once unless `MAX_IN_DOUBT_MESSAGES` are in doubt: small batches so share the syncs there. They
are confirmed in order; after a failure the name of the partner's last batch says how many of them it has.

Fast messages (non-persistent, NPMSPEED(FAST)) are no part of a batch and have no sequence number of their
own, but count for its end: what is confirmed late would else wait behind any number of them. The partner
answers each when it has taken it.

The agent that owns the link asks this machine for room, tells it what it has sent and what was answered, and
does what `step` says.
"""

from collections import deque
from enum import IntEnum
from typing import Final, final

from mypy_extensions import i64

from postroom.channel.negotiation import Terms
from postroom.model.channel import ChannelDefinition

MAX_IN_DOUBT_MESSAGES: Final = 64
"""While so many messages are in doubt no further batch is asked for."""
MAX_AHEAD_MESSAGES: Final = 2 * MAX_IN_DOUBT_MESSAGES
"""Of small batches so many messages, and a batch more, are on their way at a time: those in doubt, and those
that their own queue manager is still writing down."""
MAX_OUTSIDE_MESSAGES: Final = 4096
"""While so many fast messages have no answer no further message is taken."""
US_PER_MS: Final = 1000
BYTES_PER_KB: Final = 1000


class Step(IntEnum):
    """What is to be done now."""

    WAIT = 0
    """Nothing: for messages, for an answer, or for time to pass."""
    REQUEST_CONFIRM = 1
    """End the batch and ask for its confirmation."""
    BEAT = 2
    """Send a batch heartbeat."""
    FINISH = 3
    """It was told to stop, and everything is confirmed or taken: close the link."""


WAIT: Final = int(Step.WAIT)
REQUEST_CONFIRM: Final = int(Step.REQUEST_CONFIRM)
BEAT: Final = int(Step.BEAT)
FINISH: Final = int(Step.FINISH)


@final
class SendingMachine:
    """One link's worth of batches."""

    def __init__(self, terms: Terms, definition: ChannelDefinition, last_sequence: i64, now_us: i64) -> None:
        self.sequence: i64 = last_sequence
        """The number given last."""
        self.count: i64 = 0
        """Messages with a number in the batch that is being filled."""
        self.in_doubt_count: i64 = 0
        """Messages in doubt: of batches that were asked for and have no answer."""
        self.outside: i64 = 0
        """Fast messages that have been sent and have no answer."""
        self.batches: i64 = 0
        """Confirmed on this link."""
        self.stopping = False
        self.terms: Final = terms
        self._size: i64 = terms.batch_size
        self._wrap: i64 = terms.sequence_wrap
        self._limit_bytes: i64 = definition.batch_limit_kb * BYTES_PER_KB
        self._interval_us: i64 = definition.batch_interval_ms * US_PER_MS
        self._heartbeat_us: i64 = definition.batch_heartbeat_ms * US_PER_MS
        self._seen: i64 = 0
        """Messages since the batch began, fast ones too; and their bytes."""
        self._bytes: i64 = 0
        self._opened_us: i64 = 0
        """When the batch got its first numbered message."""
        self._heard_us: i64 = now_us
        """When the partner has last answered something."""
        self._beating = False
        self._in_doubt: deque[int] = deque()
        """The sizes of those batches, the oldest first."""

    @property
    def small(self) -> bool:
        """Whether batches are so small that several are taken from the transmission queue ahead."""
        return self._size < MAX_IN_DOUBT_MESSAGES

    def room(self) -> i64:
        """How many more messages may be taken from the transmission queue, less those that have been and
        have not been added yet."""
        if self.stopping or self.outside >= MAX_OUTSIDE_MESSAGES or 0 < self._limit_bytes <= self._bytes:
            return 0
        if self.small:
            return MAX_AHEAD_MESSAGES + self._size - self.in_doubt_count - self._seen
        return self._size - self._seen

    @property
    def full(self) -> bool:
        """Whether the batch has as many messages as it may: nothing is added before it is asked for."""
        return self._seen >= self._size

    def add(self, size_bytes: i64, now_us: i64) -> i64:
        """A message of the batch is being sent; its sequence number."""
        if self.count == 0:
            self._opened_us = now_us
        self.count += 1
        self._note(size_bytes)
        self.sequence = 1 if self.sequence >= self._wrap else self.sequence + 1
        return self.sequence

    def add_fast(self, size_bytes: i64) -> None:
        """A fast message is being sent."""
        self.outside += 1
        self._note(size_bytes)
        self._close_if_fast()

    def taken(self, count: i64, now_us: i64) -> None:
        """The partner has taken so many fast messages."""
        self.outside -= count
        self._heard_us = now_us

    def skip(self) -> None:
        """A message that was taken can't travel."""
        self._note(0)
        self._close_if_fast()

    def _close_if_fast(self) -> None:
        if self.count == 0 and self.full:
            self._begin()  # nothing in it wants a confirmation

    def step(self, ahead: i64, empty: bool, now_us: i64) -> i64:
        """What to do now: a `Step`.

        ``ahead``: messages that were taken and not added yet; only a full batch doesn't wait for them.
        ``empty``: there is nothing more to take.
        """
        if self.count == 0:
            at_rest = ahead == 0 and self.in_doubt_count == 0 and self.outside == 0
            return FINISH if self.stopping and at_rest else WAIT
        if self._beating or not self._over(ahead, empty, now_us):
            return WAIT
        if self._heartbeat_us > 0 and now_us - self._heard_us > self._heartbeat_us:
            return BEAT
        return REQUEST_CONFIRM

    def _over(self, ahead: i64, empty: bool, now_us: i64) -> bool:
        if self.full:
            return self.in_doubt_count < MAX_IN_DOUBT_MESSAGES
        if ahead > 0:
            return False
        if self.stopping or 0 < self._limit_bytes <= self._bytes:
            return self.in_doubt_count < MAX_IN_DOUBT_MESSAGES
        return empty and self.in_doubt_count == 0 and now_us >= self._opened_us + self._interval_us

    def confirm_requested(self) -> None:
        """The batch has been asked for; another one begins."""
        self._in_doubt.append(int(self.count))
        self.in_doubt_count += self.count
        self._begin()

    def confirmed(self, now_us: i64) -> None:
        """The partner has the oldest of those that were asked for."""
        self.in_doubt_count -= self._in_doubt.popleft()
        self.batches += 1
        self._heard_us = now_us

    def beat(self) -> None:
        """A batch heartbeat has been sent."""
        self._beating = True

    def beat_answered(self, now_us: i64) -> None:
        """The partner lives."""
        self._beating = False
        self._heard_us = now_us

    def next_deadline_us(self) -> i64:
        """When the batch that is being filled has been open long enough; 0: nothing is waited for."""
        if self.count == 0 or self.in_doubt_count > 0 or self._beating:
            return 0
        return self._opened_us + self._interval_us

    def _note(self, size_bytes: i64) -> None:
        self._seen += 1
        self._bytes += size_bytes

    def _begin(self) -> None:
        self.count = 0
        self._seen = 0
        self._bytes = 0
