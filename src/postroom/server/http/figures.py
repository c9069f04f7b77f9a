"""Figures of the broker and of its queues, for streams: read in the thread that serves HTTP, at most once a
second for all of them, from counters that the broker keeps anyway."""

import heapq
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from postroom.manager.queues.queue import Queue, Subscription
from postroom.model.entity_types import BROKER_TYPE, QUEUE_TYPE, SUBSCRIPTION_TYPE
from postroom.model.rights import Rights
from postroom.server.clock import wall_us
from postroom.server.connection.broker import Broker
from postroom.server.management.authorization import may_see
from postroom.server.management.entities.brokers import Brokers
from postroom.server.management.request import Attributes, Requester

PERIOD_S: Final = 1.0
BIGGEST: Final = 10
"""Queues that are told of where none is named."""
MAX_SCANNED_QUEUES: Final = 10_000
"""Of more, which are the biggest is found out anew every `RARE_S` only; sums go by the same."""
RARE_S: Final = 10.0
MAX_SHARE: Final = 1 / 200
"""Of the time, at most, that sums over all queues take: with very many the broker is shown less often."""
_COUNTED: Final = ("messages_received", "messages_consumed")
_RATES: Final = {name: f"{name}_per_s" for name in _COUNTED}


@dataclass(frozen=True)
class _Scan:
    """What one look at all queues has found."""

    at_s: float
    sums: dict[str, int]
    biggest: list[str]


