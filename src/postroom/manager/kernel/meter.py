"""The meter of one destination: what it holds is charged to its quota and compared with thresholds, its own
and the broker's.

Thresholds have hysteresis: above high they arm (senders are slowed down), below low they disarm, and in
between nothing changes.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.manager.kernel.effects import Crossed
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.statistics import HeldMeter

if TYPE_CHECKING:
    from postroom.manager.kernel.core import Core


@final
class Threshold:
    """High and low for one measure, and for how long it has been above."""

    def __init__(self, what: str, high: i64, low: i64) -> None:
        self.what = what
        self.high: i64 = high
        self.low: i64 = low
        self.armed = False
        self.armed_since_us: i64 = 0
        self.past_us: i64 = 0
        """Time armed, without the present one."""

    def time_us(self, now_us: i64) -> i64:
        """How long it has been armed altogether."""
        return self.past_us + now_us - self.armed_since_us if self.armed else self.past_us


@final
class Thresholds:
    """The thresholds of a destination, or of the broker, with what they are compared with."""

    def __init__(self, core: "Core", name: str, messages: i64, bytes: i64) -> None:
        self._core = core
        self._name = name
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.armed = False
        """Whether senders are to be slowed down."""
        self.by_messages = Threshold("messages", -1, -1)
        self.by_bytes = Threshold("bytes", -1, -1)

    def set(self, messages_high: i64, messages_low: i64, bytes_high: i64, bytes_low: i64) -> None:
        """Take over thresholds (−1 off); they hold at once for what is there."""
        self.by_messages.high = messages_high
        self.by_messages.low = messages_low
        self.by_bytes.high = bytes_high
        self.by_bytes.low = bytes_low
        self.add(0, 0)

    def add(self, count: i64, size: i64) -> None:
        """There are so many messages and bytes more (or fewer)."""
        self.messages += count
        self.bytes += size
        self._compare(self.by_messages, self.messages)
        self._compare(self.by_bytes, self.bytes)

    def _compare(self, threshold: Threshold, value: i64) -> None:
        if threshold.armed:
            if threshold.high < 0 or value < threshold.low:
                self._disarm(threshold, value)
        elif value > threshold.high >= 0:
            self._arm(threshold, value)

    def _arm(self, threshold: Threshold, value: i64) -> None:
        core = self._core
        threshold.armed = True
        threshold.armed_since_us = core.now_us
        self.armed = True
        core.effects.crossed.append(Crossed(self._name, threshold.what, True, value, threshold.high))

    def _disarm(self, threshold: Threshold, value: i64) -> None:
        core = self._core
        threshold.past_us = threshold.time_us(core.now_us)
        threshold.armed = False
        self.armed = self.by_messages.armed or self.by_bytes.armed
        core.effects.crossed.append(Crossed(self._name, threshold.what, False, value, threshold.low))

    def messages_time_us(self) -> i64:
        """How long the number of messages has been above its threshold (WebLogic's MessagesThresholdTime)."""
        return self.by_messages.time_us(self._core.now_us)

    def bytes_time_us(self) -> i64:
        return self.by_bytes.time_us(self._core.now_us)

    def reset_times(self) -> None:
        """Count the times from now on."""
        for threshold in (self.by_messages, self.by_bytes):
            threshold.past_us = 0
            threshold.armed_since_us = self._core.now_us


@final
class Meter(HeldMeter):
    """Follows what a destination holds; told by its statistics. A destination without limits has none."""

    def __init__(self, messages: i64, bytes: i64, broker: Thresholds | None) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.pool: Pool | None = None
        self.own: Thresholds | None = None
        self.broker = broker
        if broker is not None:
            broker.add(messages, bytes)

    @property
    def armed(self) -> bool:
        """Whether senders are to be slowed down, for this destination's sake or the broker's."""
        own, broker = self.own, self.broker
        return (own is not None and own.armed) or (broker is not None and broker.armed)

    def grow(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes more."""
        self.messages += count
        self.bytes += size
        if self.pool is not None:
            self.pool.charge(count, size)
        self._notify(count, size)

    def shrink(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes less."""
        self.messages -= count
        self.bytes -= size
        if self.pool is not None:
            self.pool.give_back(count, size)
        self._notify(-count, -size)

    def _notify(self, count: i64, size: i64) -> None:
        if self.own is not None:
            self.own.add(count, size)
        if self.broker is not None:
            self.broker.add(count, size)

    def change_pool(self, pool: Pool | None) -> None:
        """What is held is charged to ``pool`` from now on."""
        if self.pool is not None:
            self.pool.give_back(self.messages, self.bytes)
        if pool is not None:
            pool.charge(self.messages, self.bytes)
        self.pool = pool

    def close(self) -> None:
        """The destination is no more."""
        self.change_pool(None)
        if self.broker is not None:
            self.broker.add(-self.messages, -self.bytes)
            self.broker = None

    def messages_threshold_us(self) -> i64:
        """How long the number of messages has been above the destination's threshold."""
        return self.own.messages_time_us() if self.own is not None else 0

    def bytes_threshold_us(self) -> i64:
        return self.own.bytes_time_us() if self.own is not None else 0

    def reset_times(self) -> None:
        """Count the times from now on."""
        if self.own is not None:
            self.own.reset_times()
