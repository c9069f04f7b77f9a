"""Messages read beside a broker: from every kind of file, in any order, whole, damaged, gone."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.block import BODY_TRAILER_BYTES
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.body_files import MOST_WASTE, BodiesFile, BodyFiles
from postroom.ledger.reading.body_reader import (
    BODIES_END,
    NOTHING,
    BodyReader,
    BodyState,
    FoundMessages,
    check_bodies,
)
from postroom.ledger.reading.message_image import HEADER, MESSAGES_MAGIC, decode_messages, encode_messages
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.model.codes import Event
from tests.ledger import entry_records
from tests.ledger.entry_records import GET, arrival_of, put_chunks
from tests.ledger.files import bodies_of, opened

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)
LARGE = LedgerOptions(reserve_bytes=0)


def put(ledger: Ledger, body: bytes | None, name: bytes = b"", correlation: bytes = b"") -> int:
    arrival = arrival_of(
        1, body, message_id=name, message_id_type=4 if name else 0,
        correlation_id=correlation, correlation_id_type=4 if correlation else 0,
    )  # fmt: skip
    return ledger.builder.arrival(arrival)


def put_in_chunks(ledger: Ledger, body: bytes, size: int = 1000) -> BodyPlace:
    """Blocks end between the chunks."""
    positions: list[int] = []
    for at in range(0, len(body), size):
        upload = positions[0] if positions else 0
        positions.append(int(ledger.builder.body_chunk(upload, body[at : at + size])))
        ledger.flush()
    return put_chunks(ledger.builder, positions, body)


def share(ledger: Ledger, body: BodyPlace) -> int:
    """A child that has its parent's body; as the manager writes it, without the CRC."""
    parent, offset, size = body
    flags = int(ArrivalFlag.DURABLE | ArrivalFlag.BODY_STORED | ArrivalFlag.BODY_SHARED)
    arrival = arrival_of(
        2, event=Event.MOVE, flags=flags, body_serial=parent, body_offset=offset, body_len=size,
        parent_serial=parent, parent_queue=1,
    )  # fmt: skip
    return ledger.builder.arrival(arrival)


def get(ledger: Ledger, serial: int) -> None:
    ledger.builder.entry_event(serial, 1, 0, GET)


def settle(ledger: Ledger) -> None:
    """All is durable, readers are told so, and what maintenance can do is done."""
    ledger.flush()
    while ledger.maintenance_step():
        pass
    if ledger.mark_idle():
        ledger.wait()


def serials(*values: int) -> Array:
    return np.array(values, np.uint64)


def names_of(found: FoundMessages, field: str) -> list[bytes]:
    rows = zip(found.arrivals[f"{field}_offset"], found.arrivals[f"{field}_len"], strict=True)
    return [bytes(found.names[at : at + size]) for at, size in rows]


def filled(ledger: Ledger, random: Random) -> tuple[dict[int, bytes], set[int]]:
    """Bodies over journal, sealed and packed files by serial, and the serials of those that have ended."""
    bodies, ended = {}, set()
    for number in range(1200):
        body = random.randbytes(random.choice((1, 20, 300, 1000)))
        serial = put(ledger, body, b"id-%d" % number, b"c" * (number % 5))
        bodies[serial] = body
        if number <= 900 and number % 7:
            get(ledger, serial)
            ended.add(serial)
        if random.random() < 0.1:
            ledger.flush()
            ledger.maintenance_step()
    settle(ledger)
    return bodies, ended


