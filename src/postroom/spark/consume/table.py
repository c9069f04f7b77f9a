"""The position that a Delta table has in its own transactions: rows and position in one commit.

For each ledger a table has two application transactions of Delta: ``<app>/<ledger id>`` has the position as
its version, ``<app>/<ledger id>/epoch`` says which run of the broker wrote it, so that a ledger that was
restored from a backup can't pass for the one that was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from postroom.spark.consume.errors import ConsumeError
from postroom.spark.ledger_source.positions import BEGINNING, LedgerDiverged, Position, check
from postroom.spark.places.place import Snapshot

_EPOCH: Final = "/epoch"
_MARK_BITS: Final = 63
"""Of an epoch's id: a transaction's version is a signed number of 64 bits."""
_ID_BITS: Final = 128


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a table says of one ledger: everything up to the position is in it."""

    position: int
    epoch_mark: int


def epoch_mark(epoch_id: str) -> int:
    """An epoch's id as the version of a transaction. 0 for the position before all."""
    return int(epoch_id, 16) >> (_ID_BITS - _MARK_BITS) if epoch_id else 0


def open_table(uri: str) -> DeltaTable | None:
    """The newest version of a table; None if there is none. Raises ``ConsumeError``."""
    try:
        return DeltaTable(uri)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise ConsumeError(f"table {uri} can't be read: {error}") from error


def recorded(table: DeltaTable | None, app: str, ledger_id: str) -> Recorded | None:
    """What the table says of a ledger; None if nothing."""
    if table is None:
        return None
    name = f"{app}/{ledger_id}"
    position, mark = table.transaction_version(name), table.transaction_version(name + _EPOCH)
    return None if position is None else Recorded(position, mark or 0)


def transactions(app: str, positions: Mapping[str, Position]) -> list[tuple[str, int]]:
    """The transactions of a commit that brings a table to the positions: (app id, version)."""
    found: list[tuple[str, int]] = []
    for ledger_id, position in sorted(positions.items()):
        name = f"{app}/{ledger_id}"
        found += [(name, position.position), (name + _EPOCH, epoch_mark(position.epoch_id))]
    return found


def recorded_in(snapshot: Snapshot, committed: Recorded) -> Position:
    """The position of a table as one of the ledger that is looked at. Raises ``LedgerDiverged``: no run of
    this ledger wrote it."""
    if committed.position == 0:
        return BEGINNING
    for epoch in snapshot.epochs:
        if epoch_mark(epoch.epoch_id.hex()) == committed.epoch_mark:
            found = Position(epoch.number, epoch.epoch_id.hex(), committed.position)
            check(snapshot, found)
            return found
    if committed.position < snapshot.first_position:  # retention has dropped that run's records
        return Position(0, "", committed.position)
    raise LedgerDiverged(
        snapshot.ledger_id,
        Position(0, "", committed.position),
        "no epoch of this ledger is the one that the table names",
    )
