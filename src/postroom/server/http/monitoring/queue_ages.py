"""How long the oldest message of each queue has waited, for Prometheus.

Which one it is only the broker's own thread may look up; since when it is there its arrival says, in the
ledger. Both are done when somebody asks.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric

from postroom.ledger.errors import LedgerError
from postroom.ledger.reading.body_reader import BodyReader
from postroom.server.connection.broker import Broker

MAX_QUEUES: Final = 1000
"""The first by name; of others it isn't said."""
ANSWER_S: Final = 1.0
"""So long the broker's thread may take; what it hasn't said then is left out."""
_US: Final = 1e6

Command = Callable[[Callable[[int], object]], None]
Heads = tuple[int, dict[str, int]]
"""The time, and of each queue where messages wait the serial of the one that came first."""


class QueueAges:
    """Of the queues of one broker."""

    def __init__(self, broker: Broker, folder: Path, command: Command) -> None:
        """``command`` has the broker's own thread do something with the time."""
        self._broker: Final = broker
        self._command: Final = command
        self._reader: Final = BodyReader(folder)
        self._came_us: dict[int, int] = {}
        """When those came that were looked up, by serial."""
        self._lock: Final = threading.Lock()

    def family(self) -> Metric:
        """The ages, as far as they can be had now."""
        ages = GaugeMetricFamily(
            "postroom_queue_oldest_seconds",
            "How long the message that came first has been there, of those that could be received now",
            labels=["queue"],
        )
        answer: Future[Heads] = Future()
        self._command(lambda now_us: answer.set_result((now_us, self._heads())))
        try:
            now_us, heads = answer.result(ANSWER_S)
            with self._lock:
                self._read_times(set(heads.values()))
                came_us = self._came_us.copy()
        except (TimeoutError, LedgerError, OSError):
            return ages
        for name, serial in heads.items():
            if serial in came_us:
                ages.add_metric([name], max(0, now_us - came_us[serial]) / _US)
        return ages

    def _heads(self) -> dict[str, int]:
        """In the broker's thread."""
        queues = self._broker.manager.queues
        found: dict[str, int] = {}
        for name in sorted(queues)[:MAX_QUEUES]:
            serials = [serial for band in queues[name].bands if (serial := int(band.first_serial()))]
            if serials:
                found[name] = min(serials)
        return found

    def _read_times(self, serials: set[int]) -> None:
        """When they came; what is known of others is forgotten."""
        known = {serial: self._came_us[serial] for serial in serials if serial in self._came_us}
        missing = sorted(serials - known.keys())
        if missing:
            through = self._broker.durable_through
            found = self._reader.read(np.array(missing, np.uint64), through, with_bodies=False, check=False)
            for serial, is_there, arrival in zip(missing, found.found, found.arrivals, strict=True):
                if is_there:
                    known[serial] = int(arrival["time_us"])
        self._came_us = known
