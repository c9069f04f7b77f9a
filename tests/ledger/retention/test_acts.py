"""Acts outlive the history that they were recorded in: in order, none twice, none missing, over power cuts;
what is damaged of them is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.file_names import Listing, acts_name
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.acts import read_acts
from postroom.ledger.storage.disk import Disk
from postroom.ledger.verification.acceptance import accept
from postroom.ledger.verification.verification import Severity, verify
from tests.ledger.cut_disk import CutDisk
from tests.ledger.files import flip
from tests.ledger.histories import opened
from tests.ledger.retention.short_history import Broker
from tests.ledger.workload import START_US
from tests.sampling import stride
from tests.simulation.disk import SimDisk

OPTIONS = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)
ROUNDS, MESSAGES = 16, 40


class Recorder(Broker):
    """A broker that keeps no history; between messages somebody acts."""

    def __init__(self, options: LedgerOptions = OPTIONS, keep_every: int = 1000) -> None:
        super().__init__(options, keep_every)
        self.acts: list[int] = []

    def act(self) -> None:
        builder = self.ledger.builder
        detail = {"user": "alice", "operation": "CREATE", "status": 201, "name": f"q{len(self.acts)}"}
        self.acts.append(builder.next_position)
        text = json.dumps(detail).encode()
        builder.record(RecordType.ADMINISTRATIVE_ACT, builder.next_position, 0, 0, 0, 0, text)

    def run(self, rounds: int = ROUNDS) -> None:
        for _ in range(rounds):
            self.act()
            self.put(MESSAGES)


def stored(disk: Disk, folder: Path) -> Path:
    """The files of a simulated disk in a folder."""
    folder.mkdir()
    for name in disk.names():
        (folder / name).write_bytes(bytes(disk.open(name).view()))
    return folder


def kept(folder: Path) -> list[int]:
    return Listing([path.name for path in folder.iterdir()]).acts


def positions(folder: Path, first: int | None = None, last: int | None = None) -> list[int]:
    return [act["position"] for act in read_acts(folder, first, last)]


def test_acts_outlive_their_history(tmp_path: Path) -> None:
    broker = Recorder()
    broker.run()
    folder = stored(broker.disk, tmp_path / "ledger")
    found = list(read_acts(folder))
    assert broker.files().events[0] > 2 and broker.oldest_position() > broker.acts[5]
    assert [act["position"] for act in found] == broker.acts
    assert [act["name"] for act in found] == [f"q{number}" for number in range(ROUNDS)]
    assert positions(folder, broker.acts[2], broker.acts[-2]) == broker.acts[2:-1]
    whole = verify(folder)
    assert whole.is_whole and 0 < whole.acts < ROUNDS
    broker.check()  # restarts
    broker.run(4)
    assert positions(stored(broker.disk, tmp_path / "later")) == broker.acts


def test_acts_go_with_their_history_where_none_is_wanted(tmp_path: Path) -> None:
    broker = Recorder(replace(OPTIONS, acts_retention_bytes=0))
    broker.run()
    folder = stored(broker.disk, tmp_path / "ledger")
    assert not kept(folder)
    assert positions(folder) == [act for act in broker.acts if act >= broker.oldest_position()]


def test_acts_are_kept_up_to_a_size_or_an_age(tmp_path: Path) -> None:
    for name, options in (
        ("size", replace(OPTIONS, acts_retention_bytes=1600)),
        ("age", replace(OPTIONS, acts_retention_s=250)),
    ):
        broker = Recorder(options)
        broker.run()
        folder = stored(broker.disk, tmp_path / name)
        found = positions(folder)
        assert 4 < len(found) < ROUNDS and found == broker.acts[-len(found) :], name
        assert kept(folder)[0] > 1, name
        assert verify(folder).is_whole
        broker.check()
        if name == "size":
            assert sum((folder / acts_name(number)).stat().st_size for number in kept(folder)) <= 1600 + 300


def test_acts_may_all_be_too_old(tmp_path: Path) -> None:
    broker = Recorder(replace(OPTIONS, acts_retention_s=100))
    broker.run(4)
    broker.put(600)
    assert positions(stored(broker.disk, tmp_path / "ledger")) == []
    broker.check()
    broker.run(8)
    folder = stored(broker.disk, tmp_path / "later")
    assert positions(folder) == broker.acts[-len(positions(folder)) :] != []
    assert verify(folder).is_whole


def test_acts_of_history_that_must_stay_are_seen_behind_the_gap(tmp_path: Path) -> None:
    """A file that is mostly live stays when younger ones go; readers don't look behind the gap."""
    broker = Recorder()
    broker.keep_every = 1
    broker.run(4)
    broker.keep_every = 1000
    broker.run()
    files = broker.files().events
    assert files[0] == 1 and files[-1] > len(files), "there is a gap"
    assert positions(stored(broker.disk, tmp_path / "ledger")) == broker.acts


