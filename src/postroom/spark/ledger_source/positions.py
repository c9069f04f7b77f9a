"""Where a reader stands in each ledger, and whether that place still lies in the history it was taken from.

A position alone says too little: a folder restored from a backup runs on from an earlier position and gives
the same numbers to other records. So what is held outside (a stream's checkpoint, a table's state) also has
the number and the random id of the epoch that wrote the record, and is held against the ledger's epochs
before anything is read from there. Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeGuard

from postroom.ledger.errors import LedgerError

if TYPE_CHECKING:
    from postroom.spark.places.place import Epoch, Snapshot


@dataclass(frozen=True, slots=True)
class Position:
    """The last position read of one ledger, with the epoch that wrote it; position 0: nothing read yet."""

    epoch: int
    epoch_id: str
    """32 hexadecimal digits."""
    position: int


Positions = Mapping[str, Position]
"""By ledger id (a dashed UUID)."""

BEGINNING: Final = Position(0, "", 0)
"""Nothing was read yet, whatever the ledger."""


class PositionsInvalid(LedgerError):
    """A text is no JSON of positions."""


class LedgerDiverged(LedgerError):
    """A ledger's history is not the one that was read: what was read there is not in it.

    Nothing is skipped: whoever reads on decides what is to become of what was read.
    """

    def __init__(self, ledger_id: str, position: Position, why: str) -> None:
        super().__init__(
            f"ledger {ledger_id}: position {position.position} of epoch {position.epoch} was read, but {why};"
            " it was restored from an older copy, or this is an older copy of it. Read the ledger that"
            " was read before; or, where this one is to count from now on, begin anew:"
            " with a new checkpoint, and in new tables"
        )
        self.ledger_id: Final = ledger_id
        self.position: Final = position


def to_json(positions: Positions) -> str:
    """``{"<ledger>": {"epoch": 3, "epoch_id": "…", "position": 812}}``, one text for equal positions."""
    return json.dumps(to_dict(positions))


def to_dict(positions: Positions) -> dict[str, dict[str, int | str]]:
    """The same before it is text: the offset of a stream."""
    return {
        ledger_id: {"epoch": p.epoch, "epoch_id": p.epoch_id, "position": p.position}
        for ledger_id, p in sorted(positions.items())
    }


def from_json(text: str) -> dict[str, Position]:
    """The inverse of `to_json`. Raises ``PositionsInvalid``."""
    try:
        decoded = json.loads(text)
    except ValueError as error:
        raise PositionsInvalid(f"positions are not JSON ({error}): {text!r}") from error
    if not isinstance(decoded, dict):
        raise PositionsInvalid(f"positions are a JSON object by ledger id, not {text!r}")
    return from_dict(decoded)


def from_dict(value: Mapping[str, object]) -> dict[str, Position]:
    """The inverse of `to_dict`. Raises ``PositionsInvalid``."""
    return {str(ledger_id): _position(ledger_id, one) for ledger_id, one in value.items()}


def _position(ledger_id: str, value: object) -> Position:
    if isinstance(value, dict):
        epoch, epoch_id, position = value.get("epoch"), value.get("epoch_id"), value.get("position")
        if _is_count(epoch) and _is_count(position) and isinstance(epoch_id, str):
            return Position(epoch, epoch_id, position)
    raise PositionsInvalid(
        f'ledger {ledger_id}: a position is {{"epoch": number, "epoch_id": text, "position": number}}, not '
        f"{value!r}"
    )


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value >= 0


def position_in(snapshot: "Snapshot", position: int) -> Position:
    """A position of a snapshot with the epoch that wrote it; of what lies before the history, with its first
    epoch."""
    if position == 0:
        return BEGINNING
    epochs = snapshot.epochs
    within = [epoch for epoch in epochs if epoch.first_position <= position]
    epoch = within[-1] if within else epochs[0]
    return Position(epoch.number, epoch.epoch_id.hex(), position)


def check(snapshot: "Snapshot", position: Position) -> None:
    """Whether what was read up to `position` is the history that `snapshot` shows.

    Raises ``LedgerDiverged``: past the seal of its epoch, another epoch of that number, no such epoch. An
    epoch that retention has dropped can't be held against anything; whether that lost records is for the
    caller to see (`look.first_position`).
    """
    if position.position == 0 or position.epoch < snapshot.epochs[0].number:
        return
    why = _why_not(snapshot, position)
    if why:
        raise LedgerDiverged(snapshot.ledger_id, position, why)


def _why_not(snapshot: "Snapshot", position: Position) -> str:
    epochs = snapshot.epochs
    own = _numbered(epochs, position.epoch)
    if own is None:
        return f"there is no such epoch, the newest is {epochs[-1].number}"
    if own.epoch_id.hex() != position.epoch_id:
        return f"epoch {own.number} has the id {own.epoch_id.hex()}, not {position.epoch_id}"
    if own is not epochs[-1] and position.position > own.last_position:
        return f"epoch {own.number} was sealed at position {own.last_position}"
    if position.position > snapshot.durable_through:
        return f"the ledger ends at position {snapshot.durable_through}"
    if own is not epochs[0] and position.position < own.first_position - 1:
        return f"epoch {own.number} begins at position {own.first_position}"
    return ""


def _numbered(epochs: Iterable["Epoch"], number: int) -> "Epoch | None":
    return next((epoch for epoch in epochs if epoch.number == number), None)