@pytest.mark.parametrize("seed", range(2))
def test_any_messages_in_any_order_from_any_file(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    ledger = opened(tmp_path, SMALL)
    bodies, ended = filled(ledger, random)
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert {".journal", ".bodies", ".packed"} <= kinds
    wanted = random.choices(sorted(bodies), k=900)
    found = BodyReader(tmp_path).read(serials(*wanted))
    live = [n for n, serial in enumerate(wanted) if serial not in ended]
    states = found.states.tolist()
    assert [states[n] for n in live] == [BodyState.PRESENT] * len(live)
    assert [bodies_of(found)[n] for n in live] == [bodies[wanted[n]] for n in live]
    for n, serial in enumerate(wanted):
        body = bodies_of(found)[n]
        assert (states[n], body) in ((BodyState.PRESENT, bodies[serial]), (BodyState.DROPPED, b""))
    assert BodyState.DROPPED in states
    assert not found.errors
    ledger.close()


def test_names_come_along_wherever_the_arrival_lies(tmp_path: Path) -> None:
    ledger = opened(tmp_path, SMALL)
    bodies, ended = filled(ledger, Random(1))
    order = Random(1).sample(sorted(bodies), len(bodies))
    for wanted in (order, sorted(bodies), order[:3], [order[0]]):
        found = BodyReader(tmp_path).read(serials(*wanted))
        numbers = {serial: number for number, serial in enumerate(bodies)}
        for row, serial in enumerate(wanted):
            if serial not in ended:
                assert names_of(found, "message_id")[row] == b"id-%d" % numbers[serial]
                assert names_of(found, "correlation_id")[row] == b"c" * (numbers[serial] % 5)
    ledger.close()


def test_history_that_is_gone_is_not_found_and_what_lives_is_carried(tmp_path: Path) -> None:
    ledger = opened(tmp_path, SMALL)
    bodies, ended = filled(ledger, Random(5))
    first = ledger._maintenance._history[0].span.first_position
    found = BodyReader(tmp_path).read(serials(*bodies))
    gone = [serial for serial in ended if serial < first]
    carried = [serial for serial in bodies if serial < first and serial not in ended]
    assert gone and carried
    fields = dict(zip(bodies, found.found.tolist(), strict=True))
    assert all(fields[serial] for serial in carried)
    assert not all(fields[serial] for serial in gone)
    for serial, known, state in zip(bodies, found.found, found.states, strict=True):
        assert known or (state == BodyState.DROPPED and serial in gone)
    ledger.close()


def test_what_is_no_arrival_is_not_found(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    serial = put(ledger, b"x")
    get(ledger, serial)
    settle(ledger)
    found = BodyReader(tmp_path).read(serials(0, serial, serial + 1, serial + 100, (1 << 64) - 1))
    assert found.found.tolist() == [False, True, False, False, False]
    assert bodies_of(found) == [b"", b"x", b"", b"", b""]
    assert not found.arrivals[~found.found].tobytes().strip(b"\0")
    assert len(BodyReader(tmp_path).read(serials()).found) == 0
    ledger.close()


def test_only_what_is_durable_is_given(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    first = put(ledger, b"one")
    ledger.flush()
    second = put(ledger, b"two")
    ledger.flush()  # nothing tells readers beside the broker that this block is durable
    reader = BodyReader(tmp_path)
    assert reader.read(serials(first, second)).found.tolist() == [True, False]
    assert reader.read(serials(first, second), durable_through=second).found.tolist() == [True, True]
    assert reader.read(serials(first, second), durable_through=first).found.tolist() == [True, False]
    ledger.mark_idle()
    ledger.wait()
    assert bodies_of(reader.read(serials(second, first))) == [b"two", b"one"]
    ledger.close()


def test_a_body_that_was_never_stored(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    serial = put(ledger, None, b"id")
    settle(ledger)
    found = BodyReader(tmp_path).read(serials(serial))
    assert (found.states.tolist(), names_of(found, "message_id")) == ([BodyState.NOT_STORED], [b"id"])
    ledger.close()


def test_without_the_right_bodies_are_withheld_and_arrivals_are_not(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    stored, volatile = put(ledger, b"secret"), put(ledger, None)
    settle(ledger)
    found = BodyReader(tmp_path).read(serials(stored, volatile, 999), with_bodies=False)
    assert found.states.tolist() == [BodyState.WITHHELD, BodyState.NOT_STORED, BodyState.DROPPED]
    assert (found.found.tolist(), bodies_of(found)) == ([True, True, False], [b"", b"", b""])
    assert bytes(found.bodies) == bytes(BODIES_END)
    ledger.close()


@pytest.mark.parametrize("kind", ["journal", "bodies", "packed"])
def test_shared_and_chunked_bodies(tmp_path: Path, kind: str) -> None:
    ledger = opened(tmp_path, SMALL)
    plain = entry_records.put(ledger.builder, b"plain")
    large = bytes(range(256)) * 40
    chunked = put_in_chunks(ledger, large)
    children = [share(ledger, plain), share(ledger, chunked)]
    dead = put(ledger, bytes(60 << 10))
    if kind != "journal":
        put(ledger, bytes(60 << 10))
        ledger.flush()
        if kind == "packed":
            get(ledger, dead)
        for _ in range(40):
            get(ledger, put(ledger, bytes(10 << 10)))
            ledger.flush()
    settle(ledger)
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert kind == "bodies" or f".{kind}" in kinds
    found = BodyReader(tmp_path).read(serials(chunked[0], *children, plain[0]))
    assert bodies_of(found) == [large, b"plain", large, b"plain"]
    assert not found.errors and not check_bodies(found).errors
    ledger.close()


@pytest.mark.parametrize("size", [30, 700, 3000])
def test_rows_of_every_kind_in_any_order(tmp_path: Path, size: int) -> None:
    """Plain, shared, chunked, damaged and dropped ones, some of them asked for twice; as on the wire."""
    random, ledger = Random(size), opened(tmp_path, SMALL)
    expected: dict[int, bytes] = {}
    for number in range(400):
        body = random.randbytes(size)
        if number % 40 == 13:
            place = put_in_chunks(ledger, body, 400)
        else:
            place = entry_records.put(ledger.builder, body)
        expected[place[0]] = body
        if number % 10 == 3:
            expected[share(ledger, place)] = body
        elif 5 <= number % 100 < 50:
            get(ledger, place[0])
        if number % 100 == 99:
            settle(ledger)
    harmed = [serial for number, serial in enumerate(sorted(expected)) if number % 17 == 2]
    settle(ledger)
    ledger.close()
    for serial in harmed:
        start = expected[serial][:20]
        damage(tmp_path, start, start[::-1])
    bad = {serial for serial, body in expected.items() if body in {expected[one] for one in harmed}}
    every = sorted(expected)
    for wanted in (every, every[::-1], random.choices(every, k=600), [*every[::7], 999_999]):
        found = BodyReader(tmp_path).read(serials(*wanted))
        again = decode_messages(b"".join(encode_messages(found)), "test")
        assert bodies_of(again) == bodies_of(found)
        for row, body in enumerate(bodies_of(found)):
            is_present = bool(found.states[row] == BodyState.PRESENT)
            is_good = is_present and wanted[row] not in bad
            assert body == (expected[wanted[row]] if is_good else b"")
            assert (row in found.errors) == (is_present and wanted[row] in bad)
        assert found.errors and BodyState.DROPPED in found.states
        own = sum(len(expected.get(serial, b"")) + BODY_TRAILER_BYTES for serial in set(wanted))
        assert len(found.bodies) <= BODIES_END + own * (MOST_WASTE + 1) // MOST_WASTE


def test_so_many_as_the_bytes_allow_and_one_at_least(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    put_ones = [put(ledger, b"x" * 100) for _ in range(10)]
    settle(ledger)
    reader = BodyReader(tmp_path)
    for wanted in (put_ones, put_ones[::-1]):
        for max_bytes, count in ((1, 1), (100, 1), (199, 1), (200, 2), (1000, 10), (5000, 10)):
            found = reader.read(serials(*wanted), max_bytes=max_bytes)
            assert found.arrivals["position"].tolist() == wanted[:count]
            assert bodies_of(found) == [b"x" * 100] * count
            assert len(found.states) == len(found.found) == count
    ledger.close()


def test_a_damaged_body_is_told_and_the_others_are_there(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    first, second, third = (put(ledger, body) for body in (b"first body", b"second body", b"third body"))
    settle(ledger)
    ledger.close()
    damage(tmp_path, b"second body", b"sEcond body")
    found = BodyReader(tmp_path).read(serials(third, second, first, second))
    assert bodies_of(found) == [b"third body", b"", b"first body", b""]
    assert set(found.errors) == {1, 3} and "CRC" in found.errors[1] and str(second) in found.errors[1]
    assert found.states.tolist() == [BodyState.PRESENT] * 4
    unchecked = BodyReader(tmp_path).read(serials(third, second), check=False)
    assert bodies_of(unchecked) == [b"third body", b"sEcond body"]
    assert set(check_bodies(unchecked).errors) == {1}


def test_damage_in_a_shared_body_and_in_a_chunk_is_told(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    plain = entry_records.put(ledger.builder, b"first body")
    of_plain = share(ledger, plain)
    chunked = put_in_chunks(ledger, b"a" * 1500 + b"middle" + b"b" * 1500)
    of_chunked = share(ledger, chunked)
    settle(ledger)
    ledger.close()
    damage(tmp_path, b"first body", b"fIrst body")
    damage(tmp_path, b"middle", b"mIddle")
    for wanted in ((of_plain, of_chunked), (plain[0], chunked[0])):
        found = BodyReader(tmp_path).read(serials(*wanted))
        assert set(found.errors) == {0, 1} and bodies_of(found) == [b"", b""]
        unchecked = BodyReader(tmp_path).read(serials(*wanted), check=False)
        assert set(check_bodies(unchecked).errors) == {0, 1}


def test_a_journal_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    serial = put(ledger, b"x" * 5000)
    settle(ledger)
    ledger.close()
    [journal] = tmp_path.glob("*.journal")
    with journal.open("r+b") as file:
        file.truncate(journal.read_bytes().rindex(b"x" * 10) - 2000)
    with pytest.raises(LedgerCorrupt, match="that was durable, up to position 2, is not there"):
        BodyReader(tmp_path).read(serials(serial))


def damage(folder: Path, old: bytes, new: bytes) -> None:
    for path in folder.iterdir():
        data = path.read_bytes()
        if old in data:
            path.write_bytes(data.replace(old, new))


def test_files_that_go_between_the_look_and_the_reading(tmp_path: Path) -> None:
    """Every step of maintenance between any two readings: the reader that remembers is never wrong."""
    random = Random(9)
    ledger = opened(tmp_path, SMALL)
    reader = BodyReader(tmp_path)
    bodies: dict[int, bytes] = {}
    live: dict[int, bytes] = {}
    for _ in range(80):
        for _ in range(8):
            body = random.randbytes(random.choice((10, 500, 3000)))
            serial = put(ledger, body)
            bodies[serial] = live[serial] = body
        while len(live) > 60:
            serial = random.choice(list(live))
            del live[serial]
            get(ledger, serial)
        ledger.flush()
        ledger.maintenance_step()
        wanted = random.choices(sorted(bodies), k=30) + list(live)
        found = reader.read(serials(*wanted), durable_through=ledger.durable_through)
        for serial, state, body in zip(wanted, found.states, bodies_of(found), strict=True):
            expected = [(BodyState.PRESENT, bodies[serial])]
            if serial not in live:
                expected.append((BodyState.DROPPED, b""))
            assert (state, body) in expected
        assert not found.errors
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert {".journal", ".packed"} <= kinds
    ledger.close()


@pytest.mark.parametrize("held_in", ["journal", "bodies", "packed"])
def test_a_file_that_is_replaced_under_the_reader(
    tmp_path: Path, held_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just between finding it and opening it: it is sealed, rewritten, rewritten again."""
    ledger = opened(tmp_path, SMALL)
    kept, dying = put(ledger, b"kept" * 100), put(ledger, bytes(10 << 10))
    ledger.flush()
    age(ledger, kept, held_in)
    get(ledger, dying)
    ledger.flush()
    listed = BodyFiles._list
    holding: list[str] = []

    def list_and_change(files: BodyFiles) -> list[BodiesFile]:
        found = listed(files)
        [name] = [file.name for file in found if file.first_position <= kept <= file.last_position]
        holding.append(name)
        if len(holding) == 1:
            age(ledger, kept, {"journal": "bodies", "bodies": "packed", "packed": ""}[held_in], name)
        return found

    monkeypatch.setattr(BodyFiles, "_list", list_and_change)
    found = BodyReader(tmp_path).read(serials(kept), durable_through=ledger.durable_through)
    assert bodies_of(found) == [b"kept" * 100]
    assert holding[0].endswith(held_in) and len(set(holding)) == 2
    ledger.close()


def age(ledger: Ledger, serial: int, kind: str, other_than: str = "") -> None:
    """Go on until a serial's body is in a file of that kind ("" whatever), and in another than it was."""
    for _ in range(2000):
        [name] = [
            file.name()
            for file in ledger._store.files()
            if file.first_position <= serial <= file.last_position
        ][-1:]
        if name.endswith(kind) and name != other_than:
            return
        get(ledger, put(ledger, bytes(5 << 10)))
        ledger.flush()
        ledger.maintenance_step()
    raise AssertionError(f"never in another {kind}")


def test_another_ledger_restored_under_the_reader(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    reader = BodyReader(folder)
    for number in range(2):
        ledger = opened(folder, SMALL)
        serial = put(ledger, b"ledger %d" % number * 10)
        for _ in range(30):
            put(ledger, bytes(8 << 10))
            ledger.flush()
        settle(ledger)
        ledger.close()
        assert bodies_of(reader.read(serials(serial))) == [b"ledger %d" % number * 10]
        for path in folder.iterdir():
            path.unlink()


def test_the_answer_on_the_wire_is_the_same(tmp_path: Path) -> None:
    ledger = opened(tmp_path, SMALL)
    bodies, _ = filled(ledger, Random(2))
    found = BodyReader(tmp_path).read(serials(*bodies, 999_999))
    data = b"".join(encode_messages(found))
    again = decode_messages(data, "test")
    assert bodies_of(again) == bodies_of(found)
    for name in ("found", "arrivals", "names", "states"):
        assert getattr(again, name).tobytes() == getattr(found, name).tobytes()
    ledger.close()


@pytest.mark.parametrize("errors", [b"", b"[]", b"{", b'{"x": "y"}', b'{"-1": "y"}', b"1", b"\xff", b'"a"'])
def test_errors_of_an_answer_that_are_none(errors: bytes) -> None:
    head = HEADER.struct.pack(MESSAGES_MAGIC, 0, 0, len(errors), BODIES_END)
    with pytest.raises(LedgerCorrupt):
        decode_messages(head + bytes(8) + errors + bytes(BODIES_END), "test")


@given(st.data())
def test_an_answer_of_any_bytes_is_refused_or_sound(data: st.DataObject) -> None:
    whole = bytearray(b"".join(encode_messages(NOTHING)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for answer in (bytes(whole), bytes(whole[:cut])):
        try:
            found = decode_messages(answer, "test")
        except LedgerCorrupt:
            continue
        assert len(found.starts) == len(found.ends) == len(found.found) == len(found.states)
