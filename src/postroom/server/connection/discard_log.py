"""The log's lines about messages that were discarded: none goes without one, and none floods the log.

The first of a queue is told at once, the others of the next minute together at its end.
"""

import logging
from collections.abc import Mapping
from typing import Final

from postroom.manager.kernel.effects import Discarded
from postroom.server.logs import log

INTERVAL_US: Final = 60_000_000
"""Between two lines about one queue."""
MAX_QUEUES: Final = 1000
"""Told apart; discards of more queues in one interval are told together."""
OTHERS: Final = "(others)"

_CURE: Final = "the ledger tells of each: postroom trace; name a dead_letter_queue to keep such messages"


class DiscardLog:
    """What was told of late, and what is to be told."""

    def __init__(self) -> None:
        self._logged: dict[str, Discarded] = {}
        """Queues that had a line in this interval, with what was discarded since then."""
        self._until_us = 0
        """The end of the interval; 0 there is none."""

    def note(self, discarded: Mapping[str, Discarded], now_us: int) -> None:
        """A turn has discarded these messages."""
        for each in discarded.values():
            queue = each.queue
            if queue not in self._logged and len(self._logged) >= MAX_QUEUES:
                queue = OTHERS
            waiting = self._logged.get(queue)
            if waiting is None:
                self._logged[queue] = Discarded(queue)
                _log(queue, int(each.count), each.reason)
            else:
                waiting.count += each.count
                waiting.reason = each.reason
        if self._until_us == 0 and self._logged:
            self._until_us = now_us + INTERVAL_US

    def on_time(self, now_us: int) -> None:
        """At the interval's end, what has not been told; what goes on begins another one."""
        if not 0 < self._until_us <= now_us:
            return
        going_on = self._log_waiting()
        self._logged = {queue: Discarded(queue) for queue in going_on}
        self._until_us = now_us + INTERVAL_US if going_on else 0

    def log_all(self) -> None:
        """The broker stops: what has not been told is told now."""
        self._log_waiting()
        self._logged = {}
        self._until_us = 0

    def _log_waiting(self) -> list[str]:
        """Tell what has not been told; of which queues that was."""
        waiting = [each for each in self._logged.values() if each.count]
        for each in waiting:
            _log(each.queue, int(each.count), each.reason)
        return [each.queue for each in waiting]

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._until_us


def _log(queue: str, count: int, reason: str) -> None:
    log(logging.WARNING, "messages-discarded", queue=queue, count=count, reason=reason, cure=_CURE)
