"""Tables to be damaged: of several ledgers, settled and with partial rows, with an older copy of themselves
and others of the same make."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers, settled_options
from tests.ledger.dropped_history import with_dropped_history
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.corpus import clean
from tests.spark.local_pipeline import EAGER, catch_up, options, piped, slices, take
from tests.spark.report_ledgers import LAZY, london, paris

OTHER = UUID("0195f2a0-0000-7000-8000-0000000000d4")


@dataclass(frozen=True)
class Specimen:
    """The root of tables, as it was some batches before, and that of another pipeline."""

    root: Path
    older: Path
    other: Path
    format: str


def make_specimen(folder: Path, table_format: str) -> Specimen:
    """Four ledgers, one of which has dropped its history."""
    maker, sent = london(folder / "london")
    ledgers = [maker.finish(), paris(folder / "paris", sent).finish()]
    (folder / "dropped").mkdir()
    with_dropped_history(folder / "dropped")
    ledgers.append(folder / "dropped")
    root, older = folder / "tables", folder / "older"
    settled_options(Root(str(root)), options(root, *ledgers, format=table_format))
    pipeline = piped(root, *ledgers, format=table_format, upkeep=EAGER)
    note_ledgers(Root(str(root)), pipeline.seen)
    todo = slices(pipeline, 30)
    for at in range(len(todo) // 2):
        take(pipeline, todo[at : at + 1])
    shutil.copytree(root, older)
    catch_up(piped(root, *ledgers, format=table_format, upkeep=EAGER), records=30)
    rich = LedgerMaker(folder / "rich")
    clean(rich)
    pipeline = piped(root, *ledgers, rich.finish(), format=table_format, upkeep=LAZY)
    note_ledgers(Root(str(root)), pipeline.seen)
    catch_up(pipeline, records=30)
    return Specimen(root, older, _other(folder, table_format), table_format)


def _other(folder: Path, table_format: str) -> Path:
    """Tables of another ledger, with the same events as one of the specimen's."""
    maker = LedgerMaker(folder / "other-ledger", OTHER)
    clean(maker)
    root = folder / "other"
    ledger = maker.finish()
    settled_options(Root(str(root)), options(root, ledger, format=table_format))
    pipeline = piped(root, ledger, format=table_format, upkeep=LAZY)
    note_ledgers(Root(str(root)), pipeline.seen)
    catch_up(pipeline, records=30)
    return root
