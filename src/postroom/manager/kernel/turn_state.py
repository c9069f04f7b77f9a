"""What the queue manager carries from command to command and from turn to turn: what this turn may still do,
where it goes on, what is durable, what is in memory, and which reports are to be made."""

import heapq
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.quota_pool import Pool, PoolWaiter

NO_POSITION: Final = 0x7FFF_FFFF_FFFF_FFFF
"""`Durability.through` of a queue manager whose host doesn't say: everything counts as durable."""


@final
class TurnBudget:
    """What this turn may still do before the next one goes on."""

    def __init__(self, options: ManagerOptions) -> None:
        self._options = options
        self.max_unsettled: i64 = options.max_unsettled_per_consumer
        """What a consumer may have without having settled it, in every turn."""
        self.begin()

    def begin(self) -> None:
        """A new turn."""
        options = self._options
        self.deliveries: i64 = options.max_deliveries_per_turn
        self.delivery_bytes: i64 = options.max_delivery_bytes_per_turn
        self.judgements: i64 = options.max_judgements_per_turn
        """Evaluations of selectors."""
        self.assignments: i64 = options.max_assigned_per_turn
        """Entries for Spark subscriptions."""


@final
class Agenda:
    """The destinations that are looked at again: before this command ends, in the next turn, at a time."""

    def __init__(self) -> None:
        self.woken: list[Destination] = []
        """Queues on which this command has made something available; dispatched before it ends."""
        self.changed_pools: list[Pool] = []
        """Pools that got room while sends wait for it; looked at before this command ends."""
        self.free_sends: list[PoolWaiter] = []
        """Sends that waited only for one before them, and may go in before this command ends."""
        self.due = False
        """Something else follows from this command: see `TurnPart.finish`."""
        self.watched: list[Destination] = []
        """Queues with news for who waits there."""
        self.pending: list[Destination] = []
        """Queues on which a bounded turn left work."""
        self._alarms: list[tuple[int, int]] = []
        """Heap of (when, id); only what `Schedule.alarm_us` says, too, holds."""

    def set_alarm(self, queue: Destination, when_us: i64) -> None:
        """Have ``queue`` looked at not later than ``when_us``; 0: it needn't be."""
        schedule = queue.schedule
        if when_us != 0 and (schedule.alarm_us == 0 or when_us < schedule.alarm_us):
            schedule.alarm_us = when_us
            heapq.heappush(self._alarms, (when_us, queue.id))

    def next_alarm_us(self, destinations: dict[int, Destination]) -> i64:
        """When the first of ``destinations`` wants to be looked at; 0 never."""
        while self._alarms:
            when_us, queue_id = self._alarms[0]
            queue = destinations.get(queue_id)
            if queue is not None and queue.schedule.alarm_us == when_us:
                return when_us
            heapq.heappop(self._alarms)
        return 0

    def pop_alarms(self, destinations: dict[int, Destination], now_us: i64) -> list[Destination]:
        """Those of ``destinations`` whose time has come, their alarms off."""
        due: list[Destination] = []
        while True:
            when_us = self.next_alarm_us(destinations)
            if when_us == 0 or when_us > now_us:
                return due
            queue = destinations[heapq.heappop(self._alarms)[1]]
            queue.schedule.alarm_us = 0
            due.append(queue)

    def notify_watchers(self, queue: Destination) -> None:
        """Something may have become available on ``queue``: who waits there hears of it at the end."""
        if not queue.schedule.news:
            queue.schedule.news = True
            self.watched.append(queue)

    def leave_for_next_turn(self, queue: Destination) -> None:
        """This turn has done enough; ``queue`` goes on in the next."""
        if not queue.schedule.pending:
            queue.schedule.pending = True
            self.pending.append(queue)


@final
class Durability:
    """Which records are on disk, and which nobody waits for."""

    def __init__(self, ledger: BlockBuilder) -> None:
        self._ledger = ledger
        self.through: i64 = NO_POSITION
        """Everything up to this position is on disk."""
        self.waiting: list[Destination] = []
        """Queues that go on when more is."""
        self._provisional_from: i64 = 0
        self._provisional_to: i64 = 0
        """The last records, from one position up to before the other, if they are `provisional`."""

    def provisional(self, first: i64) -> None:
        """The records from ``first`` on mean nothing before another one decides: nobody waits for them."""
        if self._provisional_to != first:
            self._provisional_from = first
        self._provisional_to = self._ledger.next_position

    def wanted_through(self) -> i64:
        """The last position that somebody may wait for: what is behind it is provisional."""
        next_position: i64 = self._ledger.next_position
        return (self._provisional_from if self._provisional_to == next_position else next_position) - 1

    def want_all(self) -> None:
        """Somebody waits for provisional records, too: to read what they hold."""
        self._provisional_to = 0


@final
class SharedBody:
    """A body that the entries of many subscriptions share: in memory once, read once. It is known while an
    entry has it in memory."""

    def __init__(self, body: bytes | None) -> None:
        self.body = body
        self.users: i64 = 0
        """Entries that have it."""


@final
class MemoryUse:
    """Counted everywhere in the queue manager."""

    def __init__(self, options: ManagerOptions) -> None:
        self.live_entries: i64 = 0
        """Entries that are objects."""
        self.cached_bytes: i64 = 0
        """Stored bodies in memory."""
        self.volatile_bytes: i64 = 0
        """Non-persistent messages in memory, overhead included."""
        self.shared_bodies: dict[int, SharedBody] = {}
        """In memory, of entries that share theirs; by the serial of the arrival."""
        self.shared_reads: dict[int, list[Entry]] = {}
        """Shared bodies that are being read, and who waits for each beside the one that has asked."""

        # Options that the hot path reads, as plain numbers.
        self.live_head: i64 = options.live_head
        self.delayed_head: i64 = options.delayed_head
        self.min_live_head: i64 = options.min_live_head
        self.max_live_entries: i64 = options.max_live_entries
        self.body_cache_bytes: i64 = options.body_cache_bytes
        self.max_volatile_bytes: i64 = options.max_volatile_bytes


REPORTER: Final = "(reports)"
"""The producer of reports, as the ledger names it."""


@final
class Cause:
    """Something that a report may be asked about: ``feedback`` (MQFB_) has happened to ``entry``, a copy."""

    __slots__ = ("entry", "feedback")

    def __init__(self, entry: Entry, feedback: i64) -> None:
        self.entry = entry
        self.feedback: i64 = feedback


@final
class Reports:
    """The list of one queue manager."""

    def __init__(self) -> None:
        self.due: list[Cause] = []
        """What this command has brought about; its reports are made before it ends."""
        self.waiting: deque[Cause] = deque()
        """Those whose messages have to be read first."""
        self.reading: list[Cause] = []
        """Those of them that are being read."""
        self.crowded = False
        """So many wait that some were not made; until none waits."""
        self.made: i64 = 0
        """Reports since the start, those that went to a dead-letter queue included."""
        self.unmade: i64 = 0
        """Reports that could be put nowhere, or whose message could not be read, since the start."""
        self.producer: Producer | None = None

    def note(self, entry: Entry, feedback: i64) -> None:
        """``feedback`` has happened to ``entry``, which asks for reports of some kind."""
        self.due.append(Cause(entry.copy_for(self), feedback))
