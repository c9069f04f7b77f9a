"""Serials as ranges, for records that tell of many entries at once."""

from typing import TYPE_CHECKING, Any

import numpy as np

from postroom.ledger.format.block import Group
from postroom.ledger.format.records import GROUP

if TYPE_CHECKING:
    from postroom.manager.kernel.entry import Entry


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