# --- crashes --------------------------------------------------------------------------------------


def test_cut_before_every_operation(tmp_path: Path) -> None:
    """What was durable is there, once, whatever a power cut or a kill leaves of the folder."""
    disk, random, acknowledged, checked, cuts = CutDisk(), Random(5), [0], [0], [0]
    broker = Recorder(replace(OPTIONS, acts_retention_bytes=2400))
    broker.disk = disk
    broker.ledger = broker.open()

    def cut(what: str) -> None:
        cuts[0] += 1
        if not disk.names() or random.random() < 0.5 or cuts[0] % stride(4):
            return
        for survivor in disk.survivors(random):
            checked[0] += 1
            recovered(survivor, tmp_path / f"{checked[0]}", broker, acknowledged[0])

    disk.before = cut
    for _ in range(ROUNDS):
        broker.act()
        for _ in range(MESSAGES // 10):
            broker.put(10)
            acknowledged[0] = broker.ledger.durable_through
    assert checked[0] > 100 // stride(4) and len(Listing(disk.names()).acts) > 1


def recovered(disk: SimDisk, folder: Path, broker: Recorder, acknowledged: int) -> None:
    """Open, finish what was cut off, and crash once more: the acts are the newest ones, without a hole."""
    ledger = opened(disk, broker.options)
    while ledger.maintenance_step():
        pass
    end = ledger.flush()
    again = opened(disk.crash(Random(end)), broker.options)
    again.flush()
    made = stored(again._disk, folder)
    found = positions(made)
    expected = [act for act in broker.acts if act <= max(acknowledged, found[-1] if found else 0)]
    assert found == expected[len(expected) - len(found) :]
    lost = len(expected) - len(found)
    assert not lost or kept(made)[0] > 1, "only retention takes acts"
    assert verify(made).is_whole


def test_a_disk_without_room_for_acts_keeps_their_history(tmp_path: Path) -> None:
    broker = Recorder()
    broker.disk.has_no_room_for = ".acts"
    broker.run()
    assert broker.files().events[0] == 1 and not broker.files().acts
    broker.disk.has_no_room_for = ""
    broker.run(4)
    assert broker.files().acts and broker.files().events[0] > 1
    assert positions(stored(broker.disk, tmp_path / "ledger")) == broker.acts


# --- damage ---------------------------------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def changed(path: Path) -> None:
    flip(path, 200)


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    broker = Recorder(replace(OPTIONS, acts_retention_bytes=4800))
    broker.run()
    return stored(broker.disk, tmp_path_factory.mktemp("specimen") / "ledger"), broker.acts


def copied(specimen: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in specimen.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def start(folder: Path) -> Ledger:
    return Ledger.open(folder, replace(OPTIONS, acts_retention_bytes=4800), START_US, maintenance="manual")


@pytest.mark.parametrize("damage", [cut_short, emptied, changed, Path.unlink])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_damaged_acts_are_refused_and_may_be_accepted(
    tmp_path: Path, specimen: tuple[Path, list[int]], damage: Callable[[Path], None], which: int
) -> None:
    folder, acts = copied(specimen[0], tmp_path / "ledger"), specimen[1]
    assert len(kept(folder)) > 2
    damage(folder / acts_name(kept(folder)[which]))
    for reader in (start, lambda folder: list(read_acts(folder))):
        with pytest.raises(LedgerCorrupt, match=r"\.acts.*postroom ledger accept"):
            reader(folder)
    found = verify(folder)
    assert found.is_refused and any(".acts" in one.where for one in found.of(Severity.ERROR))
    accept(folder)
    left = positions(folder)
    assert left and set(left) < set(acts) and left == sorted(left)
    ledger = start(folder)
    while ledger.maintenance_step():
        pass
    ledger.close()
    assert positions(folder) == left
    assert verify(folder).is_whole


def test_what_a_crash_has_torn_is_no_damage(tmp_path: Path, specimen: tuple[Path, list[int]]) -> None:
    folder, acts = copied(specimen[0], tmp_path / "ledger"), specimen[1]
    newest = folder / acts_name(kept(folder)[-1])
    newest.write_bytes(newest.read_bytes() + newest.read_bytes()[:150])
    assert positions(folder) == acts
    found = verify(folder)
    assert found.is_whole and any(one.where == newest.name for one in found.of(Severity.NOTE))


def test_a_file_under_another_number_is_refused(tmp_path: Path, specimen: tuple[Path, list[int]]) -> None:
    folder = copied(specimen[0], tmp_path / "ledger")
    other = folder / acts_name(kept(folder)[-1] + 1)
    other.write_bytes((folder / acts_name(kept(folder)[0])).read_bytes())
    with pytest.raises(LedgerCorrupt, match="another file number"):
        start(folder)
    assert verify(folder).is_refused
