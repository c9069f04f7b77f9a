"""The real ledger with its history dropped: a checkpoint has what is older and alive."""

from dataclasses import replace
from pathlib import Path

from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.carried_entries import Carried, carried, newest_checkpoint
from postroom.ledger.reading.dump import heap_piece
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.storage.superblock import SuperblockFile, read_superblock
from postroom.model.codes import State
from tests.ledger.dropped_history import NOW_US, SMALL, commit, put, with_dropped_history


def _with_carried(folder: Path) -> tuple[LedgerReader, Carried | None]:
    reader = LedgerReader(folder)
    return reader, carried(folder, reader.ledger_id.bytes, reader.first_position, reader.durable_through)


def test_what_is_older_than_the_history_and_alive_is_told(tmp_path: Path) -> None:
    alive = with_dropped_history(tmp_path)
    reader, entries = _with_carried(tmp_path)
    assert entries is not None
    assert reader.first_position > alive[1]
    counts: dict[int, int] = {}
    ids: dict[int, bytes] = {}
    for rows in entries.blocks:
        assert rows.arrivals is not None
        assert rows.arrivals["position"].tolist() == rows["serial"].tolist()
        assert set(rows["to_state"].tolist()) <= {State.AVAILABLE}
        counts |= dict(zip(rows["serial"].tolist(), rows["failure_delta"].tolist(), strict=True))
        ids |= {int(a["position"]): heap_piece(rows.names, a, "message_id") for a in rows.arrivals}
    older = [serial for serial in alive if serial < reader.first_position]
    assert counts == dict.fromkeys(older, 0) | {alive[0]: 1}
    assert ids == {serial: b"id-%d" % (100 * number) for number, serial in enumerate(older)}
    assert entries.queue_names == {1: "orders"}


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    with_dropped_history(tmp_path)
    checkpoints = sorted(tmp_path.glob("*.checkpoint"))
    newest = bytearray(checkpoints[-1].read_bytes())
    newest[-1] ^= 1
    checkpoints[-1].write_bytes(newest)
    with folder_of(tmp_path) as disk:
        state = newest_checkpoint(disk, LedgerReader(tmp_path).ledger_id.bytes)
    assert state is not None
    assert state.position == int(checkpoints[-2].stem)


def test_a_hole_in_the_history_is_no_damage_where_a_checkpoint_covers_it(tmp_path: Path) -> None:
    alive = with_dropped_history(tmp_path, replace(SMALL, retention_bytes=1 << 30))
    reader = LedgerReader(tmp_path)
    assert reader.first_position == 1
    middle = next(
        segment
        for segment in reader.segments
        if segment.first_position > alive[1]
        and not any(segment.first_position <= serial <= segment.last_position for serial in alive)
    )
    with folder_of(tmp_path) as disk:
        vouched = read_superblock(disk)
        assert vouched is not None
        SuperblockFile(disk, vouched).drops(middle.last_position, 0, 0)
        disk.remove(middle.name)
    later, entries = _with_carried(tmp_path)
    assert later.first_position == middle.last_position + 1
    assert entries is not None
    kept = [number for number in alive if number < middle.first_position]
    assert sorted(s for block in entries.blocks for s in block["serial"].tolist()) == kept


def test_without_dropped_history_nothing_is_carried(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path, LedgerOptions(reserve_bytes=0), NOW_US, maintenance="manual")
    ledger.builder.record(RecordType.QUEUE_DEFINED, 0, 1, 0, 0, 0, b'{"name": "orders"}')
    put(ledger, b"x")
    commit(ledger)
    ledger.close()
    reader, entries = _with_carried(tmp_path)
    assert reader.first_position == 1
    assert entries is None
