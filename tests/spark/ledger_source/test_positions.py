"""Positions with their epoch: as text, and held against a ledger that may have another history."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.spark.ledger_source.positions import (
    BEGINNING,
    LedgerDiverged,
    Position,
    PositionsInvalid,
    check,
    from_json,
    position_in,
    to_json,
)
from postroom.spark.places.folder import FolderPlace
from tests.ledger.ledger_maker import LEDGER_ID, LedgerMaker
from tests.ledger.puts import NOW_US, put

LEDGER = str(LEDGER_ID)
OPTIONS = LedgerOptions(reserve_bytes=0)

some_positions = st.dictionaries(
    st.uuids().map(str),
    st.builds(
        Position, st.integers(0, 1 << 31), st.binary(min_size=16, max_size=16).map(bytes.hex), st.integers(0)
    ),
)


@given(some_positions)
def test_positions_come_back_from_their_text(positions: dict[str, Position]) -> None:
    assert from_json(to_json(positions)) == positions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"x"',
        '{"a": 5}',
        '{"a": {"epoch": 1, "epoch_id": 5, "position": 1}}',
        '{"a": {"epoch": 1, "epoch_id": "e", "position": -1}}',
        '{"a": {"epoch": 1.5, "epoch_id": "e", "position": 1}}',
        '{"a": {"epoch": 1, "epoch_id": "e"}}',
    ],
)
def test_what_is_no_positions_is_refused(text: str) -> None:
    with pytest.raises(PositionsInvalid):
        from_json(text)


def _two_epochs(folder: Path) -> LedgerMaker:
    """Epoch 1 has positions 1 to 3, epoch 2 has 4 and 5."""
    maker = LedgerMaker(folder)
    queue = maker.queue("q")
    maker.put(queue)
    maker.put(queue)
    maker.next_file(new_epoch=True)
    maker.put(queue)
    maker.put(queue)
    maker.finish()
    return maker


@pytest.mark.parametrize("position", range(6))
def test_every_position_of_a_ledger_is_in_it(tmp_path: Path, position: int) -> None:
    _two_epochs(tmp_path)
    snapshot = FolderPlace(tmp_path).snapshot()
    record = position_in(snapshot, position)
    assert record == BEGINNING or record.epoch == (1 if position < 4 else 2)
    check(snapshot, record)


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (Position(1, b"e".hex() * 16, 4), "epoch 1 was sealed at position 3"),
        (Position(2, b"f".hex() * 16, 6), "the ledger ends at position 5"),
        (Position(2, b"x".hex() * 16, 5), "epoch 2 has the id 6666"),
        (Position(1, b"f".hex() * 16, 2), "epoch 1 has the id 6565"),
        (Position(3, b"g".hex() * 16, 5), "there is no such epoch, the newest is 2"),
        (Position(2, b"f".hex() * 16, 2), "epoch 2 begins at position 4"),
    ],
)
def test_a_position_of_another_history_is_refused(tmp_path: Path, position: Position, message: str) -> None:
    _two_epochs(tmp_path)
    with pytest.raises(LedgerDiverged, match=message) as refused:
        check(FolderPlace(tmp_path).snapshot(), position)
    assert refused.value.ledger_id == LEDGER
    assert refused.value.position == position


@pytest.mark.parametrize("written_after", [0, 1, 40])
@pytest.mark.parametrize("reopened_before", [False, True])
def test_a_ledger_restored_from_a_backup_that_runs_on_is_refused(
    tmp_path: Path, reopened_before: bool, written_after: int
) -> None:
    """However much the restored ledger has grown, what was read of the lost history isn't its own."""
    folder, backup = tmp_path / "data", tmp_path / "backup"
    ledger = Ledger.open(folder, OPTIONS, NOW_US)
    _write(ledger, 3)
    ledger.close()
    shutil.copytree(folder, backup)
    if reopened_before:
        ledger = Ledger.open(folder, OPTIONS, NOW_US)
        _write(ledger, 5)
        ledger.close()
        place = FolderPlace(folder)
        snapshot = place.snapshot()
        read = position_in(snapshot, snapshot.durable_through)
    else:  # it wrote on in the epoch of the backup
        place = FolderPlace(folder)
        snapshot = place.snapshot()
        read = Position(
            snapshot.epochs[-1].number, snapshot.epochs[-1].epoch_id.hex(), snapshot.durable_through + 5
        )
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    restored = Ledger.open(folder, OPTIONS, NOW_US)
    _write(restored, written_after)
    restored.close()
    for looking in (place, FolderPlace(folder)):
        with pytest.raises(LedgerDiverged):
            check(looking.snapshot(), read)


def _write(ledger: Ledger, count: int) -> None:
    for _ in range(count):
        put(ledger)
        ledger.submit()
        ledger.wait()
