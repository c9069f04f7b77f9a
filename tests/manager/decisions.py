"""The records by which transactions are decided."""

import struct

from postroom.ledger.format.records import RecordType
from postroom.model.codes import Event
from tests.manager.world import World


def decisions(world: World) -> list[tuple[str, list[tuple[int, int, int, list[tuple[int, int]]]]]]:
    """(event, groups as (queue, from, to, ranges)) of each decision record."""
    found = []
    for row, detail in zip(world.transitions, world.details, strict=True):
        if row["type"] == RecordType.DECISION:
            found.append((Event(row["event"]).name, _groups(detail)))
    return found


def _groups(detail: bytes) -> list[tuple[int, int, int, list[tuple[int, int]]]]:
    at, groups = 0, []
    while at < len(detail):
        queue, count, from_state, to_state = struct.unpack_from("<IIBB", detail, at)
        at += 16
        ranges = [struct.unpack_from("<QQ", detail, at + 16 * i) for i in range(count)]
        at += 16 * count
        groups.append((queue, from_state, to_state, [(first, last) for first, last in ranges]))
    return groups
