"""The pace of one sender that is slowed down because its destination is above a threshold.

It begins at the maximum and comes down to the minimum in so many steps of equal ratio, an interval in all.
When the destination is below its threshold it climbs in steps of equal size, and is free once it has reached
the maximum (WebLogic's flow control: decay geometric, climb linear).
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.options import ManagerOptions

TICK_US: Final = 100_000
"""How often credit is given; what a sender may send at once is what it has in so long."""
_US_PER_S: Final = 1_000_000


@final
class Pace:
    """How many messages a second, now; and how much of the next one has been saved up."""

    def __init__(self, options: ManagerOptions, now_us: i64) -> None:
        self._maximum: Final = float(options.flow_maximum)
        self._minimum: Final = float(options.flow_minimum)
        self._decay: Final = (options.flow_minimum / options.flow_maximum) ** (1 / options.flow_steps)
        self._climb: Final = (options.flow_maximum - options.flow_minimum) / options.flow_steps
        self._step_us: i64 = options.flow_interval_s * _US_PER_S // options.flow_steps
        self._next_step_us: i64 = now_us + self._step_us
        self._advanced_us: i64 = now_us
        self._saved = 0.0
        self.rate = self._maximum
        """Messages a second."""
        self.over = False
        """It has climbed to the maximum: the sender is free."""

    @property
    def burst(self) -> int:
        """The most credit that it may have at one time."""
        return max(1, int(self.rate * TICK_US / _US_PER_S))

    def advance(self, now_us: i64, armed: bool) -> int:
        """Time has come to ``now_us``; returns how many more messages that allows."""
        while self._next_step_us <= now_us:
            if armed:
                self.rate = max(self._minimum, self.rate * self._decay)
            else:
                self.rate = min(self._maximum, self.rate + self._climb)
            self._next_step_us += self._step_us
        if not armed and self.rate >= self._maximum:
            self.over = True
        passed_s = int(now_us - self._advanced_us) / _US_PER_S
        self._advanced_us = now_us
        self._saved = min(self._saved + self.rate * passed_s, self.burst + 1.0)
        whole = int(self._saved)
        self._saved -= whole
        return whole
