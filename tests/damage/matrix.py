"""The matrix: every damage of every kind of file, for every reader; each cell is refused or excused."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.damage.damages import Damage, damages_of
from tests.damage.excuses import Excuse, excuse_of
from tests.damage.readers import READERS, Given, Refused, given_by, is_as_good
from tests.damage.specimens import Specimen, make_specimen

BESIDE = ("http",)
"""Readers that see the damage happen under a running broker: they refuse, perhaps in words of their own."""


@dataclass(frozen=True)
class Cell:
    """One damage, one reader, and what came of it."""

    damage: Damage
    reader: str
    excuse: Excuse | None
    refusal: str
    """In the reader's words; empty: it took the ledger."""
    wrong: str
    """What is wrong with that; empty: nothing."""

    def __str__(self) -> str:
        came = self.refusal or f"passes: {self.excuse}"
        return f"{'WRONG ' if self.wrong else ''}{self.damage} | {self.reader} | {self.wrong or came}"


class Matrix:
    """A specimen, and what every reader gives of it undamaged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.specimen: Specimen = make_specimen(root)
        self.damages = list(damages_of(self.specimen))
        self._controls: dict[str, Given] = {}

    def cells(self, damages: Iterable[Damage], readers: Iterable[str] = tuple(READERS)) -> Iterator[Cell]:
        """Play these; where one reader refuses, all do, in the same words."""
        for damage in damages:
            words: dict[str, str] = {}
            for reader in readers:
                cell = self.cell(damage, reader)
                if cell.refusal and reader not in BESIDE and cell.excuse is None:
                    words[reader] = cell.refusal
                yield cell
            verify_alone = [refusal for reader, refusal in words.items() if reader != "verify --bodies"]
            if len(set(verify_alone)) > 1:
                yield Cell(
                    damage, ", ".join(words), None, "", f"different words: {sorted(set(verify_alone))}"
                )

    def cell(self, damage: Damage, reader: str) -> Cell:
        """Play one."""
        excuse = excuse_of(damage, reader)
        control = self._control(reader)
        try:
            given = self._given(reader, damage)
        except Refused as refused:
            wrong = f"refused though it is excused: {refused}" if excuse else ""
            return Cell(damage, reader, excuse, str(refused), wrong)
        if excuse is None:
            return Cell(damage, reader, None, "", "taken for whole")
        wrong = "" if is_as_good(reader, excuse, given, control) else f"gives something else: {excuse}"
        return Cell(damage, reader, excuse, "", wrong)

    def _control(self, reader: str) -> Given:
        if reader not in self._controls:
            self._controls[reader] = self._given(reader, None)
        return self._controls[reader]

    def _given(self, reader: str, damage: Damage | None) -> Given:
        with tempfile.TemporaryDirectory(dir=self.root) as scratch:
            folder = Path(scratch) / "ledger"
            shutil.copytree(self.specimen.folder, folder)
            if damage is not None:
                damage.do(folder)
            return given_by(reader, folder, self.specimen)
