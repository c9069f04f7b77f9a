"""The meter of one destination: what it holds is charged to its quota and compared with its thresholds.

Thresholds have hysteresis: above high the destination arms (its senders are slowed down), below low it
disarms, and in between nothing changes.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.manager.effects import Crossed
from postroom.manager.pool import Pool

if TYPE_CHECKING:
    from postroom.manager.core import Core
    from postroom.manager.options import QueueDefinition


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
class Meter:
    """Follows what a destination holds; told by its statistics. A destination without limits has none."""

    def __init__(self, core: "Core", name: str, messages: i64, bytes: i64) -> None:
        self._core = core
        self._name = name
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.pool: Pool | None = None
        self.watched = False
        """Whether it has thresholds."""
        self.armed = False
        """Whether senders are to be slowed down."""
        self.by_messages = Threshold("messages", -1, -1)
        self.by_bytes = Threshold("bytes", -1, -1)

    def set_thresholds(self, definition: "QueueDefinition") -> None:
        """Take over thresholds; they hold at once for what is there."""
        self.by_messages.high = definition.messages_high
        self.by_messages.low = definition.messages_low
        self.by_bytes.high = definition.bytes_high
        self.by_bytes.low = definition.bytes_low
        self.watched = definition.messages_high >= 0 or definition.bytes_high >= 0 or self.armed
        self._compare()
        self.watched = definition.messages_high >= 0 or definition.bytes_high >= 0

    def grow(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes more."""
        self.messages += count
        self.bytes += size
        if self.pool is not None:
            self.pool.charge(count, size)
        if self.watched:
            self._compare()

    def shrink(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes less."""
        self.messages -= count
        self.bytes -= size
        if self.pool is not None:
            self.pool.give_back(count, size)
        if self.watched:
            self._compare()

    def change_pool(self, pool: Pool | None) -> None:
        """What is held is charged to ``pool`` from now on."""
        if self.pool is not None:
            self.pool.give_back(self.messages, self.bytes)
        if pool is not None:
            pool.charge(self.messages, self.bytes)
        self.pool = pool

    def _compare(self) -> None:
        self._compare_one(self.by_messages, self.messages)
        self._compare_one(self.by_bytes, self.bytes)

    def _compare_one(self, threshold: Threshold, value: i64) -> None:
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

    def messages_threshold_us(self) -> i64:
        """How long the number of messages has been above its threshold (WebLogic's MessagesThresholdTime)."""
        return self.by_messages.time_us(self._core.now_us)

    def bytes_threshold_us(self) -> i64:
        return self.by_bytes.time_us(self._core.now_us)

    def reset_times(self) -> None:
        """Count the times from now on."""
        for threshold in (self.by_messages, self.by_bytes):
            threshold.past_us = 0
            threshold.armed_since_us = self._core.now_us
