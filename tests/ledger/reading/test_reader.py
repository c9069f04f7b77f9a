"""Reading a ledger from outside: which files count, how far, and what is told about a bad one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.block import Group
from postroom.ledger.format.headers import decode_file_header
from postroom.ledger.reading.reader import LedgerReader, NoLedger
from postroom.ledger.reading.segments import open_segment
from tests.ledger.ledger_maker import CONSUMER, E, H, LedgerMaker, O, S

Row = tuple[int, int, int, int, int]


def _rows(reader: LedgerReader, first: int | None = None, last: int | None = None) -> list[Row]:
    """(position, ordinal, serial, queue, event) of all rows, in order."""
    found: list[Row] = []
    for rows in reader.rows(first, last):
        columns = (rows["position"], rows.ordinal, rows["serial"], rows["queue"], rows["event"])
        found += zip(*(column.tolist() for column in columns), strict=True)
    return sorted(found)


def _life(maker: LedgerMaker, next_file: Iterator[bool]) -> list[Row]:
    """Some of everything, cut into files where `next_file` says; returns the rows it should give."""
    a, b = maker.queue("a"), maker.queue("b")
    both = maker.routing_set(a, b)
    rows: list[Row] = []

    def step(position: int, *entries: tuple[int, int], event: int) -> int:
        rows.extend((position, n, serial, queue, event) for n, (serial, queue) in enumerate(entries))
        if next(next_file):
            maker.next_file(new_epoch=position % 2 == 0)
        return position

    serials = []
    for number in range(6):
        serial = maker.put(both if number % 2 else a, message_id=b"id-%d" % number)
        step(serial, *[(serial, a), (serial, b)][: 1 + number % 2], event=E.PUT)
        serials.append(serial)
    for serial in serials[:3]:
        step(maker.acquire(serial, a), (serial, a), event=E.ACQUIRE)
        step(maker.confirm(serial, a), (serial, a), event=E.CONFIRM)
    rest = serials[3:]
    purged = Group(a, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, [(s, s) for s in rest])
    step(maker.group(E.PURGE, [purged]), *((s, a) for s in rest), event=E.PURGE)
    returned = Group(b, S.GET_UNCONFIRMED, S.AVAILABLE, O.NONE, 0, 1, 0, [(rest[0], rest[0])])
    decision = maker.group(
        E.UNDO, [returned], decision=True, holder_kind=H.LOCAL_TRANSACTION, holder=CONSUMER
    )
    step(decision, (rest[0], b), event=E.UNDO)
    return sorted(rows)


@pytest.mark.parametrize("every", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("sealed", [False, True])
def test_rows_do_not_depend_on_how_the_ledger_is_cut_into_files(
    tmp_path: Path, every: int, sealed: bool
) -> None:
    maker = LedgerMaker(tmp_path)
    expected = _life(maker, iter([n % every == every - 1 for n in range(100)]))
    folder = maker.finish()
    if sealed:
        for segment in LedgerReader(folder).segments[:-1]:
            maker.seal(segment.number)
    reader = LedgerReader(folder)
    assert _rows(reader) == expected
    assert [segment.is_sealed for segment in reader.segments[:-1]] == [sealed] * (len(reader.segments) - 1)


def test_every_split_into_ranges_gives_the_same_rows(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    expected = _life(maker, iter([n % 6 == 5 for n in range(100)]))
    reader = LedgerReader(maker.finish())
    for middle in range(1, reader.durable_through):
        assert _rows(reader, 1, middle) + _rows(reader, middle + 1) == expected
    singles = [row for p in range(1, reader.durable_through + 1) for row in _rows(reader, p, p)]
    assert singles == expected


def test_definitions_reach_a_range_in_the_middle_of_a_file(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    a = maker.queue("a")
    maker.next_file()
    maker.put(a)
    b = maker.queue("b")
    maker.commit()
    last = maker.put(b)
    maker.commit()
    maker.queue("later")
    reader = LedgerReader(maker.finish())
    definitions = open_segment(tmp_path, reader.segments[-1]).definitions(last)
    assert definitions.queue_names == {a: "a", b: "b"}


def test_a_reader_beside_the_writer_stops_at_what_is_known_durable(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    first = maker.put(queue)
    maker.commit()
    second = maker.put(queue)
    maker.commit()
    beside = LedgerReader(tmp_path)
    assert (beside.durable_through, beside.undecided_records) == (first, 1)
    assert [row[0] for row in _rows(beside)] == [first]
    assert [row[0] for row in _rows(LedgerReader(tmp_path, beyond_durable=True))] == [first, second]
    maker.marker()
    assert LedgerReader(tmp_path).durable_through == second


def test_a_journal_sealed_after_the_look_is_read_all_the_same(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    serial = maker.put(maker.queue("q"))
    maker.next_file()
    maker.put(1)
    reader = LedgerReader(maker.finish())
    maker.seal(1)
    assert [row[0] for row in _rows(reader)] == [serial, serial + 1]


def test_dropped_history_begins_later(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    for _ in range(3):
        maker.put(queue)
        maker.next_file()
    last = maker.put(queue)
    maker.finish()
    for number in (1, 2, 3):
        maker.seal(number)
    maker.drop(1, 2)
    reader = LedgerReader(tmp_path)
    assert (reader.first_position, reader.durable_through) == (last - 1, last)


def _two_files(folder: Path) -> LedgerMaker:
    """Position 1 the queue, 2 and 3 puts in blocks of their own, 4 a put in file 2."""
    maker = LedgerMaker(folder)
    queue = maker.queue("q")
    maker.commit()
    maker.put(queue)
    maker.commit()
    maker.put(queue)
    maker.next_file()
    maker.put(queue)
    maker.finish()
    return maker


def _journal(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.journal"


def test_a_torn_tail_is_cut(tmp_path: Path) -> None:
    _two_files(tmp_path)
    with _journal(tmp_path, 2).open("ab") as file:
        file.write(b"PRB1 and half of a block")
    assert LedgerReader(tmp_path, beyond_durable=True).durable_through == 4


def test_bytes_behind_a_seal_are_void(tmp_path: Path) -> None:
    _two_files(tmp_path)
    with _journal(tmp_path, 1).open("ab") as file:
        file.write(b"a paused owner wrote this later")
    assert LedgerReader(tmp_path).durable_through == 4


def test_a_newest_file_that_was_never_begun_does_not_count(tmp_path: Path) -> None:
    _two_files(tmp_path)
    header = decode_file_header(_journal(tmp_path, 2).read_bytes())
    assert header is not None
    _journal(tmp_path, 3).write_bytes(header._replace(file_number=3).encode() + b"PRB1 and no more")
    assert LedgerReader(tmp_path).durable_through == 4


def test_a_bad_block_before_a_good_one_is_corruption_with_its_place(tmp_path: Path) -> None:
    _two_files(tmp_path)
    data = bytearray(_journal(tmp_path, 1).read_bytes())
    at = data.index(b"hello") - 60
    data[at] ^= 1
    _journal(tmp_path, 1).write_bytes(data)
    with pytest.raises(
        LedgerCorrupt, match=r"00000001\.journal at byte \d+: the block that begins at position 2"
    ):
        LedgerReader(tmp_path)


def test_a_file_cut_before_its_seal_is_corruption(tmp_path: Path) -> None:
    _two_files(tmp_path)
    data = _journal(tmp_path, 1).read_bytes().rstrip(b"\0")
    _journal(tmp_path, 1).write_bytes(data[: len(data) - 10])
    with pytest.raises(LedgerCorrupt, match=r"00000001\.journal at byte"):
        LedgerReader(tmp_path)


def test_an_events_file_of_another_history_is_refused(tmp_path: Path) -> None:
    maker = _two_files(tmp_path)
    other = _two_files(tmp_path / "other")
    maker.seal(1)
    other.seal(1)
    data = bytearray((tmp_path / "other" / "00000001.events").read_bytes())
    (tmp_path / "00000001.events").write_bytes(data)
    assert LedgerReader(tmp_path).durable_through == 4  # the same steps make the same bytes
    data[40] ^= 1
    (tmp_path / "00000001.events").write_bytes(data)
    with pytest.raises(LedgerCorrupt, match=r"00000001\.events at byte 0: the header is damaged"):
        LedgerReader(tmp_path)


def test_a_missing_file_between_others_is_named(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("q")
    for _ in range(3):
        maker.put(queue)
        maker.next_file()
    maker.put(queue)
    maker.finish()
    _journal(tmp_path, 2).unlink()
    with pytest.raises(LedgerCorrupt, match=r"00000002\.events at byte 0: missing: .* positions 1 to 3"):
        LedgerReader(tmp_path)


@pytest.mark.parametrize("make", ["absent", "empty", "other"])
def test_a_folder_without_a_ledger_is_said_to_be_one(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "data"
    if make != "absent":
        folder.mkdir()
    if make == "other":
        (folder / "readme.txt").write_text("nothing here")
    with pytest.raises(NoLedger, match="no ledger here"):
        LedgerReader(folder)
    assert folder.exists() == (make != "absent")
