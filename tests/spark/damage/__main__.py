"""The matrix of damages of tables: every damage of every table, in every format; each is told or excused.

``python -m tests.spark.damage`` plays all of it and prints a line a cell, ``python -m tests.spark.damage
delta events`` one format, or one table of it.
"""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.spark.damage.damages import Damage, damages_of
from tests.spark.damage.specimens import make_specimen
from tests.spark.damage.verdicts import Verdict, rows_of_all, verdict_of

FORMATS = ("delta", "parquet", "iceberg")


class Excuse(StrEnum):
    """Why a damage may pass."""

    SAME = "readers see the same rows in all tables, up to the same cut"
    NAMES = "it tells only where ledgers were read, and what people call them"
    FLOOR = "an older note vouches for less, and that is there"
    EARLIER = (
        "all of an earlier time: the verdict is about that, and names its cut; only the ledger knows more"
    )


def excuse_of(damage: Damage) -> Excuse | None:
    """Why a verdict may be clean in spite of the damage, beside that nothing is other than it was."""
    if damage.what == "ledgers.json":
        return Excuse.NAMES
    if damage.what == "reached.json" and damage.how == "older":
        return Excuse.FLOOR
    return Excuse.EARLIER if damage.what == "the root" else None


@dataclass(frozen=True)
class Cell:
    """One damage, and what came of it."""

    format: str
    damage: Damage
    verdict: Verdict
    excuse: Excuse | None
    wrong: str

    def __str__(self) -> str:
        came = self.wrong or (self.excuse if self.verdict.word == "clean" else self.verdict.reason)
        return f"{'WRONG ' if self.wrong else ''}{self.format} | {self.damage} | {self.verdict.word} | {came}"


class Matrix:
    """The specimen of a format, and what readers see of it undamaged."""

    def __init__(self, folder: Path, table_format: str) -> None:
        folder.mkdir(exist_ok=True)
        self.format = table_format
        self.specimen = make_specimen(folder, table_format)
        self._pristine = folder / "pristine"  # tables of Iceberg know the path at which they were made
        shutil.copytree(self.specimen.root, self._pristine)
        self.damages = list(damages_of(self.specimen))
        self.control = verdict_of(self.specimen.root)
        self._rows = rows_of_all(self.specimen.root)
        assert self.control.word == "clean", self.control

    def cells(self, damages: Iterable[Damage]) -> Iterator[Cell]:
        """Play these."""
        for damage in damages:
            damage.do(self.specimen.root)
            try:
                yield self._cell(damage, verdict_of(self.specimen.root))
            finally:
                shutil.rmtree(self.specimen.root)
                shutil.copytree(self._pristine, self.specimen.root)

    def _cell(self, damage: Damage, verdict: Verdict) -> Cell:
        if verdict.word != "clean":
            return Cell(self.format, damage, verdict, None, "")
        excuse = excuse_of(damage)
        if excuse is Excuse.EARLIER:
            wrong = "" if verdict.cuts != self.control.cuts else "the cut is not the earlier one"
            return Cell(self.format, damage, verdict, excuse, wrong)
        is_same = self._places(verdict) == self._places(self.control)
        is_same = is_same and rows_of_all(self.specimen.root) == self._rows
        return Cell(self.format, damage, verdict, excuse or Excuse.SAME, "" if is_same else "taken for whole")

    @staticmethod
    def _places(verdict: Verdict) -> list[tuple[str, int, int, int | None]]:
        return [(cut.ledger_id, cut.first_position, cut.position, cut.opened_from) for cut in verdict.cuts]


def main(formats: Iterable[str], tables: Iterable[str]) -> int:
    """Play the matrix; 1 if a cell is wrong."""
    counts: Counter[str] = Counter()
    for table_format in formats:
        with tempfile.TemporaryDirectory() as folder:
            matrix = Matrix(Path(folder), table_format)
            wanted = [one for one in matrix.damages if not tables or one.what in tables]
            for cell in matrix.cells(wanted):
                passed = f"passes: {cell.excuse}" if cell.verdict.word == "clean" else cell.verdict.word
                counts["wrong" if cell.wrong else passed] += 1
                print(cell, flush=True)
    for what, count in counts.most_common():
        print(f"{count:5}  {what}")
    print(f"{counts.total() - counts['wrong']} passed, {counts['wrong']} failed")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    named = sys.argv[1:]
    sys.exit(
        main(
            [one for one in FORMATS if one in named] or FORMATS, [one for one in named if one not in FORMATS]
        )
    )
