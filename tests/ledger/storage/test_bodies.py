"""Reading bodies: from every kind of file, in any order, waiting for the disk or not, whole or damaged."""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.body_file import PackedBodies, SealedBodies
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.upkeep.compaction import WANT_DTYPE, Run, rewrite
from tests.ledger.entry_records import GET, put, put_chunks
from tests.ledger.files import LARGE, flip, opened
from tests.ledger.inline_writer import InlineWriter
from tests.ledger.workload import START_US
from tests.simulation.disk import SimDisk, SimFile

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = opened(tmp_path)
    yield made
    made.close()


def at_once(ledger: Ledger, wanted: list[BodyPlace]) -> list[Body]:
    """`read_cached_bodies`, which may find a page busy: again then, after the other way has read it."""
    for _ in range(1000):
        found = ledger.read_cached_bodies(wanted)
        if found is not None:
            return found
        ledger.read_bodies(wanted)
    raise AssertionError("the page cache never had it")


def filled(ledger: Ledger, random: Random) -> tuple[list[BodyPlace], list[bytes]]:
    """Bodies over journal, sealed and packed files: where they are, and what they are."""
    places, bodies = [], []
    for number in range(1200):
        body = random.randbytes(random.choice((1, 20, 300, 1000)))
        place = put(ledger.builder, body)
        if number > 900 or number % 7 == 0:
            places.append(place)
            bodies.append(body)
        else:
            ledger.builder.entry_event(place[0], 1, 0, GET)
        if random.random() < 0.1:
            ledger.flush()
            ledger.maintenance_step()
    ledger.flush()
    while ledger.maintenance_step():
        pass
    return places, bodies


