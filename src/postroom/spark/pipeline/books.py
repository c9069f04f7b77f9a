"""The tables as the driver knows them: how far each is, and the commits that take it on."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from postroom.spark.ledger_source.positions import BEGINNING, Position
from postroom.spark.pipeline.work import TableJob
from postroom.spark.store.formats import open_store
from postroom.spark.store.protocol import CHECKPOINT_COMMITS, OPEN, DataFile, TableState
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.row_sums import RowSum, added


class Book:
    """One table. Its state and open files are remembered: nobody else writes it (see `lock`)."""

    def __init__(self, store: TableStore) -> None:
        self.store: Final = store
        self.state = store.state()
        self.open_files: list[DataFile] = store.files(OPEN) if self.state.version >= 0 else []

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def definition(self) -> TableDefinition:
        return self.store.definition

    @property
    def open_rows(self) -> int:
        """Partial rows."""
        return sum(file.rows for file in self.open_files)

    def position(self, ledger_id: str) -> Position:
        """How far the table has a ledger."""
        return self.state.positions.get(ledger_id, BEGINNING)

    def follows(self, ledger_id: str, first: int) -> bool:
        """Whether a range that begins at `first` leaves nothing out."""
        opening = self.state.openings.get(ledger_id)
        begun = opening[0] - 1 if opening else 0
        return first <= max(self.position(ledger_id).position, begun) + 1

    def job(self) -> TableJob:
        """What a task must know."""
        positions = {ledger_id: at.position for ledger_id, at in self.state.positions.items()}
        return TableJob(self.store, positions, dict(self.state.openings))

    # --- commits

    def add(
        self,
        files: Sequence[DataFile],
        positions: Mapping[str, Position],
        rows_in: int,
        sums: Mapping[str, RowSum],
    ) -> bool:
        """New rows with the positions that they reach to, and their sums; False if the table has all of it
        already."""
        reached = {
            ledger_id: at
            for ledger_id, at in positions.items()
            if at.position > self.position(ledger_id).position
        }
        if not reached:
            return False
        positions = {**self.state.positions, **reached}
        state = replace(self.state, positions=positions, sums=added(self.state.sums, sums))
        self._commit(files, [], state, "add", rows_in, 0)
        return True

    def open_ledger(
        self, ledger_id: str, opening: tuple[int, int], files: Sequence[DataFile], sums: Mapping[str, RowSum]
    ) -> None:
        """Take in what a history that begins later tells of the entries that are older."""
        openings = {**self.state.openings, ledger_id: opening}
        state = replace(self.state, openings=openings, sums=added(self.state.sums, sums))
        self._commit(files, [], state, "open ledger", sum(file.rows for file in files), 0)

    def derive(
        self, files: Sequence[DataFile], source_version: int, positions: Mapping[str, Position]
    ) -> None:
        """Rows made from another table's rows, and that table's version and positions."""
        state = replace(self.state, source_version=source_version, positions=dict(positions))
        self._commit(files, [], state, "add", sum(file.rows for file in files), 0)

    def settle(self, add: Sequence[DataFile], remove: Sequence[DataFile]) -> None:
        """Put folded rows in the place of the partial ones that they were made from."""
        left = sum(file.rows for file in add if file.part == OPEN)
        state = replace(self.state, settled_rows=left)
        self._commit(add, remove, state, "settle", 0, sum(file.rows for file in add))

    def swap(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool = True,
    ) -> None:
        """Put other files in the place of those given, and another state; `is_new`: tables made of this one's
        rows take them as new."""
        copied = sum(file.rows for file in add)
        self._commit(add, remove, state, operation, 0, copied, is_new)

    def _commit(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        rows_in: int,
        rows_copied: int,
        is_new: bool = True,
    ) -> None:
        written = sum(file.rows for file in add)
        state = replace(
            state,
            schema_version=max(state.schema_version, self.definition.version),
            rows_in=state.rows_in + rows_in,
            rows_written=state.rows_written + written,
            rows_copied=state.rows_copied + rows_copied,
            updated_us=time.time_ns() // 1000,
        )
        version = self.store.commit(add, remove, state, operation, is_new)
        self.state = replace(state, version=version)
        gone = {file.path for file in remove}
        self.open_files = [file for file in self.open_files if file.path not in gone]
        self.open_files += [file for file in add if file.part == OPEN]

    def reload(self) -> None:
        """Read the state again: the store changed it by itself (compaction)."""
        self.state = self.store.state()
        self.open_files = self.store.files(OPEN)


def open_books(
    root: str, names: Iterable[str], format: str, checkpoint_commits: int = CHECKPOINT_COMMITS
) -> dict[str, Book]:
    """The tables by name, in order."""
    return {name: Book(open_store(root, name, format, checkpoint_commits)) for name in names}
