"""Counters of one queue, kept up with every event instead of by counting.

*Current* and *pending* are disjoint, as in WebLogic JMS: what can be received now, and what is in flight, by
cause. Both occupy the queue's limits. Received, high-water and the outcomes run since the broker started; the
ledger has totals of its own that never start again. When counting began and what was there then is kept, so
that whoever reads the counters can balance them: depth = depth then + received − ended.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.model import numbers as n
from postroom.model.codes import Outcome
from postroom.model.holders import TRANSACTIONAL

# Where an entry is counted.
NOWHERE: Final = 0
CURRENT: Final = 1
UNACKNOWLEDGED: Final = 2
UNBORN: Final = 3
UNCOMMITTED_PUT: Final = 4
UNCOMMITTED_GET: Final = 5
REDELIVERY_DELAY: Final = 6
BROWSE_LOCKED: Final = 7
PAUSED: Final = 8
ORDERED: Final = 9

MAX_REASONS: Final = 64
MAX_REASON_CHARS: Final = 128
OTHER_REASON: Final = "other"
NO_REASON: Final = "unspecified"
"""Where what couldn't be delivered is counted by its reason, which a client may have made up."""

SLOT_NAMES: Final = (
    "nowhere",
    "current",
    "unacknowledged",
    "unborn",
    "uncommitted_put",
    "uncommitted_get",
    "redelivery_delay",
    "browse_locked",
    "paused",
    "ordered",
)


def _slot(state: int, holder_kind: int) -> int:
    if state == n.AVAILABLE:
        return CURRENT
    if state == n.PUT_UNCONFIRMED:
        return UNCOMMITTED_PUT
    if state == n.LOCKED_FOR_BROWSE:
        return BROWSE_LOCKED
    if state in (n.GET_UNCONFIRMED, n.BROWSE_GET_UNCONFIRMED):
        return UNCOMMITTED_GET if holder_kind in TRANSACTIONAL else UNACKNOWLEDGED
    return NOWHERE


_SLOTS: Final = bytes(_slot(state, kind) for state in range(n.STATES) for kind in range(n.HOLDERS))


def slot_of(state: i64, holder_kind: i64, causes: i64) -> i64:
    """Where an entry is counted. Of several causes to wait the one that a client can do least about is
    named."""
    if state != n.DELAYED:
        return _SLOTS[state * n.HOLDERS + holder_kind]
    if causes & n.UNBORN:
        return UNBORN
    if causes & n.REDELIVERY_DELAY:
        return REDELIVERY_DELAY
    if causes & n.PAUSED:
        return PAUSED
    return ORDERED


