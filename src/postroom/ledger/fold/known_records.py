"""What this version knows of records. A type, code or flag beyond that was written by a newer one, and nobody
may pass over it: what it says of messages would be lost (FORMAT.md, "Versions").
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from postroom.ledger.errors import UnknownRecord
from postroom.ledger.format.expand import ExpandError, parse_groups
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag, RecordType, TransitionFlag
from postroom.ledger.storage.events_image import EventsImage
from postroom.model.codes import DelayCause, Event, HolderKind, IdType, Outcome, State

LAST_CODE: Final[Mapping[str, int]] = {
    "type": max(RecordType),
    "from_state": max(State),
    "to_state": max(State),
    "holder_kind": max(HolderKind),
    "event": max(Event),
    "outcome": max(Outcome),
    "message_id_type": max(IdType),
    "correlation_id_type": max(IdType),
}
"""The highest value that each coded field may have; those of a record are dense."""

_CAUSES: Final = sum(DelayCause)
ARRIVAL_BITS: Final[Mapping[str, int]] = {"causes": _CAUSES, "flags": sum(ArrivalFlag)}
TRANSITION_BITS: Final[Mapping[str, int]] = {"causes": _CAUSES, "flags": sum(TransitionFlag)}
GROUP_BITS: Final = TRANSITION_BITS

_GROUP_TYPES: Final = (RecordType.GROUP_EVENT, RecordType.DECISION)
_EVERY_BIT: Final = 0xFFFF
_PIECE_RECORDS: Final = 1 << 14
"""Inspected at together, so that each is fetched from memory once."""


class Unknown(NamedTuple):
    """The first record of a piece with something unknown in one of its fields."""

    position: int
    field: str
    value: int

    @property
    def what(self) -> str:
        name = "record type" if self.field == "type" else self.field
        return f"{name} {self.value}"


def require_known(image: EventsImage) -> None:
    """Raises ``UnknownRecord`` for the first record, the definitions at the front included, that says
    something that this version doesn't know."""
    found = min([*_unknowns(image.arrivals, ARRIVAL_BITS), *unknown_transitions(image)], default=None)
    if found is not None:
        raise UnknownRecord(found.position, found.what)


def unknowns(image: EventsImage) -> dict[str, Unknown]:
    """By field, the first record with something unknown in it."""
    found: dict[str, Unknown] = {}
    for each in (*_unknowns(image.arrivals, ARRIVAL_BITS), *unknown_transitions(image)):
        found.setdefault(each.field, each)
    return found


def unknown_transitions(image: EventsImage) -> Iterator[Unknown]:
    """What is unknown in transitions, and in the groups of their details."""
    yield from _unknowns(image.transitions, TRANSITION_BITS)
    grouped = image.transitions[np.isin(image.transitions["type"], _GROUP_TYPES)]
    if not len(grouped):
        return
    try:
        groups = parse_groups(grouped, np.frombuffer(image.names, np.uint8))
    except ExpandError:
        return  # whoever spells it out tells more
    for each in _unknowns(groups.groups, GROUP_BITS):
        ranges = np.flatnonzero(groups.group == each.position)
        owner = int(groups.record[ranges[0]]) if len(ranges) else 0
        yield each._replace(position=int(grouped["position"][owner]))


def unknown_definition(transitions: Array) -> Unknown | None:
    """The first of a run of transitions with something unknown in it."""
    return next(_unknowns(transitions, TRANSITION_BITS), None)


def _unknowns(records: Array, bits: Mapping[str, int]) -> Iterator[Unknown]:
    names = records.dtype.names or ()
    codes = {name: last for name, last in LAST_CODE.items() if name in names}
    for start in range(0, len(records), _PIECE_RECORDS):
        piece = records[start : start + _PIECE_RECORDS]
        for name, last in codes.items():
            if piece[name].max() > last:
                yield _unknown(piece, start, name, piece[name] > last, _EVERY_BIT)
        for name, known in bits.items():
            unknown = ~known & _EVERY_BIT
            if int(np.bitwise_or.reduce(piece[name])) & unknown:
                wrong = (piece[name].astype(np.uint16) & unknown) != 0
                yield _unknown(piece, start, name, wrong, unknown)


def _unknown(piece: Array, start: int, name: str, wrong: Array, shown: int) -> Unknown:
    at = int(np.argmax(wrong))
    position = int(piece["position"][at]) if "position" in (piece.dtype.names or ()) else start + at
    return Unknown(position, name, int(piece[name][at]) & shown)
