"""The life cycle flattened for the two who read it at speed: the queue manager (a byte per cell) and the
audit."""

from typing import Final

from postroom.model.cells import NOTED, READY, Move, Refusal, Still
from postroom.model.codes import HOLDER_KIND_COUNT, STATE_COUNT, Event, HolderKind, Outcome, State
from postroom.model.lifecycle import CELLS, cell_index, rows

REFUSED: Final = 0xFE
"""In TO_STATE: the cell is a refusal."""
STILL: Final = 0xFD
"""In TO_STATE: kept or noted, nothing is recorded."""
IMPOSSIBLE: Final = 0xFF
"""In TO_STATE: unreachable."""
TO_READY: Final = 8  # cells.READY
"""In TO_STATE: AVAILABLE if no delay cause is left, else DELAYED."""


def _target(index: int) -> int:
    cell = CELLS[index]
    if isinstance(cell, Move):
        return cell.to
    if isinstance(cell, Refusal):
        return REFUSED
    return IMPOSSIBLE if cell.name == "unreachable" else STILL


def _flat(what: str) -> bytes:
    """One property of every move, 0 for other cells."""
    return bytes(int(getattr(cell, what)) if isinstance(cell, Move) else 0 for cell in CELLS)


TO_STATE: Final = bytes(_target(index) for index in range(len(CELLS)))
OUTCOME: Final = _flat("outcome")
DELIVERY: Final = _flat("delivery")
FAILURE: Final = _flat("failure")
LOST_AT_RESTART: Final = bytes(1 if isinstance(cell, (Move, Still)) and cell.lost else 0 for cell in CELLS)
"""1 where a restart ends an entry whose message was not stored."""


def _holders_after() -> bytes:
    found = bytearray(len(CELLS) * HOLDER_KIND_COUNT)
    for index, cell in enumerate(CELLS):
        if isinstance(cell, Move):
            for after in cell.holders or (HolderKind.NONE,):
                found[index * HOLDER_KIND_COUNT + after] = 1
    return bytes(found)


def _pairs() -> bytes:
    found = bytearray(STATE_COUNT * HOLDER_KIND_COUNT)
    for state, holder in rows():
        found[state * HOLDER_KIND_COUNT + holder] = 1
    return bytes(found)


MAY_HOLD: Final = _holders_after()
"""By cell and kind of holder: 1 where the move leaves the entry to such a one (NONE: to nobody)."""
EXISTS: Final = _pairs()
"""By state and kind of holder: 1 where an entry can be in that state under such a one."""

Legal = tuple[State, HolderKind, Event, State, Outcome]


def _targets(move: Move) -> tuple[State, ...]:
    return (State.AVAILABLE, State.DELAYED) if move.to == READY else (State(move.to),)


def relation() -> frozenset[Legal]:
    """Every legal event as the ledger records it: (from_state, holder_kind, event, to_state, outcome).

    ``holder_kind`` is that of the record: who holds the entry after the event or, if nobody does, who held
    it before. A noted event may be recorded with to_state = from_state. Two kinds of group record name no
    holder: LOST at a restart, and PURGE. For an arrival, from_state is START.
    """
    legal: set[Legal] = set()
    for state, holder in rows():
        for event in Event:
            cell = CELLS[cell_index(state, holder, event)]
            if isinstance(cell, Move):
                for to in _targets(cell):
                    for after in cell.holders or (holder,):
                        legal.add((state, after, event, to, cell.outcome))
            if cell is NOTED:
                legal.add((state, holder, event, state, Outcome.NONE))
            if isinstance(cell, (Move, Still)) and cell.lost:
                legal.add((state, HolderKind.NONE, event, State.DELETED, Outcome.LOST))
    return frozenset(legal)


def noted(state: State, holder: HolderKind, event: Event) -> bool:
    """Whether the event is remembered until the holder gives the entry back."""
    return CELLS[cell_index(state, holder, event)] is NOTED