class HeldMeter:
    """Follows what a destination holds, for its quota and thresholds; told by its statistics."""

    @property
    def armed(self) -> bool:
        """Whether senders are to be slowed down."""
        raise NotImplementedError

    def grow(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes more."""
        raise NotImplementedError

    def shrink(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes less."""
        raise NotImplementedError

    def messages_threshold_us(self) -> i64:
        """How long the number of messages has been above the destination's threshold."""
        raise NotImplementedError

    def bytes_threshold_us(self) -> i64:
        """How long the number of bytes has."""
        raise NotImplementedError

    def reset_times(self) -> None:
        """Count the times from now on."""
        raise NotImplementedError

    def close(self) -> None:
        """The destination is no more."""
        raise NotImplementedError


@final
class HeldByAll:
    """What all queues of a queue manager hold together, and the most that they ever held."""

    def __init__(self) -> None:
        self.depth: i64 = 0
        self.depth_bytes: i64 = 0
        self.high: i64 = 0
        self.high_bytes: i64 = 0
        self._then: i64 = 0
        """What was there before the start; likewise the next."""
        self._then_bytes: i64 = 0

    def grow(self, count: i64, size: i64) -> None:
        """``count`` entries of ``size`` bytes together have come."""
        self.depth += count
        self.depth_bytes += size
        if self.depth > self.high:
            self.high = self.depth
        if self.depth_bytes > self.high_bytes:
            self.high_bytes = self.depth_bytes

    def restored(self, count: i64, size: i64) -> None:
        """So many more were there before the start, whatever has become of the others since."""
        self._then += count
        self._then_bytes += size
        self.high = max(self.high, self._then)
        self.high_bytes = max(self.high_bytes, self._then_bytes)

    def shrink(self, count: i64, size: i64) -> None:
        """They have ended."""
        self.depth -= count
        self.depth_bytes -= size

    def reset(self) -> None:
        """The peaks start at the present values."""
        self.high = self.depth
        self.high_bytes = self.depth_bytes


@final
class Beginning:
    """When counting began, and what was there then."""

    def __init__(self) -> None:
        self.since_us: i64 = 0
        self.current: i64 = 0
        self.current_bytes: i64 = 0
        self.pending: i64 = 0
        self.pending_bytes: i64 = 0

    def add(self, slot: i64, count: i64, size: i64) -> None:
        """``count`` entries of ``size`` bytes together were in ``slot``."""
        if slot == CURRENT:
            self.current += count
            self.current_bytes += size
        else:
            self.pending += count
            self.pending_bytes += size

    def add_other(self, other: "Beginning") -> None:
        """Also what was there then of another queue."""
        self.current += other.current
        self.current_bytes += other.current_bytes
        self.pending += other.pending
        self.pending_bytes += other.pending_bytes

    def shown(self) -> dict[str, int]:
        """By the names that the management node and the command line show."""
        return {
            "counting_since_us": self.since_us,
            "messages_current_then": self.current,
            "bytes_current_then": self.current_bytes,
            "messages_pending_then": self.pending,
            "bytes_pending_then": self.pending_bytes,
        }


_ENDED: Final = tuple(outcome for outcome in Outcome if outcome > Outcome.CONSUMED)


class Counted:
    """What has been counted since the start or the last reset: of one queue, or of several together."""

    def __init__(self) -> None:
        self.begin_again()

    def begin_again(self) -> None:
        """Count from 0."""
        self.beginning = Beginning()
        self.received: i64 = 0
        self.received_bytes: i64 = 0
        self.consumed: i64 = 0
        self.ended: list[int] = [0] * len(Outcome)
        """Entries ended, by outcome; CONSUMED is in `consumed`."""
        self.ended_bytes: i64 = 0
        """Of all that have ended, whatever the outcome."""
        self.consumers_total: i64 = 0
        self.blocked_total: i64 = 0
        self.blocked_us: i64 = 0
        """How long sends that don't wait for room any more have waited, together."""

    def add_all(self, other: "Counted") -> None:
        """Also what has been counted of another queue."""
        self.beginning.add_other(other.beginning)
        self.received += other.received
        self.received_bytes += other.received_bytes
        self.consumed += other.consumed
        self.ended_bytes += other.ended_bytes
        self.consumers_total += other.consumers_total
        self.blocked_total += other.blocked_total
        self.blocked_us += other.blocked_us
        for outcome in _ENDED:
            self.ended[outcome] += other.ended[outcome]

    def counted(self) -> dict[str, int]:
        """By the names that the management node and the command line show."""
        shown: dict[str, int] = {
            "messages_received": self.received,
            "bytes_received": self.received_bytes,
            "messages_consumed": self.consumed,
            "messages_ended": self.consumed + sum(self.ended),
            "bytes_ended": self.ended_bytes,
            "consumers_total": self.consumers_total,
            "blocked_sends_total": self.blocked_total,
            "blocked_send_us": self.blocked_us,
        }
        for outcome in _ENDED:
            shown[f"messages_{outcome.name.lower()}"] = self.ended[outcome]
        return shown | self.beginning.shown()


@final
class Statistics(Counted):
    """The counters of one queue."""

    def __init__(self, held_by_all: HeldByAll) -> None:
        super().__init__()
        self._held_by_all = held_by_all
        self.current: i64 = 0
        self.current_bytes: i64 = 0
        self.unacknowledged: i64 = 0
        self.unacknowledged_bytes: i64 = 0
        self.other: list[int] = [0] * len(SLOT_NAMES)
        """The rarer slots, by number."""
        self.other_bytes: list[int] = [0] * len(SLOT_NAMES)
        self.depth: i64 = 0
        """Current and pending."""
        self.depth_bytes: i64 = 0
        self.high: i64 = 0
        self.high_bytes: i64 = 0
        self.meter: HeldMeter | None = None
        """What watches the depth for quotas and thresholds; None where there are none."""
        self.blocked: i64 = 0
        """Sends that wait for room now; in no other counter."""
        self.duplicates: i64 = 0
        """Messages accepted and dropped, for they had been sent before."""
        self.consumers: i64 = 0
        self.consumers_high: i64 = 0

    def arrive(self, slot: i64, size: i64) -> None:
        """A new entry of ``size`` bytes begins in ``slot``."""
        self.received += 1
        self.received_bytes += size
        self._come(slot, 1, size)

    def restore(self, slot: i64, size: i64) -> None:
        """An entry that was there before the start is counted again, but not as received."""
        self.restore_many(1, size, slot)

    def restore_many(self, count: i64, size: i64, slot: i64 = CURRENT) -> None:
        """``count`` entries of ``size`` bytes together were in ``slot`` before the start."""
        self._begin_with(slot, count, size)
        self._come(slot, count, size)

    def _come(self, slot: i64, count: i64, size: i64) -> None:
        self.depth += count
        self.depth_bytes += size
        if self.depth > self.high:
            self.high = self.depth
        if self.depth_bytes > self.high_bytes:
            self.high_bytes = self.depth_bytes
        self._held_by_all.grow(count, size)
        self._add(slot, count, size)
        if self.meter is not None:
            self.meter.grow(count, size)

    def lost(self, slot: i64, outcome: i64, count: i64) -> None:
        """``count`` entries were in ``slot`` before the start, and have ended by it. Their bytes, which
        nobody has any more, are counted nowhere."""
        self._begin_with(slot, count, 0)
        self.ended[outcome] += count

    def _begin_with(self, slot: i64, count: i64, size: i64) -> None:
        """They were all there at the start, where the peak begins."""
        then = self.beginning
        then.add(slot, count, size)
        self.high = max(self.high, then.current + then.pending)
        self.high_bytes = max(self.high_bytes, then.current_bytes + then.pending_bytes)
        self._held_by_all.restored(count, size)

    def move(self, before: i64, after: i64, size: i64) -> None:
        """An entry that goes on living changes its slot."""
        if before != after:
            self._add(before, -1, -size)
            self._add(after, 1, size)

    def end(self, before: i64, outcome: i64, size: i64) -> None:
        """An entry ends."""
        self.end_many(before, outcome, 1, size)

    def move_many(self, before: i64, after: i64, count: i64, size: i64) -> None:
        """``count`` entries of ``size`` bytes together go on living in another slot."""
        self._add(before, -count, -size)
        self._add(after, count, size)

    def end_many(self, before: i64, outcome: i64, count: i64, size: i64) -> None:
        """``count`` entries of ``size`` bytes together, all in one slot, end alike."""
        self._add(before, -count, -size)
        self.depth -= count
        self.depth_bytes -= size
        self._held_by_all.shrink(count, size)
        self.ended_bytes += size
        if outcome == n.OUTCOME_CONSUMED:
            self.consumed += count
        else:
            self.ended[outcome] += count
        if self.meter is not None:
            self.meter.shrink(count, size)

    def _add(self, slot: i64, count: i64, size: i64) -> None:
        if slot == CURRENT:
            self.current += count
            self.current_bytes += size
        elif slot == UNACKNOWLEDGED:
            self.unacknowledged += count
            self.unacknowledged_bytes += size
        else:
            self.other[slot] += count
            self.other_bytes[slot] += size

    def consumer_opened(self) -> None:
        self.consumers += 1
        self.consumers_total += 1
        if self.consumers > self.consumers_high:
            self.consumers_high = self.consumers

    def consumer_closed(self) -> None:
        self.consumers -= 1

    def reset(self, now_us: i64) -> None:
        """Start received, outcomes and peaks again; a peak starts at the present value."""
        self.begin_again()
        self.beginning.since_us = now_us
        self.beginning.add(CURRENT, self.current, self.current_bytes)
        self.beginning.add(NOWHERE, self.depth - self.current, self.depth_bytes - self.current_bytes)
        self.high = self.depth
        self.high_bytes = self.depth_bytes
        self.consumers_high = self.consumers
        self.consumers_total = self.consumers
        self.blocked_total = self.blocked
        self.duplicates = 0
        if self.meter is not None:
            self.meter.reset_times()

    def slots(self) -> dict[str, tuple[int, int]]:
        """(messages, bytes) in each slot, by name."""
        found = {name: (self.other[i], self.other_bytes[i]) for i, name in enumerate(SLOT_NAMES) if i > 2}
        found["current"] = (self.current, self.current_bytes)
        found["unacknowledged"] = (self.unacknowledged, self.unacknowledged_bytes)
        return found

    def snapshot(self) -> dict[str, int]:
        """Every counter by the name that the management node and the command line show."""
        shown: dict[str, int] = {
            "messages_current": self.current,
            "bytes_current": self.current_bytes,
            "messages_pending": self.depth - self.current,
            "bytes_pending": self.depth_bytes - self.current_bytes,
        }
        for name, (count, size) in self.slots().items():
            if name != "current":
                shown[f"messages_{name}"] = count
                shown[f"bytes_{name}"] = size
        shown |= {
            "messages_high": self.high,
            "bytes_high": self.high_bytes,
            "blocked_sends": self.blocked,
            "duplicates_dropped": self.duplicates,
            "messages_threshold_us": self.meter.messages_threshold_us() if self.meter is not None else 0,
            "bytes_threshold_us": self.meter.bytes_threshold_us() if self.meter is not None else 0,
            "consumers": self.consumers,
            "consumers_high": self.consumers_high,
        }
        return shown | self.counted()


@final
class Counters:
    """Of all queues of a queue manager together."""

    def __init__(self) -> None:
        self.held_by_all = HeldByAll()
        self.since_us: i64 = 0
        """When its counters began: at the start, or when they were all reset."""
        self.removed = Counted()
        """Counters of queues that are no more."""
        self.undeliverable: dict[str, int] = {}
        """What couldn't be delivered, by why; beyond `MAX_REASONS` of these, and for very long ones,
        `OTHER_REASON`."""
        self.consumers: i64 = 0
        self.suspended: i64 = 0
        """Consumers whose link may be resumed."""

    def count_undeliverable(self, reason: str) -> None:
        """One more message couldn't be delivered for that reason."""
        known = self.undeliverable
        reason = reason or NO_REASON
        if len(reason) > MAX_REASON_CHARS or (reason not in known and len(known) >= MAX_REASONS):
            reason = OTHER_REASON
        known[reason] = known.get(reason, 0) + 1
