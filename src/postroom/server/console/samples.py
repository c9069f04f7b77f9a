"""Figures over time: a bounded ring of samples of each thing that is watched, or was a while ago.

A sample is taken in the name of whoever watches, so that nothing is known here that nobody may see; who comes
to see a ring has been let through by the page that shows it.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from postroom.server.http.errors import Refusal
from postroom.server.logs import LOGGER_NAME

MAX_SERIES: Final = 64
"""Things sampled at a time; one more drops the one that was watched longest ago."""
MAX_SAMPLES: Final = 900
"""Kept of each: half an hour."""
INTERVAL_S: Final = 2.0
LINGER_S: Final = 1800.0
"""So long after it was watched last a thing is still sampled: who comes back sees no gap."""

Reading = Callable[[], Awaitable[Mapping[str, float]]]
"""Reads the figures now. Raises `Refusal`."""


class Series:
    """The samples of one thing."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.watched_s = time.monotonic()
        self.times_ms: Final[deque[int]] = deque(maxlen=MAX_SAMPLES)
        self.values: Final[deque[Mapping[str, float]]] = deque(maxlen=MAX_SAMPLES)

    async def take(self) -> None:
        """One more sample, with the time."""
        figures = await self.reading()
        self.times_ms.append(time.time_ns() // 1_000_000)
        self.values.append(figures)

    def since(self, time_ms: int) -> dict[str, object]:
        """Later samples, column by column: times in ms since 1970, and each figure's values."""
        first = next((i for i, each in enumerate(self.times_ms) if each > time_ms), len(self.times_ms))
        values = list(self.values)[first:]
        names = list(values[-1]) if values else []
        return {
            "times": list(self.times_ms)[first:],
            "values": {name: [each.get(name, 0) for each in values] for name in names},
        }

    @property
    def last(self) -> Mapping[str, float]:
        return self.values[-1] if self.values else {}

    def rate(self, name: str) -> float | None:
        """Per second, of a counter between the last two samples; None: not known yet, or it began again."""
        if len(self.values) < 2:
            return None
        difference = self.values[-1].get(name, 0) - self.values[-2].get(name, 0)
        elapsed_ms = self.times_ms[-1] - self.times_ms[-2]
        return None if difference < 0 or elapsed_ms <= 0 else difference * 1000 / elapsed_ms


class Samples:
    """All series of one console; used in the loop that serves HTTP."""

    def __init__(self) -> None:
        self._series: Final[OrderedDict[str, Series]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    async def watch(self, key: str, reading: Reading) -> Series:
        """The series of that key, watched now, with a sample at least. Raises `Refusal` as ``reading``."""
        series = self._series.get(key)
        if series is None:
            series = Series(reading)
            await series.take()
            self._series[key] = series
            if len(self._series) > MAX_SERIES:
                self._series.popitem(last=False)
        series.reading, series.watched_s = reading, time.monotonic()
        self._series.move_to_end(key)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._sample())
        return series

    def find(self, key: str) -> Series | None:
        return self._series.get(key)

    async def _sample(self) -> None:
        while self._series:
            await asyncio.sleep(INTERVAL_S)
            oldest_s = time.monotonic() - LINGER_S
            for key, series in list(self._series.items()):
                if series.watched_s < oldest_s or not await self._taken(series):
                    self._series.pop(key, None)

    async def _taken(self, series: Series) -> bool:
        """Whether it could be; what has gone, or may not be seen any more, is sampled no more."""
        try:
            await series.take()
        except Refusal as refusal:
            return refusal.status >= 429  # too much at the moment
        except Exception as error:
            logging.getLogger(LOGGER_NAME).error("internal-error", exc_info=error)
            return False
        return True
