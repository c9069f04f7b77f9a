"""A watched ledger: each look sees what a fresh look sees, reads what is new, and notices another history."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from postroom.ledger.errors import LedgerCorrupt, UnknownFormat
from postroom.ledger.format.file_names import bodies_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, with_crc
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import Segment
from postroom.ledger.reading.tail import JournalHint, Watch, journal_chunks
from postroom.ledger.storage.disk import RealFile
from tests.ledger.ledger_maker import LedgerMaker
from tests.ledger.puts import NOW_US, put


def _agrees(watch: Watch, folder: Path) -> int:
    """The watch sees what a fresh reader sees; returns the last durable position."""
    found, fresh = watch.look(), LedgerReader(folder)
    assert found.durable_through() == fresh.durable_through
    seen = [(s.number, s.first_position, s.last_position, s.is_sealed, s.epoch_id) for s in found.segments]
    assert seen == [
        (s.number, s.first_position, s.last_position, s.is_sealed, s.epoch_id) for s in fresh.segments
    ]
    return found.durable_through()


def test_looks_beside_a_ledger_that_writes_seals_and_drops_files(tmp_path: Path) -> None:
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=200_000)
    ledger = Ledger.open(tmp_path, options, NOW_US)
    watch = Watch(tmp_path)
    seen = 0
    for number in range(300):
        for _ in range(5):
            put(ledger)
        ledger.submit()
        durable = ledger.wait()
        found = watch.look()
        assert seen <= found.durable_through() <= durable
        seen = found.durable_through()
        _positions(watch, tmp_path, max(found.segments[0].first_position, seen - 20), seen)
        if number % 100 == 99:
            ledger.close()
            assert _agrees(watch, tmp_path) >= durable
            ledger = Ledger.open(tmp_path, options, NOW_US)
    ledger.close()
    assert watch.look().segments[-1].epoch == 4


def _journal(folder: Path, segment: Segment) -> bytes:
    """A journal's bytes, also if it was sealed since the look: then they are those of the bodies file."""
    try:
        return (folder / segment.name).read_bytes()
    except FileNotFoundError:
        return (folder / bodies_name(segment.number)).read_bytes()


def _positions(watch: Watch, folder: Path, first: int, last: int) -> None:
    """The hints of a range lead to exactly its positions."""
    found = []
    for segment in watch.look().segments:
        low, high = max(first, segment.first_position), min(last, segment.last_position)
        hint = watch.hint(segment, low, high) if low <= high else None
        if hint is not None:
            data = _journal(folder, segment)[hint.start : hint.end]
            told = JournalHint.decode(hint.encode())
            for chunk, _ in journal_chunks(segment.name, memoryview(data), segment, told, low, high):
                found += np.concatenate([chunk.arrivals["position"], chunk.transitions["position"]]).tolist()
            assert sorted(found)[-1] == high
    assert sorted(found) == list(range(last - len(found) + 1, last + 1))


def test_a_look_reads_only_what_was_written_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    for _ in range(200):
        maker.put(queue, body=b"b" * 1000)
        maker.commit()
    watch = Watch(tmp_path)
    watch.look()
    sizes: list[int] = []
    read_at = RealFile.read_at

    def counted(file: RealFile, offset: int, size: int) -> bytes:
        sizes.append(size)
        return read_at(file, offset, size)

    monkeypatch.setattr(RealFile, "read_at", counted)
    last = maker.put(queue)
    maker.commit()
    maker.marker()
    assert watch.look().durable_through() == last
    assert len(sizes) < 12  # two of them the superblock's
    assert sum(sizes) < 2000


def test_a_torn_tail_is_waited_for_and_a_marker_ends_it(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    maker.commit()
    serial = maker.put(queue)
    maker.commit()
    watch = Watch(tmp_path)
    assert watch.look().durable_through() == serial - 1
    journal = tmp_path / "00000001.journal"
    before = journal.read_bytes()
    maker.marker()
    after = journal.read_bytes()
    size = len(before.rstrip(b"\0"))
    journal.write_bytes(after[: size + 40] + bytes(len(after) - size - 40))  # half of the marker's header
    assert watch.look().durable_through() == serial - 1
    journal.write_bytes(after)
    assert watch.look().durable_through() == serial


def test_a_damaged_block_that_others_follow_is_told_with_its_place(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    maker.commit()
    watch = Watch(tmp_path)
    watch.look()
    journal = tmp_path / "00000001.journal"
    at = len(journal.read_bytes().rstrip(b"\0"))
    for _ in range(3):
        maker.put(queue)
        maker.commit()
    maker.marker()
    data = bytearray(journal.read_bytes())
    while not data[at]:
        at += 1
    data[at + 30] ^= 1
    journal.write_bytes(data)
    with pytest.raises(LedgerCorrupt, match=r"begins at position 2 is damaged, and valid blocks follow"):
        watch.look()


def test_records_that_are_damaged_are_told_by_who_reads_them(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    maker.put(queue, message_id=b"the-message")
    maker.finish()
    watch = Watch(tmp_path)
    segment = watch.look().segments[-1]
    hint = watch.hint(segment, 1, 2)
    assert hint is not None
    data = (tmp_path / segment.name).read_bytes().replace(b"the-message", b"tha-message")
    blocks = memoryview(data)[hint.start : hint.end]
    with pytest.raises(LedgerCorrupt, match="the block that began here is damaged or gone"):
        list(journal_chunks(segment.name, blocks, segment, hint, 1, 2))


def test_a_restored_folder_is_walked_anew(tmp_path: Path) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    maker = LedgerMaker(folder)
    queue = maker.queue("q")
    maker.put(queue)
    maker.commit()
    maker.marker()
    shutil.copytree(folder, backup)
    watch = Watch(folder)
    for _ in range(5):
        maker.put(queue)
        maker.commit()
    maker.finish()
    assert watch.look().durable_through() == 7
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    assert watch.look().durable_through() == 2


def test_a_sealed_journal_ends_at_its_seal_whatever_lies_behind(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    maker.put(queue)
    maker.commit()
    maker.next_file(new_epoch=True)
    maker.put(queue)
    maker.commit()
    with (tmp_path / "00000001.journal").open("r+b") as journal:
        data = journal.read().rstrip(b"\0")
        journal.seek(len(data))
        journal.write(b"a paused owner wrote this later")
    maker.finish()
    watch = Watch(tmp_path)
    assert _agrees(watch, tmp_path) == 3
    assert _agrees(watch, tmp_path) == 3


def test_a_newer_format_is_told_with_what_to_do(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    maker.queue("q")
    maker.finish()
    journal = tmp_path / "00000001.journal"
    data = bytearray(journal.read_bytes())
    data[8:12] = (2).to_bytes(4, "little")
    data[4:8] = bytes(4)
    data[:FILE_HEADER_BYTES] = with_crc(bytes(data[:FILE_HEADER_BYTES]))
    journal.write_bytes(data)
    for look in (lambda: LedgerReader(tmp_path), Watch(tmp_path).look):
        with pytest.raises(UnknownFormat, match=r"format version 2; this Postroom, .*, reads 1: upgrade it"):
            look()
