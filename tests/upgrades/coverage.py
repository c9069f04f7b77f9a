"""What of the format is in a set of ledgers: record types, codes and flags, and where live entries are."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag, RecordType
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.recovery.recovery import inspect
from postroom.model.codes import Event, HolderKind, Outcome, State

ENDINGS: Final = (".journal", ".events", ".bodies", ".packed", ".checkpoint", "superblock")
SECTIONS: Final = ("chunks", "duplicates", "retained", "carried")
NEVER_WRITTEN: Final = frozenset({"event NONE", "event ASSIGN", "event RETURN_TO_SENDER", "event RESUME"})
"""No record has the first two; the last two need a connection to another queue manager or to a link."""


def wanted() -> set[str]:
    """All that a version's ledgers must have between them."""
    states = [state for state in State if state not in (State.START, State.DELETED)]
    names = {f"record {kind.name}" for kind in RecordType}
    names |= {f"event {event.name}" for event in Event}
    names |= {f"outcome {outcome.name}" for outcome in Outcome if outcome is not Outcome.RETURNED_TO_SENDER}
    names |= {f"flag {flag.name}" for flag in ArrivalFlag if flag}
    names |= {f"live {state.name}" for state in states}
    names |= {f"held by {kind.name}" for kind in HolderKind}
    names |= {f"file {ending}" for ending in ENDINGS} | {f"section {name}" for name in SECTIONS}
    return names - NEVER_WRITTEN


def covered(folders: Iterable[Path]) -> set[str]:
    """What these ledgers have of it."""
    found: set[str] = set()
    for folder in folders:
        found |= {
            f"file {ending}" for path in folder.iterdir() for ending in ENDINGS if path.name.endswith(ending)
        }
        found |= set(_of_records(LedgerReader(folder))) | set(_of_state(folder))
    return found


def _of_records(reader: LedgerReader) -> Iterable[str]:
    for _, _, chunk in reader.chunks(None, None):
        yield from (f"record {RecordType(kind).name}" for kind in _distinct(chunk.types))
        flags = int(np.bitwise_or.reduce(chunk.arrivals["flags"])) if len(chunk.arrivals) else 0
        yield from (f"flag {flag.name}" for flag in ArrivalFlag if flag and flag & flags)
    for rows in reader.rows():
        yield from (f"event {Event(code).name}" for code in _distinct(rows["event"]))
        yield from (f"outcome {Outcome(code).name}" for code in _distinct(rows["outcome"]))


def _of_state(folder: Path) -> Iterable[str]:
    with folder_of(folder) as disk:
        state = inspect(disk).state
    yield from (f"live {State(code).name}" for code in _distinct(state.explicit["state"]))
    yield from (f"held by {HolderKind(code).name}" for code in _distinct(state.explicit["holder_kind"]))
    yield from (f"section {name}" for name in SECTIONS if len(getattr(state, name)))


def _distinct(values: Array) -> list[int]:
    return [int(value) for value in np.unique(values)]