@pytest.mark.parametrize("seed", range(3))
def test_any_bodies_in_any_order_from_any_file(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    ledger = opened(tmp_path, SMALL)
    places, bodies = filled(ledger, random)
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert {".journal", ".bodies", ".packed"} <= kinds
    assert ledger.read_cached_bodies(places) is None, "where they lie has to be read first"
    assert ledger.read_bodies(places) == at_once(ledger, places) == bodies
    for _ in range(50):
        some = random.choices(range(len(places)), k=random.randrange(40))
        wanted = [places[index] for index in some]
        assert ledger.read_bodies(wanted) == [bodies[index] for index in some]
        assert at_once(ledger, wanted) == [bodies[index] for index in some]
    ledger.close()


@pytest.mark.parametrize("suffix", [".bodies", ".packed"])
def test_what_was_taken_away_before_is_not_rewritten(tmp_path: Path, suffix: str) -> None:
    ledger = opened(tmp_path, SMALL)
    places, bodies = filled(ledger, Random(1))
    found: list[SealedBodies | PackedBodies] = [
        file for file in ledger._store.files() if isinstance(file, SealedBodies | PackedBodies)
    ]
    file = next(file for file in found if file.name().endswith(suffix))
    there = [
        (place, body)
        for place, body in zip(places, bodies, strict=True)
        if file.first_position <= place[0] <= file.last_position
    ]
    gone = (file.last_position, (1 << 31) - 1, 77)
    wanted = [*(place for place, _ in there[1:]), gone]
    wants = np.array([(serial, offset, size + 4) for serial, offset, size in wanted], WANT_DTYPE)
    packed = rewrite(RealDisk(tmp_path), ledger.ledger_id.bytes, Run([file], wants))
    index = packed.index()
    assert index["key"].tolist() == [place[0] for place, _ in there[1:]]
    raw = (tmp_path / packed.name()).read_bytes()
    for (place, body), offset, length in zip(there[1:], index["offset"], index["length"], strict=True):
        assert raw[offset : offset + length] == body + crc32(body).to_bytes(4, "little"), place
    ledger.close()


def test_more_than_one_read_takes(ledger: Ledger) -> None:
    random = Random(5)
    bodies = [random.randbytes(200_000) for _ in range(12)]
    places = [put(ledger.builder, body) for body in bodies]
    ledger.flush()
    assert ledger.read_bodies(places) == bodies
    assert at_once(ledger, places[::-1]) == bodies[::-1]


def test_what_is_not_durable_is_in_no_file(ledger: Ledger) -> None:
    durable = put(ledger.builder, b"durable")
    ledger.flush()
    waiting = put(ledger.builder, b"not yet")
    assert ledger.read_bodies([durable, waiting]) == [b"durable", b""]


@pytest.mark.parametrize("cached", [False, True])
def test_a_damaged_body_stands_for_itself_alone(ledger: Ledger, tmp_path: Path, cached: bool) -> None:
    bodies = [b"first" * 9, b"second" * 9, b"third" * 9]
    places = [put(ledger.builder, body) for body in bodies]
    ledger.flush()
    (journal,) = tmp_path.glob("*.journal")
    at = journal.read_bytes().index(bodies[1])
    flip(journal, at + 3)
    found = at_once(ledger, places) if cached else ledger.read_bodies(places)
    assert (found[0], found[2]) == (bodies[0], bodies[2])
    damage = found[1]
    assert isinstance(damage, LedgerCorrupt)
    assert (damage.file, damage.offset) == (str(journal), at)
    assert damage.reason == f"the body of message {places[1][0]} is damaged: its CRC is wrong"


@pytest.mark.parametrize("part", ["trailer", "length"])
def test_other_damage_to_a_body(ledger: Ledger, tmp_path: Path, part: str) -> None:
    places = [put(ledger.builder, b"one" * 9), put(ledger.builder, b"two" * 9)]
    ledger.flush()
    (journal,) = tmp_path.glob("*.journal")
    end = journal.read_bytes().index(b"two" * 9) + 27
    if part == "trailer":
        flip(journal, end + 1)
    else:
        os.truncate(journal, end + 2)
    first, second = ledger.read_bodies(places)
    assert first == b"one" * 9
    assert isinstance(second, LedgerCorrupt)


def large(ledger: Ledger, chunks: list[bytes]) -> BodyPlace:
    """A message whose body came in chunks."""
    builder = ledger.builder
    positions: list[int] = []
    for chunk in chunks:
        positions.append(builder.body_chunk(positions[0] if positions else 0, chunk))
    return put_chunks(builder, positions, b"".join(chunks))


def test_a_body_in_chunks_is_not_read_at_once(ledger: Ledger) -> None:
    chunks = [b"a" * 1000, b"", b"b" * 2000]
    place, plain = large(ledger, chunks), put(ledger.builder, b"plain")
    ledger.flush()
    assert ledger.read_bodies([plain, place]) == [b"plain", b"".join(chunks)]
    assert ledger.read_cached_bodies([plain, place]) is None
    assert at_once(ledger, [plain]) == [b"plain"]


def test_large_bodies_need_memory_once(ledger: Ledger) -> None:
    """They are read to where they stay: in chunks, and in one piece."""
    chunks = [bytes([number]) * (1 << 20) for number in range(8)]
    places = [large(ledger, chunks), put(ledger.builder, b"x" * (3 << 20)), put(ledger.builder, b"small")]
    ledger.flush()
    tracemalloc.start()
    found = ledger.read_bodies(places)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [b"".join(chunks), b"x" * (3 << 20), b"small"]
    assert most_bytes < (11 << 20) + (1 << 19)


def test_damage_to_a_large_body(ledger: Ledger, tmp_path: Path) -> None:
    """One that is read by itself: its bytes, its CRC, and what is cut off."""
    places = [put(ledger.builder, bytes([number]) * (300 << 10)) for number in (1, 2, 3)]
    ledger.flush()
    (journal,) = tmp_path.glob("*.journal")
    data = journal.read_bytes()
    flip(journal, data.index(b"\1" * 2000) + 5)
    flip(journal, data.index(b"\2" * (300 << 10)) + (300 << 10) + 1)
    damaged = ledger.read_bodies(places)
    assert [isinstance(each, LedgerCorrupt) for each in damaged] == [True, True, False]
    assert damaged[2] == b"\3" * (300 << 10)
    os.truncate(journal, data.index(b"\3" * 2000) + 5000)
    (cut,) = ledger.read_bodies(places[2:])
    assert isinstance(cut, LedgerCorrupt) and "its CRC is wrong" in cut.reason


@pytest.mark.parametrize("part", ["chunk", "list"])
def test_damage_to_a_body_in_chunks(ledger: Ledger, tmp_path: Path, part: str) -> None:
    place, plain = large(ledger, [b"a" * 1000, b"b" * 2000]), put(ledger.builder, b"plain")
    ledger.flush()
    (journal,) = tmp_path.glob("*.journal")
    data = journal.read_bytes()
    flip(journal, data.index(b"b" * 2000) + 5 if part == "chunk" else data.index(b"plain") - 6)
    damage, whole = ledger.read_bodies([place, plain])
    assert isinstance(damage, LedgerCorrupt) and whole == b"plain"
    assert ("the list of its chunks" in damage.reason) == (part == "list")


def test_a_disk_that_has_to_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFile, "read_cached", lambda *_: None)
    disk = SimDisk()
    ledger = Ledger.open(
        Path("simulated"), LARGE, START_US, disk=disk, writer=InlineWriter(disk), maintenance="manual"
    )
    place = put(ledger.builder, b"body")
    ledger.flush()
    assert ledger.read_cached_bodies([place]) is None
    assert ledger.read_bodies([place]) == [b"body"]
    ledger.close()
