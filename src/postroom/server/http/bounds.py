"""How much anyone may ask for at a time: requests in work, and requests a second of each caller."""

from collections import OrderedDict
from typing import Final

MAX_CALLERS: Final = 4096
"""Callers whose pace is remembered; the one that was quiet longest is forgotten."""


class Pace:
    """Requests a second, of each caller: so many at once as in a second, then as they come back."""

    def __init__(self, requests_per_s: int) -> None:
        self._per_s: Final = requests_per_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Requests left and when that was counted (s), the caller heard of last at the end."""

    def wait_s(self, caller: str, now_s: float) -> float:
        """Take a request of this caller: 0, or the time until there is one again, and then none is taken."""
        left, then_s = self._left.pop(caller, (float(self._per_s), now_s))
        left = min(float(self._per_s), left + (now_s - then_s) * self._per_s)
        may = left >= 1
        self._left[caller] = (left - 1 if may else left, now_s)
        if len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if may else (1 - left) / self._per_s
