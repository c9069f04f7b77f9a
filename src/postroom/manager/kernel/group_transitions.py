"""Where many entries change their state at once: one record tells of all of them.

A *decision* is a transaction's, a branch's or a channel batch's: the record names the entries in groups, and
`decide` or `hand_over` then moves each of them, without a record of its own. A *group event* tells of what is
packed, and moves nothing but the counters: what has no object is in no state but its place. Where there are
objects, too, they follow.

Target and outcome of each come from the table, as in `transitions`, which says what belongs together.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from mypy_extensions import i64

from postroom.ledger.format.block import Group, encode_groups
from postroom.ledger.format.records import GROUP, RecordType
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.statistics import slot_of
from postroom.manager.kernel.transition_table import ASSIGNED, ending, fixed, losing, outcome_of, target
from postroom.model import numbers as n
from postroom.model.packed import CHUNK_ENTRIES

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

_GROUP_EVENT: Final = int(RecordType.GROUP_EVENT)
_DECISION: Final = int(RecordType.DECISION)

_AVAILABLE_SLOT: Final[i64] = slot_of(n.AVAILABLE, n.NO_HOLDER, 0)
ASSIGNED_SLOT: Final[i64] = slot_of(ASSIGNED, n.SPARK_SUBSCRIPTION, 0)
"""Where it is counted what a Spark subscription holds."""

fixed(ASSIGNED, n.SPARK_SUBSCRIPTION, n.EVENT_RELEASE)  # `release_assigned` changes no counts


# Decisions.


def groups_by(
    entries: list[Entry], state: i64, holder_kind: i64, event: i64, after: i64 = n.NO_HOLDER, causes: i64 = 0
) -> list[Group]:
    """What a decision says of ``entries``, all of them in ``state`` under a ``holder_kind``, that ``event``
    moves: one group for each queue. Then an ``after`` holds them, or nobody does, and they have these
    ``causes`` to wait. Raises IllegalTransition."""
    if not entries:
        return []
    to = target(state, holder_kind, event, causes, after)
    outcome = outcome_of(state, holder_kind, event)
    return groups_of(entries, int(state), int(to), int(outcome), int(causes))


def decision(core: Core, holder: i64, holder_kind: i64, event: i64, groups: list[Group]) -> i64:
    """Write it; returns its position. Each of the entries is the caller's to move."""
    return core.ledger.record(_DECISION, 0, 0, holder, holder_kind, event, encode_groups(groups))


def decide(entry: Entry, event: i64, causes: i64) -> None:
    """A decision has told of ``event``, by which nobody holds ``entry`` any more. Raises
    IllegalTransition."""
    state, kind = entry.state, entry.holder_kind
    to = target(state, kind, event, causes, n.NO_HOLDER)
    before = slot_of(state, kind, entry.causes)
    statistics = entry.queue.statistics
    if to == n.DELETED:
        statistics.end(before, outcome_of(state, kind, event), entry.body_len)
    else:
        statistics.move(before, slot_of(to, n.NO_HOLDER, causes), entry.body_len)
    _free(entry, to, causes)


def hand_over(entry: Entry, event: i64, holder_kind: i64) -> None:
    """A decision has told of ``event``, by which its holder has become another kind. Raises
    IllegalTransition."""
    state, kind = entry.state, entry.holder_kind
    to = target(state, kind, event, 0, holder_kind)
    before = slot_of(state, kind, 0)
    entry.queue.statistics.move(before, slot_of(to, holder_kind, 0), entry.body_len)
    entry.state = to
    entry.holder_kind = holder_kind


def _free(entry: Entry, to: i64, causes: i64) -> None:
    entry.state = to
    entry.causes = causes
    entry.holder_kind = n.NO_HOLDER
    entry.holder = 0
    entry.owner = None


# Group events.


def end_available(core: Core, queue: "Destination", event: i64, serials: Any, size: int) -> None:
    """What is available, and packed, ends by ``event``; its bodies have ``size`` bytes together."""
    _end_many(core, queue, n.AVAILABLE, n.NO_HOLDER, 0, event, serials, size)


def consume_assigned(core: Core, queue: "Destination", holder: i64, serials: Any, size: int) -> None:
    """A Spark subscription confirms what it holds, packed."""
    _end_many(core, queue, ASSIGNED, n.SPARK_SUBSCRIPTION, holder, n.EVENT_CONFIRM, serials, size)


def _end_many(
    core: Core,
    queue: "Destination",
    state: i64,
    holder_kind: i64,
    holder: i64,
    event: i64,
    serials: Any,
    size: int,
) -> None:
    outcome = ending(int(state), int(holder_kind), int(event))
    detail = group_of_many(int(queue.id), int(state), n.DELETED, outcome, serials)
    core.ledger.record(_GROUP_EVENT, 0, queue.id, holder, holder_kind, event, detail)
    queue.statistics.end_many(slot_of(state, holder_kind, 0), outcome, len(serials), size)


