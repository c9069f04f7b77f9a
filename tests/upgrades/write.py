"""``python -m tests.upgrades.write`` makes this version's fixtures, in the place of any that it had.

A released version's fixtures are never written again: they are what that version has left on people's disks.
"""

import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Final
from unittest import mock

import msgspec

from postroom import __version__
from postroom.client.transactions.decision_log import DecisionLog
from postroom.client.transactions.decision_records import BranchName, Decision, HeuristicOutcome
from postroom.model.xa import XaCode
from postroom.server.configuration.config_file import load_config
from postroom.spark.ledger_source.positions import to_json
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers, settled_options
from tests.spark.local_pipeline import EAGER, options, piped, slices, take
from tests.upgrades.coverage import covered, wanted
from tests.upgrades.fixtures import (
    CHECKPOINT,
    CONFIG,
    DECISIONS,
    ENDING,
    FORMATS,
    LEDGERS,
    PRESENT,
    TABLES,
    note,
    pack,
    tables_folder,
)
from tests.upgrades.full_config import as_toml, full_tree
from tests.upgrades.lives import ledgers
from tests.upgrades.summary import summary_of

SEED: Final = 1
PIPED: Final = ("held", "kept", "settings")
"""Of these ledgers there are tables."""
METADATA: Final = '{"id":"0195f2a0-0000-7000-8000-000000000001"}'
OFFSET_HEAD: Final = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n'


def main() -> int:
    shutil.rmtree(PRESENT, ignore_errors=True)
    random = Random(SEED)
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(os, "urandom", random.randbytes),
        mock.patch.object(secrets, "token_bytes", random.randbytes),
    ):
        _write(Path(name))
    size = sum(path.stat().st_size for path in PRESENT.rglob("*") if path.is_file())
    print(f"fixtures of version {__version__}: {size // 1024} KiB in {PRESENT}")
    return 0


def _write(work: Path) -> None:
    (work / LEDGERS).mkdir()
    made = ledgers(work / LEDGERS)
    missing = wanted() - covered(made)
    if missing:
        raise SystemExit(
            "no ledger has " + ", ".join(sorted(missing)) + ": add it to tests/upgrades/lives.py"
        )
    for table_format in FORMATS:
        _tables(work, table_format)
    for folder in made:
        pack(folder, PRESENT / LEDGERS / (folder.name + ENDING))
        note(PRESENT / LEDGERS / f"{folder.name}.json", summary_of(folder))
    _config()
    _decisions(work / DECISIONS)


def _tables(work: Path, table_format: str) -> None:
    """Tables that have read half of their ledgers, with what the runs of a pipeline note beside them; and
    where a stream stands that has read as much."""
    sources = [work / LEDGERS / name for name in PIPED]
    with tables_folder(table_format, work / table_format) as root:
        settled_options(Root(str(root)), options(root, *sources, format=table_format))
        pipeline = piped(root, *sources, format=table_format, upkeep=EAGER)
        note_ledgers(Root(str(root)), pipeline.seen)
        todo = slices(pipeline, 40)
        for at in range(len(todo) // 2):
            take(pipeline, todo[at : at + 1])
        pack(root, PRESENT / TABLES / (table_format + ENDING))
    if table_format == FORMATS[0]:
        _checkpoint(work / CHECKPOINT, to_json(pipeline.tables["events"].state.positions))


def _checkpoint(folder: Path, offset: str) -> None:
    """What Spark keeps of a stream whose first batch is done."""
    texts = {
        "metadata": METADATA,
        "offsets/0": f"{OFFSET_HEAD}{offset}",
        "commits/0": "v1\n{}",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    pack(folder, PRESENT / (CHECKPOINT + ENDING))


def _config() -> None:
    (PRESENT / CONFIG).write_text("\n".join(as_toml(full_tree())) + "\n")
    note(PRESENT / f"{CONFIG}.json", msgspec.to_builtins(load_config(PRESENT / CONFIG)))


def _decisions(folder: Path) -> None:
    """Of three transactions: one has ended, one hasn't, one has a heuristic outcome."""
    log = DecisionLog(folder)
    decided = []
    for number in range(3):
        names = (BranchName(b"\0", "broker"), BranchName(b"\1", "postgresql:1/orders"))
        decided.append(Decision(log.owner_id + bytes([number]), names, 1_700_000_000_000 + number))
        log.commit(decided[-1]).result()
    for branch in decided[0].branches:
        log.heard(decided[0].gtrid, branch.bqual)
    last = decided[2]
    log.note_heuristic(
        HeuristicOutcome(last.gtrid, last.branches[0], "commit", XaCode.XA_HEURRB, last.decided_ms)
    ).result()
    log.close()
    pack(folder, PRESENT / (DECISIONS + ENDING))
    note(PRESENT / f"{DECISIONS}.json", content_of(folder))


def content_of(folder: Path) -> dict[str, object]:
    """What the next that opens a log finds in it."""
    log = DecisionLog(folder)
    fields: dict[str, object] = {
        "owner": log.owner_id.hex(),
        "decisions": [decision.record() for decision in log.decisions()],
        "heuristics": [outcome.record() for outcome in log.heuristics()],
    }
    log.close()
    return fields


if __name__ == "__main__":
    sys.exit(main())
