"""Everything that the queue manager counts as it goes along, counted once more from what is really there, and
from the events in the ledger."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from postroom.ledger.format.records import SET_BASE, ArrivalFlag
from postroom.ledger.reading.body_reader import BodyReader, BodyState
from postroom.ledger.reading.reader import LedgerReader
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.destinations.totals import totals
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES, Entry
from postroom.manager.kernel.memory import stored
from postroom.manager.kernel.statistics import SLOT_NAMES, Beginning, slot_of
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.manager.queues.entry_lookup import held_entries, locations
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.sink import sinks_of
from postroom.model.codes import Outcome, State
from postroom.model.tables import relation
from tests.manager.over_ledger import LedgerWorld

BALANCED = ("messages_ended", "bytes_ended", *Beginning().shown())
"""Counters of a queue that are checked by their sum, in `check_counters`."""
TAPPED = int(ArrivalFlag.TAPPED)


def entries_of(queue: Destination) -> Iterator[Entry]:
    """Every entry of a queue, wherever it is kept; a topic has none."""
    if not isinstance(queue, Queue):
        return
    for band in queue.bands:
        assert not (band.vacant and band.count()), "nothing is ever put where all queues look"
        for location in locations(queue, band.priority, -1, 0):
            yield location.entry
    yield from queue.delayed.entries()
    for consumer in queue.attached.consumers:
        yield from consumer.held
    yield from queue.held
    yield from held_entries(queue)


def check_counters(core: Core) -> None:
    """Statistics, quotas and memory agree with a recount."""
    charged: Counter[object] = Counter()
    objects = volatile_bytes = 0
    for queue in destinations_of(core).queues.values():
        entries = list(entries_of(queue))
        _check_queue(queue, entries)
        charged[queue.quota.pool] += len(entries)
        objects += sum(entry.counted for entry in entries)
        objects += sum(len(chunk.objects) for spark in queue.packed_holders for chunk in spark.held.seen())
        volatile_bytes += sum(_volatile_bytes(entry) for entry in entries if not entry.flags & 32)
        volatile_bytes += sum(ENTRY_OVERHEAD_BYTES for entry in entries if _is_shared(entry))
    held = core.counters.held_by_all
    _check_balance(totals(core), int(held.depth), int(held.depth_bytes))
    for queue in destinations_of(core).queues.values():
        if queue.quota.pool is not None:
            assert queue.quota.pool.messages == charged[queue.quota.pool]
    assert core.memory.live_entries == objects
    assert core.memory.volatile_bytes >= volatile_bytes, "volatile messages cost more than is counted"
    branches = sinks_of(core).branches.values()
    puts = [entry for branch in branches for entry in branch.transaction.puts]
    assert (sinks_of(core).messages, sinks_of(core).bytes) == (
        len(puts),
        sum(entry.body_len for entry in puts),
    )
    nodes = core.destinations.values()
    assert destinations_of(core).tapped == sum(node.taps > 0 for node in nodes)
    for node in nodes:
        assert node.taps == (node.name in destinations_of(core).leased_names) + sum(
            spark.consumer is not None for spark in (node.packed_holders if isinstance(node, Queue) else ())
        )
    assert blocked_sends_of(core).count == sum(
        queue.statistics.blocked for queue in core.destinations.values()
    )


def _is_shared(entry: Entry) -> bool:
    return not stored(entry) and bool(entry.flags & 32)


def _volatile_bytes(entry: Entry) -> int:
    return 0 if stored(entry) else ENTRY_OVERHEAD_BYTES + int(entry.body_len)


def _check_queue(queue: Queue, entries: list[Entry]) -> None:
    serials = [int(entry.serial) for entry in entries]
    assert len(set(serials)) == len(serials), "an entry is in two places"
    sizes: dict[str, tuple[int, int]] = dict.fromkeys(SLOT_NAMES[1:], (0, 0))
    for entry in entries:
        slot = SLOT_NAMES[slot_of(entry.state, entry.holder_kind, entry.causes)]
        count, size = sizes[slot]
        sizes[slot] = (count + 1, size + int(entry.body_len))
    statistics = queue.statistics
    assert statistics.slots() == sizes, queue.name
    assert statistics.depth == len(entries)
    assert statistics.depth_bytes == sum(size for _, size in sizes.values())
    _check_balance(statistics.snapshot(), len(entries), sum(size for _, size in sizes.values()))
    assert statistics.consumers == len(queue.attached.consumers)
    exclusions = [e for e in entries if e.state == State.AVAILABLE and e.excluded is not None]
    assert queue.selectors.exclusions == len(exclusions)


def _check_balance(counters: dict[str, int], depth: int, depth_bytes: int) -> None:
    """What was there when counting began, and what has come since, is here or has ended."""
    outcomes = [f"messages_{outcome.name.lower()}" for outcome in Outcome if outcome > 0]
    assert counters["messages_ended"] == sum(counters[name] for name in outcomes)
    for unit, now in (("messages", depth), ("bytes", depth_bytes)):
        then = counters[f"{unit}_current_then"] + counters[f"{unit}_pending_then"]
        assert then + counters[f"{unit}_received"] - counters[f"{unit}_ended"] == now, unit


def check_history(world: LedgerWorld) -> None:
    """Every event of the ledger is legal, and begins where the one before it of that entry ended.

    What lives at the end is what the queue manager has, and the ledger's totals are the sums of the events.
    """
    legal = {tuple(map(int, row)) for row in relation()}
    states: dict[tuple[int, int], int] = {}
    arrived: Counter[int] = Counter()
    ended: Counter[tuple[int, int]] = Counter()
    for _, serial, queue, from_state, holder_kind, event, to_state, outcome in world.rows():
        if queue == 0 or queue >= SET_BASE:
            continue  # published to nobody
        assert (from_state, holder_kind, event, to_state, outcome) in legal
        before = states.get((serial, queue), State.START)
        assert before == from_state, (serial, queue)
        arrived[queue] += before == State.START
        ended[queue, outcome] += to_state == State.DELETED
        states[serial, queue] = to_state
    live = Counter(queue for (_, queue), state in states.items() if state != State.DELETED)
    queues = world.manager.core.destinations
    for id, node in queues.items():
        assert live[id] == (node.statistics.depth if isinstance(node, Queue) else 0), node.name
    assert set(+live) <= set(queues)
    _check_totals(world, arrived, ended)
    _check_tapped(world)


def _check_tapped(world: LedgerWorld) -> None:
    """What is stored for readers only is not persistent, and they can read it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        world.write_out(folder)
        chunks = LedgerReader(folder).chunks()
        arrivals = [chunk.arrivals[(chunk.arrivals["flags"] & TAPPED) != 0] for _, _, chunk in chunks]
        tapped = np.concatenate(arrivals)
        assert not (tapped["flags"] & int(ArrivalFlag.DURABLE)).any()
        found = BodyReader(folder).read(tapped["position"])
    assert not found.errors
    assert set(found.states.tolist()) <= {BodyState.PRESENT, BodyState.DROPPED}


def _check_totals(world: LedgerWorld, arrived: Counter[int], ended: Counter[tuple[int, int]]) -> None:
    """Totals by queue, those of deleted queues together as queue 0."""
    queues = world.manager.core.destinations
    fields = {row.queue: row for row in world.recover().totals}
    for id in {*queues, 0}:
        ours = {id} if id else set(arrived) - set(queues)
        row = fields.get(id)
        assert sum(arrived[one] for one in ours) == (row.arrived if row is not None else 0), id
        for outcome in Outcome:
            if outcome != Outcome.NONE:
                total = sum(ended[one, outcome] for one in ours)
                assert total == (row.ended[outcome] if row is not None else 0), (id, outcome)
