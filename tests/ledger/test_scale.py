"""A hundred thousand messages: the vectorised paths at sizes where they are taken, against arithmetic."""

import shutil
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

from postroom.ledger.fold.fold import fold_image
from postroom.ledger.format.block import Group, encode_groups
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.recovery import recovery
from postroom.ledger.recovery.recovered import PACKED_DTYPE
from postroom.model.codes import Event, Outcome, State
from postroom.model.packed import CHUNK_ENTRIES
from tests.ledger.entry_records import ACQUIRE, CONFIRM, arrival_of
from tests.ledger.workload import START_US, runs_of

MESSAGES = 100_000
CONSUMED = 60_000
OPTIONS = LedgerOptions(journal_file_bytes=4 << 20, reserve_bytes=0, retention_bytes=0)
BODY = b"x" * 20


def put(ledger: Ledger, number: int) -> int:
    id = {"message_id": b"%d" % number, "message_id_type": 1}
    return ledger.builder.arrival(arrival_of(1 + number % 2, BODY, priority=number % 3, **id))


def consume(ledger: Ledger, serial: int, queue: int) -> None:
    ledger.builder.entry_event(serial, queue, 7, ACQUIRE)
    ledger.builder.entry_event(serial, queue, 7, CONFIRM)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, list[int]]]:
    """A folder with 100,000 messages on two queues of which 60,000 at random were consumed; what is left."""
    folder = tmp_path_factory.mktemp("scale")
    ledger = Ledger.open(folder, OPTIONS, START_US, maintenance="manual")
    serials = []
    consumed = set(Random(1).sample(range(MESSAGES), CONSUMED))
    for number in range(MESSAGES):
        serials.append(put(ledger, number))
        late = number - 5000
        if late >= 0 and late in consumed:
            consume(ledger, serials[late], 1 + late % 2)
        if number % 500 == 0:
            ledger.flush()
        if number % 20_000 == 0:
            while ledger.maintenance_step():
                pass
    ledger.close()
    consumed = {number for number in consumed if number < MESSAGES - 5000}
    left = [number for number in range(MESSAGES) if number not in consumed]
    return folder, {1 + odd: [serials[n] for n in left if n % 2 == odd] for odd in (0, 1)}


def backlog_of(ledger: Ledger) -> dict[int, list[np.ndarray]]:
    pieces: dict[int, list[np.ndarray]] = {}
    for queue, piece in ledger.recovered.backlog:
        pieces.setdefault(queue, []).append(np.frombuffer(piece, PACKED_DTYPE))
    return pieces


def test_backlog_comes_in_pieces_by_queue_and_priority(made: tuple[Path, dict[int, list[int]]]) -> None:
    folder, left = made
    ledger = Ledger.open(folder, OPTIONS, START_US, maintenance="manual")
    pieces = backlog_of(ledger)
    ledger.close()
    assert [queue for queue, _ in ledger.recovered.backlog] == sorted(
        queue for queue, _ in ledger.recovered.backlog
    )
    for queue, parts in pieces.items():
        priorities = [np.unique(part["priority"]).tolist() for part in parts]
        assert priorities == sorted(priorities, reverse=True)
        assert all(len(one) == 1 for one in priorities)
        assert all(len(part) <= CHUNK_ENTRIES for part in parts)
        for part in parts:
            assert (np.diff(part["serial"].astype(np.int64)) > 0).all()
        assert np.sort(np.concatenate(parts)["serial"]).tolist() == left[queue]


def test_a_purge_of_everything_in_small_batches(
    made: tuple[Path, dict[int, list[int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group record expands to tens of thousands of changes, folded some thousands at a time."""
    left = made[1]
    folder = shutil.copytree(made[0], tmp_path / "copy")
    ledger = Ledger.open(folder, OPTIONS, START_US, maintenance="manual")
    group = Group(2, State.AVAILABLE, State.DELETED, Outcome.PURGED, 0, 0, 0, runs_of(left[2]))
    for _ in range(2):  # the second changes nothing: those entries are gone
        ledger.builder.record(RecordType.GROUP_EVENT, 0, 0, 0, 0, Event.PURGE, encode_groups([group]))
    consume(ledger, left[1][0], 1)
    ledger.close()
    monkeypatch.setattr(recovery, "fold_image", partial(fold_image, batch_rows=4096))
    again = Ledger.open(folder, OPTIONS, START_US, maintenance="manual")
    again.close()
    pieces = backlog_of(again)
    assert pieces.keys() == {1}
    assert np.sort(np.concatenate(pieces[1])["serial"]).tolist() == left[1][1:]
    totals = {row.queue: row for row in again.recovered.totals}
    assert totals[2].ended[Outcome.PURGED] == len(left[2])
    assert sum(totals[1].ended) + sum(totals[2].ended) == MESSAGES - len(left[1]) + 1
    assert totals[1].arrived + totals[2].arrived == MESSAGES
    assert totals[1].arrived_bytes == MESSAGES // 2 * len(BODY)