class Figures:
    """Those of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker: Final = broker
        self._brokers: Final = Brokers(broker)
        self._broker_row: Attributes = {}
        self._row_until_s = 0.0
        """Of the monotonic clock: so long it is shown."""
        self._scan: _Scan | None = None
        self._rates: dict[str, float] = {}
        """Of all queues together, between the last two scans."""
        self._seen: Final[dict[str, tuple[float, dict[str, int], dict[str, float]]]] = {}
        """Of queues that are told of: when, the counters then, and the rates until then."""

    def shown(self, requester: Requester, names: list[str]) -> dict[str, Any]:
        """What the requester may see now: of these queues, or of the biggest."""
        rights = self._broker.access.rights_of(requester)
        scan = self._scanned()
        chosen = names or scan.biggest
        found: dict[str, Any] = {"time_us": wall_us(), "broker": None, "alarms": None}
        if may_see(rights, BROKER_TYPE, ""):
            found["broker"] = self._shown_broker(scan)
            found["alarms"] = [alarm.as_map() for alarm in self._broker.alarms.all()]
        found["queues"] = [shown for name in chosen if (shown := self._shown_queue(rights, name))]
        return found

    def listed(self, requester: Requester) -> list[Attributes]:
        """Every queue that the requester may see, with what lists of queues show. The broker's own thread has
        no part in it, however many they are."""
        return [_row(queue) for queue in self._visible(requester) if not isinstance(queue, Subscription)]

    def dead_letter_queues(self, requester: Requester) -> list[Attributes]:
        """The same of those that others name for dead letters or for what expires: `users`, how many queues
        and subscriptions that the requester may see do; `is_default`, whether the queue manager does."""
        visible = self._visible(requester)
        default = self._broker.manager.core.options.dead_letter_queue
        users: Counter[str] = Counter()
        for queue in visible:
            users.update({queue.definition.dead_letter_queue, queue.definition.expiry_queue})
        return [
            {**_row(queue), "users": users[queue.name], "is_default": queue.name == default}
            for queue in visible
            if not isinstance(queue, Subscription) and (queue.name in users or queue.name == default)
        ]

    def broker_row(self, requester: Requester) -> Attributes | None:
        """The broker as the management node shows it, one row for everybody who follows it, about a second
        old at most; None: the requester may not see it."""
        if not may_see(self._broker.access.rights_of(requester), BROKER_TYPE, ""):
            return None
        begun_s = time.monotonic()
        if begun_s >= self._row_until_s:
            self._broker_row = self._brokers.shown(self._broker)
            ended_s = time.monotonic()
            self._row_until_s = ended_s + max(PERIOD_S / 2, (ended_s - begun_s) / MAX_SHARE)
        return self._broker_row

    def names(self, requester: Requester, most: int) -> list[str]:
        """Of the queues that the requester may see, in order; the first ``most``."""
        visible = self._visible(requester)
        return heapq.nsmallest(most, [each.name for each in visible if not isinstance(each, Subscription)])

    def _visible(self, requester: Requester) -> list[Queue]:
        """Queues and subscriptions that the requester may see."""
        rights = self._broker.access.rights_of(requester)
        sees_all = {kind: may_see(rights, kind, "") for kind in (QUEUE_TYPE, SUBSCRIPTION_TYPE)}

        def is_visible(queue: Queue) -> bool:
            kind = SUBSCRIPTION_TYPE if isinstance(queue, Subscription) else QUEUE_TYPE
            return sees_all[kind] or may_see(rights, kind, queue.name)

        return [queue for queue in self._broker.manager.queues.copy().values() if is_visible(queue)]

    def _shown_broker(self, scan: _Scan) -> dict[str, Any]:
        broker = self._broker
        return {
            "queues": len(broker.manager.queues),
            "connections": len(broker.connections),
            "durable_through": broker.durable_through,
            "space_low": broker.space_low,
            **scan.sums,
            **self._rates,
        }

    def _shown_queue(self, rights: Rights, name: str) -> dict[str, Any] | None:
        queue = self._broker.manager.queues.get(name)
        if queue is None or not may_see(rights, QUEUE_TYPE, name):
            return None
        counters = queue.statistics.snapshot()
        names = ("messages_current", "messages_pending", "bytes_current", "bytes_pending", "consumers")
        shown = {each: counters[each] for each in (*names, *_COUNTED)}
        return {"name": name, **shown, **self._queue_rates(name, counters)}

    def _queue_rates(self, name: str, counters: dict[str, int]) -> dict[str, float]:
        now_s = time.monotonic()
        seen = self._seen.pop(name, None)
        if seen is not None and now_s - seen[0] < PERIOD_S / 2:  # another stream has just asked
            self._seen[name] = seen
            return seen[2]
        known = {each: counters[each] for each in _COUNTED}
        rates = (
            _rates_of(known, seen[1], now_s - seen[0])
            if seen is not None
            else dict.fromkeys(_RATES.values(), 0.0)
        )
        self._seen[name] = (now_s, known, rates)
        while len(self._seen) > MAX_SCANNED_QUEUES:
            del self._seen[next(iter(self._seen))]
        return rates

    def _scanned(self) -> _Scan:
        now_s, before = time.monotonic(), self._scan
        queues = self._broker.manager.queues
        period_s = PERIOD_S / 2 if len(queues) <= MAX_SCANNED_QUEUES else RARE_S
        if before is not None and now_s - before.at_s < period_s:
            return before
        self._scan = scan = _Scan(now_s, *_inspected(list(queues.copy().values())))
        if before is not None:
            self._rates = _rates_of(scan.sums, before.sums, now_s - before.at_s)
        else:
            self._rates = dict.fromkeys(_RATES.values(), 0.0)
        return scan


def _row(queue: Queue) -> Attributes:
    """What lists of queues show; of a snapshot's counters these few, since lists go through all queues."""
    counters, switches = queue.statistics, queue.switches
    current, current_bytes = counters.current, counters.current_bytes
    return {
        "name": queue.name,
        "production_paused": switches.production_paused,
        "insertion_paused": switches.insertion_paused,
        "consumption_paused": switches.consumption_paused,
        "messages_current": current,
        "messages_pending": counters.depth - current,
        "bytes_current": current_bytes,
        "bytes_pending": counters.depth_bytes - current_bytes,
        "consumers": counters.consumers,
        "blocked_sends": counters.blocked,
        "messages_received": counters.received,
        "messages_consumed": counters.consumed,
    }


def _rates_of(now: dict[str, int], before: dict[str, int], seconds: float) -> dict[str, float]:
    """Counters that have begun again in between count from 0."""
    return {rate: round(max(0, now[name] - before[name]) / seconds, 1) for name, rate in _RATES.items()}


def _inspected(queues: list[Queue]) -> tuple[dict[str, int], list[str]]:
    sums = dict.fromkeys(
        ("messages_current", "messages_pending", "bytes_current", "bytes_pending", *_COUNTED), 0
    )
    held: list[tuple[int, str]] = []
    for queue in queues:
        counters = queue.statistics.snapshot()
        for name in sums:
            sums[name] += counters[name]
        held.append((counters["messages_current"] + counters["messages_pending"], queue.name))
    return sums, [name for _, name in heapq.nlargest(BIGGEST, held)]