def end_with_many(entry: Entry) -> None:
    """An object of what a group event has ended."""
    _free(entry, n.DELETED, 0)


def lose_many(core: Core, queue: "Destination", state: int, serials: Any) -> None:
    """Entries that were in ``state`` before the start are gone, since their messages were not stored."""
    outcome = losing(state)
    queue.statistics.lost(slot_of(state, n.NO_HOLDER, 0), outcome, len(serials))
    for at in range(0, len(serials), CHUNK_ENTRIES):
        part = serials[at : at + CHUNK_ENTRIES]
        detail = group_of_many(int(queue.id), state, n.DELETED, outcome, part)
        core.ledger.record(_GROUP_EVENT, 0, queue.id, 0, n.NO_HOLDER, n.EVENT_RESTART, detail)
        core.ledger.boundary()


def assign_object(entry: Entry, holder: i64, owner: object) -> None:
    """An available object goes to a Spark subscription, whose next record will say so."""
    entry.queue.statistics.move(_AVAILABLE_SLOT, ASSIGNED_SLOT, entry.body_len)
    entry.state = ASSIGNED
    entry.holder_kind = n.SPARK_SUBSCRIPTION
    entry.holder = holder
    entry.owner = owner


def assign_packed(queue: "Destination", count: i64, size: i64) -> None:
    """What is available, and packed, does the same."""
    queue.statistics.move_many(_AVAILABLE_SLOT, ASSIGNED_SLOT, count, size)


def assigned_group(queue: "Destination", serials: Any) -> bytes:
    """The group that says so of these serials."""
    return group_of_many(int(queue.id), n.AVAILABLE, int(ASSIGNED), n.OUTCOME_NONE, serials)


def record_assigned(core: Core, queue: "Destination", holder: i64, group: bytes) -> i64:
    """Write the record that says so; returns its position."""
    kind = n.SPARK_SUBSCRIPTION
    return core.ledger.record(_GROUP_EVENT, 0, queue.id, holder, kind, n.EVENT_ACQUIRE, group)


def release_assigned(core: Core, queue: "Destination", holder: i64, entries: list[Entry], size: i64) -> None:
    """A Spark subscription gives these objects back, of ``size`` bytes together: one record tells of them
    all."""
    kind, event = n.SPARK_SUBSCRIPTION, n.EVENT_RELEASE
    causes: i64 = n.PAUSED if queue.switches.insertion_paused else 0
    to = target(ASSIGNED, kind, event, causes, n.NO_HOLDER)
    serials = [int(entry.serial) for entry in entries]
    group = Group(int(queue.id), int(ASSIGNED), int(to), n.OUTCOME_NONE, int(causes), 0, 0, runs(serials))
    core.ledger.record(_GROUP_EVENT, 0, queue.id, holder, kind, event, encode_groups([group]))
    after = slot_of(to, n.NO_HOLDER, causes)
    queue.statistics.move_many(ASSIGNED_SLOT, after, len(entries), size)
    for entry in entries:
        entry.due_us = 0
        _free(entry, to, causes)


# Serials as ranges, for records that tell of many entries at once.


def runs(serials: list[int]) -> list[tuple[int, int]]:
    """Serials as exact ranges (first, last), ascending: every integer in a range is one of them."""
    found: list[tuple[int, int]] = []
    first = last = 0
    for serial in sorted(serials):
        if first and serial == last + 1:
            last = serial
            continue
        if first:
            found.append((first, last))
        first = last = serial
    if first:
        found.append((first, last))
    return found


def group_of_many(queue: int, from_state: int, to_state: int, outcome: int, serials: Any) -> bytes:
    """One encoded group (`records.GROUP` and its ranges) for a numpy array of serials."""
    ordered = np.sort(serials.astype("<u8"))
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    firsts = ordered[np.concatenate(([0], breaks + 1))]
    lasts = ordered[np.concatenate((breaks, [len(ordered) - 1]))]
    head = GROUP.struct.pack(queue, len(firsts), from_state, to_state, outcome, 0, 0, 0, 0)
    return bytes(head + np.column_stack((firsts, lasts)).tobytes())


def groups_of(
    entries: "list[Entry]", from_state: int, to_state: int, outcome: int, causes: int = 0
) -> list[Group]:
    """One group for each queue, queues and serials in order."""
    by_queue: dict[int, list[int]] = {}
    for entry in entries:
        by_queue.setdefault(int(entry.queue.id), []).append(int(entry.serial))
    return [
        Group(queue, from_state, to_state, outcome, causes, 0, 0, runs(by_queue[queue]))
        for queue in sorted(by_queue)
    ]
