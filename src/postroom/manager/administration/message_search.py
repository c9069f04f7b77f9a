"""Which messages of a queue are meant by message management: by selector and state, message id or serial.

A search goes through the queue a piece a turn: what is available in the order of delivery, then what is
delayed and then what is held, in the order of arrival. Each message is judged as it is when the search comes
by; what comes to stand before it meanwhile is not seen. Bodies are read only for a selector that asks for
more than header fields, in batches, and not kept.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final, final

import numpy as np
from mypy_extensions import i64

from postroom.manager.administration.message_states import states_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import SelectorRefused
from postroom.manager.kernel.outgoing_sections import fields_of
from postroom.manager.message_store.filter import StoreFilter, need_ids, serials_by_id, stored_body
from postroom.manager.message_store.pending_requests import ReadsNeeded, StoreRequest, TurnOver
from postroom.manager.queues.entry_lookup import (
    find,
    find_busy,
    held_among,
    held_entries,
    locations,
    locations_among,
)
from postroom.manager.queues.queue import PRIORITIES, Queue
from postroom.model import numbers as n
from postroom.model.selector import Selector, SelectorInvalid, parse

NO_SERIAL: Final = 0


@final
class Wanted:
    """Which messages are meant; all that is said must hold."""

    def __init__(self, states: i64, selector: str = "") -> None:
        """``states``: any of these (`message_states`). Raises SelectorRefused."""
        self.states: i64 = states
        self.selector: Selector | None = parsed(selector) if selector.strip() else None
        self.message_id = b""
        self.message_id_type: i64 = 0
        """IdType; 0: any message id."""
        self.serial: i64 = NO_SERIAL


def parsed(text: str) -> Selector:
    """Raises SelectorRefused."""
    try:
        return parse(text)
    except SelectorInvalid as error:
        raise SelectorRefused(str(error)) from None


@final
class Search:
    """One way through a queue."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.over = False
        self.found: list[Entry] = []
        """What is meant, since the caller took it last. Of what is packed: objects that nobody knows."""
        self._batch: list[Entry] = []
        """To be judged, in order."""
        self._priority: i64 = PRIORITIES - 1
        self._place: i64 = -1
        self._ordinal: i64 = 0
        self._delayed_serial: i64 = 0
        self._at_end = False
        """What is held is being gone through, or the one that is named has been found."""
        self._holding: Iterator[Entry] = iter(())
        """What is held, as it was when its turn came."""
        self._left: i64 = 0
        """So many more may be looked at in this turn."""

    def go_on(self, core: Core, request: StoreRequest) -> None:
        """Go on to the end of the queue. Raises TurnOver and ReadsNeeded, having kept its place."""
        self._left = core.options.max_searched_per_turn
        while not self.over:
            self._judge(core, request)
            if self._left <= 0:
                raise TurnOver
            self._batch = self._next(core, request)
            self.over = not self._batch

    def _judge(self, core: Core, request: StoreRequest) -> None:
        """Judge the batch, as far as bodies are there."""
        wanted = self.wanted
        selector = wanted.selector
        missing: list[Entry] = []
        for entry in self._batch:
            if entry.state == n.DELETED or states_of(core, entry) & wanted.states == 0:
                continue
            body = stored_body(request, entry) if selector is not None and selector.needs_sections else b""
            if body is None:
                missing.append(entry)
            elif not missing and (selector is None or selector.matches(fields_of(entry, body))):
                self.found.append(entry)
        if missing:
            first = self._batch.index(missing[0])
            self._batch = self._batch[first:]
            raise ReadsNeeded(missing, [], False)
        for entry in self._batch:
            request.bodies.pop(int(entry.serial), None)
        self._left -= len(self._batch)
        self._batch = []

    def _next(self, core: Core, request: StoreRequest) -> list[Entry]:
        """The next to be judged; none at the end."""
        wanted, queue = self.wanted, request.queue
        if wanted.serial != NO_SERIAL or wanted.message_id_type != 0:
            return self._named(core, request)
        limit = core.options.fetch_entries
        batch = self._available(queue, limit)
        if not batch:
            batch = queue.delayed.behind(self._delayed_serial, core.options.max_searched_per_turn)
            if batch:
                self._delayed_serial = batch[-1].serial
        return batch or self._next_held(queue, limit)

    def _named(self, core: Core, request: StoreRequest) -> list[Entry]:
        if self._at_end:
            return []
        wanted = self.wanted
        if wanted.serial != NO_SERIAL:
            serials = [int(wanted.serial)]
        else:
            filter = StoreFilter()
            filter.message_id, filter.message_id_type = wanted.message_id, wanted.message_id_type
            serials = serials_by_id(core, request, filter).tolist()
            all_ids = need_ids(request.queue, request, serials)
            serials = [
                serial
                for serial, ids in zip(serials, all_ids, strict=True)
                if (ids.message_id, ids.message_id_type) == (wanted.message_id, wanted.message_id_type)
            ]
        self._at_end = True
        found: list[Entry] = []
        for serial in serials:
            location = find(request.queue, serial)
            entry = location.entry if location is not None else find_busy(request.queue, serial)
            if entry is not None:
                found.append(entry)
        return found

    def _available(self, queue: Queue, limit: i64) -> list[Entry]:
        while self._priority >= 0:
            waiting = locations(queue, self._priority, self._place, self._ordinal)
            batch = [location.entry for location in islice(waiting, limit)]
            if batch:
                self._place, self._ordinal = batch[-1].place, batch[-1].ordinal
                return batch
            self._priority -= 1
            self._place, self._ordinal = -1, 0
        return []

    def _next_held(self, queue: Queue, limit: i64) -> list[Entry]:
        if not self._at_end:
            self._at_end = True
            objects = sorted(held(queue), key=_by_serial)
            self._holding = merge(objects, held_entries(queue), key=_by_serial)
        return list(islice(self._holding, limit))


def located(queue: Queue, serials: set[int]) -> dict[int, Entry]:
    """Those of these that are on the queue, in any state and at any place: one way through it."""
    wanted = np.array(sorted(serials), np.uint64)
    found: dict[int, Entry] = {}
    for priority in range(PRIORITIES):
        for location in locations_among(queue, priority, wanted):
            found[int(location.entry.serial)] = location.entry
    for entry in held(queue):
        if int(entry.serial) in serials:
            found[int(entry.serial)] = entry
    if queue.packed_holders:
        found.update(held_among(queue, serials))
    if len(queue.delayed) > 0:
        for serial in serials.intersection(queue.delayed.serials()):
            for entry in queue.delayed.behind(serial - 1, 1):
                found[serial] = entry
    return found


def held(queue: Queue) -> Iterator[Entry]:
    """Everything on the queue that somebody holds, Spark subscriptions apart."""
    yield from queue.held
    for consumer in queue.attached.consumers:
        yield from consumer.held


def _by_serial(entry: Entry) -> int:
    return int(entry.serial)
