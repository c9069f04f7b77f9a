"""Ledgers to be damaged: with files of every kind, and what is true of them."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from postroom.ledger.format.file_names import Listing
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from tests.ledger.workload import START_US, Snapshot, Workload

OPTIONS = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=60_000)
EPOCHS = ((1200, True), (1200, True), (560, False))
"""Steps of each epoch, and whether its files are sealed and rewritten meanwhile."""


@dataclass(frozen=True)
class Specimen:
    """A ledger that was closed, as it was an epoch before, and one of the same make that is another's."""

    folder: Path
    older: Path
    other: Path
    snapshot: Snapshot
    listing: Listing


def make_specimen(root: Path) -> Specimen:
    """A ledger with dropped history, sealed and packed bodies, two checkpoints, and journals that are not
    sealed; the same for every seed."""
    snapshot = _lived(root / "ledger", Random(11), root / "older")
    _lived(root / "other", Random(12), root / "others-older")
    listing = Listing([path.name for path in (root / "ledger").iterdir()])
    assert len(listing.journal) > 1 and len(listing.events) > 2 and len(listing.bodies) > 1, vars(listing)
    assert listing.events[0] > 1 and listing.packed and len(listing.checkpoints) == 2, vars(listing)
    return Specimen(root / "ledger", root / "older", root / "other", snapshot, listing)


def _lived(folder: Path, random: Random, older: Path) -> Snapshot:
    """A life of some epochs; `older` is the folder before the last."""
    work, snapshot = None, Snapshot()
    for number, (steps, maintenance) in enumerate(EPOCHS, 1):
        if number == len(EPOCHS):
            shutil.copytree(folder, older)
        ledger = Ledger.open(folder, OPTIONS, START_US, maintenance="manual")
        if work is None:
            work = Workload(ledger.builder, random)
            work.define()
        else:
            work.adopt(snapshot, ledger.builder)
        _run(ledger, work, steps, maintenance)
        snapshot = work.snapshot()
        ledger.close()
    return snapshot


def _run(ledger: Ledger, work: Workload, steps: int, maintenance: bool) -> None:
    for step in range(steps):
        work.step()
        if step % 10 == 0:
            ledger.flush()
        while maintenance and step % 100 == 99 and ledger.maintenance_step():
            pass
    ledger.flush()
